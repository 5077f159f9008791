"""The claim that few people have their own row in the release, alone and nearly unaltered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.methods.claims.base import Claim, ClaimKind, Evidence, Finding, counted
from sfumato.methods.claims.copies import rounded
from sfumato.table.group_counts import GroupCounts, KeyedGroups, sums
from sfumato.table.hashing import column_hashes, row_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

SAME_CELLS = 0.9  # share of the cells from which on a row is nearly unaltered


@dataclass(frozen=True, eq=False, repr=False)
class UnalteredRows:
    """Equal released rows by their keys: all of them, and those that are nearly the row of the person."""

    released: GroupCounts
    unaltered: GroupCounts

    @property
    def alone(self) -> int:
        """Number of nearly unaltered rows that no other released row equals."""
        groups = KeyedGroups.of_keys(self.released.keys.followed_by(self.unaltered.keys))
        rows, kept = self.released.counts, self.unaltered.counts
        all_rows = sums(groups, np.concatenate([rows, np.zeros_like(kept)]))
        return int(sums(groups, np.concatenate([np.zeros_like(rows), kept]))[all_rows == 1].sum())


@dataclass(frozen=True, kw_only=True)
class FewRowsUnaltered(Claim[UnalteredRows]):
    """At most a ``share`` of the released rows are alone and nearly unaltered.

    A row is alone if no other released row equals it, and nearly unaltered if nine of ten of its cells are those of the
    person whom it stands for. Fractional numbers are equal if they are to seven digits.
    """

    # not a privacy claim: a row that is altered in two of ten cells may still reveal somebody
    kind: ClassVar[ClaimKind] = "integrity"

    columns: tuple[str, ...]
    share: float

    def tally(self, evidence: Evidence) -> UnalteredRows:
        released = rounded(evidence.released.select(self.columns))
        original = rounded(evidence.original.select(self.columns).take(evidence.origin))
        keys = row_keys(released)
        kept = keys[_same_cells(released, original) >= SAME_CELLS]
        return UnalteredRows(*(GroupCounts.of(KeyedGroups.of_keys(one)) for one in (keys, kept)))

    def merge(self, one: UnalteredRows, other: UnalteredRows) -> UnalteredRows:
        return UnalteredRows(one.released.merge(other.released), one.unaltered.merge(other.unaltered))

    def finding(self, tally: UnalteredRows) -> Finding:
        rows, alone = tally.released.rows, tally.alone
        return Finding(
            claim=f"at most {self.share:.0%} of the rows are alone, with {SAME_CELLS:.0%} of the cells of their person",
            held=alone <= self.share * rows,
            found=f"{alone / max(rows, 1):.0%} of {counted(rows, 'row')}",
            fix="spectral-rhs, whose groups have k rows; or fewer columns; or a larger share, option 'unaltered'",
            kind=self.kind,
        )


def _same_cells(released: Table, original: Table) -> NDArray[np.float64]:
    """Return the share of equal cells of each row."""
    equal = np.zeros(released.rows)
    for name in released.names:
        equal += column_hashes(released, name) == column_hashes(original, name)
    return equal / max(len(released.names), 1)
