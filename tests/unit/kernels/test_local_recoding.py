"""The groups of local recoding: costs and distances as slow twins count them, and steps that keep every promise."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.recodings import local_kernels as kernel
from sfumato.methods.recodings import local_python
from sfumato.methods.recodings import row_group_kernels as lists

LEVELS = 3  # a value v of 0 … 7: itself, v // 2, v // 4, the root


def rows_of(values: np.ndarray, k: int, sensitive: np.ndarray | None = None, model=()) -> lists.RecodedRows:
    columns = values.shape[1]
    nodes = [np.arange(8) >> level for level in range(LEVELS)] + [np.zeros(8, np.int64)]
    costs = [np.full(8, cost) for cost in (0.0, 1.0, 3.0, 7.0)]
    start = np.arange(columns * 4, dtype=np.int64).reshape(columns, 4) * 8
    nodes, costs = np.concatenate(nodes * columns).astype(np.int32), np.concatenate(costs * columns)
    if sensitive is None:
        return lists.RecodedRows(
            values.astype(np.int32), start, nodes, costs, k, np.zeros((0, 6)), np.zeros((0, 3, 4), np.int32)
        )
    shares = np.bincount(sensitive, minlength=4) / len(sensitive)
    return lists.RecodedRows(
        cells=np.column_stack([values, sensitive]).astype(np.int32),
        start=start,
        node=nodes,
        cost=costs,
        k=k,
        model=np.array([[*model, 3.0, *shares]]),
        above=np.array([[range(4), [0, 0, 1, 1], [0] * 4]], dtype=np.int32),
    )


def groups_of(rows: lists.RecodedRows, labels: np.ndarray) -> lists.LinkedGroups:
    count, total = int(labels.max()) + 1, len(labels)
    groups = lists.LinkedGroups(
        row=np.stack([labels, np.full(total, -1), np.full(total, -1)]),
        slot=np.stack([np.full(count, -1), np.zeros(count, dtype=np.int64)]),
        level=np.zeros((count, rows.values.shape[1]), dtype=np.int64),
        cost=np.zeros(count),
    )
    for row, label in enumerate(labels):
        lists.put_in(rows, groups, row, label)
    return groups


def slow_cost(values: np.ndarray) -> float:
    """The cost of one row of a group: the lowest node that covers its values, column by column."""
    total = 0.0
    for column in values.T:
        level = next((level for level in range(LEVELS) if len(set((column >> level).tolist())) == 1), LEVELS)
        total += (0.0, 1.0, 3.0, 7.0)[level]
    return total


def check(rows: lists.RecodedRows, groups: lists.LinkedGroups, *, at_least: int = 0) -> float:
    """Lists, sizes and costs are right; return the whole cost."""
    whole, seen = 0.0, 0
    for group in range(len(groups.cost)):
        members, row = [], int(groups.slot[lists.FIRST, group])
        while row >= 0:
            assert groups.of[row] == group
            members.append(row)
            row = int(groups.row[lists.AFTER, row])
        assert len(members) == groups.size[group]
        seen += len(members)
        if members:
            assert len(members) >= at_least
            assert groups.cost[group] == pytest.approx(slow_cost(rows.values[members]))
            whole += len(members) * slow_cost(rows.values[members])
    assert seen == len(rows.values)
    return whole


def tables(least: int):
    return st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=least, max_size=40).map(np.array)


@settings(max_examples=15, deadline=None)
@given(tables(6), st.integers(1, 3), st.randoms(use_true_random=False))
def test_every_step_keeps_k_and_saves_what_it_says(values, k, chance):
    rows, numbers = rows_of(values, k), np.random.default_rng(chance.randrange(10**6))
    groups = groups_of(rows, np.unique(values, axis=0, return_inverse=True)[1].ravel())
    is_complete = np.zeros(len(groups.cost), dtype=bool)
    while ((groups.size > 0) & ~is_complete).any():
        kernel.merge_incomplete(rows, groups, is_complete, numbers.permutation(len(values)), len(values), np.inf)
    cost = check(rows, groups, at_least=k)
    for _ in range(2):
        order = numbers.permutation(len(values))
        place_of = np.argsort(order)
        steps = (
            partial(kernel.improve, rows, groups, order, 6, 0.0),
            partial(kernel.refill, rows, groups, order, 6, 0.0),
            partial(kernel.dissolve, rows, groups, order, place_of, 6),
        )
        for step in steps:
            saved = step()
            now = check(rows, groups, at_least=k)
            assert saved >= 0.0
            assert now == pytest.approx(cost - saved)
            cost = now
        kernel.split_large(rows, groups, np.flatnonzero(groups.size == 0))
        now = check(rows, groups, at_least=k)
        assert now <= cost + 1e-9
        cost = now


def slow_best(rows: lists.RecodedRows, groups: lists.LinkedGroups) -> float:
    """The least change of the whole cost by one row that moves or two that are exchanged, all of them tried."""
    parts = {int(group): np.flatnonzero(groups.of == group) for group in set(groups.of.tolist())}

    def whole(*members):
        return sum(len(one) * slow_cost(rows.values[one]) for one in members)

    best = 0.0
    for one, other in permutations(parts, 2):
        mine, theirs = parts[one], parts[other]
        for row in mine:
            rest = mine[mine != row]
            if len(rest) >= rows.k:
                best = min(best, whole(rest, np.append(theirs, row)) - whole(mine, theirs))
            for mate in theirs:
                swapped = np.append(rest, mate), np.append(theirs[theirs != mate], row)
                best = min(best, whole(*swapped) - whole(mine, theirs))
    return best


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=6, max_size=12).map(np.array))
def test_rows_move_until_no_move_and_no_exchange_helps(values):
    """Bounds that spare the costs of most groups must not hide an improvement."""
    rows, numbers = rows_of(values, 2), np.random.default_rng(len(values))
    groups = groups_of(rows, np.arange(len(values)) // 3)
    if groups.size[groups.size > 0].min() < 2:
        return
    for _ in range(60):
        kernel.improve(rows, groups, numbers.permutation(len(values)), len(values), 0.0)
    assert slow_best(rows, groups) == pytest.approx(0.0, abs=1e-9)


def slow_distance(p: np.ndarray, q: np.ndarray, *, ordered: bool) -> float:
    if ordered:
        return float(np.abs(np.cumsum(p - q)).sum() / (np.count_nonzero(q) - 1))
    from scipy.optimize import linprog

    apart = [0.0 if i == j else 0.5 if i // 2 == j // 2 else 1.0 for i in range(4) for j in range(4)]
    sums = [[float(i == at) for i in range(4) for j in range(4)] for at in range(4)]
    sums += [[float(j == at) for i in range(4) for j in range(4)] for at in range(4)]
    return float(linprog(apart, A_eq=sums, b_eq=[*p, *q]).fun)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=2, max_size=20), st.integers(1, 10), st.booleans())
def test_distances_and_diversity_are_those_of_the_definitions(codes, cut, ordered):
    codes = np.array([*codes, 0, 1, 2, 3])
    part = codes[: min(cut, len(codes))]
    counts, q = np.bincount(part, minlength=4), np.bincount(codes, minlength=4) / len(codes)
    p = counts / len(part)
    entropy = float(np.exp(-sum(x * np.log(x) for x in p if x > 0)))
    ranked = np.sort(counts)[::-1]
    t = slow_distance(p, q, ordered=ordered)
    wanted = {
        (len(set(part.tolist())), 0.0, 3.0, 1.0): True,
        (len(set(part.tolist())) + 1, 0.0, 3.0, 1.0): False,
        (1.0, 0.0, 3.0, t + 1e-6): True,
        (1.0, 0.0, 3.0, max(t - 1e-6, 0.0)): t < 1e-6,
    }
    if entropy > 1.0:
        wanted |= {(entropy - 1e-6, 1.0, 3.0, 1.0): True, (entropy + 1e-6, 1.0, 3.0, 1.0): False}
    if ranked[1] > 0:
        ratio = ranked[0] / ranked[1:].sum()
        wanted |= {(2.0, 2.0, ratio + 1e-6, 1.0): True, (2.0, 2.0, ratio - 1e-6, 1.0): False}
    for model, held in wanted.items():
        rows = rows_of(np.zeros((len(codes), 1), np.int64), 1, codes, (*model, float(ordered)))
        assert lists.diverse(rows, 0, counts, len(part)) == held, model


def test_a_group_without_diversity_is_not_complete():
    codes = np.array([0, 0, 0, 1])
    rows = rows_of(np.zeros((4, 1), np.int64), 2, codes, (2.0, 0.0, 3.0, 1.0, 0.0))
    groups = groups_of(rows, np.array([0, 0, 1, 1]))
    assert not lists.complete(rows, groups, 0, -1, -1)
    assert lists.complete(rows, groups, 1, -1, -1)
    assert lists.complete(rows, groups, 0, 0, 3), "with the row that differs it is"


MODELS = [None, (2.0, 0.0, 3.0, 1.0, 0.0), (2.0, 2.0, 3.0, 0.6, 1.0), (1.5, 1.0, 3.0, 0.7, 0.0)]


@settings(max_examples=10, deadline=None)
@given(tables(6), st.integers(1, 3), st.sampled_from(MODELS), st.booleans(), st.randoms(use_true_random=False))
def test_steps_that_remember_costs_do_what_the_kernels_do(values, k, model, has_people, chance):
    numbers = np.random.default_rng(chance.randrange(10**6))
    codes = None if model is None else numbers.integers(0, 4, len(values))
    rows = rows_of(values, k, codes, () if model is None else model)
    if has_people:
        people = numbers.integers(0, len(values), len(values))
        rows = rows._replace(cells=np.column_stack([rows.cells, people]).astype(np.int32))
    groups = groups_of(rows, np.unique(values, axis=0, return_inverse=True)[1].ravel())
    is_complete = np.zeros(len(groups.cost), dtype=bool)
    twin, twin_complete = lists.LinkedGroups(*map(np.copy, groups)), is_complete.copy()
    steps = local_python.LocalSteps(rows)
    for limit, is_merging in ((0.5, True), (3.0, True), (np.inf, True), (1.7, False), (0.3, False), (0.0, False)):
        order = numbers.permutation(len(values))
        joined = steps.improve_once(rows, groups, is_complete, order, 6, limit, is_merging)
        assert joined == kernel.improve_once.plain(rows, twin, twin_complete, order, 6, limit, is_merging)
        assert (groups.row == twin.row).all()
        assert (groups.slot == twin.slot).all()
        assert (is_complete == twin_complete).all()
        used = groups.size > 0  # the levels of empty groups mean nothing
        assert (groups.level[used] == twin.level[used]).all()
        assert (groups.cost[used] == twin.cost[used]).all()
        if is_merging and not is_complete[used].all() and limit == np.inf:
            return  # not even all rows together keep the promises


def test_what_was_forgotten_is_found_again(monkeypatch):
    """A small memory gives the same groups."""
    monkeypatch.setattr(lists, "KEPT", 3)
    test_steps_that_remember_costs_do_what_the_kernels_do()


def test_a_cost_that_is_not_added_up_is_above_the_limit():
    """A part of a sum that is above the limit by rounding only is not returned for the whole of it."""
    rows = rows_of(np.array([[0, 0], [1, 7]]), 1)
    groups = groups_of(rows, np.array([0, 1]))
    assert lists.cost_with(rows, groups, 0, 1, np.nextafter(1.0, 0.0)) == 8.0
    assert lists.cost_with(rows, groups, 0, 1, 0.9) == 1.0, "ended early"
