"""What the columns of a release say about each row: ends of intervals, sets of values, nodes of trees, weights."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.conditions import NameSet, NumberSet, Predicate
from sfumato.statistics.units import Calendar
from sfumato.table.coding import Coded
from sfumato.table.intervals import (
    ANY,
    BOX,
    Intervals,
    Member,
    box_columns,
    has_ends,
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
    released: Table,
    columns: Sequence[str],
    sets: Collection[str],
    weight: str | None,
    known: Collection[str] | None,
    *,
    pooled: bool,
) -> tuple[str, ...]:
    """Return the released columns that these columns are read from, with what tells their boxes apart."""
    for column in columns:
        if column not in released.kinds and not is_interval(column, released.kinds):
            names = ", ".join(map(repr, original_names(released.names, known)))
            raise StatisticError(f"The release has no column {column!r}.", found=f"columns {names}")
    shown = [name for column in columns for name in (column, *interval_names(column, counts_missing=True))]
    if pooled or any(missing_name(column) in released.kinds for column in columns):
        shown += [*box_columns(released.names, sets, known), BOX]
    needed = tuple(dict.fromkeys(name for name in [*shown, *_weight_names(weight)] if name in released.kinds))
    return needed or released.names[:1]  # a count needs the rows, whatever they hold


def _weight_names(weight: str | None) -> tuple[str, ...]:
    return () if weight is None else (weight, *interval_names(weight))


@dataclass(frozen=True, eq=False, repr=False)
class ReadColumn:
    """A column of a release: interval ends of every row or, for categories, the set of every code."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    keys: tuple[Coded, ...]  # what distinguishes rows
    missing: NDArray[np.int64] | None = None  # missing rows of the box, if the release counts them
    calendar: Calendar | None = None
    sets: tuple[tuple[Member, ...], ...] | None = None  # indexed by the codes of the only key
    plain: tuple[str | None, ...] | None = None  # the cells as they are, if it is open whether they are sets
    listed: frozenset[str] = frozenset()  # values of which the sets that contain them are known


def read_column(released: Table, name: str, sets: Collection[str] | None, *, from_text: bool = False) -> ReadColumn:
    """Read an interval, or the column itself: numbers as intervals of width 0, or sets."""
    if is_interval(name, released.kinds):
        ends = Intervals.of(released, name)
        parts = interval_names(name, counts_missing=ends.missing is not None)
        keys = tuple(released.coded(part) for part in parts)
        return ReadColumn(ends.low, ends.high, keys, ends.missing, _calendar(released, low_name(name)))
    coded = released.coded(name)
    zero_or_one = released.kinds[name] is Kind.BOOLEAN and pt.is_integer(released.arrow.column(name).type)
    if released.kinds[name].is_numeric or zero_or_one:
        numbers = released.numbers(name)
        return ReadColumn(numbers, numbers, (coded,), calendar=_calendar(released, name))
    cells = _cells(released, name, coded)
    is_set = sets is None or name in sets
    members = _members(cells, is_set=is_set, from_text=from_text)
    present = [one for one in members if one != (None,)]
    if present and all({*one} <= {"0", "1"} for one in present):
        low, high = (_ends(members, end)[coded.codes] for end in ("0", "1"))
        return ReadColumn(low, high, (coded,))
    if from_text and is_set:
        members = tuple(map(parse_set_of_text, cells))
    nothing = np.empty(0)
    return ReadColumn(nothing, nothing, (coded,), sets=members, plain=cells if sets is None else None)


def read_nodes(released: Table, name: str, covers: Mapping[str, Sequence[str]]) -> ReadColumn:
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
    return ReadColumn(nothing, nothing, (coded,), sets=sets, listed=listed)


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
    if weight is None or not has_ends(weight, released.kinds):
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


# Columns of groups of rows that look the same, and the number of rows of each group whose value lies in a set.
#
# Only the number of missing cells in a box is known, so the answers are counts of rows and not lists of rows.


LEAST_SHARE = 1e-9  # the best guess where a row may meet a condition
TRUTHS = {"true": 1.0, "false": 0.0}  # values of booleans, in any case


