"""Boxes along one axis against all partitions there are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.methods.boxes.cut_kernels import cheapest_ends, note_line_cuts


def cost(values, weights, ends) -> float:
    starts = [0, *ends[:-1]]
    return sum(sum(weights[a:b]) * (values[b - 1] - values[a]) for a, b in zip(starts, ends, strict=True))


def slow_cheapest(values, weights, k) -> float:
    """The least cost over all ways to cut sorted values into runs of at least k."""
    count, best = len(values), np.inf
    for cuts in range(count // k):
        for places in combinations(range(1, count), cuts):
            ends = [*places, count]
            if all(b - a >= k for a, b in zip([0, *places], ends, strict=True)):
                best = min(best, cost(values, weights, ends))
    return best


@given(
    st.integers(1, 4).flatmap(
        lambda k: st.tuples(
            st.just(k),
            st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=k, max_size=11),
        )
    )
)
def test_no_other_groups_cost_less(case):
    k, records = case
    values = np.sort(np.array([value for value, _ in records], dtype=np.float64))
    weights = np.array([weight for _, weight in records], dtype=np.float64)
    ends = cheapest_ends(values, values, weights, k).tolist()
    assert ends[-1] == len(values)
    assert min(np.diff([0, *ends])) >= k
    assert cost(values, weights, ends) == pytest.approx(slow_cheapest(values, weights, k))


@pytest.mark.parametrize("weight", [np.inf, np.nan, 0.0])
def test_groups_have_k_records_whatever_the_weights(weight):
    ends = cheapest_ends(np.arange(7.0), np.arange(7.0), np.full(7, weight), 3).tolist()
    assert ends[-1] == 7
    assert min(np.diff([0, *ends])) >= 3


@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=4, max_size=10))
def test_no_other_groups_cost_less_between_given_faces(k, records):
    """Faces beside the values, as cells have them: the width of a group of one record need not be 0."""
    values = np.sort(np.array([value for value, _ in records], dtype=np.float64))
    lower = values - np.array([margin for _, margin in records])
    upper, weights = values + 1.0, np.ones(len(values))
    ends = cheapest_ends(lower, upper, weights, k)

    def cost_between(ends):
        return sum((b - a) * (upper[b - 1] - lower[a]) for a, b in zip([0, *ends[:-1]], ends, strict=True))

    ways = [
        [*places, len(values)]
        for cuts in range(len(values) // k)
        for places in combinations(range(1, len(values)), cuts)
        if all(k <= b - a < 2 * k for a, b in zip([0, *places], [*places, len(values)], strict=True))
    ]
    if ways:
        assert cost_between(ends.tolist()) == pytest.approx(min(map(cost_between, ways)))


def test_cuts_are_noted_as_a_tree_whose_cells_nest():
    values, starts = np.arange(20.0), np.array([0, 3, 7, 10, 14, 20])
    cuts = np.full((20, 4), np.nan)
    note_line_cuts(values, starts, 2, cuts)
    for place in starts[1:-1]:
        axis, value, first, last = cuts[place]
        assert (axis, value) == (2, place - 0.5)
        assert first < place < last
    assert np.isnan(cuts[[1, 2, 4, 5, 6, 8]]).all()


def test_one_column_is_released_in_the_cheapest_boxes_and_beats_the_greedy_ones():
    draw = np.random.default_rng(1)
    people = {"x": draw.lognormal(size=500), "y": draw.normal(size=500)}
    one = sf.Boxes(k=2, keep=["mean(x)"], others=0.0).release(people, schema={"x": "quasi", "y": "quasi"}, seed=1)
    width = (one.table.numbers("x_high") - one.table.numbers("x_low")).mean()
    assert width < 0.9 * greedy_width(np.sort(people["x"]))


def greedy_width(values) -> float:
    """The mean width of pairs of neighbours."""
    return float((values[1::2] - values[::2]).mean())
