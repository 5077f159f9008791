"""A hidden table is boxed, and everything asked about it is answered with an interval that holds the truth."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate
from sfumato.statistics.weighted_boxes import Unseen
from sfumato.table.intervals import format_set, shorten_set
from sfumato.table.table import Table

ages = st.one_of(st.none(), st.integers(0, 9))
sexes = st.one_of(st.none(), st.sampled_from(["F", "M", "F|M", "\\(missing)", "(any)"]))
people = st.tuples(ages, ages, sexes, st.integers(1, 3))
CONDITIONS = {
    "x >= 4": lambda x, y, s: x is not None and x >= 4,
    "x < 4": lambda x, y, s: x is not None and x < 4,
    "x != 4": lambda x, y, s: x is not None and x != 4,
    "x = 4": lambda x, y, s: x == 4,
    "s = F": lambda x, y, s: s == "F",
    "s != F": lambda x, y, s: s is not None and s != "F",
    "s = 'F|M'": lambda x, y, s: s == "F|M",
    "s = (missing)": lambda x, y, s: s is None,
    "s != (missing)": lambda x, y, s: s is not None,
    "s = '(any)'": lambda x, y, s: s == "(any)",
    "s != F and s != M": lambda x, y, s: s is not None and s not in ("F", "M"),
    "s = F and s != F": lambda x, y, s: False,
    "s != 'nobody'": lambda x, y, s: s is not None,
    "y = (missing)": lambda x, y, s: y is None,
    "x > 2 and x <= 7 and s = M": lambda x, y, s: x is not None and 2 < x <= 7 and s == "M",
    "y >= 3 and s = F": lambda x, y, s: y is not None and y >= 3 and s == "F",
    "x < 4 or x >= 4": lambda x, y, s: x is not None,
    "x < 3 or y > 5": lambda x, y, s: (x is not None and x < 3) or (y is not None and y > 5),
    "not x between 2 and 6": lambda x, y, s: x is not None and not 2 <= x <= 6,
    "not (x = 4 and s = F)": lambda x, y, s: (x is not None and x != 4) or (s is not None and s != "F"),
    "s in (F, M) or x is missing": lambda x, y, s: s in ("F", "M") or x is None,
    "s not in (F, M) and y is not missing": lambda x, y, s: s is not None and s not in ("F", "M") and y is not None,
}


@st.composite
def hidden_tables(draw):
    """Rows of (x, y, s, weight), in boxes of one to four neighbours."""
    rows = draw(st.lists(people, min_size=1, max_size=9))
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(rows), max_size=len(rows)))
    boxes = np.repeat(np.arange(len(sizes)), sizes)[: len(rows)]
    return rows, boxes


def released(rows, boxes, names_at_most=None):
    """What a release of boxes shows: hulls, numbers of missing cells, sets; the weight of each row stays."""
    columns = {name: [] for name in ("x_low", "x_high", "x_missing", "y_low", "y_high", "y_missing", "s", "w", "box")}
    for row, box in zip(rows, boxes, strict=True):
        members = [other for other, place in zip(rows, boxes, strict=True) if place == box]
        for position, name in enumerate("xy"):
            present = [member[position] for member in members if member[position] is not None]
            columns[f"{name}_low"].append(min(present, default=None))
            columns[f"{name}_high"].append(max(present, default=None))
            columns[f"{name}_missing"].append(len(members) - len(present))
        values = sorted({member[2] for member in members}, key=lambda value: (value is None, value or ""))
        columns["s"].append(format_set(shorten_set(values, names_at_most)))
        columns["w"].append(float(row[3]))
        columns["box"].append(int(box))
    types = {"s": pa.string(), "w": pa.float64(), "box": pa.int64()}
    return Table.from_arrow(
        pa.table({name: pa.array(cells, types.get(name, pa.int64())) for name, cells in columns.items()})
    )


def without_numbers(table):
    """The same rows without the column ``box``."""
    return table.select([name for name in table.names if name != "box"])


def quantile(values, weights, share):
    """The mean of the smallest value with at least, and with more than, a share of the weight up to it."""
    order = np.argsort(values)
    values, below = np.asarray(values, float)[order], np.cumsum(np.asarray(weights, float)[order])
    at_least = values[np.flatnonzero(below >= share * below[-1] - 1e-9)[0]]
    more = np.append(values[below > share * below[-1] + 1e-9], values[-1])[0]
    return (at_least + more) / 2.0


def truth(words, rows, weighted):
    """The statistic of the hidden rows; NaN where it is not defined."""
    weight = [row[3] if weighted else 1 for row in rows]
    if words == "count":
        return float(sum(weight))
    complete = [(row, w) for row, w in zip(rows, weight, strict=True) if row[0] is not None]
    if words in ("cov", "corr", "slope"):
        complete = [(row, w) for row, w in complete if row[1] is not None]
    if not complete:
        return math.nan
    x = np.array([row[0] for row, _ in complete], float)
    w = np.array([w for _, w in complete], float)
    mean = w @ x / w.sum()
    variance = w @ (x - mean) ** 2 / w.sum()
    unbiased = variance * len(x) / (len(x) - 1) if len(x) > 1 else math.nan
    simple = {"sum": w @ x, "mean": mean, "var": variance, "unbiased": unbiased}
    if words in simple:
        return float(simple[words])
    if words in ("median", "quantile"):
        return quantile(x, w, 0.5 if words == "median" else 0.8)
    y = np.array([row[1] for row, _ in complete], float)
    c = w @ ((x - mean) * (y - w @ y / w.sum())) / w.sum()
    spread = [w @ (z - w @ z / w.sum()) ** 2 / w.sum() for z in (x, y)]
    if words == "cov":
        return float(c)
    if spread[0] < 1e-9 or (words == "corr" and spread[1] < 1e-9):
        return math.nan
    return float(c / math.sqrt(spread[0] * spread[1]) if words == "corr" else c / spread[0])


FORMS = {
    "count": "count({})",
    "sum": "sum(x{})",
    "mean": "mean(x{})",
    "var": "var(x{})",
    "unbiased": "var(x, unbiased{})",
    "median": "median(x{})",
    "quantile": "quantile(x, 0.8{})",
    "cov": "cov(x, y{})",
    "corr": "corr(x, y{})",
    "slope": "regress(y ~ x{})",
}


def check(one, true):
    slack = 1e-9 * (1.0 + abs(true))
    if not math.isnan(true):
        assert one.low - slack <= true <= one.high + slack
    if not math.isnan(one.inner_low):
        assert one.low - 1e-9 <= one.inner_low <= one.inner_high <= one.high + 1e-9


@settings(max_examples=300)
@given(
    hidden_tables(),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(["", *CONDITIONS]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 1, 2]),
)
def test_the_truth_lies_in_the_interval(hidden, form, condition, weighted, numbered, sets_known, names_at_most):
    rows, boxes = hidden
    under = condition if form == "count" or not condition else f" | {condition}"
    statistic = parse(FORMS[form].format(under))
    met = [row for row in rows if not condition or CONDITIONS[condition](*row[:3])]
    true = truth(form, met, weighted)
    table = released(rows, boxes, names_at_most)
    table = table if numbered else without_numbers(table)
    read = CountedBoxes.of(
        table, statistic.columns, weight="w" if weighted else None, sets=["s"] if sets_known else None
    )
    try:
        one = estimate(statistic, read)[-1]
    except StatisticError:
        assert math.isnan(true)  # refused only where no record can be complete
        return
    check(one, true)


@settings(max_examples=200)
@given(
    hidden_tables(),
    st.lists(people, min_size=1, max_size=3),
    st.sampled_from(sorted(FORMS)),
    st.sampled_from(["", *CONDITIONS]),
    st.booleans(),
)
def test_suppressed_rows_are_covered_where_their_range_is_known(hidden, suppressed, form, condition, with_domain):
    rows, boxes = hidden
    under = condition if form == "count" or not condition else f" | {condition}"
    statistic = parse(FORMS[form].format(under))
    met = [row for row in (*rows, *suppressed) if not condition or CONDITIONS[condition](*row[:3])]
    unseen = Unseen(len(suppressed), {"x": (0.0, 9.0), "y": (0.0, 9.0)} if with_domain else {})
    read = replace(CountedBoxes.of(released(rows, boxes), statistic.columns, sets=["s"]), unseen=unseen)
    assert with_domain or statistic.covers(unseen) == (form in ("count", "median", "quantile"))
    if not statistic.covers(unseen):
        return
    try:
        one = estimate(statistic, read)[-1]
    except StatisticError:
        return  # no released record can be complete
    check(one, truth(form, met, weighted=False))
