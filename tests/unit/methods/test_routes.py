"""Blocks of a table that is cut from a sample: how even they are, and how small they may be."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.machine import SAMPLED, USUAL_SAMPLE, MemoryBudget
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
