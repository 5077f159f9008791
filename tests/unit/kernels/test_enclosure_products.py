"""The largest product over a box, against points that a child could check."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.statistics.bounds.kernels import BLOCK, best_points, largest_product_sum, largest_product_sums

numbers = st.integers(-8, 8).map(lambda whole: whole / 2.0)


@st.composite
def products(draw):
    """A few boxes and two lines (a constant and a coefficient for each column)."""
    columns, boxes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    low = draw(arrays(np.float64, (boxes, columns), elements=numbers))
    width = draw(arrays(np.float64, (boxes, columns), elements=st.integers(0, 8).map(float)))
    first, second = (draw(arrays(np.float64, columns + 1, elements=numbers)) for _ in range(2))
    return low, low + width, first, second


def slow_largest(low, high, first, second):
    """The largest product over all edges of the box: corners, and the best point between two neighbouring corners."""
    best = -np.inf
    columns = len(low)
    for choice in itertools.product((0, 1), repeat=columns):
        corner = np.where(np.array(choice) == 1, high, low)
        for axis in range(columns):
            start, end = corner.copy(), corner.copy()
            start[axis], end[axis] = low[axis], high[axis]
            share = np.linspace(0.0, 1.0, 801)[:, None]
            points = start + share * (end - start)
            best = max(best, ((first[0] + points @ first[1:]) * (second[0] + points @ second[1:])).max())
    return best


@given(products())
def test_the_walk_around_the_zonogon_finds_what_all_edges_hold(case):
    low, high, first, second = case
    ones, none = np.ones(len(low)), np.zeros(len(low))
    total, _ = largest_product_sum(low, high, ones, none, first, second, 0.0)
    slow = sum(slow_largest(low[g], high[g], first, second) for g in range(len(low)))
    step = np.abs(first[1:]).max() * np.abs(second[1:]).max() * (high - low).max() ** 2 / 800**2
    assert slow - 1e-9 <= total <= slow + len(low) * step + 1e-9


@given(products())
def test_the_best_points_lie_in_the_boxes_and_attain_the_products(case):
    low, high, first, second = case
    points, values = best_points(low, high, first, second)
    assert (low <= points).all() and (points <= high).all()
    attained = (first[0] + points @ first[1:]) * (second[0] + points @ second[1:])
    assert np.allclose(attained, values, atol=1e-9)


@given(products(), st.floats(-5, 5))
def test_extra_weight_counts_only_where_it_adds(case, offset):
    low, high, first, second = case
    weight, extra = np.full(len(low), 0.5), np.full(len(low), 2.0)
    _, values = best_points(low, high, first, second)
    expected = (0.5 * (values - offset) + 2.0 * np.maximum(values - offset, 0.0)).sum()
    total, _ = largest_product_sum(low, high, weight, extra, first, second, offset)
    assert np.isclose(total, expected)


@given(products())
def test_the_vector_is_the_derivative_by_the_first_line(case):
    low, high, first, second = case
    ones, none = np.ones(len(low)), np.zeros(len(low))
    total, slope = largest_product_sum(low, high, ones, none, first, second, 0.0)
    for change in np.eye(len(first)) * 1e-3:
        more, _ = largest_product_sum(low, high, ones, none, first + change, second, 0.0)
        less, _ = largest_product_sum(low, high, ones, none, first - change, second, 0.0)
        # the sum is convex in the first line, so a derivative lies between the two difference quotients
        assert total - less - 1e-9 <= slope @ change <= more - total + 1e-9


def test_sums_over_many_blocks_are_whole():
    boxes = 3 * BLOCK + 7
    low = np.zeros((boxes, 1))
    total, slope = largest_product_sum(
        low, low + 1.0, np.ones(boxes), np.zeros(boxes), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.0
    )
    assert total == boxes
    assert slope.tolist() == [boxes, boxes]


@given(products(), st.integers(1, 4))
def test_several_products_at_once_are_the_same_one_by_one(case, number):
    low, high, first, second = case
    weight, extra = np.arange(1.0, len(low) + 1.0), np.full(len(low), 0.5)
    seconds = np.array([second + shift for shift in range(number)])
    totals, slopes = largest_product_sums(low, high, weight, extra, first, seconds)
    for total, slope, line in zip(totals, slopes, seconds, strict=True):
        alone, alone_slope = largest_product_sum(low, high, weight, extra, first, line, 0.0)
        assert total == alone
        assert np.array_equal(slope, alone_slope)
