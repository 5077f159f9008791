"""The kernels of the search against slow, obvious twins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.methods.boxes import cut_kernels as faces
from sfumato.methods.boxes import partition_kernels as kernel
from sfumato.methods.boxes import search_branch_kernels as search_branches
from sfumato.methods.boxes import search_branch_kernels as search_fitness
from sfumato.methods.boxes import search_group_kernels as search_groups
from sfumato.methods.boxes import search_tree_kernels as search_tree

small_values = st.integers(0, 6).map(float)
numbers = st.floats(-3, 3).map(lambda number: round(number, 2))
HULL = np.empty((2, 0))  # boxes have no bounds but their records
SETS = 7  # values of the categorical axis, the last one


def problem_of(values, *, k=3, l=1, protected=None, with_sets=False):
    rows, axes = values.shape
    sizes = np.array([SETS] if with_sets else [], dtype=np.int64)
    protected = np.empty((rows, 0)) if protected is None else protected
    weights = np.random.default_rng(5).random((rows, axes)).astype(np.float32) + np.float32(0.1)
    return kernel.PartitionProblem(
        values=values,
        weights=weights,
        set_start=np.cumsum(sizes) - sizes,
        set_words=int(sizes.sum()) // 64 + 1,
        scale=np.ptp(values, axis=0),
        protected=protected,
        separation=np.zeros(protected.shape[1]),
        k=k,
        l=l,
        lookahead=64,
        median=False,
    )


def fitness_of(problem, *, forms=0):
    """Random forms over the first two axes beside the weights."""
    random = np.random.default_rng(6)
    rows, x, y = len(problem.values), problem.values[:, 0], problem.values[:, min(1, problem.values.shape[1] - 1)]
    table = random.normal(size=(forms, 8))
    sampling, offset = random.random(rows) + 0.5, np.zeros(rows)
    for form in table:
        u, v = x - form[0], y - form[1]
        offset += form[2] + form[3] * u + form[4] * v + form[5] * u * u + form[6] * u * v + form[7] * v * v
    columns = np.tile([0, min(1, problem.values.shape[1] - 1)], (forms, 1)).astype(np.int64)
    return search_fitness.Fitness(problem.weights, sampling, sampling * offset, columns, table)


def tree_of(problem):
    rows = len(problem.values)
    order, begins, cuts = np.arange(rows), np.zeros(rows, dtype=np.bool_), np.zeros((rows, 4))
    kernel.split(problem, order, begins, cuts, faces.whole_space(problem.faces), 0, rows, 0)
    return order, begins, cuts


def labels_of(order, begins):
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = np.cumsum(begins) - 1
    return labels


def groups_of(labels):
    return {tuple(np.flatnonzero(labels == group)) for group in np.unique(labels)}


def slow_cost(problem, fitness, rows):
    """The cost of a box, by its definition."""
    inside, weights = problem.values[list(rows)], fitness.weights[list(rows)].astype(float).sum(axis=0)
    widths = np.ptp(inside, axis=0)
    if len(problem.set_start):
        widths[-1] = len(set(inside[:, -1])) - 1
    cost = float(weights @ widths)
    for columns, form in zip(fitness.columns, fitness.forms, strict=True):
        low, high = inside[:, columns].min(axis=0), inside[:, columns].max(axis=0)
        cost += fitness.sampling[list(rows)].sum() * search_fitness.highest(form, low[0], high[0], low[1], high[1])
    return cost - (fitness.offset[list(rows)].sum() if len(fitness.forms) else 0.0)


def cost_of(problem, fitness, labels):
    return sum(slow_cost(problem, fitness, rows) for rows in groups_of(labels))


def cells_cost(problem, fitness, order, begins, cuts):
    """The cost of cells of the space, by its definition."""
    starts = np.append(np.flatnonzero(begins), len(order))
    bounds = faces.cells(problem.faces, problem.values, order, starts, cuts, faces.whole_space(problem.faces))
    weights = np.add.reduceat(fitness.weights[order].astype(float), starts[:-1], axis=0)
    return float((weights * (bounds[:, 1] - bounds[:, 0])).sum())


def is_diverse(problem, rows):
    return all(len(set(column)) >= problem.l for column in problem.protected[list(rows)].T)


class TestFitness:
    @given(form=arrays(np.float64, 8, elements=numbers), corner=arrays(np.float64, 2, elements=numbers))
    def test_the_highest_value_of_a_form_is_not_exceeded_and_is_attained(self, form, corner):
        sides = [np.linspace(low, low + 2.0, 101) for low in corner]
        x, y = np.meshgrid(sides[0] - form[0], sides[1] - form[1])
        grid = form[2] + form[3] * x + form[4] * y + form[5] * x * x + form[6] * x * y + form[7] * y * y
        highest = search_fitness.highest(form, corner[0], corner[0] + 2.0, corner[1], corner[1] + 2.0)
        between = 0.01**2 * (abs(form[5]) + abs(form[6]) + abs(form[7]))  # a top is at most half a step from the grid
        assert grid.max() - 1e-9 <= highest <= grid.max() + between + 1e-9

    @given(
        values=arrays(np.float64, (12, 3), elements=small_values),
        forms=st.sampled_from([0, 1, 3]),
        with_sets=st.booleans(),
    )
    def test_the_cost_of_a_box_equals_the_slow_twin(self, values, forms, with_sets):
        problem = problem_of(values, with_sets=with_sets)
        fitness = fitness_of(problem, forms=forms)
        costs = search_fitness.box_costs(problem, fitness, np.arange(12), np.array([0, 3, 4, 12]))
        twins = [slow_cost(problem, fitness, range(*ends)) for ends in ((0, 3), (3, 4), (4, 12))]
        assert costs == pytest.approx(twins, rel=1e-5, abs=1e-5)

    @given(values=arrays(np.float64, (9, 2), elements=small_values))
    def test_a_box_without_width_costs_nothing(self, values):
        values[:] = values[0]
        problem = problem_of(values)
        costs = search_fitness.box_costs(problem, fitness_of(problem, forms=2), np.arange(9), np.array([0, 4, 9]))
        assert costs == pytest.approx([0.0, 0.0], abs=1e-9)


any_records = {
    "values": arrays(np.float64, (60, 3), elements=small_values),
    "protected": arrays(np.float64, (60, 1), elements=st.integers(0, 3).map(float)),
    "with_sets": st.booleans(),
    "forms": st.sampled_from([0, 2]),
    "l": st.sampled_from([1, 2]),
    "seed": st.integers(0, 9),
}


class TestGroups:
    @settings(max_examples=25)
    @given(**any_records)
    def test_exchange_holds_k_and_l_and_all_rows_and_never_costs_more(
        self, values, protected, with_sets, forms, l, seed
    ):
        problem = problem_of(values, l=l, protected=protected, with_sets=with_sets)
        fitness, start = fitness_of(problem, forms=forms), labels_of(*tree_of(problem)[:2])
        near = np.random.default_rng(seed).integers(0, 60, (60, 5))
        labels = search_groups.regroup(problem, fitness, start, near, 3, np.random.default_rng(seed))
        assert sorted(row for group in groups_of(labels) for row in group) == list(range(60))
        assert min(map(len, groups_of(labels))) >= problem.k
        if all(is_diverse(problem, group) for group in groups_of(start)):
            assert all(is_diverse(problem, group) for group in groups_of(labels))
        assert cost_of(problem, fitness, labels) <= cost_of(problem, fitness, start) + 1e-4

    def test_exchange_finds_the_groups_that_were_planted(self):
        random = np.random.default_rng(1)
        values = np.repeat(random.random((20, 2)) * 100.0, 3, axis=0) + random.random((60, 2))
        problem = problem_of(values)
        near = np.argsort(((values[:, None] - values) ** 2).sum(axis=2), axis=1)[:, 1:9]
        labels = np.arange(60) % 20  # every group has records from everywhere
        for _ in range(60):
            labels = search_groups.regroup(problem, fitness_of(problem), labels, near, 5, random)
        assert groups_of(labels) == {(row, row + 1, row + 2) for row in range(0, 60, 3)}

    def test_a_group_of_twice_k_can_become_two(self):
        values = np.concatenate([np.zeros((3, 2)), np.full((3, 2), 9.0), np.full((3, 2), 50.0)])
        problem = problem_of(values)
        near = np.tile(np.arange(9), (9, 1))
        labels = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
        labels = search_groups.regroup(problem, fitness_of(problem), labels, near, 9, np.random.default_rng(0))
        assert groups_of(labels) == {(0, 1, 2), (3, 4, 5), (6, 7, 8)}

    @settings(max_examples=25)
    @given(values=arrays(np.float64, (60, 2), elements=small_values), seed=st.integers(0, 99))
    def test_a_child_has_the_cheaper_parent_s_groups_in_every_region(self, values, seed):
        problem = problem_of(values)
        fitness, start = fitness_of(problem, forms=1), labels_of(*tree_of(problem)[:2])
        near = np.random.default_rng(seed).integers(0, 60, (60, 5))
        one, other = (
            search_groups.regroup(problem, fitness, start, near, 1, np.random.default_rng(seed + side))
            for side in (0, 1)
        )
        child = search_groups.cross_groups(problem, fitness, one, other)
        assert groups_of(child) <= groups_of(one) | groups_of(other)
        best = sum(min(costs) for costs in region_costs(problem, fitness, groups_of(one), groups_of(other)))
        assert cost_of(problem, fitness, child) == pytest.approx(best, rel=1e-5, abs=1e-4)

    @given(labels=arrays(np.int64, 30, elements=st.integers(0, 9)))
    def test_numbering_groups_anew_leaves_them_as_they_are(self, labels):
        dense = search_groups.numbered(labels)
        assert groups_of(dense) == groups_of(labels)
        assert sorted(set(dense)) == list(range(len(set(labels))))
        order, starts = search_groups.runs_of(dense)
        assert {tuple(sorted(order[a:b])) for a, b in pairwise(starts)} == groups_of(labels)


def region_costs(problem, fitness, ones, others):
    """What each parent pays in each region, the regions found by joining groups that meet until none do."""
    regions = [set(group) for group in ones]
    for group in others:
        joined = {row for region in regions if region & set(group) for row in region}
        regions = [region for region in regions if not region & set(group)] + [joined]
    for region in regions:
        yield tuple(
            sum(slow_cost(problem, fitness, group) for group in parent if set(group) <= region)
            for parent in (ones, others)
        )


def slow_subdivisions(problem, rows):
    """Every way to cut records down to boxes by cuts that are allowed, as tuples of boxes; ties stay in their order."""
    if len(rows) < 2 * problem.k:
        return [(tuple(rows),)]
    ways = []
    for axis in range(problem.values.shape[1]):
        ordered = sorted(rows, key=lambda row: problem.values[row, axis])
        for place in range(problem.k, len(rows) - problem.k + 1):
            sides = [slow_subdivisions(problem, part) for part in (ordered[:place], ordered[place:])]
            ways += [one + other for one in sides[0] for other in sides[1]]
    return ways


class TestBranches:
    @settings(max_examples=40)
    @given(
        values=arrays(np.float64, (7, 2), elements=st.floats(0, 9, width=32), unique=True),
        forms=st.sampled_from([0, 2]),
        records=st.integers(6, 7),
    )
    def test_two_boxes_are_the_cheapest_that_any_cut_makes(self, values, forms, records):
        problem = problem_of(values[:records])
        fitness, branch = fitness_of(problem, forms=forms), search_branches.empty_branch(records)
        cost = search_branches.lay_two(problem, fitness, np.arange(records), branch, HULL)
        ways = [
            sum(slow_cost(problem, fitness, box) for box in way) for way in slow_subdivisions(problem, range(records))
        ]
        assert cost == pytest.approx(min(ways), rel=1e-5, abs=1e-5)
        assert cost_of(problem, fitness, labels_of(branch.order, branch.begins)) == pytest.approx(
            cost, rel=1e-5, abs=1e-5
        )

    @settings(max_examples=20)
    @given(values=arrays(np.float64, (9, 2), elements=st.floats(0, 9, width=32), unique=True), seed=st.integers(0, 9))
    def test_when_all_cuts_are_followed_nothing_is_cheaper(self, values, seed):
        problem = problem_of(values)
        fitness, branch, generator = fitness_of(problem), search_branches.empty_branch(9), np.random.default_rng(seed)
        cost = search_branches.lay_best(
            problem, fitness, np.arange(9), 4, generator, np.inf, branch, np.array([10**6]), HULL
        )
        ways = [way for way in slow_subdivisions(problem, range(9)) if len(way) == 3]  # 2 axes × cuts at 3 and 6
        least = min(sum(slow_cost(problem, fitness, box) for box in way) for way in ways)
        assert cost == pytest.approx(least, rel=1e-5, abs=1e-5)
        none = search_branches.lay_best(
            problem, fitness, np.arange(9), 4, generator, 0.99 * cost, branch, np.array([10**6]), HULL
        )
        assert none == np.inf


class TestTrees:
    @settings(max_examples=25)
    @given(**any_records)
    def test_cutting_anew_holds_k_and_l_and_all_rows_and_never_costs_more(
        self, values, protected, with_sets, forms, l, seed
    ):
        problem = problem_of(values, l=l, protected=protected, with_sets=with_sets)
        fitness, (order, begins, cuts) = fitness_of(problem, forms=forms), tree_of(problem)
        start = labels_of(order, begins)
        search_tree.recut(problem, fitness, order, begins, cuts, 20, np.random.default_rng(seed))
        labels = labels_of(order, begins)
        assert sorted(order) == list(range(60))
        assert min(map(len, groups_of(labels))) >= problem.k
        if all(is_diverse(problem, group) for group in groups_of(start)):
            assert all(is_diverse(problem, group) for group in groups_of(labels))
        assert cost_of(problem, fitness, labels) <= cost_of(problem, fitness, start) + 1e-4

    @settings(max_examples=25)
    @given(values=arrays(np.float64, (60, 2), elements=st.floats(0, 100, width=32)), seed=st.integers(0, 9))
    def test_the_cells_of_a_tree_that_was_cut_anew_and_crossed_fill_the_space(self, require_subdivision, values, seed):
        problem = problem_of(values)
        fitness, one, other = fitness_of(problem), tree_of(problem), tree_of(problem)
        search_tree.recut(problem, fitness, *one, 20, np.random.default_rng(seed))
        search_tree.recut(problem, fitness, *other, 20, np.random.default_rng(seed + 1))
        search_tree.cross_trees(problem, fitness, *one, *other)
        order, begins, cuts = one
        require_subdivision(values, order, np.append(np.flatnonzero(begins), 60), cuts)

    @settings(max_examples=25)
    @given(values=arrays(np.float64, (60, 2), elements=st.floats(0, 100, width=32)), seed=st.integers(0, 9))
    def test_cells_that_are_cut_anew_and_crossed_fill_the_space_and_never_cost_more(
        self, require_subdivision, with_faces, values, seed
    ):
        problem = with_faces(problem_of(values))
        fitness, one, other = fitness_of(problem), tree_of(problem), tree_of(problem)
        costs = [cells_cost(problem, fitness, *one)]
        search_tree.recut(problem, fitness, *one, 20, np.random.default_rng(seed))
        search_tree.recut(problem, fitness, *other, 20, np.random.default_rng(seed + 1))
        costs.append(cells_cost(problem, fitness, *one))
        search_tree.cross_trees(problem, fitness, *one, *other)
        costs.append(cells_cost(problem, fitness, *one))
        assert costs[0] >= costs[1] - 1e-4
        assert costs[1] >= costs[2] - 1e-4
        require_subdivision(values, one[0], np.append(np.flatnonzero(one[1]), 60), one[2])

    @settings(max_examples=25)
    @given(values=arrays(np.float64, (60, 2), elements=small_values), seed=st.integers(0, 99))
    def test_a_child_has_the_cheaper_parent_s_branch_in_every_cell_that_both_have(self, values, seed):
        problem = problem_of(values)
        fitness, one, other = fitness_of(problem, forms=1), tree_of(problem), tree_of(problem)
        search_tree.recut(problem, fitness, *one, 4, np.random.default_rng(seed))
        search_tree.recut(problem, fitness, *other, 4, np.random.default_rng(seed + 1))
        best = least_cost(problem, fitness, one, other, 0, 60)
        search_tree.cross_trees(problem, fitness, *one, *other)
        found = search_tree.runs_cost(problem, fitness, one[0], one[1], np.empty((len(one[0]), 2, 0)))
        assert found == pytest.approx(best, rel=1e-5, abs=1e-4)

    @given(values=arrays(np.float64, (40, 2), elements=small_values), place=st.integers(0, 39), most=st.integers(1, 60))
    def test_the_cell_around_a_record_is_the_largest_that_is_small_enough(self, values, place, most):
        problem = problem_of(values)
        _, begins, cuts = tree_of(problem)
        marks = np.append(np.flatnonzero(begins), 40)
        cells = {(int(first), int(last)) for first, last in pairwise(marks)}
        cells |= {(int(cuts[mark, 2]), int(cuts[mark, 3])) for mark in marks[1:-1]}
        around = [(first, last) for first, last in cells if first <= place < last]
        fitting = [cell for cell in around if cell[1] - cell[0] <= most] or [
            min(around, key=lambda cell: cell[1] - cell[0])
        ]
        found = search_tree.outer_cell(begins, cuts, place, most)
        assert found == max(fitting, key=lambda cell: cell[1] - cell[0])


def least_cost(problem, fitness, one, other, first, last):
    """The least cost of a cell of two trees if whole branches may be exchanged where both hold the same records."""
    whole = [
        sum(
            slow_cost(problem, fitness, order[a:b])
            for a, b in pairwise([first, *(first + 1 + np.flatnonzero(begins[first + 1 : last])), last])
        )
        for order, begins, _ in (one, other)
    ]
    cut, others_cut = (search_tree.inner_cut(tree[1], tree[2], first, last) for tree in (one, other))
    if cut == others_cut < last and set(one[0][first:cut]) == set(other[0][first:cut]):
        parts = ((first, cut), (cut, last))
        return sum(least_cost(problem, fitness, one, other, *part) for part in parts)
    return min(whole)
