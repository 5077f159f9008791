"""What the columns of a release say about each row: ends of intervals, sets of values, nodes of trees, weights."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.units import Calendar
from sfumato.table.coding import Coded
from sfumato.table.intervals import (
    ANY,
    BOX,
    Intervals,
    Member,
    box_columns,
    interval_names,
    is_interval,
    low_name,
    missing_name,
    original_names,
    parse_set,
    parse_set_of_text,
)
from sfumato.table.kinds import MARKS, Kind
from sfumato.table.table import Table


def find_needed(
    released: Table, columns: Sequence[str], sets: Collection[str], weight: str | None, *, pooled: bool
) -> tuple[str, ...]:
    """Return the released columns that these columns are read from, with what tells their boxes apart."""
    for column in columns:
        if column not in released.kinds and not is_interval(column, released.kinds):
            names = ", ".join(map(repr, original_names(released.names)))
            raise StatisticError(f"The release has no column {column!r}.", found=f"columns {names}")
    shown = [name for column in columns for name in (column, *interval_names(column, counts_missing=True))]
    if pooled or any(missing_name(column) in released.kinds for column in columns):
        shown += [*box_columns(released.names, sets), BOX]
    needed = tuple(dict.fromkeys(name for name in [*shown, *_weight_names(weight)] if name in released.kinds))
    return needed or released.names[:1]  # a count needs the rows, whatever they hold


def _weight_names(weight: str | None) -> tuple[str, ...]:
    return () if weight is None else (weight, *interval_names(weight))


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedColumn:
    """A column of a release: interval ends of every row or, for categories, the set of every code."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    keys: tuple[Coded, ...]  # what distinguishes rows
    missing: NDArray[np.int64] | None = None  # missing rows of the box, if the release counts them
    calendar: Calendar | None = None
    sets: tuple[tuple[Member, ...], ...] | None = None  # indexed by the codes of the only key
    plain: tuple[str | None, ...] | None = None  # the cells as they are, if it is open whether they are sets
    listed: frozenset[str] = frozenset()  # values of which the sets that contain them are known


def read_column(released: Table, name: str, sets: Collection[str] | None, *, from_text: bool = False) -> ReleasedColumn:
    """Read an interval, or the column itself: numbers as intervals of width 0, or sets."""
    if is_interval(name, released.kinds):
        ends = Intervals.of(released, name)
        parts = interval_names(name, counts_missing=ends.missing is not None)
        keys = tuple(released.coded(part) for part in parts)
        return ReleasedColumn(ends.low, ends.high, keys, ends.missing, _calendar(released, low_name(name)))
    coded = released.coded(name)
    zero_or_one = released.kinds[name] is Kind.BOOLEAN and pt.is_integer(released.arrow.column(name).type)
    if released.kinds[name].is_numeric or zero_or_one:
        numbers = released.numbers(name)
        return ReleasedColumn(numbers, numbers, (coded,), calendar=_calendar(released, name))
    cells = _cells(released, name, coded)
    is_set = sets is None or name in sets
    members = _members(cells, is_set=is_set, from_text=from_text)
    present = [one for one in members if one != (None,)]
    if present and all({*one} <= {"0", "1"} for one in present):
        low, high = (_ends(members, end)[coded.codes] for end in ("0", "1"))
        return ReleasedColumn(low, high, (coded,))
    if from_text and is_set:
        members = tuple(map(parse_set_of_text, cells))
    nothing = np.empty(0)
    return ReleasedColumn(nothing, nothing, (coded,), sets=members, plain=cells if sets is None else None)


def read_nodes(released: Table, name: str, covers: Mapping[str, Sequence[str]]) -> ReleasedColumn:
    """Read nodes of a tree as sets: of the listed values below them and, unless it is a listed value, of any others.

    An empty cell may be any value, too: some methods empty cells that they suppress.
    """
    coded = released.coded(name)
    nodes = {parse_set(member)[0]: frozenset(words) for member, words in covers.items()}
    inner = frozenset().union(*nodes.values())

    def members(cell: str | None) -> tuple[Member, ...]:
        if cell in nodes and cell is not None and cell not in inner:
            return (cell,)
        if cell is None:
            return (*nodes, ANY) if None in nodes else (*nodes, None, ANY)
        below = [value for value, words in nodes.items() if cell in words]
        return tuple(dict.fromkeys([*below, ANY, *([] if cell in nodes else [cell])]))

    sets = tuple(map(members, _cells(released, name, coded)))
    nothing = np.empty(0)
    listed = frozenset(value for value in nodes if isinstance(value, str))
    return ReleasedColumn(nothing, nothing, (coded,), sets=sets, listed=listed)


def read_members(
    released: Table, name: str, sets: Collection[str] | None
) -> tuple[Coded, tuple[tuple[Member, ...], ...]]:
    """Return the codes of a column of categories, and the values that each code stands for."""
    coded = released.coded(name)
    return coded, _members(_cells(released, name, coded), is_set=sets is None or name in sets, from_text=False)


def _members(cells: Sequence[str | None], *, is_set: bool, from_text: bool) -> tuple[tuple[Member, ...], ...]:
    sure = [None if from_text and cell in MARKS else cell for cell in cells]
    return tuple(parse_set(cell) if is_set else (cell,) for cell in sure)


def is_whole(released: Table, name: str) -> bool:
    """Return whether a numeric column holds whole numbers only."""
    kinds = [released.kinds[one] for one in (name, low_name(name)) if one in released.kinds]
    return all(kind not in (Kind.CONTINUOUS, Kind.DATE) for kind in kinds)


def _cells(released: Table, name: str, coded: Coded) -> tuple[str | None, ...]:
    values = coded.values.to_pylist()
    is_boolean = released.kinds[name] is Kind.BOOLEAN
    return tuple(None if value is None else str(value).lower() if is_boolean else str(value) for value in values)


def _ends(sets: Sequence[tuple[Member, ...]], end: str) -> NDArray[np.float64]:
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


def read_weight_ends(released: Table, weight: str | None) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the range of the weights of each row's box, if the release shows it."""
    if weight is None or not is_interval(weight, released.kinds):
        return None
    low, high = (released.numbers(name) for name in interval_names(weight))
    if not (np.isfinite(low) & np.isfinite(high) & (low >= 0.0) & (low <= high)).all():
        raise TableError(f"The ranges of the weights in column {weight!r} must be finite and not negative.")
    return low, high


def read_weights(released: Table, weight: str) -> NDArray[np.float64]:
    """Return the sampling weights of the rows."""
    row_weight = released.numbers(weight)
    if not np.isfinite(row_weight).all() or (row_weight < 0.0).any():
        raise TableError(f"The weights in column {weight!r} must be finite, not negative and not missing.")
    return row_weight
