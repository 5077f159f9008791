"""Where only the total weight of a box is known, the box is one part around those of its rows that may count.

With the range of its weights, only what the range leaves open is a part of its own.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import linprog

from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import ConditionalStatistic, estimate
from sfumato.table.table import Table

ROWS = {
    "box": [0, 0, 0, 1, 1, 2, 2],
    "x_low": [0.0, 0.0, 0.0, 4.0, 4.0, 6.0, 6.0],
    "x_high": [2.0, 2.0, 2.0, 5.0, 5.0, 9.0, 9.0],
    "y": [1.0, 2.0, 9.0, 4.0, None, 7.0, 7.0],
    "z": [3.0, 1.0, 5.0, 2.0, 8.0, 6.0, 6.5],
    "t": ["a", "a", "b", "b", "b", "a", "a"],
    "w": [2.0, 2.0, 2.0, 5.0, 5.0, 0.5, 0.5],
}


def read(words, rows=ROWS):
    statistic = parse(words)
    return statistic, CountedBoxes.of(
        Table.from_arrow(pa.table(rows)), statistic.columns, weight="w", pooled=True, sets=[]
    )


def parts(words):
    """Of each box that may count: the ends of the first column, and the smallest and largest weight."""
    statistic, boxes = read(words)
    condition = {"condition": statistic.condition} if isinstance(statistic, ConditionalStatistic) else {}
    met = boxes.meeting(statistic.unconditional.columns, **condition)
    return sorted(zip(met.low[:, 0], met.high[:, 0], met.weight, met.weight + met.extra, strict=True))


def test_a_box_is_one_part_around_its_rows():
    assert parts("mean(x)") == [(0.0, 2.0, 6.0, 6.0), (4.0, 5.0, 10.0, 10.0), (6.0, 9.0, 1.0, 1.0)]
    assert parts("mean(z)") == [(1.0, 5.0, 6.0, 6.0), (2.0, 8.0, 10.0, 10.0), (6.0, 6.5, 1.0, 1.0)]


def test_a_row_without_a_value_may_have_all_of_the_weight_or_none():
    assert parts("mean(y)") == [(1.0, 9.0, 6.0, 6.0), (4.0, 4.0, 0.0, 10.0), (7.0, 7.0, 1.0, 1.0)]


def test_only_rows_that_may_meet_a_condition_count():
    assert parts("mean(z | t = a)") == [(1.0, 3.0, 0.0, 6.0), (6.0, 6.5, 1.0, 1.0)]
    assert parts("mean(z | y >= 2)") == [(1.0, 5.0, 0.0, 6.0), (2.0, 2.0, 0.0, 10.0), (6.0, 6.5, 1.0, 1.0)]


def test_boxes_that_cannot_be_told_apart_are_one_part():
    alike = {name: cells[:5] for name, cells in ROWS.items() if name != "box"}
    alike |= {"x_low": [0.0] * 5, "x_high": [5.0] * 5}
    statistic, boxes = read("mean(z)", alike)
    found = boxes.meeting(statistic.columns)
    assert (found.low.tolist(), found.high.tolist(), found.weight.tolist()) == ([[1.0]], [[8.0]], [16.0])


def test_totals_of_whole_weights_are_whole():
    third = {"box": [0] * 3, "x": [1.0, 2.0, 3.0], "w": [100.0 / 3.0] * 3}
    statistic, boxes = read("count()", third)
    found = estimate(statistic, boxes)[0]
    assert (found.low, found.value, found.high) == (100, 100, 100)


@pytest.mark.parametrize("words", ["mean(z)", "var(z)", "sd(z)", "cov(y, z)", "corr(y, z)", "regress(z ~ y)"])
def test_inner_ends_are_values_of_weights_that_the_totals_allow(words):
    """For boxes of exact cells: each choice gives the whole weight of a box to one or two of its rows."""
    complete = {name: cells[:4] + cells[5:] for name, cells in ROWS.items()}
    statistic, boxes = read(words, complete)
    found, part = estimate(statistic, boxes)[-1], statistic.parts()[-1].unconditional
    points = np.column_stack([complete[name] for name in part.columns]).astype(float)
    own = [np.flatnonzero(np.array(complete["box"]) == box) for box in range(3)]
    total = [6.0, 5.0, 1.0]
    choices = [
        [(first, total_ * share), (second, total_ * (1.0 - share))]
        for total_, rows in zip(total, own, strict=True)
        for first, second in product(rows, rows)
        for share in (0.0, 0.5, 1.0)
    ]
    by_box = [[one for one in choices if one[0][0] in rows] for rows in own]
    values = []
    for choice in product(*by_box):
        weight = np.zeros(len(points))
        for row, mass in (pair for box in choice for pair in box):
            weight[row] += mass
        values.append(part.value(Moments.of(points, weight)))
    values = np.array(values)
    for end in (found.inner_low, found.inner_high):
        assert np.isclose(values, end, rtol=1e-9).any()
    assert found.low - 1e-9 <= np.nanmin(values) and np.nanmax(values) <= found.high + 1e-9


RANGES = {"w_low": [1.0, 1.0, 1.0, 4.0, 4.0, 0.25, 0.25], "w_high": [3.5, 3.5, 3.5, 6.0, 6.0, 0.75, 0.75]}


def extreme_mean(values, rows):
    """The ends of Σ w z ÷ Σ w over all weights in the ranges with the totals of the boxes, by a linear program."""
    box, weight = np.array(rows["box"]), np.array(rows["w"])
    totals = [weight[box == one].sum() for one in np.unique(box)]
    sums = [np.where(box == one, 1.0, 0.0) for one in np.unique(box)]
    bounds = list(zip(rows["w_low"], rows["w_high"], strict=True))
    ends = [linprog(sign * values, A_eq=sums, b_eq=totals, bounds=bounds).fun * sign for sign in (1.0, -1.0)]
    return [end / weight.sum() for end in ends]


@pytest.mark.parametrize("most", [1.0, 0.8, 0.6])
def test_the_mean_with_ranges_of_weights_is_that_of_a_linear_program(most):
    rows = ROWS | RANGES
    rows["w_high"] = [low + most * (high - low) for low, high in zip(rows["w_low"], rows["w_high"], strict=True)]
    statistic, boxes = read("mean(z)", rows)
    found = estimate(statistic, boxes)[0]
    exact = extreme_mean(np.array(rows["z"]), rows)
    assert (found.low, found.high) == pytest.approx(exact, rel=1e-12)
    assert (found.inner_low, found.inner_high) == pytest.approx(exact, rel=1e-12)  # and weights attain it
    wide = estimate(*read("mean(z)"))[0]
    assert found.high - found.low < 0.7 * (wide.high - wide.low)  # control: without the ranges it is wider


def test_rows_of_the_same_place_are_one_part_also_with_ranges():
    statistic, boxes = read("mean(x)", ROWS | RANGES)
    met = boxes.meeting(statistic.columns)
    assert (met.weight.tolist(), met.low[:, 0].tolist()) == ([6.0, 10.0, 1.0], [0.0, 4.0, 6.0])


@pytest.mark.parametrize(("words", "low", "high"), [("count(t = a)", 2.5 + 1.0, 5.0 + 1.0), ("count()", 17.0, 17.0)])
def test_counts_use_the_ranges(words, low, high):
    found = estimate(*read(words, ROWS | RANGES))[0]
    assert (found.low, found.high) == pytest.approx((low, high))


@pytest.mark.parametrize("words", ["ratio(mean(y), mean(z | z <= 5))", "difference(sum(y), sum(x))"])
def test_a_row_never_has_all_of_the_weight_so_that_no_such_choice_is_attained(words):
    statistic, boxes = read(
        words, ROWS | RANGES | {"y": [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0], "z": [0.0, 1.0, 1.0] * 2 + [6.0]}
    )
    found = estimate(statistic, boxes)[0]
    assert found.low <= found.value <= found.high
    assert np.isnan(found.inner_low)
    assert np.isnan(found.inner_high)
