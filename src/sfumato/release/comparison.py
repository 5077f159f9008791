"""Compare released cells with the original ones: which columns were altered, and which left exactly as they were.

This is measured, not declared: a method cannot forget to report it. Blocks are compared one by one and merged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from sfumato.methods.claims import Containment

if TYPE_CHECKING:
    from sfumato.methods.claims import Evidence
    from sfumato.table.table import Table

ENOUGH = 2  # different values that show that a column is not constant


@dataclass(frozen=True, repr=False)
class ColumnComparison:
    """The cells of one column, released and original; values are kept only to tell whether there is more than one."""

    contains: bool  # every cell is equal to the original one or, for categories, contains it
    same: bool  # every cell is exactly the original one
    values: frozenset[Any]  # up to two original values, the missing one too

    def merge(self, other: ColumnComparison) -> ColumnComparison:
        """Put the comparisons of two sets of rows together."""
        values = frozenset(list(self.values | other.values)[:ENOUGH])
        return ColumnComparison(self.contains and other.contains, self.same and other.same, values)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The columns that keep their name, each compared with the original."""

    columns: Mapping[str, ColumnComparison]

    @classmethod
    def of(cls, evidence: Evidence) -> Comparison:
        """Compare one block."""
        shared = [name for name in evidence.released.names if name in evidence.original.kinds]
        before = evidence.original.select(shared).take(evidence.origin)
        return cls({name: _compared(name, before, evidence) for name in shared})

    def merge(self, other: Comparison) -> Comparison:
        """Put the comparisons of two sets of blocks together."""
        return Comparison({name: one.merge(other.columns[name]) for name, one in self.columns.items()})

    @property
    def altered(self) -> tuple[str, ...]:
        """Columns whose cells were changed: swapped, noisy or recoded. No interval from them is guaranteed."""
        return tuple(name for name, one in self.columns.items() if not one.contains)

    @property
    def unaltered(self) -> tuple[str, ...]:
        """Columns with more than one value whose released cells are exactly the original ones."""
        return tuple(name for name, one in self.columns.items() if one.same and len(one.values) > 1)

    @property
    def constant(self) -> tuple[str, ...]:
        """Columns with one value, which tells people apart in no way, released as they are."""
        return tuple(name for name, one in self.columns.items() if one.same and len(one.values) <= 1)


def _compared(name: str, before: Table, evidence: Evidence) -> ColumnComparison:
    column = before.arrow.column(name)
    same = column.equals(evidence.released.arrow.column(name))
    contains = same or (not before.kinds[name].is_numeric and Containment(columns=(name,)).measure(evidence).held)
    return ColumnComparison(contains, same, _first_values(column) if same else frozenset())


def _first_values(column: Any) -> frozenset[Any]:
    """Return up to two different values; a constant column is told by its smallest and largest value."""
    if column.null_count == len(column):
        return frozenset([None]) if len(column) else frozenset()
    values = pc.unique(column.slice(0, 1000))
    if len(values) < ENOUGH:
        values = pc.unique(column)
    return frozenset(values.slice(0, ENOUGH).to_pylist())
