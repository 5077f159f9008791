"""A forest of components that depend on each other in pairs, and swaps along it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.spectral.forest import NEAR, Edge, dependence_forest, dependences, swap_along_forest
from sfumato.methods.spectral.swap import ScoreSwap

ROWS = 2000


def scores(rows=ROWS):
    """The third follows the square of the first, the fifth the sign of the third; all are uncorrelated."""
    draw = np.random.default_rng(6)
    made = draw.normal(size=(rows, 6))
    made[:, 2] = made[:, 0] ** 2 + 0.3 * draw.normal(size=rows)
    made[:, 4] = np.abs(made[:, 4]) * np.where(made[:, 2] > 1.0, 1.0, -1.0)
    return (made - made.mean(axis=0)) / made.std(axis=0)


def test_the_pairs_are_found_and_no_others():
    assert set(dependence_forest(scores())) == {Edge(0, 2), Edge(2, 4)}
    independent = np.random.default_rng(1).normal(size=(ROWS, 30))
    assert dependence_forest(independent) == ()


def test_mutual_information_is_that_of_the_formula():
    made = scores(400)
    bins = 7  # √(400 / 8)
    codes = made.argsort(axis=0).argsort(axis=0) * bins // 400
    slow = 0.0
    for one in range(bins):
        for other in range(bins):
            both = np.mean((codes[:, 0] == one) & (codes[:, 2] == other))
            if both:
                slow += both * np.log(both / np.mean(codes[:, 0] == one) / np.mean(codes[:, 2] == other))
    assert dependences(made)[0, 2] == pytest.approx(slow)
    assert dependences(made)[1, 3] == 0.0


def test_chance_is_found_as_seldom_as_it_should_be():
    draw = np.random.default_rng(3)
    found = [bool(dependence_forest(draw.normal(size=(200, 8)))) for _ in range(100)]
    assert sum(found) <= 6  # 1 % on average; 6 of 100 with a probability below 0.001


def test_a_swap_keeps_values_and_the_relations_of_the_forest():
    made = scores()
    swapped = swap_along_forest(made, np.random.default_rng(2))
    assert np.sort(swapped, axis=0) == pytest.approx(np.sort(made, axis=0))
    plain = ScoreSwap(repair=False, tolerance=1.0)(made, np.random.default_rng(2))
    squares = [np.corrcoef(one[:, 0] ** 2, one[:, 2])[0, 1] for one in (made, swapped, plain)]
    assert squares[1] > 0.9 * squares[0] and abs(squares[2]) < 0.1  # the last one is the control
    assert abs(np.corrcoef(swapped[:, 0], swapped[:, 1])[0, 1]) < 0.1


def test_no_row_has_two_related_scores_of_one_person():
    made = scores()
    swapped = swap_along_forest(made, np.random.default_rng(2))
    person = [np.argsort(made[:, c])[np.searchsorted(np.sort(made[:, c]), swapped[:, c])] for c in (0, 2, 4)]
    assert not (person[0] == person[1]).any() and not (person[1] == person[2]).any()
    assert len(np.unique(person[2])) == ROWS


@pytest.mark.parametrize("shape", [(3, 2), (NEAR + 1, 4), (40, 39)])
def test_few_rows_are_swapped_as_independent(shape):
    made = np.random.default_rng(5).normal(size=shape)
    assert dependence_forest(made) == ()
    assert swap_along_forest(made, np.random.default_rng(2)).shape == shape
