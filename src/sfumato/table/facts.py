"""What the cells of a column are like, in numbers that parts of a table can be merged to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.table.coding import distinct
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """Counts and ends of one column."""

    kind: Kind
    rows: int
    missing: int  # rows without a value
    is_floating: bool  # whether cells are stored as floating-point numbers
    low: float = math.nan  # smallest number, a day in days and a moment in microseconds; NaN where there is none
    high: float = math.nan
    infinite: int = 0  # cells that hold an infinite number
    distinct: int | None = None  # different values, a missing one not counted; None where they were not counted

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.missing

    @property
    def distinct_values(self) -> int:
        """The number of different values, which must have been counted."""
        assert self.distinct is not None
        return self.distinct


def facts_of(table: Table, names: Sequence[str], count_distinct: bool = False) -> dict[str, ColumnFacts]:
    """Facts of these columns; distinct values are counted where asked for."""
    return {name: _facts(table, name, count_distinct) for name in names}


def _facts(table: Table, name: str, count_distinct: bool) -> ColumnFacts:
    column, kind = table.arrow.column(name), table.kinds[name]
    low, high = _ends(table, name)
    floating = bool(pt.is_floating(column.type))
    return ColumnFacts(
        kind=kind,
        rows=table.rows,
        missing=int(column.null_count),
        is_floating=floating,
        low=low,
        high=high,
        infinite=int(pc.sum(pc.is_inf(column)).as_py() or 0) if floating else 0,
        distinct=distinct(column) if count_distinct else None,
    )


def _ends(table: Table, name: str) -> tuple[float, float]:
    """Smallest and largest cell in the units of :meth:`Table.numbers`, for whole numbers of any length too."""
    column = table.arrow.column(name)
    if not table.kinds[name].is_numeric or column.null_count == len(column):
        return math.nan, math.nan
    ends = pc.min_max(column)
    if pt.is_integer(column.type):
        return float(ends["min"].as_py()), float(ends["max"].as_py())
    both = pa.table({name: pa.array([ends["min"], ends["max"]], column.type)})
    low, high = Table(both, {name: table.kinds[name]}).numbers(name)
    return float(low), float(high)
