"""The cheapest groups along one column, against trying every way to cut it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.grouping_1d import CELLULAR, CENTRE, MEDIAN, SQUARED, WIDTH, cheapest_groups, merge_small

SLOW_COSTS = {
    SQUARED: lambda rows: ((rows - rows.mean()) ** 2).sum(),
    MEDIAN: lambda rows: np.abs(rows - np.median(rows)).sum(),
    CELLULAR: lambda rows: len(rows) * min(np.abs(rows - centre).max() for centre in rows),
    WIDTH: lambda rows: len(rows) * (rows.max() - rows.min()),
    CENTRE: lambda rows: rows.max() - rows.min(),
}


def slow_cheapest(values, counts, k, cost):
    """Least cost over all ways to cut the points into runs of at least k rows."""
    total = max if cost == CENTRE else lambda before, last: before + last

    def best(end):
        if end == 0:
            return 0.0
        options = [
            total(best(start), SLOW_COSTS[cost](np.repeat(values[start:end], counts[start:end])))
            for start in range(end)
            if sum(counts[start:end]) >= k
        ]
        return min(options, default=np.inf)

    return best(len(values))


@st.composite
def sorted_columns(draw):
    points = draw(st.integers(1, 9))
    values = sorted(draw(st.lists(st.integers(-20, 20), min_size=points, max_size=points)))
    counts = draw(st.lists(st.integers(1, draw(st.sampled_from((1, 3)))), min_size=points, max_size=points))
    return np.array(values, dtype=float), np.array(counts, dtype=np.int64)


@pytest.mark.parametrize("cost", list(SLOW_COSTS))
@given(sorted_columns(), st.integers(1, 5))
def test_no_way_to_cut_is_cheaper(cost, column, k):
    values, counts = column
    ends, found = cheapest_groups(values, counts, k, cost)
    wanted = slow_cheapest(values, counts, k, cost)
    assert found == pytest.approx(wanted, abs=1e-9)
    if not np.isfinite(wanted):
        assert len(ends) == 0
        return
    groups = np.split(np.arange(len(values)), ends[:-1])
    assert all(counts[group].sum() >= k for group in groups)
    costs = [SLOW_COSTS[cost](np.repeat(values[group], counts[group])) for group in groups]
    assert (max(costs) if cost == CENTRE else sum(costs)) == pytest.approx(found, abs=1e-9)


def test_groups_far_from_zero_lose_no_digits():
    near = np.sort(np.random.default_rng(3).random(500))
    ones = np.ones(500, dtype=np.int64)
    far_ends, far_cost = cheapest_groups(near + 2.0**40, ones, 5, SQUARED)
    near_ends, near_cost = cheapest_groups((near + 2.0**40) - 2.0**40, ones, 5, SQUARED)
    assert np.array_equal(far_ends, near_ends)
    assert far_cost == pytest.approx(near_cost, rel=1e-6)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.integers(1, 20))
def test_merged_groups_are_runs_of_at_least_k(sizes, k):
    merged = merge_small(np.array(sizes), k)
    assert merged[0] == 0 and set(np.diff(merged)) <= {0, 1}
    rows = np.bincount(merged, weights=sizes)
    assert (rows >= k).all() or len(rows) == 1


def test_groups_that_are_large_enough_stay_apart():
    assert merge_small(np.array([5, 6, 5]), 5).tolist() == [0, 1, 2]
