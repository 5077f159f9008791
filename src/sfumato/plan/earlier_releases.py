"""What earlier releases told about people, and who is still compatible with all of it.

In each release an intruder finds the group of a person he knows. The people who were in her group in every release that
she is in are her candidates: he cannot tell her from them. Two releases that are k-anonymous each may leave her alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.groups import column_hashes, first_rows, refine

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
    pattern_of = label_histories(is_in.astype(np.int64))
    patterns = is_in[first_rows(pattern_of)]
    for number in np.argsort(-patterns.sum(axis=1), kind="stable"):
        people = np.flatnonzero(is_in[:, patterns[number]].all(axis=1))
        labels = label_histories(groups[np.ix_(people, patterns[number])])
        yield Compatible(people, labels, pattern_of[people] == number)


def label_histories(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each person, equal for those with the same groups."""
    labels = np.zeros(len(groups), dtype=np.int64)
    for column in groups.T:
        labels = refine(labels, (column + 1).astype(np.int32), int(column.max(initial=0)) + 2)
    return labels


def count_different(labels: NDArray[np.int64], cells: NDArray[np.int64], count: int = 0) -> NDArray[np.int64]:
    """Return how many different values those of each label have, of at least ``count`` labels."""
    pairs = refine(labels, cells.astype(np.int32), int(cells.max(initial=0)) + 1)
    return np.bincount(labels[first_rows(pairs)], minlength=count)


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
    k: int  # number of candidates that everybody must have, unless she needed fewer before
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

    def hold_back(self, secret: bytes) -> EarlierReleases:
        """Return the same with everybody held back who has too few candidates left, even if all of them stay together.

        That is so where people have left, or where the values of those who stay have become equal. Who is held back
        is nobody's candidate. Whoever knows that people are still in the table would learn from their missing rows that
        their values are equal. So for each set of people who lack values, another one that does not is held back, too.
        """
        held = np.zeros(len(self.people), dtype=bool)
        while True:
            found = self._find_sets(held)
            decoys = found.choose_decoys(self.groups, secret)
            held = held | found.are_lacking | np.isin(found.set_of, decoys)
            if not len(decoys):
                return replace(self, are_held_back=held)

    def _find_sets(self, held: NDArray[np.bool_]) -> PeopleSets:
        """Return the people with the same history who are not held back yet, and which of them lack candidates."""
        known, held = np.flatnonzero(self.are_known), held.copy()
        set_of, is_alike = np.full(len(held), NO_SET, dtype=np.int64), np.zeros(0, dtype=bool)
        are_lacking = np.zeros(len(held), dtype=bool)
        for found in by_pattern(self.groups[known]):
            people = known[found.people]
            stay = ~held[people]
            labels, sizes = found.labels[stay], np.bincount(found.labels[stay], minlength=int(found.labels.max()) + 1)
            asked, hers = people[found.asked & stay], found.labels[found.asked & stay]
            few = sizes[hers] < np.minimum(self.needed[asked], self.k)
            alike = np.zeros(len(hers), dtype=bool)
            for cells in self.values[people[stay]].T:
                alike |= count_different(labels, cells, len(sizes))[hers] < self.l
            are_lacking[asked[few | alike]] = held[asked[few | alike]] = True
            numbers, own = np.unique(hers[~few], return_inverse=True)
            set_of[asked[~few]] = len(is_alike) + own.ravel()
            lacks = np.zeros(len(numbers), dtype=bool)
            lacks[own.ravel()] = alike[~few]
            is_alike = np.concatenate([is_alike, lacks])
        return PeopleSets(set_of, is_alike, are_lacking)


NO_SET = -1
LIKE_SETS = 8  # sets of about the same size, of which one is as likely to be held back for another as any


@dataclass(frozen=True, eq=False, repr=False)
class PeopleSets:
    """Sets of people with the same history, who have enough candidates or only lack different values."""

    set_of: NDArray[np.int64]  # (people,): NO_SET for those who are new, held back or have too few candidates
    is_alike: NDArray[np.bool_]  # (sets,): whether its people lack different values
    are_lacking: NDArray[np.bool_]  # (people,): who lacks candidates or values

    def choose_decoys(self, groups: NDArray[np.int64], secret: bytes) -> NDArray[np.int64]:
        """Return sets to hold back together with those that lack values, as many.

        A decoy must be as likely as the set that it stands for. So both are among a few sets of like size that were
        both in the last release, or both missing: who was missing for such a reason stays missing while it lasts. The
        secret decides between them, in every release alike, so that releases in sequence do not tell them apart either.
        """
        if not self.is_alike.any():
            return np.zeros(0, dtype=np.int64)
        first = np.unique(self.set_of[self.set_of != NO_SET], return_index=True)[1]
        one_of = np.flatnonzero(self.set_of != NO_SET)[first]
        sizes = np.bincount(self.set_of[self.set_of != NO_SET])
        order, chance = np.array([_draw(secret, history) for history in groups[one_of]], dtype=np.uint64).T
        is_missing = groups[one_of, -1] == ABSENT
        decoys: list[NDArray[np.int64]] = []
        for block in _divide(np.lexsort((order, sizes, is_missing)), int((~is_missing).sum())):
            others = block[~self.is_alike[block]]
            decoys.append(others[np.argsort(chance[others])][: int(self.is_alike[block].sum())])
        return np.concatenate(decoys)


def _draw(secret: bytes, history: NDArray[np.int64]) -> tuple[int, int]:
    """Return two random numbers for a history: the same in every release for people who were not in one since."""
    present = np.flatnonzero(history != ABSENT)
    told = np.column_stack([present, history[present]]).astype(np.int64).tobytes()
    drawn = hashlib.blake2b(told, key=secret, digest_size=16).digest()
    return int.from_bytes(drawn[:8], "little"), int.from_bytes(drawn[8:], "little")


def _divide(ordered: NDArray[np.int64], present: int) -> Iterator[NDArray[np.int64]]:
    """Divide sets into blocks of about ``LIKE_SETS``; those that were missing apart, unless there is only one."""
    ends = [present] if present != 1 and len(ordered) - present != 1 else []
    for part in np.split(ordered, ends):
        if len(part):
            yield from np.array_split(part, max(1, len(part) // LIKE_SETS))
