"""How many rows, or people, each group has, merged over the parts of a table, and what is left once all are counted.

    GroupCounts of parts → split into shares by key → merge each share → settled → merge → GroupExtremes

A group is in the same share of every part. So a share can be merged by itself, and when it is complete only its
extremes are kept: a table of any number of groups is counted in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.table.groups import GroupKeys, KeyedGroups, first_rows


@dataclass(frozen=True, kw_only=True)
class GroupExtremes:
    """Groups that are complete: how many there are, their rows or people, and the smallest of them."""

    groups: int
    rows: int
    fewest: int  # in a group; 0 without groups

    def merge(self, other: GroupExtremes) -> GroupExtremes:
        """Return the extremes of two sets of groups that share none."""
        fewest = [one.fewest for one in (self, other) if one.groups]
        return GroupExtremes(
            groups=self.groups + other.groups, rows=self.rows + other.rows, fewest=min(fewest, default=0)
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Counts:
    """Groups by their keys, with a number for each."""

    keys: GroupKeys
    counts: NDArray[np.int64]  # (groups,)

    @property
    def groups(self) -> int:
        """Number of groups."""
        return len(self.counts)

    @property
    def rows(self) -> int:
        """Sum of the numbers of all groups."""
        return int(self.counts.sum())

    @property
    def fewest(self) -> int:
        """Smallest number of a group; 0 without groups."""
        return int(self.counts.min()) if len(self.counts) else 0

    def settled(self) -> GroupExtremes:
        """Return what is left of groups that no other part has."""
        return GroupExtremes(groups=self.groups, rows=self.rows, fewest=self.fewest)


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts(_Counts):
    """Number of rows in each group."""

    @classmethod
    def of(cls, groups: KeyedGroups) -> GroupCounts:
        """Count the rows of each group."""
        return cls(groups.keys, np.bincount(groups.labels, minlength=groups.size))

    def merge(self, *others: GroupCounts) -> GroupCounts:
        """Add up the rows of groups that have the same key; many parts at once take less time than one by one."""
        groups = KeyedGroups.of_keys(self.keys.followed_by(*(one.keys for one in others)))
        counts = np.concatenate([one.counts for one in (self, *others)])
        return GroupCounts(groups.keys, sum_by_group(groups, counts))

    def split(self, shares: int) -> list[GroupCounts]:
        """Return the groups of each share."""
        return [GroupCounts(self.keys.take(own), self.counts[own]) for own in self.keys.shares(shares)]


@dataclass(frozen=True, eq=False, repr=False)
class PeopleCounts(_Counts):
    """Number of different people in each group; the people are kept only of groups that have fewer than ``enough``.

    The number is exact for a group whose rows were counted together. A group of several parts may have more people than
    that where one of its parts already had enough.
    """

    group: NDArray[np.int64]  # place in ``keys`` of each person that is kept
    person: NDArray[np.uint64]  # hash of that person
    enough: int

    @classmethod
    def of(cls, groups: KeyedGroups, people: NDArray[np.uint64], enough: int) -> PeopleCounts:
        """Count the people of each group, given the hash of each row's person."""
        group, person = _distinct_pairs(groups.labels, people)
        counts = np.bincount(group, minlength=groups.size)
        few = counts[group] < enough
        return cls(groups.keys, counts, group[few], person[few], enough)

    def merge(self, other: PeopleCounts) -> PeopleCounts:
        """Count the people of groups that have the same key together; a person counts once in each of her groups."""
        groups = KeyedGroups.of_keys(self.keys.followed_by(other.keys))
        counts = np.zeros(groups.size, dtype=np.int64)
        np.maximum.at(counts, groups.labels, np.concatenate([self.counts, other.counts]))
        group = groups.labels[np.concatenate([self.group, other.group + len(self.keys)])]
        group, person = _distinct_pairs(group, np.concatenate([self.person, other.person]))
        counts = np.maximum(counts, np.bincount(group, minlength=groups.size))
        few = counts[group] < self.enough
        return PeopleCounts(groups.keys, counts, group[few], person[few], self.enough)

    def split(self, shares: int) -> list[PeopleCounts]:
        """Return the groups of each share, with the people who are kept of them."""
        return [
            PeopleCounts(self.keys.take(own), self.counts[own], place, self.person[kept], self.enough)
            for own in self.keys.shares(shares)
            for kept, place in [members_of(own, self.group, len(self.keys))]
        ]


def members_of(
    chosen: NDArray[np.int64], group: NDArray[np.int64], groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return which entries belong to one of the chosen groups, and the place of its group among these."""
    place = np.full(groups, -1, dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    kept = np.flatnonzero(place[group] >= 0)
    return kept, place[group[kept]]


def sum_by_group(groups: KeyedGroups, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of these counts over the rows of each group, exact below 2⁵³."""
    return np.bincount(groups.labels, weights=counts, minlength=groups.size).astype(np.int64)


def _distinct_pairs(
    labels: NDArray[np.int64], values: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Return each pair of label and value once."""
    first = first_rows(KeyedGroups.of_keys(np.stack([labels.astype(np.uint64), values], axis=1)).labels)
    return labels[first], values[first]


@dataclass(frozen=True, eq=False, repr=False)
class GroupSizes:
    """A histogram of the sizes of groups of equal rows: there are ``groups[i]`` groups of ``sizes[i]`` rows."""

    sizes: NDArray[np.int64]  # ascending
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> GroupSizes:
        """Return the histogram of the sizes of individual groups."""
        return cls(*np.unique(sizes, return_counts=True))

    def merge(self, other: GroupSizes) -> GroupSizes:
        """Return the histogram of two sets of groups that share none."""
        sizes, place = np.unique(np.concatenate([self.sizes, other.sizes]), return_inverse=True)
        groups = np.bincount(place, np.concatenate([self.groups, other.groups]), minlength=len(sizes))
        return GroupSizes(sizes, groups.astype(np.int64))

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.sum())

    @property
    def smallest(self) -> int:
        """Number of rows in the smallest group; 0 if there is none."""
        return int(self.sizes.min(initial=np.iinfo(np.int64).max)) if len(self.sizes) else 0

    @property
    def unique_rows(self) -> int:
        """Number of rows that are alone in their group."""
        return int(self.groups[self.sizes == 1].sum())
