"""Answers about a table: extremes, and counts of rows that are equal in two tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
