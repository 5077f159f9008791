"""Claims about copies: no unique person's row is released, or few rows are released nearly unaltered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding, format_count, format_names
from sfumato.table.groups import GroupCounts, KeyedGroups, column_hashes, row_keys, sum_by_group
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class ComparedGroups:
    """Equal rows of the original and of the release, by their keys."""

    original: GroupCounts
    released: GroupCounts

    @property
    def copies(self) -> int:
        """Number of released rows that equal a row of the original that is there once."""
        groups = KeyedGroups.of_keys(self.original.keys.followed_by(self.released.keys))
        before, after = self.original.counts, self.released.counts
        people = sum_by_group(groups, np.concatenate([before, np.zeros_like(after)]))
        rows = sum_by_group(groups, np.concatenate([np.zeros_like(before), after]))
        return int(rows[people == 1].sum())


@dataclass(frozen=True, eq=False, repr=False)
class RowTally:
    """One block, whose rows are hashed only if there is another block; or the groups of several blocks."""

    source: tuple[Table, Table] | ComparedGroups  # original and released, in the columns of the claim

    @cached_property
    def groups(self) -> ComparedGroups:
        """The groups of equal rows."""
        if isinstance(self.source, ComparedGroups):
            return self.source
        return ComparedGroups(
            *(GroupCounts.of(KeyedGroups.of_keys(row_keys(round_numbers(one)))) for one in self.source)
        )

    @property
    def copies(self) -> int:
        """Number of released rows that are copies."""
        if isinstance(self.source, ComparedGroups):
            return self.source.copies
        original, released = self.source
        return int(find_copies(released, original).size)

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return self.source.released.rows if isinstance(self.source, ComparedGroups) else self.source[1].rows

    def __reduce__(self) -> tuple[type[RowTally], tuple[ComparedGroups]]:
        return RowTally, (self.groups,)


@dataclass(frozen=True, kw_only=True)
class NoUniqueRowCopied(Claim[RowTally]):
    """No released row equals, in ``columns``, an original row that no other original row equals.

    Fractional numbers are equal if they are to seven digits. Rows that several people share may be released.
    """

    # not a privacy claim: a row that differs in one cell is no copy, and may still reveal somebody
    kind: ClassVar[ClaimKind] = "integrity"

    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> RowTally:
        return RowTally((evidence.original.select(self.columns), evidence.released.select(self.columns)))

    def merge(self, one: RowTally, other: RowTally) -> RowTally:
        original = one.groups.original.merge(other.groups.original)
        return RowTally(ComparedGroups(original, one.groups.released.merge(other.groups.released)))

    def finding(self, tally: RowTally) -> Finding:
        copies = tally.copies
        found = "1 copy" if copies == 1 else f"{copies:,} copies"
        return self.report(
            claim=f"no released row equals the row of somebody who is unique in {format_names(self.columns)}",
            held=copies == 0,
            found=f"{found} in {format_count(tally.rows, 'row')}",
            fix="fewer or coarser columns, so that people share their rows, or another method",
        )


def find_copies(released: Table, original: Table) -> NDArray[np.int64]:
    """Return the released rows that equal an original row that no other original row equals, in the same columns."""
    rows = _possible_copies(released, original)
    if not rows.size:
        return rows
    both = [row_keys(round_numbers(one)) for one in (released.take(rows), original.select(released.names))]
    labels = KeyedGroups.of_keys(np.concatenate(both)).labels
    people = np.bincount(labels[rows.size :], minlength=int(labels.max()) + 1)
    is_copy: NDArray[np.bool_] = people[labels[: rows.size]] == 1
    return rows[is_copy]


def _possible_copies(released: Table, original: Table) -> NDArray[np.int64]:
    """Return the rows that may be copies: in each fractional column, their number is a number of the original.

    If a column is continuous there are hardly any, and no row needs to be compared in full.
    """
    rows = np.arange(released.rows)
    for name in released.names:
        if rows.size and pt.is_floating(released.arrow.schema.field(name).type):
            made, known = _single(released.numbers(name)[rows]), _single(original.numbers(name))
            found = pc.is_in(pa.array(made), value_set=pa.array(_find_repeated(made, known))).to_numpy(
                zero_copy_only=False
            )
            rows = rows[found | np.isnan(made)]
    return rows


def _find_repeated(made: NDArray[np.float32], known: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the numbers that occur more than once in the two together: all that they share, and often few.

    Sorting is faster than hashing all of the known numbers.
    """
    both = np.sort(np.concatenate([made, known]))
    return np.unique(both[1:][both[1:] == both[:-1]])


def round_numbers(table: Table) -> Table:
    """Return the table with fractional numbers in single precision, about seven digits."""
    arrow = table.arrow
    for place, field in enumerate(arrow.schema):
        if pt.is_floating(field.type) or pt.is_decimal(field.type):
            arrow = arrow.set_column(place, field.name, pa.array(_single(table.numbers(field.name)), from_pandas=True))
    return Table(arrow, table.kinds)


def _single(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large for single precision: equal to all numbers that are
        return numbers.astype(np.float32) + np.float32(0.0)  # −0 becomes 0


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
        all_rows = sum_by_group(groups, np.concatenate([rows, np.zeros_like(kept)]))
        return int(sum_by_group(groups, np.concatenate([np.zeros_like(rows), kept]))[all_rows == 1].sum())


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
        released = round_numbers(evidence.released.select(self.columns))
        original = round_numbers(evidence.original.select(self.columns).take(evidence.origin))
        keys = row_keys(released)
        kept = keys[_same_cells(released, original) >= SAME_CELLS]
        return UnalteredRows(*(GroupCounts.of(KeyedGroups.of_keys(one)) for one in (keys, kept)))

    def merge(self, one: UnalteredRows, other: UnalteredRows) -> UnalteredRows:
        return UnalteredRows(one.released.merge(other.released), one.unaltered.merge(other.unaltered))

    def finding(self, tally: UnalteredRows) -> Finding:
        rows, alone = tally.released.rows, tally.alone
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
