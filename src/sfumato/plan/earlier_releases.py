"""What earlier releases told about people, and who is still compatible with all of it.

In each release an intruder finds the group of a person he knows. The people who were in her group in every release that
she is in are her candidates: he cannot tell her from them. Two releases that are k-anonymous each may leave her alone.
"""

from __future__ import annotations

from collections.abc import Iterator
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


@dataclass(frozen=True, eq=False, repr=False)
class Compatible:
    """Everybody who is in certain releases, perhaps also in others, by their groups in these."""

    people: NDArray[np.int64]
    labels: NDArray[np.int64]  # equal for those who share their groups in these releases
    asked: NDArray[np.bool_]  # who is in no other release: their candidates are those with the same label


def by_pattern(groups: NDArray[np.int64]) -> Iterator[Compatible]:
    """Look at people who are in the same releases together; those who are in most releases come first."""
    is_in = groups != ABSENT
    patterns, pattern_of = np.unique(is_in, axis=0, return_inverse=True)
    for number in np.argsort(-patterns.sum(axis=1), kind="stable"):
        people = np.flatnonzero(is_in[:, patterns[number]].all(axis=1))
        labels = label_histories(groups[np.ix_(people, patterns[number])])
        yield Compatible(people, labels, pattern_of.ravel()[people] == number)


def label_histories(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each person, equal for those with the same groups."""
    labels = np.zeros(len(groups), dtype=np.int64)
    for column in groups.T:
        labels = refine(labels, (column + 1).astype(np.int32), int(column.max(initial=0)) + 2)
    return labels


def count_different(labels: NDArray[np.int64], cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many different values those of each label have."""
    pairs = refine(labels, cells.astype(np.int32), int(cells.max(initial=0)) + 1)
    return np.bincount(labels[np.unique(pairs, return_index=True)[1]])


def find_candidates(groups: NDArray[np.int64], values: NDArray[np.int64]) -> Candidates:
    """Count the candidates of each person.

    ``groups`` has a row for each person and a column for each release, ``ABSENT`` where she is not in it; ``values`` a
    column for each sensitive column.
    """
    people, different = np.zeros(len(groups), dtype=np.int64), np.zeros(values.shape, dtype=np.int64)
    for found in by_pattern(groups):
        asked, labels = found.people[found.asked], found.labels[found.asked]
        people[asked] = np.bincount(found.labels)[labels]
        for column, cells in enumerate(values[found.people].T):
            different[asked, column] = count_different(found.labels, cells)[labels]
    return Candidates(people, different)


@dataclass(frozen=True, eq=False, repr=False)
class EarlierReleases:
    """What earlier releases told about the people of a table."""

    person: str  # column that tells people apart
    people: NDArray[np.uint64]  # hash of each person, as ``column_hashes`` makes it, in ascending order
    groups: NDArray[np.int64]  # (people, releases)
    needed: NDArray[np.int64]  # (people,): the least k of the releases that she is in; 0 for those who are new
    values: NDArray[np.int64]  # (people, columns): sensitive values in the table, as numbers from 0
    l: int  # number of different values that candidates must have
    are_held_back: NDArray[np.bool_]  # (people,): who cannot be released with enough candidates
    are_repeated: bool  # whether somebody has several rows

    @property
    def are_known(self) -> NDArray[np.bool_]:
        """Who is in an earlier release."""
        return np.asarray((self.groups != ABSENT).any(axis=1))

    def places(self, people: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the place of each of these people."""
        return np.searchsorted(self.people, people)

    def places_of(self, rows: Table) -> NDArray[np.int64]:
        """Return the place of the person of each row."""
        return self.places(column_hashes(rows, self.person))

    def of(self, places: NDArray[np.int64]) -> EarlierReleases:
        """Return what is known about some of the people."""
        return replace(
            self,
            people=self.people[places],
            groups=self.groups[places],
            needed=self.needed[places],
            values=self.values[places],
            are_held_back=self.are_held_back[places],
        )

    def hold_back(self, k: int) -> EarlierReleases:
        """Return the same with everybody held back who has too few candidates left, even if all of them stay together.

        That is so where people have left, or where the values of those who stay have become equal. Who is held back
        is nobody's candidate.
        """
        known, held = np.flatnonzero(self.are_known), np.zeros(len(self.people), dtype=bool)
        for found in by_pattern(self.groups[known]):
            people, asked = known[found.people], known[found.people[found.asked]]
            stay = ~held[people]
            labels, hers = found.labels[stay], found.labels[found.asked]
            count = int(found.labels.max(initial=-1)) + 1
            short = np.bincount(labels, minlength=count)[hers] < np.minimum(self.needed[asked], k)
            for cells in self.values[people[stay]].T:
                short |= count_different(labels, cells)[hers] < self.l
            held[asked[short]] = True
        return replace(self, are_held_back=held)
