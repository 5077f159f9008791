"""Top and bottom coding: the largest and smallest numbers of a column are released as one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease
from sfumato.methods.base import Method
from sfumato.methods.options import reported_option
from sfumato.params import Share, Whole
from sfumato.plan.claims.rows import ColumnsAllowed, RowsAccountedFor, ValidCells
from sfumato.plan.plan import Claim, Outcome, RowwisePlan
from sfumato.plan.questions import PointsOf
from sfumato.plan.survey import Survey, count_blocks, rank_error
from sfumato.schema.columns import Role
from sfumato.table.kinds import Kind, number_column
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.sketches import WeightedPoints
    from sfumato.randomness import Randomness
    from sfumato.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class TopBottom(Method):
    """Release the largest and the smallest numbers of each numeric quasi-identifier as the limit that they exceed.

    The upper limit is the largest number of the column that at least a share ``top`` of the rows, and at least ``k``
    rows, reach or exceed. Of more than 5,000,000 rows that an engine reads in parts, a sketch counts them, and up to
    0.0002 of the rows more are replaced. The numbers between the limits are released as they are, and so are
    categories: the method hides outliers and promises no privacy.

    Examples
    --------
    >>> import sfumato as sf
    >>> release = sf.TopBottom(k=3, top=0.2, bottom=0.0).release({"age": list(range(20, 40))}, schema={"age": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())[-5:]
    [35.0, 36.0, 36.0, 36.0, 36.0]
    """

    name: ClassVar[str] = "top-bottom"
    theory: ClassVar[str] = "post-randomisation"
    one_row_per_person: ClassVar[bool] = True
    manifest_notes: ClassVar[Mapping[str, str]] = {
        "coded columns": "columns whose largest and smallest numbers were replaced",
        "largest error of the shares": "by which more rows than the chosen share may have been replaced",
    }

    k: int = reported_option(
        Whole(at_least=1),
        "Smallest number of rows that share each limit, so that none of them stands out.",
        default=5,
        unit="rows",
    )
    top: float = reported_option(
        Share(),
        "Share of the largest numbers that are replaced.",
        default=0.01,
        unit="rows",
        strengths=(0.005, 0.01, 0.02, 0.05, 0.1),
    )
    bottom: float = reported_option(
        Share(), "Share of the smallest numbers that are replaced.", default=0.01, unit="rows"
    )

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> TopBottomPlan:
        """Find the limits of every numeric quasi-identifier."""
        kinds = survey.sample.table.kinds
        names = tuple(name for name in schema.names(Role.QUASI) if kinds[name].is_numeric)
        if not names or survey.rows < max(2, self.k):
            raise CannotRelease(
                "Top and bottom coding needs a numeric quasi-identifier, and at least 2 and k rows.",
                found=f"{len(names)} numeric quasi-identifiers, {survey.rows:,} rows",
            )
        asked = {name: PointsOf(name, rank_error(survey)) for name in names}
        answers = survey.ask(asked.values())
        return TopBottomPlan(
            names=tuple(column.name for column in schema.columns),
            limits={name: self._limits(answers[asked[name]]) for name in names},
            parts=count_blocks(survey),
            rank_error=rank_error(survey),
        )

    def _limits(self, points: WeightedPoints) -> tuple[float, float]:
        """Return the lower and the upper limit; infinite if nothing is replaced on a side.

        Ranks from a sketch may be wrong. The limits are those that enough rows reach in any case.
        """
        if not len(points.values):
            return -np.inf, np.inf
        below = np.cumsum(points.weights)
        rows = float(below[-1])
        low, high = -np.inf, np.inf
        if self.bottom > 0.0:
            low = points.values[_position_of(below, max(self.bottom * rows, self.k) + points.error)]
        if self.top > 0.0:
            above = np.cumsum(points.weights[::-1])
            high = points.values[::-1][_position_of(above, max(self.top * rows, self.k) + points.error)]
        return float(low), float(max(low, high))


@dataclass(frozen=True, kw_only=True, repr=False)
class TopBottomPlan(RowwisePlan):
    """Replace the numbers beyond the limits."""

    names: tuple[str, ...]
    limits: Mapping[str, tuple[float, float]]
    parts: int
    rank_error: float = 0.0  # of the limits, as a share of the rows

    def transform(self, block: Table, number: int) -> Outcome:
        columns = {name: block.arrow.column(name) for name in self.names}
        for name, (low, high) in self.limits.items():
            numbers = block.numbers(name)
            if ((numbers < low) | (numbers > high)).any():
                columns[name] = _replace(columns[name], numbers, low, high, block.kinds[name])
        released = Table(pa.table(columns), {name: block.kinds[name] for name in self.names})
        return Outcome(released, np.arange(block.rows))

    def show_in_cells(self, rows: Table, released: Table) -> Table:
        return self.transform(rows, 0).released

    @property
    def claims(self) -> tuple[Claim[Any], ...]:
        return (ValidCells(), RowsAccountedFor(), ColumnsAllowed(names=self.names))

    @property
    def notes(self) -> Mapping[str, Any]:
        sketched = {"largest error of the shares": self.rank_error} if self.rank_error else {}
        return {"coded columns": list(self.limits), **sketched}


def _position_of(cumulated: NDArray[np.float64], rows: float) -> int:
    """Return the first position at which so many rows are reached, or the last one."""
    return min(int(np.searchsorted(cumulated, rows - 1e-9)), len(cumulated) - 1)


def _replace(
    column: pa.ChunkedArray, numbers: NDArray[np.float64], low: float, high: float, kind: Kind
) -> pa.ChunkedArray:
    """Return the column with cells beyond the limits replaced by a cell that equals the limit, so that types stay."""
    cells = column.combine_chunks()
    place = np.arange(len(numbers))
    for limit, beyond in ((low, numbers < low), (high, numbers > high)):
        at = np.flatnonzero(numbers == limit)
        if beyond.any() and at.size:
            place[beyond] = at[0]
    taken = cells.take(pa.array(place))
    is_left = ((numbers < low) & ~(numbers == low).any()) | ((numbers > high) & ~(numbers == high).any())
    if is_left.any():  # the block holds no row at a limit
        taken = number_column(np.clip(numbers, low, high), kind, cells.type).cast(cells.type, safe=False)
    return pa.chunked_array([taken])
