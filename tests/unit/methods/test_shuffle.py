"""Data shuffling: rank correlations are kept, for mixed columns too, and rows are independent of the original's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.shuffle import normal_correlations, possible_correlations
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

ROWS = 3000


@pytest.fixture(scope="module")
def mixed():
    draw = np.random.default_rng(0)
    first, second, third = draw.normal(size=(3, ROWS))
    lost = draw.random(ROWS) < 0.5 / (1.0 + np.exp(-2.0 * first))
    return pd.DataFrame(
        {
            "x": np.exp(first),
            "zero": np.maximum(first + second, 0.0),
            "member": first + second > 0.5,
            "city": pd.cut(first + 0.5 * third, [-9, -1, 0, 1, 9], labels=list("dbca")).astype(str),
            "lost": np.where(lost, np.nan, first + third),
        }
    )


def correlations(frame):
    coded = frame.assign(city=frame.city.map(dict(zip("dbca", range(4), strict=True))), gone=frame.lost.isna())
    return coded.astype(float).corr("spearman").fillna(0.0).to_numpy()


def released(frame, method=None, seed=1):
    roles = dict.fromkeys(frame, "quasi")
    return (method or sf.Shuffle()).release(frame, schema=roles, seed=seed).to_pandas()[list(frame)]


def test_rank_correlations_of_mixed_columns_are_kept(mixed):
    shuffled = released(mixed)
    difference = np.abs(correlations(shuffled) - correlations(mixed))
    assert difference.max() < 0.03
    # control: a plain swap loses them
    plain = released(mixed, sf.Swap(kind="plain"))
    assert np.abs(correlations(plain) - correlations(mixed)).max() > 0.5


def test_given_columns_stay_and_keep_their_relations(mixed):
    shuffled = released(mixed, sf.Shuffle(given=("x", "city")))
    assert np.abs(correlations(shuffled) - correlations(mixed)).max() < 0.03
    kept = [frame.sort_values("x").reset_index(drop=True)[["x", "city"]] for frame in (mixed, shuffled)]
    pd.testing.assert_frame_equal(*kept, check_dtype=False)


def test_a_released_row_stands_for_nobody(mixed):
    def near_its_original(method):
        """The share of rows whose released ranks are all within one per cent of their original ones."""
        table = Table.from_arrow(pa.Table.from_pandas(mixed[["x", "zero"]]))
        schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
        outcome = method.plan(MemorySurvey(table), schema, Randomness(1)).transform(table, 0)
        before, after = (
            pd.DataFrame(one.matrix(table.names)).rank().to_numpy() / ROWS
            for one in (table.take(outcome.origin), outcome.released)
        )
        return float((np.abs(after - before) < 0.01).all(axis=1).mean())

    by_chance = float(((mixed["zero"] == 0.0).mean() ** 2 + 0.02) * 0.02)
    assert near_its_original(sf.Shuffle()) < 2.0 * by_chance
    assert near_its_original(sf.Swap(window=0.01)) > 0.5  # control


def test_one_column_and_more_columns_than_rows_are_shuffled():
    draw = np.random.default_rng(2)
    for columns in (1, 12):
        people = pd.DataFrame(draw.normal(size=(8, columns)), columns=[f"x{i}" for i in range(columns)])
        shuffled = released(people)
        assert all(np.array_equal(np.sort(shuffled[name]), np.sort(people[name])) for name in people)


def test_blocks_keep_marginals_and_correlations(mixed):
    from sfumato.engines.memory.engine import Memory

    made = sf.Shuffle().release(
        mixed, schema=dict.fromkeys(mixed, "quasi"), seed=1, engine=Memory(block_rows=500, sample_rows=400)
    )
    assert any(finding.claim.startswith("every value is in as many rows") for finding in made.findings)
    assert np.abs(correlations(made.to_pandas()[list(mixed)]) - correlations(mixed)).max() < 0.05


class TestCorrelations:
    def test_normal_columns_have_the_rank_correlation_that_was_asked_for(self):
        wanted = np.array([[1.0, 0.6], [0.6, 1.0]])
        rows = np.random.default_rng(3).multivariate_normal([0, 0], normal_correlations(wanted), 200_000)
        assert pd.DataFrame(rows).corr("spearman").iloc[0, 1] == pytest.approx(0.6, abs=0.005)

    def test_impossible_correlations_become_possible_ones(self):
        impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
        found = possible_correlations(impossible)
        assert np.linalg.eigvalsh(found).min() > -1e-12
        assert np.diag(found) == pytest.approx(np.ones(3))
        possible = np.array([[1.0, 0.5], [0.5, 1.0]])
        assert np.array_equal(possible_correlations(possible), possible)
