"""Whatever the hidden table is, the interval of a statistic of it holds its value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.test_conditions import CONDITIONS, check, hidden_tables, released

from sfumato.errors import StatisticError
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.derived_columns import add_derived
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate


def number_of(words, rows, weights):
    """A mean, sum, count or share of the hidden rows under a condition; the slow twin."""
    kind, condition = words
    met = [CONDITIONS[condition](*row[:3]) for row in rows]
    if kind == "share":
        return sum(w for w, one in zip(weights, met, strict=True) if one) / sum(weights)
    if kind == "count":
        return float(sum(w for w, one in zip(weights, met, strict=True) if one))
    kept = [(row[0], w) for row, w, one in zip(rows, weights, met, strict=True) if one and row[0] is not None]
    total, weight = sum(x * w for x, w in kept), sum(w for _, w in kept)
    return math.nan if not weight else float(total) if kind == "sum" else total / weight


def text_of(words):
    kind, condition = words
    return f"{kind}({condition})" if kind in ("share", "count") else f"{kind}(x | {condition})"


singles = st.tuples(st.sampled_from(["mean", "sum", "count", "share"]), st.sampled_from(sorted(CONDITIONS)))


@settings(max_examples=100)
@given(
    hidden=hidden_tables(),
    first=singles,
    second=singles,
    combine=st.sampled_from(["difference", "ratio"]),
    weighted=st.booleans(),
    numbered=st.booleans(),
)
def test_a_difference_or_ratio_of_the_hidden_rows_lies_in_its_interval(
    hidden, first, second, combine, weighted, numbered
):
    rows, boxes = hidden
    shown = released(rows, boxes)
    table = CountedBoxes.of(shown, ["x", "y", "s"], weight="w" if weighted else None, sets=["s"], numbered=numbered)
    weights = [row[3] if weighted else 1 for row in rows]
    one, other = (number_of(words, rows, weights) for words in (first, second))
    true = one - other if combine == "difference" else one / other if other else math.nan
    try:
        (found,) = estimate(parse(f"{combine}({text_of(first)}, {text_of(second)})"), table)
    except StatisticError:
        assert math.isnan(one) or math.isnan(other)
        return
    check(found, true)
    if all(len(set(boxes[boxes == box])) == 1 and (boxes == box).sum() == 1 for box in boxes) and not math.isnan(true):
        assert abs(found.value - true) <= 1e-9 * (1.0 + abs(true))


@settings(max_examples=60)
@given(hidden=hidden_tables(), words=st.sampled_from(["log(x)", "sqrt(x)", "exp(x)", "x * y", "x / y", "x * x"]))
def test_a_mean_of_a_derived_column_lies_in_its_interval(hidden, words):
    rows, boxes = hidden
    rows = [(None if x is None else x + 1, None if y is None else y + 1, s, w) for x, y, s, w in rows]
    table = CountedBoxes.of(released(rows, boxes), ["x", "y"], sets=["s"])
    statistic = parse(f"mean({words})", names=["x", "y"], derived=True)
    functions = {"log(x)": np.log, "sqrt(x)": np.sqrt, "exp(x)": np.exp, "x * x": np.square}
    if words in functions:
        values = [functions[words](x) for x, *_ in rows if x is not None]
    else:
        values = [x * y if "*" in words else x / y for x, y, *_ in rows if x is not None and y is not None]
    try:
        (found,) = estimate(statistic, add_derived(table, statistic.columns))
    except StatisticError:
        assert not values
        return
    check(found, float(np.mean(values)) if values else math.nan)


def test_the_same_undecided_people_are_in_one_of_two_groups():
    """Of two people one may be in either group; bounded apart, she would be in both or in none."""
    rows = [(1, None, "F", 1), (9, None, "M", 1), (5, None, "F", 1), (5, None, "M", 1)]
    table = CountedBoxes.of(released(rows, np.array([0, 1, 2, 2])), ["x", "s"], sets=["s"])
    (found,) = estimate(parse("difference(count(s = F), count(s = M))"), table)
    assert (found.low, found.high) == (-2, 2)
    (means,) = estimate(parse("difference(mean(x | s = F), mean(x | s = M))"), table)
    assert means.low == pytest.approx(-16 / 3)  # bounded apart, it would be −8
    assert means.high >= -4.0
