"""Covering nodes and cuts by trees against slow, obvious twins."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.boxes import cut_kernels as node_cuts
from sfumato.methods.boxes import partition_kernels as kernel
from sfumato.methods.boxes import tree_kernels as node_branches
from sfumato.methods.boxes.search_branch_kernels import box_costs
from sfumato.methods.boxes.search_objective import linear_fitness
from sfumato.methods.boxes.tally_kernels import NO_TREES, covering_width, has_tree, trees_of


@st.composite
def nested_steps(draw, most=12):
    """The steps of a random tree: each value between two halves is at least as large as all values inside them."""
    size = draw(st.integers(0, most))
    steps = np.zeros(size)

    def fill(first, last, width):
        if first < last:
            middle = draw(st.integers(first, last - 1))
            steps[middle] = width
            below = draw(st.integers(0, 1))
            fill(first, middle, max(width - below, 1))
            fill(middle + 1, last, max(width - below, 1))

    fill(0, size, 6)
    return steps


def slow_width(steps, low, high):
    return max(steps[low:high], default=0.0)


@given(trees=st.lists(st.none() | nested_steps(), min_size=1, max_size=4))
def test_the_width_of_the_covering_node_is_the_largest_step(trees):
    built = trees_of(trees)
    for axis, steps in enumerate(trees):
        assert has_tree(built, axis) == (steps is not None)
        if steps is not None:
            for low in range(len(steps) + 1):
                for high in range(low, len(steps) + 1):
                    assert covering_width(built, axis, float(low), float(high)) == slow_width(steps, low, high)


def test_a_table_without_trees_has_none():
    assert trees_of([None, None]) is NO_TREES


@given(steps=nested_steps().filter(len), data=st.data())
def test_children_are_split_where_the_covering_node_is_and_the_commonest_come_first(steps, data):
    ranks = sorted(data.draw(st.lists(st.integers(0, len(steps)), min_size=1, max_size=30)))
    whole = slow_width(steps, ranks[0], ranks[-1])
    child = [sum(step >= whole for step in steps[ranks[0] : rank]) if whole else 0 for rank in ranks]
    keys, rows = np.array(ranks, dtype=np.float64), np.arange(len(ranks))
    node_cuts.commonest_first(trees_of([steps]), 0, keys, rows)
    assert sorted(rows) == list(range(len(ranks)))
    assert [ranks[row] for row in rows] == keys.tolist()
    order = list(dict.fromkeys(child[row] for row in rows))
    assert [child[row] for row in rows] == [one for one in order for _ in range(Counter(child)[one])]
    sizes = [Counter(child)[one] for one in order]
    assert sizes == sorted(sizes, reverse=True)


def problem_of(values, steps, k, **options):
    rows = len(values)
    return kernel.PartitionProblem(
        values=values,
        weights=np.ones(values.shape, dtype=np.float32),
        set_start=np.empty(0, dtype=np.int64),
        set_words=1,
        scale=np.ptp(values, axis=0),
        protected=options.get("protected", np.empty((rows, 0))),
        separation=np.zeros(options["protected"].shape[1] if "protected" in options else 0),
        k=k,
        l=options.get("l", 1),
        lookahead=options.get("lookahead", 4),
        median=False,
        trees=trees_of(steps),
    )


@st.composite
def problems(draw):
    """Two axes with trees and a number."""
    steps = [draw(nested_steps().filter(len)) for _ in range(2)]
    rows = draw(st.integers(2, 60))
    generator = np.random.default_rng(draw(st.integers(0, 10**6)))
    ranks = [np.floor((len(one) + 1) * generator.random(rows) ** 2) for one in steps]
    values = np.column_stack([*ranks, generator.integers(0, 5, rows).astype(np.float64)])
    protected = generator.integers(0, 3, (rows, 1)).astype(np.float64)
    options = {"k": draw(st.integers(2, 6)), "l": draw(st.integers(1, 2)), "lookahead": draw(st.sampled_from([1, 4]))}
    return steps, problem_of(values, [*steps, None], protected=protected, **options)


def slow_cost(problem, steps, rows):
    total = 0.0
    for axis in range(problem.values.shape[1]):
        low, high = problem.values[rows, axis].min(), problem.values[rows, axis].max()
        has_steps = axis < len(steps)
        total += len(rows) * (slow_width(steps[axis], int(low), int(high)) if has_steps else high - low)
    return total


def require_boxes(problem, order, starts):
    assert sorted(order) == list(range(len(order)))
    assert np.diff(starts).min() >= min(problem.k, len(order))
    if kernel.diverse(problem, order):
        assert all(kernel.diverse(problem, order[first:last]) for first, last in pairwise(starts))


@given(problems())
def test_cuts_and_the_cuts_that_are_followed_keep_k_and_l_and_cost_what_they_say(case):
    steps, problem = case
    rows = len(problem.values)
    costs = []
    for effort in (0, 1000):
        order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
        cost = node_branches.follow(problem, order, begins, 2, np.inf, np.array([effort * rows]))
        starts = np.append(np.flatnonzero(begins), rows)
        require_boxes(problem, order, starts)
        slow = sum(slow_cost(problem, steps, order[first:last]) for first, last in pairwise(starts))
        assert np.isclose(cost, slow)
        assert np.isclose(cost, node_branches.costs_of(problem, order, starts).sum())
        assert np.isclose(cost, box_costs(problem, linear_fitness(problem.weights), order, starts).sum())
        costs.append(cost)
    assert costs[1] <= costs[0] + 1e-9


@given(problems())
def test_without_effort_the_greedy_cuts_are_followed(case):
    _, problem = case
    rows = len(problem.values)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    kernel.split(problem, order, begins, np.empty((0, 4)), np.empty((2, 0)), 0, rows, 0)
    starts = np.append(np.flatnonzero(begins), rows)
    require_boxes(problem, order, starts)
    greedy = box_costs(problem, linear_fitness(problem.weights), order, starts).sum()
    followed = node_branches.follow(problem, np.arange(rows), np.zeros(rows, dtype=np.bool_), 2, np.inf, np.array([0]))
    assert np.isclose(greedy, followed)
