"""The search of combinations of levels: the same as trying all of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.methods.recode.global_recoding import grouped
from sfumato.methods.recodings.level_search import Clock, Evaluation, descend, search_levels


@st.composite
def lattices(draw):
    """Costs that grow with the level, and a promise that holds from some combinations up, with a loss above the sum."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = [np.cumsum(draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))) for size in sizes]
    order = [column - column[0] for column in order]
    least = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), min_size=0, max_size=3))
    extra = draw(st.integers(0, 2**31))
    return order, [(*one,) for one in least], extra


@dataclass
class Objective:
    order: Any
    evaluate: Any
    has_floors: bool = True
    is_monotone: bool = True


def judge_of(order, least, extra):
    seen = []

    def judge(levels):
        seen.append(levels)
        if not any(all(a >= b for a, b in zip(levels, one, strict=True)) for one in least):
            return Evaluation(holds=False, loss=math.inf)
        more = np.random.default_rng([extra, *levels]).random()
        return Evaluation(holds=True, loss=sum(c[l] for c, l in zip(order, levels, strict=True)) + more)

    return judge, seen


@given(lattices())
def test_the_best_of_all_combinations_is_found(problem):
    judge, _ = judge_of(*problem)
    found = search_levels(Objective(problem[0], judge))
    every = [judge(levels).loss for levels in itertools.product(*(range(len(column)) for column in problem[0]))]
    assert found.loss == min(every)
    assert found.is_best
    assert (found.levels is None) == math.isinf(min(every))
    assert found.counted <= len(every)


@given(lattices())
def test_without_monotony_and_floors_every_combination_is_counted(problem):
    judge, seen = judge_of(*problem)
    found = search_levels(Objective(problem[0], judge, has_floors=False, is_monotone=False))
    assert len(seen) == len(set(seen)) == math.prod(len(column) for column in problem[0])
    assert found.loss == min(judge(levels).loss for levels in set(seen))


@given(lattices())
def test_a_descent_from_the_top_ends_at_a_combination_that_holds(problem):
    order, least, extra = problem
    judge, _ = judge_of(order, [*least, tuple(len(column) - 1 for column in order)], extra)
    found = descend(tuple(len(column) - 1 for column in order), Objective(order, judge), Clock(None))
    assert judge(found.levels).loss == found.loss < math.inf


def test_a_search_that_is_out_of_time_says_so():
    order = [np.arange(4.0)] * 3
    judge, _ = judge_of(order, [(1, 2, 3)], 1)
    found = search_levels(Objective(order, judge), clock=Clock(1e-9))
    assert not found.is_best
    assert judge(found.levels).holds


@given(st.lists(st.tuples(st.integers(-5, 2**60), st.integers(0, 9)), max_size=60))
def test_groups_of_equal_keys(pairs):
    keys, counts = (np.array([pair[at] for pair in pairs], dtype=np.int64) for at in (0, 1))
    labels, sizes = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    found = grouped(keys, counts, labels, sizes)
    assert found == len(set(keys.tolist()))
    for key in set(keys.tolist()):
        label = set(labels[keys == key].tolist())
        assert len(label) == 1
        assert sizes[label.pop()] == counts[keys == key].sum()


def test_the_clock_is_not_over_without_a_limit():
    assert not Clock(None).is_over
    with pytest.raises(TypeError):
        Clock()
