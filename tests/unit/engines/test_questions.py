"""A new question is one class: every engine can answer it, and batches give the answer of the whole table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.plan.questions import (
    CombinationsOf,
    DistinctIn,
    ExtremesOf,
    FactsOf,
    GroupSizesOf,
    MissingIn,
    MomentsOf,
    PartialAnswers,
    PointsOf,
    QuantilesOf,
    Question,
)
from sfumato.randomness import Randomness
from sfumato.table.table import Table

SALT = b"0123456789abcdef"


@dataclass(frozen=True)
class LongestText(Question[int]):
    """The number of characters of the longest cell of a column."""

    column: str

    @property
    def reads(self):
        return (self.column,)

    def of(self, batch):
        return max(map(len, batch.arrow.column(self.column).to_pylist()))

    def merge(self, one, other):
        return max(one, other)

    def finish(self, partial):
        return partial


def people(rows: int = 900) -> pa.Table:
    rng = np.random.default_rng(3)
    grades = pa.array(["low", "middle", "high"])
    return pa.table(
        {
            "age": rng.integers(18, 90, rows),
            "income": pa.array(rng.lognormal(10, 1, rows), mask=rng.random(rows) < 0.1),
            "town": pa.array(rng.choice(["Arles", "Brig", "Chamonix"], rows), mask=rng.random(rows) < 0.1),
            "grade": pa.DictionaryArray.from_arrays(rng.integers(0, 3, rows).astype(np.int32), grades, ordered=True),
        }
    ).sort_by([("town", "ascending")])


def test_a_new_question_is_answered_by_every_engine(tmp_path):
    pq.write_table(people().select(["age", "town"]).drop_null(), tmp_path / "in.parquet", row_group_size=100)
    question, roles = LongestText("town"), {"age": "quasi", "town": "other"}
    for engine in (Memory(), sf.DuckDB(memory="1GB", block_rows=100)):
        with engine.session(None) as running:
            survey = running.survey(running.open(tmp_path / "in.parquet", roles), Randomness(1))
            assert survey.ask([question, MissingIn("age")])[question] == len("Chamonix")


EXACT = [
    FactsOf("income"),
    FactsOf("town", count_distinct=True),
    FactsOf("grade", count_distinct=True),
    ExtremesOf("income"),
    MissingIn("town"),
]


@pytest.fixture(scope="module")
def both():
    """The table, and the partial answers of its batches put together in two steps."""
    table = Table.from_arrow(people())
    batches = [Table(table.arrow.slice(start, 100), table.kinds) for start in range(0, 900, 100)]

    def folded(question):
        parts = [PartialAnswers([question]).add(some) for some in (batches[:2], batches[2:])]
        return MemorySurvey(table).ask([question])[question], parts[0].merge(parts[1]).finish()[question]

    return folded


@pytest.mark.parametrize("question", EXACT, ids=repr)
def test_counts_and_extremes_of_batches_add_up(question, both):
    whole, folded = both(question)
    assert folded == whole


@pytest.mark.parametrize("column", ["town", "grade", "age", "income"])
@pytest.mark.parametrize("most", [None, 2])
def test_values_of_batches_add_up_in_their_order(column, most, both):
    whole, folded = both(DistinctIn(column, most))
    assert folded.values.equals(whole.values)
    assert folded.counts.tolist() == whole.counts.tolist()
    assert folded.is_complete == whole.is_complete


def test_groups_of_batches_add_up(both):
    whole, folded = both(GroupSizesOf(("age", "town")))
    assert (folded.sizes.tolist(), folded.groups.tolist()) == (whole.sizes.tolist(), whole.groups.tolist())


def test_numbers_of_batches_add_up(both):
    whole, folded = both(PointsOf("income"))
    assert (folded.values.tolist(), folded.weights.tolist()) == (whole.values.tolist(), whole.weights.tolist())
    assert folded.missing == whole.missing
    whole, folded = both(MomentsOf(("age", "income"), weight="age"))
    np.testing.assert_allclose(folded.covariance, whole.covariance, rtol=1e-9)
    whole, folded = both(QuantilesOf("income", (0.1, 0.5, 0.9)))
    np.testing.assert_allclose(folded, whole, rtol=0.05)
    whole, folded = both(PointsOf("income", epsilon=0.01))
    assert abs(folded.rows - whole.rows) == 0
    assert folded.error <= 0.01 * folded.rows


def test_combinations_of_batches_add_up(both):
    whole, folded = both(CombinationsOf((("age",), ("age", "town")), 64, SALT))
    assert [one.counts.tolist() for one in folded] == [one.counts.tolist() for one in whole]
