"""Spectral clusters: every row in one, none too small, and groups that are there are found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sfumato.methods.components import clusters
from sfumato.methods.components.clusters import (
    Clustering,
    effective_dimension,
    exact,
    expected_size,
    merge_small_clusters,
)


def blobs(rows, groups, seed=0):
    draw = np.random.default_rng(seed)
    label = draw.integers(groups, size=rows)
    centres = np.eye(groups, 6) * 12
    return centres[label] + draw.normal(size=(rows, 6)), label


def agreement(found, true):
    """Share of rows in the majority group of their cluster."""
    return sum(np.bincount(true[found == c]).max() for c in np.unique(found)) / len(true)


def test_separate_groups_are_found():
    matrix, label = blobs(400, 4)
    found = Clustering(size=100, floor=20)(matrix, np.random.default_rng(1))
    assert agreement(found, label) > 0.99
    # control: labels that know nothing agree no more than the largest group
    assert agreement(np.random.default_rng(99).integers(4, size=400), label) < 0.4


def test_a_ring_is_cut_along_and_not_across():
    draw = np.random.default_rng(2)
    angle, ring = draw.uniform(0, 2 * np.pi, 600), draw.integers(2, size=600)
    matrix = (1 + 4 * ring)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + draw.normal(0, 0.1, (600, 2))
    assert agreement(exact(matrix, 8, 0), ring) > 0.95


def test_large_tables_are_cut_by_landmarks_first(monkeypatch):
    monkeypatch.setattr(clusters, "EXACT_ROWS", 400)
    monkeypatch.setattr(clusters, "PIECE_ROWS", 300)
    monkeypatch.setattr(clusters, "BLOCK", 700)
    matrix, label = blobs(2000, 5)
    found = Clustering(size=100, floor=30)(matrix, np.random.default_rng(1))
    sizes = np.bincount(found)
    assert agreement(found, label) > 0.98
    assert sizes.min() >= 30
    assert 60 < sizes.mean() < 180


def test_rows_that_are_all_alike_are_cut_at_random(monkeypatch):
    monkeypatch.setattr(clusters, "EXACT_ROWS", 400)
    monkeypatch.setattr(clusters, "PIECE_ROWS", 300)
    sizes = np.bincount(Clustering(size=100, floor=50)(np.ones((1500, 3)), np.random.default_rng(1)))
    assert sizes.min() >= 50
    assert sizes.sum() == 1500


def test_small_clusters_join_the_nearest():
    matrix = np.array([[0.0], [0.1], [0.2], [5.0], [9.0], [9.1], [9.2]])
    assert merge_small_clusters(matrix, np.array([0, 0, 0, 1, 2, 2, 2]), 2).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert merge_small_clusters(matrix, np.array([0, 0, 0, 1, 2, 2, 2]), 1).tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert merge_small_clusters(matrix, np.array([0, 0, 0, 1, 2, 2, 2]), 50).tolist() == [0] * 7


@pytest.mark.parametrize("rows", [3, 10, 60])
def test_a_table_smaller_than_two_clusters_is_one(rows):
    found = Clustering(size=50, floor=50)(np.random.default_rng(0).normal(size=(rows, 4)), np.random.default_rng(1))
    assert found.tolist() == [0] * rows


def test_far_outliers_end_in_clusters_of_full_size():
    matrix, _ = blobs(300, 2)
    matrix[:3] = 1e6 * np.arange(1, 4)[:, None]
    assert np.bincount(Clustering(size=50, floor=40)(matrix, np.random.default_rng(1))).min() >= 40


def test_the_same_draw_gives_the_same_clusters():
    matrix, _ = blobs(500, 3)
    first, again = (Clustering(size=60, floor=30)(matrix, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, again)


class TestExpectedSize:
    """The rule from which cluster_size="auto" starts (TL §5.2.3 did not investigate it)."""

    def test_the_dimension_is_the_number_of_equal_eigenvalues(self):
        draw = np.random.default_rng(1)
        assert effective_dimension(draw.normal(size=(20_000, 8))) == pytest.approx(8.0, rel=0.01)
        assert effective_dimension(draw.normal(size=(50, 1)) @ np.ones((1, 6))) == pytest.approx(1.0)
        assert effective_dimension(np.ones((5, 3))) == 1.0

    def test_it_is_that_of_the_eigenvalues_also_with_more_columns_than_rows(self):
        for shape in ((40, 12), (12, 40)):
            matrix = np.random.default_rng(2).normal(size=shape)
            values = np.linalg.eigvalsh(np.cov(matrix.T))
            assert effective_dimension(matrix) == pytest.approx(values.sum() ** 2 / (values**2).sum())

    def test_few_and_many_dimensions_need_larger_clusters(self):
        sizes = {dimension: expected_size(dimension) for dimension in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)}
        assert 150 < sizes[8.0] < 250 and abs(sizes[16.0] - sizes[8.0]) < 50
        assert sizes[2.0] > 4 * sizes[8.0] and sizes[64.0] > 1.4 * sizes[8.0]
        assert sizes[1.0] >= 10_000  # one permuted column releases all of its numbers

    @pytest.mark.parametrize("dimension", [4, 10])
    def test_the_shift_at_that_size_is_what_the_test_allows(self, dimension):
        """The slow twin swaps and measures."""
        size, draw = expected_size(dimension), np.random.default_rng(3)
        swapped, fresh = [], []
        for _ in range(40_000 // size):
            people = draw.normal(size=(size, dimension))
            swapped.append(cdist(people, draw.permuted(people, axis=0)).min(axis=1))
            fresh.append(cdist(people, draw.normal(size=(size, dimension))).min(axis=1))
        shift = clusters.downward_shift(np.concatenate(swapped), np.concatenate(fresh))
        assert shift == pytest.approx(0.0231, abs=0.013)  # a standard error is 0.004
