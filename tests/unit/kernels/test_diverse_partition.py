"""The partition into diverse boxes, and its strips, against slow and obvious twins."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.methods.boxes import diverse_kernels as diverse_partition
from sfumato.methods.boxes import diverse_kernels as strips
from sfumato.methods.boxes import partition_kernels as kernel
from sfumato.methods.boxes import tally_kernels as tally

NO_BOUNDS = np.empty((2, 0))  # boxes are hulls
small_values = st.integers(0, 6).map(float)


def problem_of(values, protected, *, k=3, l=2, separation=0.0, sets=(), lookahead=16):
    sizes = np.array(sets, dtype=np.int64)
    return kernel.PartitionProblem(
        values=values,
        weights=np.ones(values.shape, dtype=np.float32),
        set_start=np.cumsum(sizes) - sizes,
        set_words=int(sizes.sum()) // 64 + 1,
        scale=np.ptp(values, axis=0),
        protected=protected,
        separation=np.full(protected.shape[1], separation),
        k=k,
        l=l,
        lookahead=lookahead,
        median=False,
    )


def leaves_of(problem, *, apart=0.0, note=False, enough=0):
    rows = len(problem.values)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    cuts = np.empty((rows if note else 0, 4))
    diverse = diverse_partition.DiverseProblem(problem, np.full(problem.values.shape[1], apart))
    diverse_partition.split(diverse, order, begins, cuts, NO_BOUNDS, 0, rows, enough)
    return order, np.append(np.flatnonzero(begins), rows), cuts


def plain_leaves_of(problem):
    rows = len(problem.values)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    kernel.split(problem, order, begins, np.empty((0, 4)), NO_BOUNDS, 0, rows, 0)
    return order, np.append(np.flatnonzero(begins), rows), None


def cost_of(records, sets=()):
    widths = np.ptp(records, axis=0)
    for axis in range(records.shape[1] - len(sets), records.shape[1]):
        widths[axis] = len(set(records[:, axis])) - 1
    return len(records) * widths.sum()


def total_cost(problem, leaves):
    order, starts, _ = leaves
    return sum(cost_of(problem.values[order[first:last]]) for first, last in pairwise(starts))


def slowly_diverse(protected, l, separation):
    return all(
        any(
            all(abs(x - y) >= separation for x, y in combinations(chosen, 2))
            for chosen in combinations(sorted(set(column)), l)
        )
        for column in protected.T
    )


def slowest_strips(problem, rows, separation, sets):
    """Return the cost of the cheapest strips, by trying all ways to cut the sorted rows."""
    count, best = len(rows), np.inf
    for number in range(count // problem.k):
        for places in combinations(range(1, count), number):
            runs = [rows[first:last] for first, last in pairwise((0, *places, count))]
            if all(
                len(run) >= problem.k and slowly_diverse(problem.protected[run], problem.l, separation) for run in runs
            ):
                best = min(best, sum(cost_of(problem.values[run], sets) for run in runs))
    return best


@given(
    values=arrays(np.float64, st.tuples(st.integers(2, 12), st.just(2)), elements=small_values),
    protected=arrays(np.float64, (12, 2), elements=small_values),
    l=st.integers(2, 3),
    k=st.integers(2, 4),
    separation=st.sampled_from([0.0, 1.0, 2.0]),
    sets=st.sampled_from([(), (7,)]),
)
def test_strips_are_the_cheapest_of_all(values, protected, l, k, separation, sets):
    problem = problem_of(values, protected[: len(values)], k=k, l=l, separation=separation, sets=sets)
    rows = np.argsort(values[:, 0], kind="stable")
    running, bits = np.empty((tally.ROWS, 2)), np.empty(problem.set_words, np.uint64)
    cost, starts = strips.cheapest_strips(problem, rows, np.inf, running, bits)
    assert cost == pytest.approx(slowest_strips(problem, rows, separation, sets))
    if cost < np.inf:
        assert strips.cheapest_strips(problem, rows, cost, running, bits)[0] == np.inf
        runs = [rows[first:last] for first, last in pairwise((*starts, len(rows)))]
        assert sum(cost_of(values[run], sets) for run in runs) == pytest.approx(cost)
        assert all(len(run) >= k and slowly_diverse(problem.protected[run], l, separation) for run in runs)
    else:
        assert len(starts) == 0


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 32, 33, 1000])
def test_strips_of_many_records_end_at_few_places(count):
    ends = strips.ends_of(count)
    assert ends[0] == 0
    assert ends[-1] == count
    assert (np.diff(ends) > 0).all()
    assert len(ends) <= strips.PLACES + 1


@given(
    values=st.lists(st.integers(0, 8), min_size=1, max_size=7),
    l=st.integers(1, 4),
    separation=st.sampled_from([0.0, 1.0, 2.0, 3.0]),
)
def test_is_spread_is_what_a_look_at_all_choices_finds(values, l, separation):
    column = np.array(values, dtype=float)
    assert strips.is_spread(column, l, separation) == slowly_diverse(column[:, None], l, separation)


@given(values=arrays(np.float64, (9, 3), elements=small_values))
def test_the_cost_of_a_box_equals_the_slow_twin(values):
    problem = problem_of(values, values, sets=(7,))
    running, bits = np.empty((tally.ROWS, 3)), np.empty(problem.set_words, np.uint64)
    tally.clear(running, bits)
    for row in range(len(values)):
        tally.add(running, bits, values, problem.weights, problem.set_start, problem.trees, row)
    assert tally.cost(running, problem.set_start) == pytest.approx(cost_of(values, (7,)))


@given(
    values=arrays(np.float64, (60, 2), elements=small_values),
    protected=arrays(np.float64, (60, 2), elements=small_values),
    k=st.integers(2, 6),
    l=st.integers(2, 3),
    separation=st.sampled_from([0.0, 1.0, 2.0]),
    lookahead=st.sampled_from([1, 4, 16]),
    sets=st.sampled_from([(), (7,)]),
)
def test_every_row_is_in_one_box_and_every_box_is_large_and_diverse(
    values, protected, k, l, separation, lookahead, sets
):
    problem = problem_of(values, protected, k=k, l=l, separation=separation, lookahead=lookahead, sets=sets)
    order, starts, _ = leaves_of(problem, apart=separation)
    assert sorted(order) == list(range(60))
    assert np.diff(starts).min() >= k
    if slowly_diverse(protected, l, separation):
        for first, last in pairwise(starts):
            assert slowly_diverse(protected[order[first:last]], l, separation)


@given(
    values=arrays(np.float64, (40, 2), elements=st.floats(0, 100, width=32)),
    lookahead=st.sampled_from([1, 16]),
)
def test_cells_fill_the_space_without_overlap_and_hold_their_records(require_subdivision, values, lookahead):
    problem = problem_of(values, values, k=4, l=2, separation=10.0, lookahead=lookahead)
    require_subdivision(values, *leaves_of(problem, apart=10.0, note=True))


def test_the_boxes_do_not_depend_on_where_the_work_is_divided():
    values = np.random.default_rng(2).normal(size=(3000, 2))
    problem = problem_of(values, values, k=5, l=3, separation=0.1, lookahead=8)
    whole = leaves_of(problem, apart=0.1)
    order, begins, cuts = np.arange(3000), np.zeros(3000, dtype=np.bool_), np.empty((0, 4))
    diverse = diverse_partition.DiverseProblem(problem, np.full(2, 0.1))
    diverse_partition.split(diverse, order, begins, cuts, NO_BOUNDS, 0, 3000, 400)
    for first, last in pairwise(np.append(np.flatnonzero(begins), 3000).tolist()):
        diverse_partition.split(diverse, order, begins, cuts, NO_BOUNDS, first, last, 0)
    assert (np.append(np.flatnonzero(begins), 3000) == whole[1]).all()
    assert (order == whole[0]).all()


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize(("k", "l", "epsilon"), [(5, 3, 0.06), (10, 3, 0.2), (10, 5, 0.1)])
def test_boxes_are_narrower_than_if_cuts_are_only_refused(axes, k, l, epsilon):
    values = np.random.default_rng(axes).normal(size=(4000, axes))
    problem = problem_of(values, values, k=k, l=l, separation=epsilon * axes)
    aware = total_cost(problem, leaves_of(problem, apart=epsilon * axes))
    assert aware < 0.95 * total_cost(problem, plain_leaves_of(problem))


def test_slabs_are_as_wide_as_a_diverse_box_needs():
    values = np.random.default_rng(5).random((9000, 2))
    problem = problem_of(values, values, k=5, l=2, separation=0.3)
    order, starts, _ = leaves_of(
        problem, apart=0.3
    )  # three slabs of width ⅓ along each axis; halves would give four boxes
    assert len(starts) - 1 == 9
    assert max(np.ptp(values[order[first:last]], axis=0).max() for first, last in pairwise(starts)) < 0.4
