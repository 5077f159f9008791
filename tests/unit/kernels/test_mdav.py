"""MDAV and V-MDAV beside slow versions that follow the papers line by line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.microaggregate.mdav_kernels import mdav, vmdav


def apart(rows, points, point) -> list[tuple[float, int]]:
    return sorted((float(((points[row] - point) ** 2).sum()), row) for row in rows)


def slow_mdav(points, k: int) -> list[set[int]]:
    left, groups = set(range(len(points))), []
    while len(left) >= 2 * k:
        two = len(left) >= 3 * k
        r = apart(left, points, points[sorted(left)].mean(axis=0))[-1][1]
        s = apart(left, points, points[r])[-1][1]
        for seed in (r, s) if two else (r,):
            group = {row for _, row in apart(left, points, points[seed])[:k]}
            groups.append(group)
            left -= group
    return [*groups, left] if left else groups


def slow_vmdav(points, k: int, gain: float) -> list[set[int]]:
    left, groups, mean = set(range(len(points))), [], points.mean(axis=0)
    while len(left) >= k:
        r = apart(left, points, mean)[-1][1]
        group = {row for _, row in apart(left, points, points[r])[:k]}
        left -= group
        while len(group) < 2 * k - 1 and len(left) >= 2:
            inside, row = min((min(apart(group, points, points[row]))[0], row) for row in left)
            outside = apart(left - {row}, points, points[row])[0][0]
            if not inside < gain * gain * outside:
                break
            group.add(row)
            left.remove(row)
        groups.append(group)
    means = [points[sorted(group)].mean(axis=0) for group in groups]
    for row in left:
        groups[int(np.argmin([((points[row] - mean) ** 2).sum() for mean in means]))].add(row)
    return groups


def sets_of(labels) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)}


@pytest.mark.parametrize("axes", [1, 3, 4, 6, 11])
@pytest.mark.parametrize(("rows", "k"), [(6, 3), (40, 3), (47, 4), (61, 2), (30, 10)])
def test_groups_are_those_of_the_slow_versions(rows, axes, k):
    points = np.random.default_rng(rows * axes).normal(size=(rows, axes))
    assert sets_of(mdav(points, k)) == set(map(frozenset, slow_mdav(points, k)))
    for gain in (0.2, 1.1):
        assert sets_of(vmdav(points, k, gain)) == set(map(frozenset, slow_vmdav(points, k, gain)))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=60), st.integers(2, 7))
def test_every_group_is_large_enough_even_with_ties(rows, k):
    points = np.array(rows, dtype=float)
    for labels, most in ((mdav(points, k), 2 * k - 1), (vmdav(points, k, 1.1), len(rows))):
        sizes = np.bincount(labels)
        assert sizes.sum() == len(rows)
        assert min(k, len(rows)) <= sizes.min()
        assert sizes.max() <= max(most, 2 * k - 1)


def test_the_input_stays_as_it_is_in_any_memory_order():
    points = np.asfortranarray(np.random.default_rng(1).normal(size=(50, 3)))
    before = points.copy()
    assert np.array_equal(mdav(points, 4), mdav(np.ascontiguousarray(before), 4))
    vmdav(points, 4, 0.2)
    assert np.array_equal(points, before)
