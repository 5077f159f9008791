"""Blocks of a table that is cut from a sample: how even they are, and how small they may be."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.machine import SAMPLED, USUAL_SAMPLE, MemoryBudget
from sfumato.methods.partition import HashedGroups
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table

ROWS, BLOCK = 400_000, 5_000
ROLES = {"x": "quasi", "y": "quasi"}


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(0)
    return as_table({"x": draw.lognormal(0, 1, ROWS), "y": draw.normal(size=ROWS)})


def block_sizes(table, method, sample_rows):
    survey = MemorySurvey(table, block_rows=BLOCK, sample_rows=sample_rows, randomness=Randomness(1))
    plan = method.plan(survey, Schema.for_table(table, ROLES), Randomness(1))
    return np.bincount(plan.route(table, np.arange(ROWS, dtype=np.uint64)), minlength=plan.blocks)


@pytest.mark.parametrize("method", [sf.Boxes(k=5), sf.Microaggregate(k=5, kind="tree")], ids=["boxes", "groups"])
def test_the_sample_that_an_engine_draws_makes_even_blocks(table, method):
    """A sample of few rows for each block is the control."""
    even = block_sizes(table, method, SAMPLED * ROWS // BLOCK)
    uneven = block_sizes(table, method, 20 * ROWS // BLOCK)
    assert even.max() <= min(1.15 * np.median(even), BLOCK)
    assert uneven.max() > 1.5 * np.median(uneven)


@pytest.mark.parametrize("method", [sf.Boxes(k=500), sf.Microaggregate(k=500, kind="tree")], ids=["boxes", "groups"])
def test_blocks_hold_k_rows_and_are_not_larger_because_the_sample_has_few(table, method):
    sizes = block_sizes(table, method, 50 * ROWS // BLOCK * 2)
    assert sizes.min() >= 500
    assert sizes.max() <= 1.5 * BLOCK


def test_the_sample_grows_with_the_blocks_within_the_memory():
    memory = MemoryBudget(4 * 10**9, 4, 2)
    assert memory.sample_rows(50) == USUAL_SAMPLE
    assert memory.sample_rows(500) == 500 * SAMPLED
    assert memory.sample_rows(10**6) * 4 * 8 * 6 <= 4 * 10**9 // 8


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=30),
    few=st.integers(1, 8),
    most=st.integers(1, 50),
    least=st.integers(1, 20),
)
def test_a_group_is_divided_only_if_it_is_large_and_its_parts_can_stand(sizes, few, most, least):
    hashes = np.repeat(np.random.default_rng(1).integers(2**64, size=len(sizes), dtype=np.uint64), sizes)
    routes = HashedGroups.of(few, hashes, most, lambda rows: len(rows) >= least)
    block = routes.route(hashes, np.arange(len(hashes), dtype=np.uint64))
    assert block.min() >= 0 and block.max() < routes.blocks
    for group in np.unique(hashes):
        own = np.unique(block[hashes == group])
        size = int((hashes == group).sum())
        is_large = 4 * size > most
        assert bool(own[0] >= few) == is_large
        assert len(own) == 1 or (size > 2 * most and size >= least * len(own))
        assert not is_large or not np.isin(block[hashes != group], own).any()


CROWD = 36_000  # of 40,000 people who are equal
SAMPLED_BLOCKS = {"block_rows": 1000, "sample_rows": 20_000}


@pytest.fixture(scope="module", params=["many are ill", "one of the crowd is ill"])
def crowd(request):
    draw, crowd = np.random.default_rng(0), np.arange(40_000) < CROWD
    number = np.where(crowd, 7.0, draw.normal(size=len(crowd)).round(1))
    town = np.where(crowd, "Ulm", draw.choice(["Rom", "Oslo", "Bern"], len(crowd)))
    ill, first = draw.random(len(crowd)) < 0.5, np.arange(len(crowd)) == 0
    return as_table({"x": number, "y": town, "ill": first | (ill & ~crowd) if request.param.startswith("one") else ill})


METHODS = {"recode": sf.Recode(k=5, l=1), "recode with l": sf.Recode(k=5, l=2), "quantiles": sf.Quantiles(k=5, l=1)}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_the_group_of_most_people_is_divided_and_the_same_rows_are_released(method, crowd):
    given = {"schema": {**ROLES, "ill": "sensitive"}, "seed": 1}
    survey = MemorySurvey(crowd, randomness=Randomness(1), **SAMPLED_BLOCKS)
    plan = method.plan(survey, Schema.for_table(crowd, given["schema"]), Randomness(1))
    sizes = np.bincount(plan.route(crowd, np.arange(crowd.rows, dtype=np.uint64)), minlength=plan.blocks)
    assert sizes.max() < 2000
    engines = (Memory(**{**SAMPLED_BLOCKS, "block_rows": size}) for size in (crowd.rows, 1000))
    rows = [method.release(crowd, engine=engine, **given).table.to_arrow() for engine in engines]
    order = [(name, "ascending") for name in rows[0].column_names]
    assert rows[0].sort_by(order).equals(rows[1].sort_by(order))
