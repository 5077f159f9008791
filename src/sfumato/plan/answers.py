"""Answers about a table: extremes, sizes of groups, and counts of rows that are equal in two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest number of a column; NaN if it has none."""

    low: float
    high: float


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


@dataclass(frozen=True, kw_only=True)
class EqualRowCounts:
    """Rows of a first table, the people, compared with the rows of a second one, in some columns."""

    unique: int  # people whom no other equals in these columns, nor in the columns that others know
    copied: int  # those of them whom a row of the second table equals
    pairs: int  # combinations of values that exactly two people have
    equal: int  # rows of the second table that equal a person


@dataclass(frozen=True, kw_only=True)
class ComparedRows:
    """All rows of an original and of its release, compared."""

    original_rows: int
    people: int  # of the original; the number of rows if no column tells people apart
    released_rows: int
    whole: EqualRowCounts  # in all columns
    known: EqualRowCounts  # in the columns that others know
    groups: GroupSizes  # of released rows that are equal in these columns, as they are released
