"""The memory engine answers exactly, and runs a plan in as many blocks as it likes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory.engine import MemorySurvey, run
from sfumato.errors import TableError
from sfumato.plan.answers import Extremes
from sfumato.plan.plan import Outcome, Plan
from sfumato.plan.questions import DistinctIn, ExtremesOf, FactsOf, GroupSizesOf, MomentsOf, PointsOf, QuantilesOf
from sfumato.table.table import Table

TABLE = Table.from_arrow(
    pa.table(
        {
            "x": [3.0, None, 1.0, 2.0],
            "w": [1.0, 1.0, 1.0, 3.0],
            "c": ["b", "a", None, "b"],
            "empty": pa.nulls(4, pa.float64()),
        }
    )
)
SURVEY = MemorySurvey(TABLE)


def asked(question):
    return SURVEY.ask([question])[question]


class TestSurvey:
    def test_the_sample_is_the_table(self):
        assert SURVEY.rows == 4
        assert SURVEY.sample.is_whole
        assert SURVEY.sample.share == 1.0
        assert SURVEY.sample.table.arrow.equals(TABLE.arrow)

    def test_a_partial_sample_knows_its_share_and_is_the_same_whoever_asks(self):
        survey = MemorySurvey(TABLE, sample_rows=1)
        assert survey.sample.share == 0.25
        assert not survey.sample.is_whole
        assert survey.sample.table.arrow.equals(survey.sample.table.arrow)

    def test_extremes_and_quantiles_leave_missing_cells_out(self):
        assert asked(ExtremesOf("x")) == Extremes(1.0, 3.0)
        assert asked(QuantilesOf("x", (0.0, 0.5, 1.0))).tolist() == [1.0, 2.0, 3.0]

    def test_a_column_of_missing_cells_has_neither(self):
        assert np.isnan([asked(ExtremesOf("empty")).low, asked(ExtremesOf("empty")).high]).all()
        assert np.isnan(asked(QuantilesOf("empty", (0.5,)))).all()

    def test_distinct_values_are_sorted_and_the_missing_one_is_last(self):
        distinct = asked(DistinctIn("c"))
        assert distinct.values.to_pylist() == ["a", "b", None]
        assert distinct.counts.tolist() == [1, 2, 1]
        assert distinct.is_complete

    def test_of_too_many_distinct_values_the_most_frequent_are_given_and_it_is_said(self):
        distinct = asked(DistinctIn("c", at_most=1))
        assert distinct.values.to_pylist() == ["b"]
        with pytest.raises(TableError, match="too many distinct values"):
            distinct.require_complete("c")

    def test_moments_are_weighted_and_over_complete_rows(self):
        moments = asked(MomentsOf(("x",), weight="w"))
        assert moments.records == 3
        assert moments.mean[0] == pytest.approx((3 + 1 + 3 * 2) / 5)
        assert moments.names == ("x",)

    def test_group_sizes_are_a_histogram(self):
        sizes = asked(GroupSizesOf(("c",)))
        assert (sizes.sizes.tolist(), sizes.groups.tolist()) == ([1, 2], [2, 1])
        assert (sizes.count, sizes.smallest, sizes.unique_rows) == (3, 1, 2)

    def test_points_are_exact_or_within_epsilon(self):
        assert asked(PointsOf("x")).values.tolist() == [1.0, 2.0, 3.0]
        assert asked(PointsOf("x", epsilon=0.1)).missing == 1

    def test_facts_count_distinct_values_where_asked_for(self):
        facts = asked(FactsOf("x", count_distinct=True))
        assert (facts.missing, facts.low, facts.high, facts.distinct) == (1, 1.0, 3.0, 3)
        assert asked(FactsOf("c")).distinct is None


class Halves(Plan):
    """Leaves the larger half of every block as it is."""

    claims = ()

    def __init__(self, block_of: list[int]) -> None:
        self.block_of = np.array(block_of, dtype=np.int64)

    @property
    def blocks(self) -> int:
        return int(self.block_of.max()) + 1

    def route(self, rows: Table, keys):
        return self.block_of[keys.astype(np.int64)]

    def transform(self, block: Table, number: int) -> Outcome:
        origin = np.argsort(-block.numbers("x"), kind="stable")[: (block.rows + 1) // 2]
        return Outcome(block.take(origin), origin)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=30))
def test_blocks_are_transformed_alone_and_rows_keep_their_origin(block_of):
    numbers = np.random.default_rng(5).permutation(len(block_of)).astype(float)
    outcome = run(Halves(block_of), Table.from_arrow(pa.table({"x": numbers})))
    expected = {
        row
        for block in set(block_of)
        for rows in [[row for row, mine in enumerate(block_of) if mine == block]]
        for row in sorted(rows, key=lambda row: -numbers[row])[: (len(rows) + 1) // 2]
    }
    assert set(outcome.origin.tolist()) == expected
    assert outcome.released.numbers("x").tolist() == numbers[outcome.origin].tolist()
