"""Answers about a table: extremes, rows that are equal in two tables, and what released ranges and sets leave open."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.table.group_counts import GroupSizes


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest number of a column; NaN if it has none."""

    low: float
    high: float


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


def outer_end(choose: Callable[[float, float], float], one: float, other: float) -> float:
    """Return the smaller or the larger number; NaN is none."""
    return other if math.isnan(one) else one if math.isnan(other) else choose(one, other)


@dataclass(frozen=True)
class ReleasedWidths:
    """The ranges of a released column: how many there are, their widths together, and the ends of all of them."""

    ranges: int
    widths: float
    low: float
    high: float

    def merge(self, other: ReleasedWidths) -> ReleasedWidths:
        """Return the ranges of both."""
        ends = outer_end(min, self.low, other.low), outer_end(max, self.high, other.high)
        return ReleasedWidths(self.ranges + other.ranges, self.widths + other.widths, *ends)


@dataclass(frozen=True, repr=False)
class ReleasedSets:
    """The sets of a released column: rows, rows with any value, and the members that all other sets have beyond one."""

    rows: int
    any_rows: int
    members: int  # sum over the rows
    values: frozenset[Any]  # of all sets

    def merge(self, other: ReleasedSets) -> ReleasedSets:
        """Return the sets of both."""
        return ReleasedSets(
            self.rows + other.rows,
            self.any_rows + other.any_rows,
            self.members + other.members,
            self.values | other.values,
        )
