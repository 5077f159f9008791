"""The memory engine answers exactly, and runs a plan in as many blocks as it likes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.engines.memory import MemorySurvey, run
from sfumato.methods.base import Outcome, Plan
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


class TestSurvey:
    def test_the_sample_is_the_table(self):
        assert SURVEY.rows == 4
        assert SURVEY.sample(["c"]).arrow.equals(TABLE.arrow.select(["c"]))

    def test_extremes_and_quantiles_leave_missing_cells_out(self):
        assert SURVEY.extremes("x") == (1.0, 3.0)
        assert SURVEY.quantiles("x", [0.0, 0.5, 1.0]).tolist() == [1.0, 2.0, 3.0]

    def test_a_column_of_missing_cells_has_neither(self):
        assert np.isnan(SURVEY.extremes("empty")).all()
        assert np.isnan(SURVEY.quantiles("empty", [0.5])).all()

    def test_distinct_values_are_sorted_and_the_missing_one_is_last(self):
        distinct = SURVEY.distinct("c")
        assert distinct.values.to_pylist() == ["a", "b", None]
        assert distinct.counts.tolist() == [1, 2, 1]

    def test_moments_are_weighted_and_over_complete_rows(self):
        moments = SURVEY.moments(["x"], weight="w")
        assert moments.records == 3
        assert moments.mean[0] == pytest.approx((3 + 1 + 3 * 2) / 5)
        assert moments.names == ("x",)

    def test_counts_are_sizes_of_groups(self):
        assert sorted(SURVEY.counts(["c"]).tolist()) == [1, 1, 2]


class Halves(Plan):
    """Leaves the larger half of every block as it is."""

    claims = ()

    def __init__(self, block_of: list[int]) -> None:
        self.block_of = np.array(block_of, dtype=np.int64)

    @property
    def blocks(self) -> int:
        return int(self.block_of.max()) + 1

    def route(self, rows: Table):
        return self.block_of

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
