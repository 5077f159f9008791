"""The partition kernel against slow, obvious twins."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from sfumato.kernels.jit import always_compiled
from sfumato.methods.boxes import cut_kernels as faces
from sfumato.methods.boxes import partition_kernels as kernel
from sfumato.methods.boxes import tally_kernels as covering
from sfumato.methods.boxes import tally_kernels as tally
from sfumato.methods.boxes.cut_kernels import active_axes

small_values = st.integers(0, 6).map(float)


def problem_of(values, weights=None, *, k=2, sets=(), l=1, protected=None, separation=0.0, lookahead=16, median=False):
    rows, axes = values.shape
    sizes = np.array(sets, dtype=np.int64)
    protected = np.empty((rows, 0)) if protected is None else protected
    return kernel.PartitionProblem(
        values=values,
        weights=np.ones((rows, axes), dtype=np.float32) if weights is None else weights,
        set_start=np.cumsum(sizes) - sizes,
        set_words=int(sizes.sum()) // 64 + 1,
        scale=np.ptp(values, axis=0),
        protected=protected,
        separation=np.full(protected.shape[1], separation),
        k=k,
        l=l,
        lookahead=lookahead,
        median=median,
    )


def leaves_of(problem, *, note=False):
    rows = len(problem.values)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    cuts = np.empty((rows if note else 0, 4))
    kernel.split(problem, order, begins, cuts, faces.whole_space(problem.faces), 0, rows, 0)
    return order, np.append(np.flatnonzero(begins), rows), cuts


def tally_of(problem, rows):
    running, bits = np.empty((tally.ROWS, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    tally.clear(running, bits)
    for row in rows:
        tally.add(running, bits, problem.values, problem.weights, problem.set_start, problem.trees, row)
    return running


@given(
    values=arrays(np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=small_values),
    k=st.integers(2, 7),
    lookahead=st.sampled_from([1, 4, 16]),
    median=st.booleans(),
)
def test_every_row_is_in_one_leaf_and_no_leaf_is_smaller_than_k(values, k, lookahead, median):
    order, starts, _ = leaves_of(problem_of(values, k=k, lookahead=lookahead, median=median))
    assert sorted(order) == list(range(len(values)))
    assert np.diff(starts).min() >= min(k, len(values))


@given(
    values=arrays(np.float64, (40, 2), elements=small_values),
    protected=arrays(np.float64, (40, 2), elements=small_values),
    l=st.integers(2, 3),
    separation=st.sampled_from([0.0, 1.0, 2.0]),
    lookahead=st.sampled_from([1, 16]),
)
def test_no_cut_breaks_diversity(values, protected, l, separation, lookahead):
    problem = problem_of(values, k=3, l=l, protected=protected, separation=separation, lookahead=lookahead)
    order, starts, _ = leaves_of(problem)
    if kernel.diverse(problem, order):
        for first, last in pairwise(starts):
            assert kernel.diverse(problem, order[first:last])


@given(
    values=st.lists(st.integers(0, 8), min_size=1, max_size=7),
    l=st.integers(1, 4),
    separation=st.sampled_from([0, 1, 2, 3]),
)
def test_diverse_is_what_a_look_at_all_choices_finds(values, l, separation):
    protected = np.array(values, dtype=float)[:, None]
    problem = problem_of(np.zeros((len(values), 1)), k=1, l=l, protected=protected, separation=float(separation))
    apart = any(
        all(abs(x - y) >= max(separation, 1) for x, y in combinations(chosen, 2))
        for chosen in combinations(sorted(set(values)), l)
    )
    assert kernel.diverse(problem, np.arange(len(values))) == apart


@given(keys=st.lists(small_values, min_size=1, max_size=60), share=st.floats(0, 1))
def test_select_puts_the_smaller_keys_first(keys, share):
    values, rows = np.array(keys), np.arange(len(keys))
    position = int(share * (len(keys) - 1))
    kernel.select(values, rows, position)
    assert values.tolist() == [keys[row] for row in rows]
    assert max(values[:position], default=-1) <= min(values[position:])


@given(
    values=arrays(np.float64, (12, 3), elements=small_values),
    weights=arrays(np.float32, (12, 3), elements=st.sampled_from([0, 0.5, 1, 3])),
)
def test_widths_and_weights_equal_the_slow_twin(values, weights):
    problem = problem_of(values, weights, sets=(7,))  # the last axis is a set
    running = tally_of(problem, range(12))
    widths = [tally.width(running, problem.set_start, axis) for axis in range(3)]
    assert widths == [np.ptp(values[:, 0]), np.ptp(values[:, 1]), len(set(values[:, 2])) - 1]
    assert running[tally.WEIGHT] == pytest.approx(weights.astype(float).sum(axis=0))


@given(
    pressures=st.lists(st.sampled_from([0.0, 0.1, 1.0, 2.0, 7.0, 40.0]), min_size=1, max_size=4),
    boxes=st.integers(1, 9),
)
def test_least_cost_equals_a_convex_solver(pressures, boxes):
    values = np.array([[0.0] * len(pressures), pressures])
    weights = np.full((2, len(pressures)), 0.5, dtype=np.float32)
    problem = problem_of(values, weights)
    found = tally.least_cost(tally_of(problem, [0, 1]), problem.set_start, boxes, np.inf)
    s = np.array(pressures)
    solved = minimize(
        lambda u: float((s * np.exp(-u)).sum()),
        np.full(len(s), np.log(boxes) / len(s)),
        jac=lambda u: -s * np.exp(-u),
        bounds=[(0, None)] * len(s),
        constraints={"type": "ineq", "fun": lambda u: np.log(boxes) - u.sum(), "jac": lambda u: -np.ones(len(s))},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert found == pytest.approx(solved.fun, rel=1e-4, abs=1e-4)
    for limit in (0.5 * found, found, 1.5 * found + 0.1):  # infinite only if it is not below the limit
        limited = tally.least_cost(tally_of(problem, [0, 1]), problem.set_start, boxes, limit)
        assert limited == found or (limited == np.inf and found >= limit)


@given(values=arrays(np.float64, (30, 2), elements=small_values))
def test_hulls_are_the_extremes_of_each_leaf(values):
    order, starts, _ = leaves_of(problem_of(values, k=4))
    low, high = faces.hulls(values, order, starts)
    for leaf, (first, last) in enumerate(pairwise(starts)):
        inside = values[order[first:last]]
        assert (low[leaf] == inside.min(axis=0)).all()
        assert (high[leaf] == inside.max(axis=0)).all()


@given(values=arrays(np.float64, (40, 2), elements=st.floats(0, 100, width=32)))
def test_cells_fill_the_space_without_overlap_and_hold_their_records(require_subdivision, with_faces, values):
    require_subdivision(values, *leaves_of(problem_of(values, k=4), note=True))
    require_subdivision(values, *leaves_of(with_faces(problem_of(values, k=4)), note=True))


@given(values=arrays(np.float64, (8, 2), elements=st.floats(0, 100, width=32), unique=True), data=st.data())
def test_two_cells_are_the_cheapest_that_a_cut_in_the_middle_makes(with_faces, values, data):
    weights = data.draw(arrays(np.float32, (8, 2), elements=st.floats(0.125, 4.0, width=32)))
    order, starts, _ = leaves_of(with_faces(problem_of(values, weights, k=4)), note=True)
    costs = []
    for axis, other in ((0, 1), (1, 0)):
        rows = np.argsort(values[:, axis])
        cut = values[rows[3:5], axis].mean()
        a, b = weights[rows[:4]].sum(axis=0), weights[rows[4:]].sum(axis=0)
        costs.append((a[axis] * (cut + 1.0) + b[axis] * (101.0 - cut) + (a[other] + b[other]) * 102.0, set(rows[:4])))
    assert starts.tolist() == [0, 4, 8]
    cost = min(cost for cost, below in costs if below == set(order[:4]))  # both axes may make the same two sides
    assert cost == pytest.approx(min(cost for cost, _ in costs), rel=1e-5)


def test_equal_input_gives_equal_boxes():
    values = np.random.default_rng(4).normal(size=(5000, 3))
    first, again = (leaves_of(problem_of(values, k=5)) for _ in range(2))
    assert (first[0] == again[0]).all()
    assert (first[1] == again[1]).all()


def test_small_cells_are_on_average_nearly_as_cheap_as_the_best_kd_partition():
    numbers = np.random.default_rng(8)
    found, best = 0.0, 0.0
    for _ in range(50):
        values = numbers.integers(0, 9, (9, 2)).astype(float)
        order, starts, _ = leaves_of(problem_of(values, k=3, lookahead=16))
        found += sum(cost_of(values[order[a:b]]) for a, b in pairwise(starts))
        best += least_kd_cost(values, 3)
    assert best <= found <= 1.1 * best


def cost_of(records):
    return len(records) * np.ptp(records, axis=0).sum()


def least_kd_cost(records, k):
    """The best partition by axis-parallel cuts, by trying them all."""
    best = cost_of(records)
    for axis, cut in product(range(records.shape[1]), range(k, len(records) - k + 1)):
        ordered = records[np.argsort(records[:, axis], kind="stable")]
        best = min(best, least_kd_cost(ordered[:cut], k) + least_kd_cost(ordered[cut:], k))
    return best


@given(
    pressures=arrays(np.float64, st.integers(1, 40), elements=st.sampled_from([0.0, 1.0, 2.0, 3.5])),
    most=st.integers(1, 20),
)
def test_the_leading_axes_are_those_with_the_largest_pressure(pressures, most):
    marked = tally.leading(pressures, most)
    order = np.argsort(-pressures, kind="stable")[:most]
    assert np.flatnonzero(marked).tolist() == sorted(axis for axis in order if pressures[axis] > 0.0)


def test_the_least_cost_of_many_axes_cuts_the_leading_ones():
    draw = np.random.default_rng(5)
    values = np.vstack([np.zeros(40), draw.lognormal(size=40)])
    problem = problem_of(values)
    found = tally.least_cost(tally_of(problem, [0, 1]), problem.set_start, 8, np.inf)
    pressures = 2.0 * np.sort(values[1])[::-1]
    leading = problem_of(np.vstack([np.zeros(16), pressures[:16] / 2.0]))
    expected = tally.least_cost(tally_of(leading, [0, 1]), leading.set_start, 8, np.inf) + pressures[16:].sum()
    assert found == pytest.approx(expected)


def test_the_least_costs_of_many_rows_are_those_of_each_to_the_last_bit():
    """Else a table that is cut by Python would have other boxes than one that is cut by compiled code."""
    draw = np.random.default_rng(6)
    for axes in (1, 2, 3, 9, 16, 17, 30):
        widths = draw.lognormal(sigma=2.0, size=(60, axes)) * draw.integers(0, 3, (60, axes))
        boxes = draw.integers(1, 40, 60)
        problems = [problem_of(np.vstack([np.zeros(axes), row])) for row in widths]
        running = [tally_of(problem, [0, 1]) for problem in problems]
        pressures = np.array([one[tally.WEIGHT] * (one[tally.HIGH] - one[tally.LOW]) for one in running])
        found = tally.least_costs(pressures, boxes)
        for cost, one, count in zip(found, running, boxes.tolist(), strict=True):
            assert cost == tally.least_cost(one, problems[0].set_start, count, np.inf)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_width_that_is_infinite_is_no_place_outside_of_an_array(compiled):
    kernel = tally.least_cost if compiled else tally.least_cost.plain
    with np.errstate(all="ignore"), always_compiled():
        problem = problem_of(np.array([[-1e308, 0.0, 1.0], [1e308, 2.0, 5.0]]))
        running = tally_of(problem, [0, 1])
        assert not np.isfinite(kernel(running, problem.set_start, 8, np.inf))
    assert running[tally.WEIGHT].tolist() == [2.0, 2.0, 2.0]


@given(keys=arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([-1.0, 0.0, -0.0, 2.0, 3.0, 7.5])))
def test_the_commonest_value_equals_the_slow_twin(keys):
    values, counts = np.unique(keys, return_counts=True)
    value, count = kernel.commonest(keys)
    assert (value, count) == (values[np.argmax(counts)], counts.max())


def saved_per_bit(problem, axis, rows, is_left):
    """The slow twin of ``point_mass_gains``: cost before and after, per bit."""
    values, weights = problem.values[rows, axis], problem.weights[rows, axis].astype(float)
    is_set = axis >= problem.values.shape[1] - len(problem.set_start)
    if is_left.all() or not is_left.any():
        return 0.0

    def cost(chosen):
        part = values[chosen]
        return weights[chosen].sum() * (len(np.unique(part)) - 1 if is_set else np.ptp(part))

    share = is_left.mean()
    bits = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
    return (cost(np.ones(len(rows), bool)) - cost(is_left) - cost(~is_left)) / bits


@given(
    values=arrays(np.float64, st.tuples(st.integers(2, 30), st.just(2)), elements=small_values),
    weights=arrays(np.float32, st.tuples(st.just(30), st.just(2)), elements=st.floats(0.125, 4.0, width=32)),
    pick=st.integers(0, 1000),
)
def test_the_gain_of_a_cut_beside_a_value_equals_the_slow_twin(values, weights, pick):
    problem = problem_of(values, weights[: len(values)], sets=(7,))
    rows = np.arange(len(values))
    for axis in range(2):
        atom = values[pick % len(values), axis]
        found = kernel.point_mass_gains(
            problem.values, problem.weights, problem.set_start, tally_of(problem, rows), axis, rows, atom
        )
        own = values[:, axis]
        sides = (own < atom, own <= atom) if axis == 0 else (own == atom, np.zeros(len(own), bool))
        expected = [saved_per_bit(problem, axis, rows, side) for side in sides]
        assert found == pytest.approx(expected, abs=1e-6)


def test_open_axes_are_those_on_which_the_records_differ_and_trees_have_no_faces():
    values = np.array([[0.0, 0.0, 7.0, 0.0], [1.0, 1.0, 7.0, 1.0], [2.0, 0.0, 7.0, 0.0]])
    numbers_and_set = problem_of(values, sets=[2])
    pressures, bounds = np.array([1.0, 2.0, 0.0, 3.0]), np.array([[0.0, 0.0, 0.0], [2.0, 1.0, 9.0]])
    own = active_axes(numbers_and_set, np.array([2, 0]), pressures, bounds)
    assert own.axis.tolist() == [0, 1, 3]
    assert np.array_equal(own.values, values[[2, 0]][:, [0, 1, 3]])
    assert np.array_equal(own.bounds, bounds[:, :2])
    assert own.set_start.tolist() == [0]
    treed = numbers_and_set._replace(trees=covering.trees_of([None, np.array([1.0]), None]))
    own = active_axes(treed, np.array([2, 0]), pressures, bounds[:, :1])  # only the first axis has faces
    assert own.axis.tolist() == [0, 1, 2, 3]
    assert own.bounds.shape == (2, 1)
