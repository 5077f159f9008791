"""What earlier releases told about people, and who is still compatible with all of it.

In each release an intruder finds the group of a person he knows. The people who were in her group in every release that
she is in are her candidates: he cannot tell her from them. Two releases that are k-anonymous each may leave her alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.groups import column_hashes, refine

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
