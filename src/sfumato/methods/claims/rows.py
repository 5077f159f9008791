"""Claims about the rows, the columns and the cells as such: none lost, none added, none of a wrong kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.methods.claims.base import FAULT, Claim, ClaimKind, Evidence, Finding, counted, listed
from sfumato.table.kinds import Kind


@dataclass(frozen=True, repr=False)
class RowCounts:
    """Rows before and after, and whether each released row has an original row of its own."""

    original: int
    released: int
    origins: int  # original rows that released rows are said to stand for, with repeats
    once: bool


@dataclass(frozen=True, kw_only=True)
class RowsAccountedFor(Claim[RowCounts]):
    """Every original row is released once or suppressed, and at most this share of them is suppressed."""

    kind: ClassVar[ClaimKind] = "integrity"

    suppressed_at_most: float = 0.0  # share of the original rows, from 0 to 1

    def tally(self, evidence: Evidence) -> RowCounts:
        rows, origin = evidence.original.rows, evidence.origin
        known = bool(origin.size == 0 or (origin.min() >= 0 and origin.max() < rows))
        seen = np.zeros(rows, dtype=bool)
        seen[origin if known else []] = True
        once = known and origin.size == evidence.released.rows and int(seen.sum()) == origin.size
        return RowCounts(rows, evidence.released.rows, origin.size, once)

    def merge(self, one: RowCounts, other: RowCounts) -> RowCounts:
        return RowCounts(
            one.original + other.original,
            one.released + other.released,
            one.origins + other.origins,
            one.once and other.once,
        )

    def finding(self, tally: RowCounts) -> Finding:
        suppressed = tally.original - tally.origins
        allowed = f"at most {self.suppressed_at_most:.2%}" if self.suppressed_at_most else "none"
        return Finding(
            claim=f"no row lost or duplicated; {allowed} suppressed",
            held=tally.once and suppressed <= self.suppressed_at_most * tally.original * (1 + 1e-12),
            found=f"{counted(tally.original, 'row')} in, {tally.released:,} out, {suppressed:,} suppressed"
            + ("" if tally.once else "; some released rows are duplicates or have no original row"),
            fix="a larger share of suppressed rows" if tally.once else FAULT,
            kind=self.kind,
        )


@dataclass(frozen=True, repr=False)
class ReleasedNames:
    """The columns that were released in any block."""

    names: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class ColumnsAllowed(Claim[ReleasedNames]):
    """No other columns are released than these."""

    kind: ClassVar[ClaimKind] = "integrity"

    names: tuple[str, ...]

    def tally(self, evidence: Evidence) -> ReleasedNames:
        return ReleasedNames(frozenset(evidence.released.names))

    def merge(self, one: ReleasedNames, other: ReleasedNames) -> ReleasedNames:
        return ReleasedNames(one.names | other.names)

    def finding(self, tally: ReleasedNames) -> Finding:
        others = sorted(tally.names.difference(self.names))
        return Finding(
            claim=f"only these columns are released: {listed(self.names)}",
            held=not others,
            found=f"also {listed(others)}" if others else counted(len(tally.names), "column"),
            fix=FAULT,
            kind=self.kind,
        )

    @property
    def needs_original(self) -> bool:
        return False


@dataclass(frozen=True, repr=False)
class ColumnValues:
    """Categories of one column: those of the original, and released ones that were not among them so far."""

    original: frozenset[Any] = frozenset()
    unknown: frozenset[Any] = frozenset()
    has_fractions: bool = False  # whether a released number of a column of whole numbers is not whole

    def merge(self, other: ColumnValues) -> ColumnValues:
        """Look for the unknown values of both in the original values of both."""
        original = self.original | other.original
        unknown = (self.unknown | other.unknown) - original
        return ColumnValues(original, unknown, self.has_fractions or other.has_fractions)

    @property
    def is_valid(self) -> bool:
        return not (self.unknown or self.has_fractions)


@dataclass(frozen=True, repr=False)
class CellValues:
    """Categories of every released column."""

    columns: Mapping[str, ColumnValues]


@dataclass(frozen=True, kw_only=True)
class ValidCells(Claim[CellValues]):
    """Every released category is one of the original's, and every whole number is whole."""

    kind: ClassVar[ClaimKind] = "integrity"

    def tally(self, evidence: Evidence) -> CellValues:
        return CellValues({name: _values(name, evidence) for name in evidence.released.names})

    def merge(self, one: CellValues, other: CellValues) -> CellValues:
        nothing = ColumnValues()
        names = dict.fromkeys([*one.columns, *other.columns])
        return CellValues(
            {name: one.columns.get(name, nothing).merge(other.columns.get(name, nothing)) for name in names}
        )

    def finding(self, tally: CellValues) -> Finding:
        invalid = sorted(name for name, values in tally.columns.items() if not values.is_valid)
        return Finding(
            claim="every category is one of the column's own, whole numbers are whole",
            held=not invalid,
            found=f"other values in {', '.join(map(repr, invalid))}" if invalid else "valid values only",
            fix=FAULT,
            kind=self.kind,
        )


def _values(name: str, evidence: Evidence) -> ColumnValues:
    """The categories of a column on both sides; numbers have none."""
    released, original = evidence.released, evidence.original
    kind = original.kinds.get(name, Kind.CONTINUOUS)  # whether a new column is allowed is another claim
    if kind is Kind.WHOLE:
        numbers = released.numbers(name)
        present = numbers[~np.isnan(numbers)]
        return ColumnValues(has_fractions=bool((present != np.rint(present)).any()))
    if kind.is_numeric:
        return ColumnValues()
    known = frozenset(original.coded(name).values.to_pylist())
    return ColumnValues(known, frozenset(released.coded(name).values.to_pylist()) - known)
