"""The promise over several releases: everybody keeps k people who fit all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.plan.claims.groups import GroupClaim
from sfumato.plan.earlier_releases import EarlierReleases, find_candidates
from sfumato.plan.plan import Evidence, Finding, format_count, format_names_without_box
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class GroupsOfRows:
    """The group of each released row, the person whose row it is, and her sensitive values in it."""

    people: NDArray[np.uint64]
    groups: KeyedGroups
    values: NDArray[np.uint64]  # (rows, columns)

    def merge(self, other: GroupsOfRows) -> GroupsOfRows:
        """Put two sets of rows together."""
        return GroupsOfRows(
            np.concatenate([self.people, other.people]),
            KeyedGroups.of_keys(np.concatenate([_keys_of(self.groups), _keys_of(other.groups)])),
            np.concatenate([self.values, other.values]),
        )


@dataclass(frozen=True, eq=False, repr=False)
class GroupsOfPeople:
    """The group of each person, which is the set of the groups of her rows, and one of her values in each column."""

    people: NDArray[np.uint64]  # in ascending order
    groups: NDArray[np.int64]
    values: NDArray[np.int64]  # (people, columns)

    @classmethod
    def of(cls, rows: GroupsOfRows, l: int) -> GroupsOfPeople:
        """Put the rows of each person together; ``l`` is the number of values that others must have.

        Who has the same groups with all rows is a candidate; that somebody has them with more rows is not counted.
        """
        people, first, person_of = np.unique(rows.people, return_index=True, return_inverse=True)
        codes = encode(rows.values)
        if len(people) == len(rows.people):
            return cls(people, rows.groups.labels[first], codes[first])
        pairs = np.unique(np.column_stack([person_of.ravel(), rows.groups.labels]), axis=0)
        draw = np.random.default_rng(0).integers(0, 2**62, int(pairs[:, 1].max()) + 1)
        sums = np.add.reduceat(draw[pairs[:, 1]], np.flatnonzero(np.diff(pairs[:, 0], prepend=-1)))
        return cls(people, np.unique(sums, return_inverse=True)[1].ravel(), rarest_values(person_of.ravel(), codes, l))


def rarest_values(person_of: NDArray[np.int64], codes: NDArray[np.int64], l: int) -> NDArray[np.int64]:
    """Return the rarest value of each person in each column: one for each, so that l values are those of l people.

    Two people who have two values between them have one each. So for l = 2 several values of a person count as a value
    of her own, which differs from that of everybody else.
    """
    chosen = np.empty((int(person_of.max(initial=-1)) + 1, codes.shape[1]), dtype=np.int64)
    for place, column in enumerate(codes.T):
        order = np.lexsort((column, np.bincount(column)[column], person_of))
        starts = np.flatnonzero(np.diff(person_of[order], prepend=-1))
        chosen[:, place] = column[order[starts]]
        if l < 3 and len(order):
            lowest, highest = (end.reduceat(column[order], starts) for end in (np.minimum, np.maximum))
            several = np.flatnonzero(lowest < highest)
            chosen[several, place] = int(column.max()) + 1 + several
    return chosen


def _keys_of(groups: KeyedGroups) -> NDArray[np.uint64]:
    return np.asarray(GroupKeys(groups.keys.values).values[groups.labels])


def encode(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the values of each column as numbers from 0."""
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
    return np.column_stack(codes) if codes else np.zeros(values.shape, dtype=np.int64)


def value_hashes(rows: Table, columns: Sequence[str]) -> NDArray[np.uint64]:
    """Return hashes of the values of some columns, as an array with a column for each."""
    hashes = [column_hashes(rows, name) for name in columns]
    return np.column_stack(hashes) if hashes else np.zeros((rows.rows, 0), dtype=np.uint64)


@dataclass(frozen=True, kw_only=True)
class SharedReleases(GroupClaim[GroupsOfRows]):
    """Everybody shares her groups in all releases that she is in with at least k − 1 others, who have l values.

    k is the least of the releases that she is in: no later release can give her more candidates than an earlier one.
    The tally is not split into shares: a ledger holds the groups of all people, so that it is kept in memory only.
    """

    k: int
    l: int
    sensitive: tuple[str, ...]
    earlier: EarlierReleases = field(repr=False)

    recountable = False

    def tally(self, evidence: Evidence) -> GroupsOfRows:
        people = evidence.original.select([self.earlier.person, *self.sensitive]).take(evidence.origin)
        return GroupsOfRows(
            column_hashes(people, self.earlier.person),
            evidence.groups(self.columns),
            value_hashes(people, self.sensitive),
        )

    def finding(self, tally: GroupsOfRows) -> Finding:
        told = GroupsOfPeople.of(tally, self.l)
        places = self.earlier.places(told.people)
        found = find_candidates(np.column_stack([self.earlier.groups[places], told.groups]), told.values)
        needed = self.earlier.needed[places]
        needed = np.where(needed > 0, np.minimum(needed, self.k), self.k)
        short = (found.people < needed) | (found.values < self.l).any(axis=1)
        releases, smallest = self.earlier.groups.shape[1] + 1, int(needed.min(initial=self.k))
        values = f" and {self.l} values of {', '.join(self.sensitive)}" if self.sensitive and self.l > 1 else ""
        known = "the release" if releases == 1 else f"all of the {releases} releases in the ledger that she is in"
        return self.report(
            claim=f"at least {smallest} people{values} fit each person in {known}, by "
            f"{format_names_without_box(self.columns)}, for an intruder who cannot link rows by other columns",
            held=not short.any(),
            found=f"fewest people {int(found.people.min(initial=len(places))):,}, "
            f"{format_count(int(short.sum()), 'person')} with fewer than promised",
            fix="the method boxes, which keeps those together who were together before; or a smaller k",
        )
