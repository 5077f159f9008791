"""Cones of residual directions: they cover all data, their bound holds, and it is near what is attained."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sfumato.statistics.bounds.cones import Cones, Descent
from sfumato.statistics.bounds.enclosure import Deadline, EstimateBudget
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import enclose, estimate

NAMES = ["y", "x", "z", "u", "v"]


def boxes(size: float, columns: int, number: int = 40, count: int = 3, seed: int = 0) -> CountedBoxes:
    rng = np.random.default_rng(seed)
    mixed = np.eye(columns) + 0.4 * np.tri(columns, k=-1)
    middle = rng.normal(size=(number, columns)) @ mixed.T
    half = rng.exponential(size, size=middle.shape)
    return CountedBoxes.make(NAMES[:columns], middle - half, middle + half, count=np.full(number, count))


def regression(columns: int) -> str:
    return f"regress(y ~ {' + '.join(NAMES[1:columns])})"


def least_squares(rows: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(rows)), rows[:, 1:]]), rows[:, 0], rcond=None)[0]


@pytest.mark.parametrize("columns", [3, 4])
def test_two_and_three_regressors_are_enclosed_tightly(columns):
    for one in estimate(parse(regression(columns)), boxes(0.03, columns), EstimateBudget(seconds=120.0, gap=0.02)):
        assert one.low <= one.inner_low <= one.value <= one.inner_high <= one.high
        assert one.gap < 0.05


@pytest.mark.parametrize("columns", [3, 4, 5])
def test_whatever_stands_in_the_boxes_has_its_coefficients_in_the_intervals(columns):
    table, rng = boxes(0.1, columns, seed=columns), np.random.default_rng(1)
    found = estimate(parse(regression(columns)), table, EstimateBudget(seconds=2.0))
    low, high = (ends.repeat(table.count, axis=0) for ends in (table.low, table.high))
    for _ in range(200):
        rows = np.where(rng.random(low.shape) < rng.random(), low, high)
        for one, value in zip(found, least_squares(rows), strict=True):
            assert one.low <= value <= one.high


def test_the_bound_holds_for_every_choice_of_corners():
    rng = np.random.default_rng(4)
    low = rng.normal(size=(5, 3)).round(1)
    table = CountedBoxes.make(NAMES[:3], low, low + np.array([0.3, 0.2, 0.1]))
    found = estimate(parse("regress(y ~ x + z)"), table)
    assert all(math.isfinite(one.high - one.low) for one in found)
    for corner in itertools.islice(itertools.product((0, 1), repeat=15), 0, None, 7):
        rows = np.where(np.array(corner).reshape(5, 3) == 1, table.high, table.low)
        for one, value in zip(found, least_squares(rows), strict=True):
            assert one.low <= value <= one.high


def test_exact_data_leave_nothing_open():
    rows = np.random.default_rng(3).normal(size=(30, 5))
    for one, value in zip(
        estimate(parse(regression(5)), CountedBoxes.make(NAMES, rows, rows)), least_squares(rows), strict=True
    ):
        assert one.low <= value <= one.high
        assert one.high - one.low < 1e-8


def test_regressors_that_may_be_collinear_have_coefficients_without_end():
    """z may be twice x in every box, so nothing can be said about either."""
    x = np.arange(6.0)
    low = np.column_stack([x**2, x, 2.0 * x - 0.1])
    table = CountedBoxes.make(NAMES[:3], low, low + np.array([0.1, 0.0, 0.2]))
    for one in estimate(parse("regress(y ~ x + z)"), table)[1:]:
        assert (one.low, one.high) == (-math.inf, math.inf)
        assert one.gap == 1.0


def test_regressors_that_are_collinear_are_undefined():
    x = np.arange(6.0)
    rows = np.column_stack([x**2, x, 2.0 * x])
    found = enclose(parse("regress(y ~ x + z)").parts()[1], CountedBoxes.make(NAMES[:3], rows, rows))
    assert (found.low, found.high) == (-math.inf, math.inf)
    assert found.lowest is None
    assert math.isnan(found.inner_low)


def test_more_regressors_than_cones_can_cover_are_bounded_too_and_take_no_time():
    rows = np.random.default_rng(0).normal(size=(60, 16))
    names = [f"c{number}" for number in range(16)]
    words = f"regress(c0 ~ {' + '.join(names[1:])})"
    one = estimate(parse(words), CountedBoxes.make(names, rows - 0.01, rows + 0.01), EstimateBudget(seconds=1.0))[1]
    assert math.isfinite(one.low)
    assert math.isfinite(one.high)
    assert one.inner_low < one.inner_high


def test_records_in_equal_boxes_count_together():
    weighted = boxes(0.2, 3).meeting(NAMES[:3])
    apart = ScaledBoxes.of(weighted.split_into_records(1000))
    together = apart.merged
    first, seconds = np.array([0.1, 1.0, -0.5, 0.3]), np.array([[0.2, 0.0, 1.0, 0.4], [-1.0, 0.3, 0.2, 0.0]])
    assert len(together.low) == 40 < len(apart.low)
    assert np.allclose(together.largest_each(first, seconds)[0], apart.largest_each(first, seconds)[0], rtol=1e-9)


def test_the_fan_covers_every_direction_with_a_positive_coefficient():
    weighted = boxes(0.1, 4).meeting(NAMES[:4])
    problem = ScaledBoxes.of(weighted)
    functions = np.vstack([np.eye(5)[2], np.eye(5)[0], np.eye(5)[3:]])
    cones = Cones(problem, np.eye(5)[1], functions, Deadline(1.0, 1e-4))
    moments = Moments.of(problem.midpoints, problem.weight)
    mean = np.append(1.0, moments.mean)
    second = np.outer(mean, mean)
    second[1:, 1:] += moments.covariance
    gram = functions @ second @ functions.T
    fan = cones._initial_cones(gram, np.zeros(4), 0.0)
    directions = np.random.default_rng(2).normal(size=(300, 4))
    directions[:, 0] = np.abs(directions[:, 0])
    for direction in directions:
        shares = [np.linalg.solve(cone.edges.T, direction) for cone in fan]
        assert any((share >= -1e-12).all() for share in shares)


def test_a_descent_finds_the_least_of_the_largest():
    """b₀ + 2 · max(0, |b₁ − 3| − 1 − b₀, b₀² − 4) is least, −1, at (−1, 3)."""

    def evaluate(b):
        side = 1.0 if b[1] > 3.0 else -1.0
        return np.array([abs(b[1] - 3.0) - 1.0 - b[0], b[0] ** 2 - 4.0]), np.array([[-1.0, side], [2.0 * b[0], 0.0]])

    descent = Descent(evaluate, 2.0, -1.0 + 1e-3, Deadline(60.0, 1e-4))
    descent.run(np.array([1.0, 0.0]), math.inf)
    assert -1.0 <= descent.value <= -0.9
    hasty = Descent(evaluate, 2.0, -1.0 + 1e-3, Deadline(0.0, 1e-4))
    hasty.run(np.array([1.0, 0.0]), math.inf)
    assert hasty.value == pytest.approx(3.0)  # no time: the point it began with
