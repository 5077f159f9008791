"""Groups of neighbouring values, and what is shown for them."""

from __future__ import annotations

import datetime
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.recodings.buckets import Buckets, merge_to_at_least, quantile_ends
from sfumato.plan.sketches import all_points
from sfumato.sources.frames import as_table


@given(st.integers(1, 60), st.integers(1, 60))
def test_quantiles_of_single_rows_differ_by_one_row_at_most(rows, buckets):
    sizes = np.diff(quantile_ends(np.ones(rows), buckets), prepend=0)
    assert sizes.sum() == rows and len(sizes) == min(rows, buckets)
    assert set(sizes.tolist()) <= {rows // len(sizes), -(-rows // len(sizes))}


@given(st.lists(st.integers(1, 20), min_size=1, max_size=30), st.integers(1, 20))
def test_quantiles_of_points_are_runs_that_end_at_the_last(weights, buckets):
    ends = quantile_ends(np.array(weights, dtype=float), buckets)
    assert (np.diff(ends, prepend=0) > 0).all() and ends[-1] == len(weights) and len(ends) <= buckets


def slow_least_rank_difference(rows, k):
    """Over all functions from rows to rows in which every image has at least k (LT Definition 8)."""
    best = None
    for images in product(range(rows), repeat=rows):
        if all(images.count(image) >= k for image in set(images)):
            difference = sum(abs(image - row) for row, image in enumerate(images))
            best = difference if best is None else min(best, difference)
    return best


@pytest.mark.parametrize(("rows", "k"), [(1, 1), (3, 1), (4, 2), (5, 2), (5, 3), (6, 2), (6, 3), (6, 4)])
def test_no_transformation_has_a_smaller_rank_difference_than_quantiles(rows, k):
    table = as_table(pa.table({"x": np.arange(rows) * 10}))
    buckets = Buckets.of_ranks(table, "x", quantile_ends(np.ones(rows), rows // k), shown="median")
    assert buckets.rank_difference == slow_least_rank_difference(rows, k)
    shown = buckets.show(buckets.codes(table))[0].cells.to_numpy() // 10
    assert np.abs(shown - np.arange(rows)).sum() == buckets.rank_difference


@given(st.lists(st.one_of(st.none(), st.integers(-50, 50)), min_size=1, max_size=40), st.integers(1, 10))
def test_cells_hold_their_values_and_touch(numbers, count):
    table = as_table(pa.table({"x": pa.array(numbers, pa.int64())}))
    points = all_points(table.numbers("x"))
    ends = quantile_ends(points.weights, count)
    cells = Buckets.of_points(table, "x", points, ends, shown="range").as_cells((-100.0, 100.0))
    low, high = (column.cells.to_pylist() for column in cells.show(cells.codes(table)))
    for number, first, last in zip(numbers, low, high, strict=True):
        assert (first is None and last is None) if number is None else first <= number <= last
    if len(points.values):
        assert cells.low[0] == -100 and cells.high[-1] == 100
        assert np.array_equal(cells.low[1:], cells.high[:-1] + 1)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40, unique=True), st.integers(2, 10))
def test_faces_between_groups_of_measured_numbers_are_nobodys_value_where_floats_allow(numbers, count):
    table = as_table(pa.table({"x": numbers}))
    points = all_points(table.numbers("x"))
    buckets = Buckets.of_points(table, "x", points, quantile_ends(points.weights, count), shown="range")
    for cut, last, first in zip(buckets.cuts, buckets.high[:-1], buckets.low[1:], strict=True):
        assert last < cut <= first
        assert cut < first or np.nextafter(last, first) == first


@pytest.mark.parametrize("represent", ["median", "mean", "range", "label"])
def test_what_is_shown_has_the_type_of_the_column(represent):
    days = [datetime.date(2020, 1, day) for day in (1, 3, 9, 11)]
    table = as_table(pa.table({"day": days, "count": [1, 2, 7, 9], "size": [0.5, 1.5, 7.0, 8.0]}))
    first, third, ninth, eleventh = days
    shown = {}
    for name in table.names:
        buckets = Buckets.of_ranks(table, name, np.array([2, 4]), shown=represent)
        shown[name] = [column.cells.to_pylist() for column in buckets.show(buckets.codes(table))]
    wanted = {
        "median": {"day": [[first] * 2 + [ninth] * 2], "count": [[1, 1, 7, 7]], "size": [[0.5, 0.5, 7.0, 7.0]]},
        "mean": {
            "day": [[first + (third - first) / 2] * 2 + [ninth + (eleventh - ninth) / 2] * 2],
            "count": [[1.5, 1.5, 8.0, 8.0]],
            "size": [[1.0, 1.0, 7.5, 7.5]],
        },
        "range": {
            "day": [[first] * 2 + [ninth] * 2, [third] * 2 + [eleventh] * 2],
            "count": [[1, 1, 7, 7], [2, 2, 9, 9]],
            "size": [[0.5, 0.5, 7.0, 7.0], [1.5, 1.5, 8.0, 8.0]],
        },
        "label": {
            "day": [["2020-01-01–2020-01-03"] * 2 + ["2020-01-09–2020-01-11"] * 2],
            "count": [["1–2"] * 2 + ["7–9"] * 2],
            "size": [["[0.5, 1.5]"] * 2 + ["[7, 8]"] * 2],
        },
    }
    assert shown == wanted[represent]


def test_few_missing_values_are_joined_by_the_smallest_group():
    table = as_table(pa.table({"x": pa.array([1, 2, 3, 4, 5, None], pa.int64())}))
    buckets = Buckets.of_ranks(table, "x", np.array([3, 5]), shown="median").anonymous(2)
    assert buckets.show(buckets.codes(table))[0].cells.to_pylist() == [2, 2, 2, None, None, None]


def test_ends_of_short_runs_go():
    assert merge_to_at_least(3, np.array([1, 2, 3, 4]), np.array([5.0, 1.0, 2.0, 4.0])).tolist() == [1, 3, 4]
