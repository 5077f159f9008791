"""Counts and extremes of a column, merged over parts of a table, and values that many of its rows share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.table.coding import distinct
from sfumato.table.kinds import Kind, is_text, microseconds

if TYPE_CHECKING:
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """Counts and extremes of one column."""

    kind: Kind
    rows: int
    missing: int  # number of rows without a value
    is_floating: bool  # whether cells are stored as floating-point numbers
    low: float = math.nan  # smallest number, in the units of Table.numbers; NaN if there is none
    high: float = math.nan
    infinite: int = 0  # number of cells with an infinite number
    distinct: int | None = None  # number of distinct values without the missing one; None if they were not counted
    blanks: int = 0  # number of spaces in all cells of text; counted together with the distinct values

    @property
    def present(self) -> int:
        """Number of rows with a value."""
        return self.rows - self.missing

    @property
    def distinct_values(self) -> int:
        """Number of distinct values, which must have been counted."""
        assert self.distinct is not None
        return self.distinct

    @property
    def words(self) -> float:
        """Mean number of words in a cell of text; 1 if distinct values were not counted."""
        return 1.0 + self.blanks / max(self.present, 1)


def facts_of(table: Table, names: Sequence[str], count_distinct: bool = False) -> dict[str, ColumnFacts]:
    """Compute the facts of these columns; distinct values are counted only if ``count_distinct`` is true."""
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
        infinite=int(pc.sum(pc.is_inf(column)).as_py() or 0) if floating and not math.isfinite(high - low) else 0,
        distinct=distinct(column) if count_distinct else None,
        blanks=int(pc.sum(pc.count_substring(column, " ")).as_py() or 0)
        if count_distinct and is_text(column.type)
        else 0,
    )


def _ends(table: Table, name: str) -> tuple[float, float]:
    """Return the smallest and largest cell in the units of :meth:`Table.numbers`, also if they are not exact."""
    column = table.arrow.column(name)
    if not table.kinds[name].is_numeric or column.null_count == len(column):
        return math.nan, math.nan
    ends = pc.min_max(column)
    return _number(ends["min"]), _number(ends["max"])


def _number(cell: pa.Scalar) -> float:
    if pt.is_timestamp(cell.type):
        return microseconds(cell.value, cell.type.unit)
    return float(cell.cast(pa.date32()).value if pt.is_date(cell.type) else cell.as_py())


# Values that many rows of a numeric column share, such as the zeros of an amount: the column is a mixture.
#
# A semi-continuous column has *atoms* and, in the other rows, a number. An atom is common and stands out from the
# values next to it. Rounded numbers are no atoms, however common they are, because their neighbours are common too.


MASS_SHARE = 0.05  # smallest share of the rows with a number that have the same number
MASS_ROWS = 10  # smallest number of rows in which an atom is found
MASS_RATIO = 5.0  # an atom is this many times as common as the median of the values next to it, which may be atoms too
MASS_NEIGHBOURS = 3  # number of values on each side of an atom that are compared with it
MASS_EXAMINED = 20_000  # rows in which atoms are looked for


def point_masses(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the atoms among numbers without missing ones, in increasing order.

    >>> import numpy as np
    >>> point_masses(np.array([0.0] * 60 + list(range(1, 41))))
    (0.0,)
    """
    if not numbers.size:
        return ()
    examined = numbers[:: -(-numbers.size // MASS_EXAMINED)]
    values, counts = np.unique(examined, return_counts=True)
    common = np.flatnonzero(counts >= max(MASS_ROWS, MASS_SHARE * examined.size))
    if len(values) == 1:
        return ()  # a constant is no mixture
    return tuple(float(values[one]) for one in common if _stands_out(counts, int(one)))


def _stands_out(counts: NDArray[np.int64], one: int) -> bool:
    around = np.concatenate([counts[max(0, one - MASS_NEIGHBOURS) : one], counts[one + 1 : one + 1 + MASS_NEIGHBOURS]])
    return bool(counts[one] >= MASS_RATIO * np.median(around))
