"""The search of the joint counts: exact where it says so, monotone, and never worse than the budget of the paper."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.generalize import joint_search
from sfumato.methods.generalize.joint_search import (
    EffectiveCombinations,
    SmallGroups,
    least_lossy,
    loss_of,
    refinement_chain,
)
from sfumato.methods.generalize.method import Generalize
from sfumato.methods.recodings.group_rules import GroupRules
from sfumato.methods.recodings.groupings import Groupings, JointCounts, group_by_pooling, group_by_tree, weight_columns
from sfumato.methods.recodings.level_search import SumOfLosses, choose_levels, search_levels
from sfumato.plan.questions import Distinct
from sfumato.randomness import Randomness
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table


def grouped(values: np.ndarray, name: str = "x") -> Groupings:
    """A column of whole numbers with a tree of pairs, fours, …"""
    present = np.unique(values)
    size = int(present.max()) + 1
    levels = max(1, (size - 1).bit_length())
    lines = [[str(value), *(f"{level}:{value >> level}" for level in range(1, levels)), "*"] for value in range(size)]
    tree = Tree.of(lines)
    codes = np.searchsorted(present, values).astype(np.int32)
    distinct = Distinct(pa.array([str(value) for value in present]), np.bincount(codes))
    return group_by_tree(name, codes, distinct, tree)


def columns_of(*values: np.ndarray) -> tuple[Groupings, ...]:
    return weight_columns([grouped(one, f"c{place}") for place, one in enumerate(values)], [1.0] * len(values))


def small_tables():
    rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 1)), min_size=4, max_size=40)
    return rows.map(lambda cells: columns_of(*np.array(cells).T))


def slow_share_alike(columns, recodings, k):
    """The twin: count equal rows one by one."""
    rows = list(
        zip(
            *(groups[column.value_of_row].tolist() for column, groups in zip(columns, recodings, strict=True)),
            strict=True,
        )
    )
    return sum(rows.count(row) >= k for row in rows) / len(rows)


def slow_best_loss(columns, k, beta):
    """The twin: global recoding by trying every combination of levels."""
    tried = itertools.product(*(column.levels for column in columns))
    held = [recodings for recodings in tried if slow_share_alike(columns, recodings, k) >= 1.0 - beta]
    return min(loss_of(columns, recodings) for recodings in held)


@given(small_tables(), st.integers(1, 4), st.sampled_from([0.05, 0.2, 0.5]))
def test_never_worse_than_the_best_of_all_combinations_of_levels(columns, k, beta):
    found = least_lossy(columns, GroupRules(k=k), beta)
    assert slow_share_alike(columns, found, k) >= 1.0 - beta
    assert loss_of(columns, found) <= slow_best_loss(columns, k, beta) + 1e-12


@given(small_tables(), st.integers(1, 4), st.floats(0.05, 0.5))
def test_the_search_of_levels_is_exact(columns, k, beta):
    counts = JointCounts.of(columns)
    losses = [np.array([column.loss(level) for level in column.levels]) for column in columns]

    def recodings(levels):
        return [column.levels[level] for column, level in zip(columns, levels, strict=True)]

    objective = SumOfLosses(
        losses, lambda levels: counts.share_allowed(recodings(levels), GroupRules(k=k)) >= 1.0 - beta
    )
    assert loss_of(columns, recodings(search_levels(objective).levels)) == pytest.approx(
        slow_best_loss(columns, k, beta)
    )


def test_predictive_tagging_tries_few_combinations():
    rng = np.random.default_rng(0)
    columns = columns_of(*(rng.integers(0, 16, 2_000) for _ in range(4)))
    counts, tried = JointCounts.of(columns), []

    def holds(levels):
        tried.append(levels)
        return (
            counts.share_allowed([c.levels[at] for c, at in zip(columns, levels, strict=True)], GroupRules(k=5)) >= 0.95
        )

    losses = [np.array([column.loss(level) for level in column.levels]) for column in columns]
    search_levels(SumOfLosses(losses, holds))
    assert len(tried) == len(set(tried)) < 0.3 * 5**4


@given(small_tables(), st.integers(1, 4))
def test_joint_counts_are_those_of_the_rows(columns, k):
    for recodings in itertools.islice(itertools.product(*(column.levels for column in columns)), 8):
        assert JointCounts.of(columns).share_allowed(recodings, GroupRules(k=k)) == pytest.approx(
            slow_share_alike(columns, recodings, k)
        )


@given(small_tables())
def test_every_step_of_a_chain_is_finer_and_loses_less(columns):
    rows = len(columns[0].value_of_row)
    for risk in (SmallGroups(k=2, rows=rows), EffectiveCombinations(rows=rows, most=1e6)):
        chain = refinement_chain(columns, risk)
        candidates = [chain.groups(columns, steps) for steps in range(len(chain) + 1)]
        for coarse, fine in itertools.pairwise(candidates):
            assert loss_of(columns, fine) < loss_of(columns, coarse)
            for one, other in zip(coarse, fine, strict=True):  # equal in the finer one: equal in the coarser one
                assert len(set(zip(one.tolist(), other.tolist(), strict=True))) == other.max() + 1


def test_levels_are_left_out_where_there_are_too_many_combinations():
    columns = columns_of(*(np.arange(64) for _ in range(3)))
    kept = choose_levels(columns, 60)
    assert np.prod([len(levels) for levels in kept]) <= 60
    assert all(levels[0] == 0 and levels[-1] == 6 for levels in kept)
    assert choose_levels(columns, 7) is None


def test_rare_categories_are_pooled_in_nested_levels():
    distinct = Distinct(pa.array(list("abcde")), np.array([5, 1, 9, 2, 2]))
    column = group_by_pooling("x", np.zeros(19, dtype=np.int32), distinct)
    kept = [{value for value, pool in zip("abcde", covered > 1, strict=True) if not pool} for covered in column.covered]
    assert kept == [set("abcde"), set("acd"), set("ac"), set("c"), set()]
    assert column.recode(column.levels[2]).cells.to_pylist() == ["a", "other", "c", "other", "other"]


def people(rows=1_500, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    return as_table(
        pa.table(
            {
                "age": age,
                "job": np.where(rng.random(rows) < 0.9, age // 12, rng.integers(0, 9, rows)).astype(str),
                "city": rng.choice(["rome", "bonn", "oslo", "lyon", "graz"], rows, p=[0.4, 0.35, 0.15, 0.09, 0.01]),
                "pay": pa.array(np.round(rng.lognormal(7, 1, rows), 2), mask=rng.random(rows) < 0.05),
            }
        )
    )


ROLES = {"age": {"role": "quasi", "tree": "steps:5,10,20,40"}, "job": "quasi", "city": "quasi", "pay": "quasi"}


def notes(table, **options):
    return Generalize(**options).plan(MemorySurvey(table), Schema.for_table(table, ROLES), Randomness(1)).notes


@pytest.mark.parametrize(
    ("population", "seed"), [(None, 0), (1_500, 2), pytest.param(100_000, 0, marks=pytest.mark.slow)]
)
def test_a_larger_beta_or_a_smaller_k_never_gives_less(population, seed):
    table = people(seed=seed)
    reached = np.array(
        [
            [notes(table, k=k, beta=beta, population=population)["granularity"] for beta in (0.01, 0.1, 0.11, 0.3)]
            for k in (2, 3, 12, 40)
        ]
    )
    assert (np.diff(reached, axis=1) >= 0).all()
    assert (np.diff(reached, axis=0) <= 0).all()


@pytest.mark.parametrize("population", [None, 100_000])
@pytest.mark.parametrize("k", [3, 10])
def test_the_search_never_ends_below_the_budget_of_the_paper(population, k):
    for seed in range(2):
        paper, joint = (
            notes(people(seed=seed), k=k, beta=0.1, population=population, budget=budget)
            for budget in ("exact", "joint")
        )
        assert joint["granularity"] >= paper["granularity"]
        assert joint["share of rows that match k people, at least"] >= 0.9


def test_a_column_that_follows_from_another_costs_nothing():
    """The product of the sizes counts 40 × 40 combinations; the joint counts see that there are only 40."""
    first = np.repeat(np.arange(40), 25)
    table = as_table(pa.table({"code": [f"a{one}" for one in first], "same": [f"b{one}" for one in first]}))
    schema = Schema.for_table(table, {"code": "quasi", "same": "quasi"})
    paper, joint = (
        Generalize(k=20, budget=budget).plan(MemorySurvey(table), schema, Randomness(1)).notes["granularity"]
        for budget in ("exact", "joint")
    )
    assert joint == 1.0
    assert paper < 0.5


def test_the_released_rows_say_the_same_as_the_plan():
    table = people()
    release = Generalize(k=5, beta=0.05).release(table, schema=ROLES, seed=1)
    assert release.table.rows >= 0.95 * table.rows
    assert release.manifest.notes["granularity"] == notes(table, k=5, beta=0.05)["granularity"]


def test_a_chain_is_planned_on_some_rows_of_a_large_table(monkeypatch):
    monkeypatch.setattr(joint_search, "PLANNED_ROWS", 200)
    rng = np.random.default_rng(1)
    columns = columns_of(*(rng.integers(0, 8, 1_000) for _ in range(3)))
    found = least_lossy(columns, GroupRules(k=5), 0.1)
    assert slow_share_alike(columns, found, 5) >= 0.9
