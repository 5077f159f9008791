"""The memory engine: one table, exact answers. It is the truth that every other engine is held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.methods.base import Outcome, Plan
from sfumato.statistics.moments import Moments
from sfumato.survey.survey import Distinct
from sfumato.table.groups import group_sizes
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class MemorySurvey:
    """A survey of a table that is at hand: the sample is the table itself."""

    table: Table
    block_rows: int | None = None

    @property
    def rows(self) -> int:
        return self.table.rows

    def sample(self, columns: Sequence[str]) -> Table:
        return self.table.select(columns)

    def moments(self, columns: Sequence[str], weight: str | None = None) -> Moments:
        numbers = self.table.matrix(columns)
        weights = None if weight is None else self.table.numbers(weight)
        return Moments.of(numbers, weights, names=columns)

    def extremes(self, column: str) -> tuple[float, float]:
        present = self._present(column)
        return (float(present.min()), float(present.max())) if present.size else (np.nan, np.nan)

    def missing(self, column: str) -> int:
        return int(pc.sum(pc.is_null(self.table.arrow.column(column), nan_is_null=True)).as_py() or 0)

    def quantiles(self, column: str, shares: Sequence[float]) -> NDArray[np.float64]:
        present = self._present(column)
        return np.quantile(present, shares) if present.size else np.full(len(shares), np.nan)

    def distinct(self, column: str) -> Distinct:
        coded = self.table.coded(column)
        return Distinct(coded.values, np.bincount(coded.codes, minlength=coded.size).astype(np.int64))

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        return group_sizes(self.table, columns)

    def _present(self, column: str) -> NDArray[np.float64]:
        numbers = self.table.numbers(column)
        return numbers[~np.isnan(numbers)]


def run(plan: Plan, table: Table) -> Outcome:
    """Route the rows, transform each block, and put the blocks together; the order is still the plan's."""
    if plan.blocks == 1:
        return plan.transform(table, 0)
    block_of = plan.route(table)
    order = np.argsort(block_of, kind="stable")
    starts = np.searchsorted(block_of[order], np.arange(plan.blocks + 1))
    released, origins = [], []
    for number in range(plan.blocks):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size:
            outcome = plan.transform(table.take(rows), number)
            released.append(outcome.released)
            origins.append(rows[outcome.origin])
    arrow = pa.concat_tables([part.arrow for part in released])
    return Outcome(Table(arrow, released[0].kinds), np.concatenate(origins))
