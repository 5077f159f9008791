"""Boxes show the total and the range of the weights of their rows: whatever these allow lies inside the interval."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_conditions import check, truth

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate
from sfumato.table.intervals import format_set
from sfumato.table.table import Table

numbers = st.one_of(st.none(), st.integers(0, 9))
words = st.one_of(st.none(), st.sampled_from(["F", "M"]))
# x and s are released as boxes, y and t as they are
people = st.fixed_dictionaries({"x": numbers, "y": numbers, "z": numbers, "s": words, "t": words})
COLUMNS = [("x", "y"), ("y", "x"), ("y", "z"), ("x", "x2")]
FORMS = {
    "count": "count({condition})",
    "sum": "sum({a}{under})",
    "mean": "mean({a}{under})",
    "var": "var({a}{under})",
    "unbiased": "var({a}, unbiased{under})",
    "median": "median({a}{under})",
    "quantile": "quantile({a}, 0.8{under})",
    "cov": "cov({a}, {b}{under})",
    "corr": "corr({a}, {b}{under})",
    "slope": "regress({b} ~ {a}{under})",
}
CONDITIONS = {
    "": lambda row: True,
    "x >= 4": lambda row: row["x"] is not None and row["x"] >= 4,
    "y >= 4": lambda row: row["y"] is not None and row["y"] >= 4,
    "y = 4": lambda row: row["y"] == 4,
    "y = (missing)": lambda row: row["y"] is None,
    "s = F": lambda row: row["s"] == "F",
    "t = F": lambda row: row["t"] == "F",
    "t != F and x < 7": lambda row: row["t"] == "M" and row["x"] is not None and row["x"] < 7,
    "t = (missing)": lambda row: row["t"] is None,
}


@st.composite
def boxed_people(draw):
    """Rows in boxes of one to four, and two ways to divide the same total weight of each box among its rows."""
    rows = draw(st.lists(people, min_size=1, max_size=9))
    for row in rows:
        row["x2"] = draw(numbers)
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    boxes = np.repeat(np.arange(len(sizes)), sizes)[: len(rows)]
    splits = np.zeros((2, len(rows)))
    for box in np.unique(boxes):
        own = np.flatnonzero(boxes == box)
        total = draw(st.integers(0, 6))
        for split in splits:
            ends = sorted(draw(st.integers(0, total)) for _ in own[1:])
            split[own] = np.diff([0, *ends, total])
    return rows, boxes, splits


def released(rows, boxes, splits, ranges):
    """What a release shows: hulls of x and x2, the set of s, mean and range of the weights; y, z and t as they are."""
    cells = {name: [row[name] for row in rows] for name in ("y", "z", "t")} | {"box": boxes.tolist()}
    own = [[member for member, place in zip(rows, boxes, strict=True) if place == box] for box in boxes]
    for name in ("x", "x2"):
        present = [[member[name] for member in members if member[name] is not None] for members in own]
        cells[f"{name}_low"] = [min(values, default=None) for values in present]
        cells[f"{name}_high"] = [max(values, default=None) for values in present]
        cells[f"{name}_missing"] = [len(all_) - len(values) for all_, values in zip(own, present, strict=True)]
    cells["s"] = [
        format_set(sorted({one["s"] for one in members}, key=lambda value: (value is None, value or "")))
        for members in own
    ]
    cells["w"] = [float(splits[0][boxes == box].mean()) for box in boxes]
    if ranges:
        cells["w_low"], cells["w_high"] = ([end(splits[:, boxes == box]) for box in boxes] for end in (np.min, np.max))
    types = {"s": pa.string(), "t": pa.string(), **dict.fromkeys(("w", "w_low", "w_high"), pa.float64())}
    return Table.from_arrow(pa.table({name: pa.array(one, types.get(name, pa.int64())) for name, one in cells.items()}))


@settings(max_examples=600)
@given(
    boxed_people(),
    st.sampled_from(COLUMNS),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(sorted(CONDITIONS)),
    st.booleans(),
)
def test_every_split_of_the_totals_lies_in_the_interval(hidden, columns, form, condition, ranges):
    rows, boxes, splits = hidden
    first, second = columns
    under = f" | {condition}" if condition else ""
    statistic = parse(FORMS[form].format(a=first, b=second, under=under, condition=condition))
    truths = [_truth(form, rows, weight, columns, condition) for weight in splits]
    shown = released(rows, boxes, splits, ranges)
    read = CountedBoxes.of(shown, statistic.columns, weight="w", pooled=True, sets=["s"])
    try:
        found = estimate(statistic, read)[-1]
    except StatisticError:
        assert all(map(math.isnan, truths))  # refused only where no record can count
        return
    for one in truths:
        check(found, one)


def _truth(form, rows, weight, columns, condition):
    met = [
        (row[columns[0]], row[columns[1]], None, w)
        for row, w in zip(rows, weight, strict=True)
        if CONDITIONS[condition](row)
    ]
    counted = [row for row in met if form == "count" or row[0] is not None]
    if form in ("cov", "corr", "slope"):
        counted = [row for row in counted if row[1] is not None]
    total = sum(row[3] for row in counted)
    return truth(form, met, weighted=True) if total > 0.0 or form == "count" else math.nan


STATISTICS = ("mean(age)", "mean(income)", "var(income)", "corr(age, income)", "sum(income)", "count(sex = f)")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.sampled_from(["hull", "cells"]))
def test_a_release_holds_the_statistics_of_the_original_weights(seed, k, edges):
    drawn = np.random.default_rng(seed)
    rows = int(drawn.integers(k, 60))
    weight = drawn.choice([drawn.lognormal(3, 2, rows), drawn.integers(0, 3, rows).astype(float)])
    weight[0] += 1.0
    people = pd.DataFrame(
        {
            "age": drawn.integers(18, 90, rows),
            "income": drawn.lognormal(10, 1, rows),
            "sex": drawn.choice(["f", "m"], rows),
            "weight": weight,
        }
    )
    roles = {"age": "quasi", "income": "other", "sex": "quasi", "weight": "weight"}
    release = sf.Boxes(k=k, edges=edges).release(people, schema=roles)
    total, frame = weight.sum(), release.to_pandas()
    assert (frame.groupby(["box", "weight"]).size() >= k).all()
    assert math.isclose(frame.weight.sum(), total, rel_tol=1e-9)
    mean = {name: (weight @ people[name]) / total for name in ("age", "income")}
    off = {name: people[name] - mean[name] for name in mean}
    spread = {name: (weight @ off[name] ** 2) / total for name in mean}
    together = (weight @ (off["age"] * off["income"])) / total
    scale = math.sqrt(spread["age"] * spread["income"])
    truths = [
        mean["age"],
        mean["income"],
        spread["income"],
        together / scale if scale > 0.0 else math.nan,
        weight @ people.income,
        weight[people.sex == "f"].sum(),
    ]
    for statistic, one in zip(STATISTICS, truths, strict=True):
        check(release.estimate(statistic), float(one))
