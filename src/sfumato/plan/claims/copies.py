"""The claim that few rows are released nearly unaltered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding, format_count
from sfumato.table.group_counts import GroupCounts, sum_by_group
from sfumato.table.groups import KeyedGroups, column_hashes, row_keys
from sfumato.table.table import Table, replace_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray


def round_numbers(table: Table) -> Table:
    """Return the table with fractional numbers in single precision, about seven digits."""
    cells = {
        one.name: pa.array(_single(table.numbers(one.name)), from_pandas=True)
        for one in table.arrow.schema
        if pt.is_floating(one.type) or pt.is_decimal(one.type)
    }
    return Table(replace_columns(table.arrow, cells), table.kinds)


def _single(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large for single precision: equal to all numbers that are
        return numbers.astype(np.float32) + np.float32(0.0)  # −0 becomes 0


SAME_CELLS = 0.9  # share of the cells from which on a row is nearly unaltered


@dataclass(frozen=True, eq=False, repr=False)
class UnalteredRows:
    """Equal released rows by their keys: all of them, and those that are nearly the row of the person."""

    released: GroupCounts
    unaltered: GroupCounts

    def split(self, shares: int) -> list[UnalteredRows]:
        """Return the rows of each share."""
        pairs = zip(self.released.split(shares), self.unaltered.split(shares), strict=True)
        return [UnalteredRows(released, unaltered) for released, unaltered in pairs]

    def settled(self) -> LoneRows:
        """Return what is left of rows that no other part equals."""
        return LoneRows(self.released.rows, self.alone)

    @property
    def alone(self) -> int:
        """Number of nearly unaltered rows that no other released row equals."""
        groups = KeyedGroups.of_keys(self.released.keys.followed_by(self.unaltered.keys))
        rows, kept = self.released.counts, self.unaltered.counts
        all_rows = sum_by_group(groups, np.concatenate([rows, np.zeros_like(kept)]))
        return int(sum_by_group(groups, np.concatenate([np.zeros_like(rows), kept]))[all_rows == 1].sum())


@dataclass(frozen=True)
class LoneRows:
    """Released rows, and those of them that are alone and nearly unaltered."""

    rows: int
    alone: int

    def settled(self) -> LoneRows:
        """Return this record: nothing is left to forget."""
        return self


@dataclass(frozen=True, kw_only=True)
class FewRowsUnaltered(Claim[Any]):
    """At most a ``share`` of the released rows are alone and nearly unaltered.

    A row is alone if no other released row equals it, and nearly unaltered if nine of ten of its cells are those of the
    person whom it stands for. Fractional numbers are equal if they are to seven digits.
    """

    # not a privacy claim: a row that is altered in two of ten cells may still reveal somebody
    kind: ClassVar[ClaimKind] = "integrity"

    columns: tuple[str, ...]
    share: float

    def tally(self, evidence: Evidence) -> UnalteredRows:
        released = round_numbers(evidence.released.select(self.columns))
        original = round_numbers(evidence.original.select(self.columns).take(evidence.origin))
        keys = row_keys(released)
        kept = keys[_same_cells(released, original) >= SAME_CELLS]
        return UnalteredRows(*(GroupCounts.of(KeyedGroups.of_keys(one)) for one in (keys, kept)))

    def merge(self, one: Any, other: Any) -> Any:
        if isinstance(one, LoneRows):
            return LoneRows(one.rows + other.rows, one.alone + other.alone)
        return UnalteredRows(one.released.merge(other.released), one.unaltered.merge(other.unaltered))

    def finding(self, tally: UnalteredRows | LoneRows) -> Finding:
        told = tally.settled()
        rows, alone = told.rows, told.alone
        return self.report(
            claim=f"at most {self.share:.0%} of the rows are alone, with {SAME_CELLS:.0%} of the cells of their person",
            held=alone <= self.share * rows,
            found=f"{alone / max(rows, 1):.0%} of {format_count(rows, 'row')}",
            fix="spectral-rhs, whose groups have k rows; or fewer columns; or a larger share, option 'unaltered'",
        )


def _same_cells(released: Table, original: Table) -> NDArray[np.float64]:
    """Return the share of equal cells of each row."""
    equal = np.zeros(released.rows)
    for name in released.names:
        equal += column_hashes(released, name) == column_hashes(original, name)
    return equal / max(len(released.names), 1)
