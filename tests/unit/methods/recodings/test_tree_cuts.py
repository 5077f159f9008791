"""Cuts through generalization trees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.recodings.categories import CountedTree, TreeBranch, cut_with_at_most, lowest_cut
from sfumato.schema.hierarchies import Tree

TREE = Tree.of(
    [
        ("a1", "a", "letters", "*"),
        ("a2", "a", "letters", "*"),
        ("b1", "b", "letters", "*"),
        ("b2", "b", "letters", "*"),
        ("b3", "b", "letters", "*"),
        ("1", "one", "digits", "*"),
        ("2", "two", "digits", "*"),
    ]
)
rows = st.lists(st.integers(0, 9), min_size=7, max_size=7).filter(any)


def covered(counted, cut):
    """How many branches of the cut cover each leaf that has rows."""
    times = np.zeros(counted.tree.size, dtype=int)
    for branch in cut:
        first, end = counted.span(branch)
        times[first:end] += 1
    return [
        int(time)
        for time, leaf in zip(times, range(counted.tree.size), strict=True)
        if counted.rows(TreeBranch(0, leaf))
    ]


@given(rows, st.integers(1, 8))
def test_a_cut_covers_every_value_once_with_few_enough_branches(counts, most):
    counted = CountedTree(TREE, np.array(counts))
    cut = cut_with_at_most(counted, most)
    assert set(covered(counted, cut)) == {1}
    assert len(cut) <= most


@given(rows, st.integers(1, 8))
def test_a_mixed_cut_never_loses_more_than_the_best_single_level(counts, most):
    counted = CountedTree(TREE, np.array(counts))
    loss = sum(map(counted.loss, cut_with_at_most(counted, most)))
    levels = [counted.level_cut(level) for level in range(TREE.levels)]
    assert loss <= min(sum(map(counted.loss, cut)) for cut in levels if len(cut) <= most) + 1e-9


def test_a_mixed_cut_divides_where_it_saves_most():
    counted = CountedTree(TREE, np.array([50, 50, 1, 1, 1, 1, 1]))
    names = counted.names(cut_with_at_most(counted, 4))
    assert names == ["a1", "a2", "b", "b", "b", "digits", "digits"]


@given(rows, st.integers(1, 12))
def test_the_lowest_cut_has_k_rows_in_every_branch_unless_there_are_fewer_in_all(counts, k):
    counted = CountedTree(TREE, np.array(counts))
    cut = lowest_cut(counted, k)
    assert set(covered(counted, cut)) == {1}
    assert all(counted.rows(branch) >= k for branch in cut) or cut == [counted.root]
    for branch in cut:  # and none of them can be divided
        children = counted.children(branch)
        assert not children or any(counted.rows(child) < k for child in children)