@dataclass(frozen=True, eq=False, repr=False)
class MeetingRows:
    """Number of rows of each group that meet a requirement: at least, at most, and the best guess."""

    least: NDArray[np.float64]  # (G,)
    most: NDArray[np.float64]
    likely: NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class NumericColumn:
    """A numeric column of the groups: intervals, and missing cells counted over the released box."""

    low: NDArray[np.float64]  # (G,), NaN if all values are missing
    high: NDArray[np.float64]
    missing: NDArray[np.int64]  # number of rows of the box whose cell is missing
    box_rows: NDArray[np.int64]  # number of rows of the box
    count: NDArray[np.int64]  # number of rows of the group
    missing_most: NDArray[np.int64]  # the same as ``missing`` if the boxes are known, else an upper limit
    calendar: Calendar | None = None  # the unit of the numbers if the column holds dates

    def values_meeting(self, predicate: Predicate) -> NumberSet:
        """Return the values that meet a predicate."""
        if predicate.value is None:
            return NumberSet((), missing=True) if predicate.operator == "=" else NumberSet()
        return NumberSet.meeting(predicate.operator, self._number(predicate))

    def present(self) -> MeetingRows:
        """Count rows with a value: at least c − m of c, for a group of c rows in a box with m missing cells."""
        empty = np.isnan(self.low)
        least = np.where(empty, 0, np.maximum(self.count - self.missing_most, 0))
        most = np.where(empty, 0, np.minimum(self.count, self.box_rows - self.missing))
        likely = np.where(empty, 0.0, self.count * (1.0 - self.missing / np.maximum(self.box_rows, 1)))
        return MeetingRows(least.astype(np.float64), most.astype(np.float64), likely)

    def rows_in(self, values: NumberSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count rows whose value may be in a set, and guess how many are."""
        present, share = self.present(), self._share(values)
        most = np.where(share > 0.0, present.most, 0.0)
        likely = present.likely * share
        if values.missing:
            most, likely = most + self.count - present.least, likely + self.count - present.likely
        return np.minimum(most, self.count), likely

    def clip(self, values: NumberSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest interval around the values of each box that are in a set; NaN if there are none."""
        low, high = np.full(len(self.low), np.inf), np.full(len(self.low), -np.inf)
        for start, end in values.ends:
            inside = (self.low <= end) & (self.high >= start)
            low = np.where(inside, np.minimum(low, np.maximum(self.low, start)), low)
            high = np.where(inside, np.maximum(high, np.minimum(self.high, end)), high)
        empty = low > high
        return np.where(empty, np.nan, low), np.where(empty, np.nan, high)

    def _share(self, values: NumberSet) -> NDArray[np.float64]:
        """Guess the share of the values of each interval that are in a set: 0 for none, 1 only for all."""
        none, every = ~self._touches(values), ~self._touches(values.complement)
        width = self.high - self.low
        wide, one_value = np.where(width > 0.0, width, 1.0), 1.0 / (width + 1.0)  # one value among whole numbers
        share, gaps = np.zeros(len(width)), values.complement.ends
        for start, end in values.ends:
            part = np.clip(np.minimum(self.high, end) - np.maximum(self.low, start), 0.0, None) / wide
            share += one_value if start == end else part
        if gaps and all(start == end for start, end in gaps):
            share = 1.0 - len(gaps) * one_value
        likely = np.where(every, 1.0, np.where(none, 0.0, np.clip(share, LEAST_SHARE, 1.0)))
        return np.nan_to_num(likely)

    def _touches(self, values: NumberSet) -> NDArray[np.bool_]:
        touched = np.zeros(len(self.low), dtype=bool)
        for start, end in values.ends:
            touched |= (self.low <= end) & (self.high >= start)
        return touched

    def _truth(self, text: str) -> float:
        """Return a number, or that of true and false in a column of 0 and 1."""
        inside = np.isnan(self.low) | (np.isin(self.low, (0.0, 1.0)) & np.isin(self.high, (0.0, 1.0)))
        return TRUTHS[text.lower()] if text.lower() in TRUTHS and inside.all() else float(text)

    def _number(self, predicate: Predicate) -> float:
        """Convert the value of a predicate to the unit of the column: a number or a date."""
        text, number = predicate.value or "", None
        with contextlib.suppress(ValueError):
            number = self._truth(text) if self.calendar is None else self.calendar.number(text)
        if number is None or not math.isfinite(number):
            kind = "a date such as 2024-12-31" if self.calendar else "a number"
            raise StatisticError(
                f"Column {predicate.column!r} must be compared with {kind}.", found=repr(predicate.value)
            )
        return number


@dataclass(frozen=True, eq=False, repr=False)
class CategoricalColumn:
    """A categorical column of the groups: the set of possible values of each group, with None for the missing value.

    A set with ``ANY`` may contain every value. Its rows certainly meet a predicate only if every value does, and the
    best guess spreads them evenly over the names that the column shows and one that it does not.

    ``listed`` are values of which it is known which sets contain them: ``ANY`` stands for none of these.

    If it is not known whether the cells of the column are sets or plain values, ``plain`` contains the cells as they
    are written, and a group certainly meets a predicate only if it does so in both readings.
    """

    codes: NDArray[np.int64]  # (G,)
    sets: tuple[tuple[Member, ...], ...]
    count: NDArray[np.int64]
    plain: tuple[str | None, ...] | None = None
    listed: frozenset[str] = frozenset()

    def values_meeting(self, predicate: Predicate) -> NameSet:
        """Return the values that meet a predicate."""
        if predicate.operator not in ("=", "!="):
            raise StatisticError(
                f"Column {predicate.column!r} holds categories, which can only be compared by = and !=.",
                found=repr(predicate.operator),
            )
        if predicate.value is None:
            return NameSet(others=False, missing=True) if predicate.operator == "=" else NameSet()
        shown = self._as_shown(predicate)
        self._require_spelling(shown)
        return NameSet.meeting(shown.operator, shown.value or "")

    def rows_in(self, values: NameSet) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Count rows whose value may be in a set, and guess how many are."""
        asked = sorted(values.names - self.listed)
        share = np.array([_share_inside(_spell_out(members, asked), values) for members in self.sets])
        other = share if self.plain is None else np.array([_share_inside([cell], values) for cell in self.plain])
        guesses = self._guesses(values, share)
        if not values.others:
            guesses = np.where(share == 0.0, other, guesses)  # who asks for "a|b" knows that it is one value
        count, most = self.count.astype(np.float64), np.maximum(share, other)[self.codes]
        likely = np.maximum(guesses, LEAST_SHARE)[self.codes]
        return np.where(most > 0.0, count, 0.0), count * np.where(most > 0.0, likely, 0.0)

    def _guesses(self, values: NameSet, share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shares that most likely are in a set, with cells read as sets."""
        wide = [position for position, members in enumerate(self.sets) if ANY in members]
        if not wide:
            return share
        shown, guesses = sorted(self.names - self.listed), share.copy()
        for position in wide:
            guesses[position] = _share_inside(_spell_out(self.sets[position], shown), values)
        return guesses

    @property
    def levels(self) -> tuple[str, ...]:
        """All values that its sets show, in order."""
        return tuple(sorted({member for members in self.sets for member in members if isinstance(member, str)}))

    @property
    def names(self) -> set[str]:
        """All values that the column shows, in either reading."""
        cells = (*self.sets, *((cell,) for cell in self.plain or ()))
        return {member for members in cells for member in members if isinstance(member, str)}

    def _as_shown(self, predicate: Predicate) -> Predicate:
        """Return the predicate with True, TRUE or 1 as the column writes it, if that holds true and false only.

        The name of a node that may stand for anything, such as ``*``, is no value.
        """
        known = self.names.difference(*(set(members) - self.listed for members in self.sets if ANY in members))
        if predicate.value is None or predicate.value in known or not {name.lower() for name in known} <= set(TRUTHS):
            return predicate
        wanted = TRUTHS.get(predicate.value.lower(), _number_of(predicate.value))
        alike = [name for name in known if TRUTHS[name.lower()] == wanted]
        return replace(predicate, value=alike[0]) if alike else predicate

    def _require_spelling(self, predicate: Predicate) -> None:
        """Raise if a number is written otherwise than a category, such as 0.0 for 0: as texts they are not equal."""
        number = None if predicate.value is None or predicate.value in self.names else _number_of(predicate.value)
        alike = [member for member in self.names if number is not None and _number_of(member) == number]
        if alike:
            raise StatisticError(
                f"Column {predicate.column!r} holds categories, which are compared as texts.",
                found=f"{predicate.value!r}, which is another text for {alike[0]!r}",
                fix=f"write {alike[0]!r}",
            )


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _spell_out(members: Sequence[Member], names: Sequence[str]) -> Sequence[Member]:
    """Return the set with these names, if it may contain any value; ``ANY`` remains for a value with another name."""
    return (*members, *names) if ANY in members else members


def _share_inside(members: Sequence[Member], values: NameSet) -> float:
    """Return the share of the members that are in a set; ``ANY`` stands for a name that is not among those of it."""
    inside = [values.others if member is ANY else values.contains(member) for member in members]
    return sum(inside) / len(members)
