"""Promises over several releases: who is still compatible with everything that was told about a person.

In each release an intruder finds the group of a person he knows. The people who were in her group in every release that
she is in are her candidates: he cannot tell her from them. Two releases that are k-anonymous each may leave her alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.plan.claims.groups import GroupClaim
from sfumato.plan.plan import Evidence, Finding, format_count, format_names_without_box
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

ABSENT = -1  # the group of a person in a release that she is not in
FREE = -1  # the unit of a person who is in no earlier release


@dataclass(frozen=True, eq=False, repr=False)
class Candidates:
    """What an intruder is left with who knows the groups of a person in all releases that she is in."""

    people: NDArray[np.int64]  # number of people who were in all of them, herself included
    values: NDArray[np.int64]  # (people, columns): number of different values that these have


def find_candidates(groups: NDArray[np.int64], values: NDArray[np.int64]) -> Candidates:
    """Count the candidates of each person.

    ``groups`` has a row for each person and a column for each release, ``ABSENT`` where she is not in it; ``values`` a
    column for each sensitive column. People who are in the same releases are looked at together: everybody who is in
    these releases, and perhaps in others, is grouped by them.
    """
    people, different = np.zeros(len(groups), dtype=np.int64), np.zeros(values.shape, dtype=np.int64)
    is_in = groups != ABSENT
    patterns, pattern_of = np.unique(is_in, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        others = np.flatnonzero(is_in[:, pattern].all(axis=1))
        labels = np.zeros(len(others), dtype=np.int64)
        for release in np.flatnonzero(pattern):
            codes = groups[others, release]
            labels = refine(labels, codes, int(codes.max(initial=0)) + 1)
        asked = pattern_of.ravel()[others] == number
        people[others[asked]] = np.bincount(labels)[labels[asked]]
        for column, cells in enumerate(values[others].T):
            pairs = refine(labels, cells, int(cells.max(initial=0)) + 1)
            _, first = np.unique(pairs, return_index=True)
            different[others[asked], column] = np.bincount(labels[first])[labels[asked]]
    return Candidates(people, different)


@dataclass(frozen=True, eq=False, repr=False)
class EarlierReleases:
    """What earlier releases told about the people of a table.

    People of one unit have been in one group ever since they were released for the first time. While all of a unit who
    are in a table stay together, each keeps the others as candidates.
    """

    person: str  # column that tells people apart
    people: NDArray[np.uint64]  # hash of each person, as ``column_hashes`` makes it, in ascending order
    groups: NDArray[np.int64]  # (people, releases)
    units: NDArray[np.int64]  # (people,); FREE for those who are new
    needed: NDArray[np.int64]  # (people,): the k of the first release that she is in; 0 for those who are new
    are_held_back: NDArray[np.bool_]  # (people,): who cannot be released without narrowing what is known about others

    def places(self, people: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the place of each of these people."""
        return np.searchsorted(self.people, people)

    def places_of(self, rows: Table) -> NDArray[np.int64]:
        """Return the place of the person of each row."""
        return self.places(column_hashes(rows, self.person))

    def hold_back(self, l: int, values: NDArray[np.int64]) -> EarlierReleases:
        """Return the same with all units held back that cannot be released, even if each stays together.

        That is so where people have left, or where the values of those who stay have become equal.
        """
        groups = np.column_stack([self.groups, self.units])
        known = self.units != FREE
        found = find_candidates(groups[known], values[known])
        short = found.people < self.needed[known]
        if l > 1 and values.shape[1]:
            short |= found.values.min(axis=1) < l
        return replace(self, are_held_back=known & np.isin(self.units, self.units[known][short]))

    def without_held_back(self) -> EarlierReleases:
        """Return the same for a table without those who are held back."""
        return replace(self, are_held_back=np.zeros_like(self.are_held_back))


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedGroups:
    """The group of each released person, and her sensitive values."""

    people: NDArray[np.uint64]
    groups: KeyedGroups
    values: NDArray[np.uint64]  # (people, columns)

    def merge(self, other: ReleasedGroups) -> ReleasedGroups:
        """Put two sets of people together."""
        return ReleasedGroups(
            np.concatenate([self.people, other.people]),
            KeyedGroups.of_keys(np.concatenate([_keys_of(self.groups), _keys_of(other.groups)])),
            np.concatenate([self.values, other.values]),
        )

    @property
    def codes(self) -> NDArray[np.int64]:
        """The values as numbers from 0, equal where the values of a column are."""
        return encode(self.values)


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
class SharedReleases(GroupClaim[ReleasedGroups]):
    """Everybody shares her groups in all releases that she is in with at least k − 1 others, who have l values.

    k is that of the first release that she is in: no later release can give her more candidates than the first one.
    """

    k: int
    l: int
    sensitive: tuple[str, ...]
    earlier: EarlierReleases = field(repr=False)

    recountable = False

    def tally(self, evidence: Evidence) -> ReleasedGroups:
        people = evidence.original.select([self.earlier.person, *self.sensitive]).take(evidence.origin)
        return ReleasedGroups(
            column_hashes(people, self.earlier.person),
            evidence.groups(self.columns),
            value_hashes(people, self.sensitive),
        )

    def finding(self, tally: ReleasedGroups) -> Finding:
        places = self.earlier.places(tally.people)
        found = find_candidates(np.column_stack([self.earlier.groups[places], tally.groups.labels]), tally.codes)
        needed = self.earlier.needed[places]
        needed = np.where(needed > 0, needed, self.k)
        short = found.people < needed
        least = found.values.min(axis=1, initial=self.l) if self.sensitive else np.full(len(places), self.l)
        releases, smallest = self.earlier.groups.shape[1] + 1, int(needed.min(initial=self.k))
        values = f" and {self.l} values of {', '.join(self.sensitive)}" if self.sensitive and self.l > 1 else ""
        known = "the release" if releases == 1 else f"all of the {releases} releases in the ledger that she is in"
        return self.report(
            claim=f"at least {smallest} people{values} fit each person in {known}, by "
            f"{format_names_without_box(self.columns)}, for an intruder who cannot link rows by other columns",
            held=not (short | (least < self.l)).any(),
            found=f"fewest people {int(found.people.min(initial=len(places))):,}, "
            f"{format_count(int(short.sum()), 'person')} with fewer than promised",
            fix="the method boxes, which keeps those together who were together before; or a smaller k",
        )
