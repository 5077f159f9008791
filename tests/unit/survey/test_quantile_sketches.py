"""Summaries of a column: how far ranks may be off, and that they are not further off."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.errors import OptionError
from sfumato.plan.sketches import QuantileSketch, Reservoir, all_points, sample_size

columns = arrays(
    np.float64, st.integers(0, 400), elements=st.one_of(st.just(math.nan), st.integers(-30, 30).map(float))
)


def rank_errors(points, numbers):
    """How far the summary's number of rows up to each of its points is from the true one."""
    present = np.sort(numbers[~np.isnan(numbers)])
    return np.abs(np.cumsum(points.weights) - np.searchsorted(present, points.values, side="right"))


@given(columns)
def test_all_points_are_the_values_with_their_counts(numbers):
    points = all_points(numbers)
    values, counts = np.unique(numbers[~np.isnan(numbers)], return_counts=True)
    assert np.array_equal(points.values, values) and np.array_equal(points.weights, counts)
    assert points.missing == np.isnan(numbers).sum() and points.error == 0.0


@given(columns, st.floats(0.05, 0.5), st.integers(1, 9))
def test_no_rank_of_a_sketch_is_off_by_more_than_it_says(numbers, epsilon, parts):
    sketch = QuantileSketch(epsilon)
    for part in np.array_split(numbers, parts):
        sketch.update(part)
    points = sketch.points()
    assert points.rows + points.missing == len(numbers)
    assert points.error <= epsilon * points.rows
    assert rank_errors(points, numbers).max(initial=0.0) <= points.error


@pytest.mark.parametrize("order", ["rising", "falling", "random", "sawtooth"])
def test_a_sketch_stays_small_and_within_its_error_in_any_order(order):
    rows, epsilon = 200_000, 0.002
    rising = np.arange(rows, dtype=float)
    numbers = {
        "rising": rising,
        "falling": rising[::-1],
        "random": np.random.default_rng(1).permutation(rising),
        "sawtooth": rising.reshape(-1, 1000).T.ravel(),
    }[order]
    sketch = QuantileSketch(epsilon)
    for part in np.array_split(numbers, 50):
        sketch.update(part)
    points = sketch.points()
    assert rank_errors(points, numbers).max() <= points.error <= epsilon * rows
    assert sketch.size < 30_000


def test_merged_sketches_know_all_parts():
    numbers = np.random.default_rng(2).normal(size=60_000)
    merged = QuantileSketch(0.01)
    for part in np.array_split(numbers, 7):
        merged.merge(QuantileSketch(0.01).update(part))
    points = merged.points()
    assert points.rows == 60_000
    assert rank_errors(points, numbers).max() <= points.error <= 0.01 * 60_000


def test_a_reservoir_is_a_uniform_sample_however_it_is_filled():
    """Each of 40 values is kept with the same frequency, in batches or merged: 4000 draws, 5 standard errors."""
    draw = np.random.default_rng(3)
    kept = np.zeros(40)
    for _ in range(4000):
        one, other = Reservoir(8, draw), Reservoir(8, draw)
        one.update(np.arange(10.0)).update(np.arange(10.0, 25.0))
        other.update(np.arange(25.0, 40.0))
        kept[one.merge(other).points().values.astype(int)] += 1
    share = kept / 4000
    assert np.abs(share - 8 / 40).max() < 5 * math.sqrt(0.2 * 0.8 / 4000)


def test_a_reservoir_that_is_not_full_is_exact():
    points = Reservoir(10, np.random.default_rng(0)).update(np.array([3.0, math.nan, 1.0, 3.0])).points()
    assert (points.values.tolist(), points.weights.tolist(), points.missing, points.error) == ([1, 3], [1, 2], 1, 0.0)


def test_the_sample_size_keeps_its_promise_and_the_papers_does_not():
    """All ranks within ε·n in at least 1 − δ of 300 draws; LT's (1/ε)·ln(1/δ) rows fail far more often."""
    epsilon, delta, draw = 0.02, 0.1, np.random.default_rng(4)

    def failures(size):
        ranks = np.sort(draw.random((300, size)), axis=1)
        steps = np.arange(1, size + 1) / size
        return (np.maximum(np.abs(steps - ranks), np.abs(steps - 1 / size - ranks)).max(axis=1) > epsilon).mean()

    assert failures(sample_size(epsilon, delta)) <= delta
    assert failures(math.ceil(math.log(1 / delta) / epsilon)) > 0.9


@pytest.mark.parametrize(
    "make", [lambda: QuantileSketch(0.0), lambda: QuantileSketch(1.5), lambda: sample_size(0.1, 2.0)]
)
def test_an_error_out_of_range_is_refused(make):
    with pytest.raises(OptionError):
        make()
