"""The search for groups: costs beside plain sums, never worse than the start, and as good as trying all partitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.microaggregate import grouping, search_kernels
from sfumato.methods.microaggregate.mdav_kernels import mdav
from sfumato.methods.microaggregate.search_kernels import partition_of, search_groups, squared_errors
from sfumato.methods.search_budget import SearchBudget


def slow_error(points, labels) -> float:
    return sum(
        float(((points[labels == label] - points[labels == label].mean(axis=0)) ** 2).sum())
        for label in np.unique(labels)
    )


def searched(points, labels, k: int, steps: int, seed: int = 1):
    partition = partition_of(labels, k)
    near = np.argsort(((points[:, None] - points) ** 2).sum(axis=2), axis=1)[:, : max(4 * k, 10)]
    saved = search_groups(points, partition, near, k, steps, 0.0, np.random.default_rng(seed))
    return partition, saved


def least_error(points, k: int) -> float:
    """Try every partition into groups of k to 2k − 1 rows: the first row of each group is the first that is left."""

    def best(left: tuple[int, ...]) -> float:
        if not left:
            return 0.0
        found = np.inf
        for size in range(k, 2 * k):
            if len(left) - size == 0 or len(left) - size >= k:
                for others in itertools.combinations(left[1:], size - 1):
                    group = points[[left[0], *others]]
                    rest = tuple(row for row in left[1:] if row not in others)
                    found = min(found, float(((group - group.mean(axis=0)) ** 2).sum()) + best(rest))
        return found

    return best(tuple(range(len(points))))


@pytest.mark.parametrize("seed", range(4))
def test_a_small_table_is_grouped_as_well_as_possible(seed):
    points = np.random.default_rng(seed).normal(size=(10, 2))
    worst = np.repeat([0, 1, 2], [3, 3, 4])
    partition, saved = searched(points, worst, 3, 400)
    assert squared_errors(points, partition) == pytest.approx(least_error(points, 3))
    assert saved == pytest.approx(slow_error(points, worst) - slow_error(points, partition.labels))


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(4, 60), st.integers(2, 5), st.sampled_from([1, 3, 1000]))
def test_groups_keep_their_sizes_and_the_error_never_increases(seed, rows, k, values):
    generator = np.random.default_rng(seed)
    points = generator.integers(0, values, (rows, 3)).astype(float)
    labels = mdav(points, k)
    partition, saved = searched(points, labels, k, 30, seed)
    sizes = np.bincount(partition.labels)
    assert (np.sort(sizes[sizes > 0]) == np.sort(partition.sizes[partition.sizes > 0])).all()
    assert sizes[sizes > 0].min() >= min(k, rows)
    assert sizes.max() <= max(2 * k - 1, np.bincount(labels).max())
    after = slow_error(points, partition.labels)
    assert after == pytest.approx(squared_errors(points, partition), abs=1e-9)
    assert saved >= 0.0
    assert after <= slow_error(points, labels) + 1e-9


def test_a_search_improves_on_mdav():
    points = np.random.default_rng(5).normal(size=(300, 4))
    start = mdav(points, 5)
    assert slow_error(points, searched(points, start, 5, 2000)[0].labels) < 0.95 * slow_error(points, start)
    assert searched(points, start, 5, 0)[1] == 0.0  # control: without steps nothing changes


class TestCycles:
    """A search that only improves stops where no window helps; cycles of heat use the rest of the time."""

    def search(self, points, rounds, monkeypatch, heat):
        monkeypatch.setattr(search_kernels, "HEAT", heat)
        start = np.arange(len(points)) // 3
        return grouping.search_groups(points, start, 3, SearchBudget(rounds=rounds), np.random.default_rng(1))[1].after

    def test_of_heat_find_better_groups_than_more_cold_rounds(self, monkeypatch):
        points = np.exp(np.random.default_rng(5).normal(size=(120, 3)))
        cold, longer = (self.search(points, rounds, monkeypatch, 0.0) for rounds in (15, 60))
        assert longer > 0.999 * cold  # the control: four times the time gains nothing
        assert self.search(points, 60, monkeypatch, 0.2) < 0.999 * longer

    def test_never_lose_the_best_groups(self, monkeypatch):
        points = np.exp(np.random.default_rng(6).normal(size=(60, 2)))
        found = [self.search(points, rounds, monkeypatch, 0.2) for rounds in (5, 10, 20, 40)]
        assert found == sorted(found, reverse=True)
