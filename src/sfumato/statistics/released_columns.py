"""Read the columns of a release: the interval or set of every row, and which rows share a box."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.types as pt

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.dates import Calendar
from sfumato.table.groups import labels_of
from sfumato.table.intervals import (
    BOX,
    Intervals,
    box_columns,
    interval_names,
    is_interval,
    low_name,
    original_names,
    parse_set,
)
from sfumato.table.kinds import Kind
from sfumato.table.table import Coded, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedBoxes:
    """What tells the boxes of a release apart: ``box``, or what their rows share, in which boxes may look alike."""

    keys: tuple[Coded, ...]
    labels: NDArray[np.int64]  # (N,), equal for rows that may share a box
    numbered: bool

    @classmethod
    def of(cls, released: Table, sets: Collection[str], *, numbered: bool) -> ReleasedBoxes:
        """Use the column ``box`` if it numbers boxes: then its rows are the same in all that a box has in common."""
        shared = tuple(released.coded(name) for name in box_columns(released.names, sets))
        if numbered and BOX in released.kinds:
            number = released.coded(BOX)
            if len(np.unique(labels_of([number, *shared], released.rows))) == number.size:
                return cls((number,), labels_of([number], released.rows), numbered=True)
        return cls(shared, labels_of(shared, released.rows), numbered=False)

    def rows_of(self, first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the rows that may share a box with each of these rows."""
        counts: NDArray[np.int64] = np.bincount(self.labels)[self.labels[first]].astype(np.int64)
        return counts

    def missing_most(self, missing: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many values may be missing among rows that may share a box, if m are missing in each box.

        A box that has a value has at least m + 1 rows, so R rows are at most R / (m + 1) boxes.
        """
        return missing if self.numbered else missing * (rows[:, None] // (missing + 1))


@dataclass(frozen=True, eq=False, repr=False)
class ReadColumn:
    """A column of a release: interval ends of every row or, for categories, the set of every code."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    keys: tuple[Coded, ...]  # what distinguishes rows
    missing: NDArray[np.int64] | None = None  # missing rows of the box, if the release counts them
    calendar: Calendar | None = None
    sets: tuple[tuple[str | None, ...], ...] | None = None  # indexed by the codes of the only key
    plain: tuple[str | None, ...] | None = None  # the cells as they are, if it is open whether they are sets


def read_column(released: Table, name: str, sets: Collection[str] | None) -> ReadColumn:
    """Read an interval, or the column itself: numbers as intervals of width 0, or sets."""
    if is_interval(name, released.kinds):
        ends = Intervals.of(released, name)
        parts = interval_names(name, counts_missing=ends.missing is not None)
        keys = tuple(released.coded(part) for part in parts)
        return ReadColumn(ends.low, ends.high, keys, ends.missing, _calendar(released, low_name(name)))
    if name not in released.names:
        names = ", ".join(map(repr, original_names(released.names)))
        raise StatisticError(f"The release has no column {name!r}.", found=f"columns {names}")
    coded = released.coded(name)
    zero_or_one = released.kinds[name] is Kind.BOOLEAN and pt.is_integer(released.arrow.column(name).type)
    if released.kinds[name].is_numeric or zero_or_one:
        numbers = released.numbers(name)
        return ReadColumn(numbers, numbers, (coded,), calendar=_calendar(released, name))
    cells = _cells(released, name, coded)
    is_set = sets is None or name in sets
    members = tuple(parse_set(cell) if is_set else (cell,) for cell in cells)
    present = [one for one in members if one != (None,)]
    if present and all({*one} <= {"0", "1"} for one in present):
        low, high = (_ends(members, end)[coded.codes] for end in ("0", "1"))
        return ReadColumn(low, high, (coded,))
    nothing = np.empty(0)
    plain = cells if sets is None else None
    return ReadColumn(nothing, nothing, (coded,), sets=members, plain=plain)


def _cells(released: Table, name: str, coded: Coded) -> tuple[str | None, ...]:
    values = coded.values.to_pylist()
    is_boolean = released.kinds[name] is Kind.BOOLEAN
    return tuple(None if value is None else str(value).lower() if is_boolean else str(value) for value in values)


def _ends(sets: Sequence[tuple[str | None, ...]], end: str) -> NDArray[np.float64]:
    """Return the lower ("0") or upper ("1") ends of sets of 0 and 1, which are intervals; NaN for the missing one."""
    other = "1" if end == "0" else "0"
    return np.array([float(end if end in members else other) if members != (None,) else np.nan for members in sets])


def _calendar(released: Table, name: str) -> Calendar | None:
    kind = released.arrow.column(name).type
    if pt.is_date(kind):
        return Calendar.DAYS
    if pt.is_timestamp(kind):
        return Calendar.UTC_MOMENTS if kind.tz else Calendar.MOMENTS
    return None


def read_weights(released: Table, weight: str) -> NDArray[np.float64]:
    """Return the sampling weights of the rows."""
    row_weight = released.numbers(weight)
    if not np.isfinite(row_weight).all() or (row_weight < 0.0).any():
        raise TableError(f"The weights in column {weight!r} must be finite, not negative and not missing.")
    return row_weight
