"""Junction trees and messages against the full joint table, which a child could sum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.private_synthesis.graphical_model import GraphicalModel
from sfumato.methods.private_synthesis.junction_tree import build_junction_tree, count_tree_cells


@st.composite
def structures(draw, largest=6):
    """Sizes of attributes, and marginals of one to three of them."""
    count = draw(st.integers(1, largest))
    sizes = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    one = st.sets(st.integers(0, count - 1), min_size=1, max_size=min(3, count)).map(lambda some: tuple(sorted(some)))
    return sizes, draw(st.lists(one, min_size=0, max_size=8, unique=True))


def joint_table(sizes, marginals, parameters):
    """The slow twin: every cell of the whole table."""
    table = np.zeros(sizes)
    for clique, own in zip(marginals, parameters, strict=True):
        table += own.reshape([size if place in clique else 1 for place, size in enumerate(sizes)])
    return np.exp(table)


def sum_onto(table, clique):
    return table.sum(axis=tuple(axis for axis in range(table.ndim) if axis not in clique))


class TestJunctionTree:
    @given(structures(largest=8))
    def test_every_marginal_is_in_a_clique_and_every_attribute_is_connected(self, structure):
        sizes, marginals = structure
        tree = build_junction_tree(sizes, marginals)
        assert all(any({*one} <= {*clique} for clique in tree.cliques) for one in marginals)
        assert {attribute for clique in tree.cliques for attribute in clique} == set(range(len(sizes)))
        for attribute in range(len(sizes)):  # the running intersection property
            holding = [place for place, clique in enumerate(tree.cliques) if attribute in clique]
            tops = [place for place in holding if attribute not in tree.separators[place]]
            assert len(tops) == 1

    @given(structures(largest=8))
    def test_parents_come_first_and_no_clique_is_part_of_another(self, structure):
        tree = build_junction_tree(*structure)
        assert tree.parents[0] == -1
        assert all(0 <= parent < place for place, parent in enumerate(tree.parents) if place)
        assert not any({*one} <= {*other} for one, other in itertools.permutations(tree.cliques, 2))

    def test_a_cycle_of_four_is_cut_at_the_cheaper_diagonal(self):
        sizes = [2, 10, 2, 10]
        assert count_tree_cells(sizes, [(0, 1), (1, 2), (2, 3), (0, 3)]) == 2 * (2 * 10 * 2)

    def test_the_way_between_attributes_is_the_shortest(self):
        tree = build_junction_tree([2] * 5, [(0, 1), (1, 2), (2, 3), (3, 4)])
        way = [tree.cliques[place] for place in tree.path(0, 4)]
        assert way == [(0, 1), (1, 2), (2, 3), (3, 4)]


class TestGraphicalModel:
    @settings(deadline=None)
    @given(structures(), st.integers(0, 2**32 - 1))
    def test_probabilities_are_those_of_the_joint_table(self, structure, seed):
        sizes, marginals = structure
        generator = np.random.default_rng(seed)
        parameters = [generator.normal(0.0, 3.0, [sizes[one] for one in clique]) for clique in marginals]
        found = GraphicalModel(sizes, marginals).calibrate(parameters)
        table = joint_table(sizes, marginals, parameters)
        assert found.log_partition == pytest.approx(math.log(table.sum()))
        for clique, own in zip(marginals, found.marginals, strict=True):
            np.testing.assert_allclose(own, sum_onto(table, clique) / table.sum(), rtol=1e-9, atol=1e-15)

    @settings(deadline=None)
    @given(structures(), st.integers(0, 2**32 - 1))
    def test_so_are_those_of_pairs_that_no_clique_has(self, structure, seed):
        sizes, marginals = structure
        generator = np.random.default_rng(seed)
        parameters = [generator.normal(0.0, 2.0, [sizes[one] for one in clique]) for clique in marginals]
        found = GraphicalModel(sizes, marginals).calibrate(parameters)
        table = joint_table(sizes, marginals, parameters)
        for clique in [*itertools.combinations(range(len(sizes)), 2), *((one,) for one in range(len(sizes)))]:
            np.testing.assert_allclose(found.marginal(clique), sum_onto(table, clique) / table.sum(), atol=1e-12)

    def test_a_cell_that_nobody_is_in_does_not_end_in_nothing(self):
        parameters = [np.array([[0.0, -1e6], [-1e6, 0.0]]), np.array([[0.0, -1e6], [-1e6, 0.0]])]
        found = GraphicalModel([2, 2, 2], [(0, 1), (1, 2)]).calibrate(parameters)
        np.testing.assert_allclose(found.marginal((0, 2)), np.eye(2) / 2.0, atol=1e-20)
