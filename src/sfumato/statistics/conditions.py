"""Conditions on records, ``sex = F and age >= 65``, and the number of rows that meet them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.units import Calendar
from sfumato.table.intervals import ANY, Member

OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
MISSING = "(missing)"
RESERVED = set("(),~+|=<>!&`\"'")  # symbols of the language


def quote(name: str) -> str:
    """Return a name or value as the language of statistics writes it: unquoted if possible, else in backticks."""
    plain = name and name == name.strip() and not RESERVED & set(name) and " and " not in name.lower()
    return name if plain else "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Predicate:
    """A column, an operator, and the value to compare with; None means the missing value.

    A missing cell meets only the predicate ``= (missing)``.
    """

    column: str
    operator: str
    value: str | None

    def __post_init__(self) -> None:
        if self.operator == "==":
            object.__setattr__(self, "operator", "=")
        if self.operator not in OPERATORS:
            raise StatisticError(
                f"The operator of a predicate must be one of {' '.join(OPERATORS)}.", found=repr(self.operator)
            )
        if self.value is None and self.operator not in ("=", "!="):
            raise StatisticError(
                f"A missing value has no order, so column {self.column!r} can only be = or != {MISSING}."
            )

    @property
    def is_missing(self) -> bool:
        """Whether the predicate requires a missing value."""
        return self.value is None and self.operator == "="

    def __str__(self) -> str:
        value = MISSING if self.value is None else quote(self.value)
        return f"{quote(self.column)} {self.operator} {value}"


@dataclass(frozen=True)
class Condition:
    """Predicates that must all hold."""

    predicates: tuple[Predicate, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared, each once."""
        return tuple(dict.fromkeys(predicate.column for predicate in self.predicates))

    def on(self, column: str) -> tuple[Predicate, ...]:
        """Return the predicates on one column."""
        return tuple(predicate for predicate in self.predicates if predicate.column == column)

    def __str__(self) -> str:
        return " and ".join(map(str, self.predicates))


ALWAYS = Condition(())


# Count the rows of each group that meet the predicates on a column: certainly, possibly, and by the best guess.
#
# A group is a set of rows that look the same in a release. A predicate requires that a value is present, or compares
# it with a given value. The intervals of the rows that meet the predicates are returned too. Only the number of
# missing cells in a box is known, so the answers are counts of rows and not lists of rows.


LEAST_SHARE = 1e-9  # the best guess where a row may meet a condition
TRUTHS = {"true": 1.0, "false": 0.0}  # values of booleans, in any case


@dataclass(frozen=True, eq=False, repr=False)
class MeetingRows:
    """Number of rows of each group that meet a requirement: at least, at most, and the best guess."""

    least: NDArray[np.float64]  # (G,)
    most: NDArray[np.float64]
    likely: NDArray[np.float64]

    @classmethod
    def every_row(cls, count: NDArray[np.int64]) -> MeetingRows:
        """Return the counts if nothing is required."""
        every = count.astype(np.float64)
        return cls(every, every, every)

    @classmethod
    def no_row(cls, count: NDArray[np.int64]) -> MeetingRows:
        """Return the counts if no row meets the requirement."""
        return cls(*(np.zeros(len(count)) for _ in range(3)))

    def intersect(self, other: MeetingRows, count: NDArray[np.int64]) -> MeetingRows:
        """Return the counts for both requirements: of c rows, at least a + b − c and at most min(A, B) meet them."""
        return MeetingRows(
            np.maximum(self.least + other.least - count, 0.0),
            np.minimum(self.most, other.most),
            self.likely * other.likely / np.maximum(count, 1),
        )


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

    def present(self) -> MeetingRows:
        """Count rows with a value: at least c − m of c, for a group of c rows in a box with m missing cells."""
        empty = np.isnan(self.low)
        least = np.where(empty, 0, np.maximum(self.count - self.missing_most, 0))
        most = np.where(empty, 0, np.minimum(self.count, self.box_rows - self.missing))
        likely = np.where(empty, 0.0, self.count * (1.0 - self.missing / np.maximum(self.box_rows, 1)))
        return MeetingRows(least.astype(np.float64), most.astype(np.float64), likely)

    def meeting_or_missing(self, predicates: Sequence[Predicate]) -> MeetingRows:
        """Count rows that meet all predicates, which may require a missing value."""
        if not predicates or not all(predicate.is_missing for predicate in predicates):
            return self.meeting(predicates)[0]
        present = self.present()
        return MeetingRows(self.count - present.most, self.count - present.least, self.count - present.likely)

    def meeting(self, predicates: Sequence[Predicate]) -> tuple[MeetingRows, NumericColumn]:
        """Count rows whose value is present and meets all predicates, and return the intervals of these rows."""
        if any(predicate.is_missing for predicate in predicates):
            return MeetingRows.no_row(self.count), self
        present, low, high = self.present(), self.low, self.high
        certain, share = np.ones(len(low), dtype=bool), np.ones(len(low))
        for predicate in predicates:
            if predicate.value is not None:
                number = self._number(predicate)
                holds, part = _compare(self.low, self.high, predicate.operator, number)
                certain, share = certain & holds, share * part
                low, high = _clip(low, high, predicate.operator, number)
        possible = (share > 0.0) & (low <= high)
        rows = MeetingRows(
            np.where(certain & possible, present.least, 0.0),
            np.where(possible, present.most, 0.0),
            np.where(possible, present.likely * share, 0.0),
        )
        return rows, replace(self, low=np.where(possible, low, self.low), high=np.where(possible, high, self.high))

    def _truth(self, text: str) -> float:
        """Return a number, or that of true and false in a column of 0 and 1."""
        inside = np.isnan(self.low) | (np.isin(self.low, (0.0, 1.0)) & np.isin(self.high, (0.0, 1.0)))
        return TRUTHS[text.lower()] if text.lower() in TRUTHS and inside.all() else float(text)

    def _number(self, predicate: Predicate) -> float:
        """Convert the value of a predicate to the unit of the column: a number or a date."""
        text, number = predicate.value or "", None
        with contextlib.suppress(ValueError):
            number = self._truth(text) if self.calendar is None else self.calendar.number(text)
        if number is None or not np.isfinite(number):
            kind = "a date such as 2024-12-31" if self.calendar else "a number"
            raise StatisticError(
                f"Column {predicate.column!r} must be compared with {kind}.", found=repr(predicate.value)
            )
        return number


def _compare(
    low: NDArray[np.float64], high: NDArray[np.float64], operator: str, number: float
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether all values of each interval meet the predicate, and which share of them does (0 for none)."""
    width = high - low
    wide = np.where(width > 0.0, width, 1.0)
    if operator in (">=", ">"):
        certain, none = (low >= number, high < number) if operator == ">=" else (low > number, high <= number)
        share = (high - number) / wide
    elif operator in ("<=", "<"):
        certain, none = (high <= number, low > number) if operator == "<=" else (high < number, low >= number)
        share = (number - low) / wide
    else:
        point = (low == number) & (high == number)
        outside = (number < low) | (number > high)
        one_value = 1.0 / (width + 1.0)  # share of one value among whole numbers
        certain, none = (point, outside) if operator == "=" else (outside, point)
        share = one_value if operator == "=" else 1.0 - one_value
    likely = np.where(certain, 1.0, np.where(none, 0.0, np.clip(share, LEAST_SHARE, 1.0)))
    return certain, np.nan_to_num(likely)


def _clip(
    low: NDArray[np.float64], high: NDArray[np.float64], operator: str, number: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the part of each interval that meets the predicate."""
    if operator in (">=", ">", "="):
        low = np.maximum(low, number)
    if operator in ("<=", "<", "="):
        high = np.minimum(high, number)
    return low, high


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

    def meeting(self, predicates: Sequence[Predicate]) -> MeetingRows:
        """Count rows whose value meets all predicates: all rows of a group only if every member of its set does."""
        ordered = [predicate for predicate in predicates if predicate.operator not in ("=", "!=")]
        if ordered:
            raise StatisticError(
                f"Column {ordered[0].column!r} holds categories, which can only be compared by = and !=.",
                found=repr(ordered[0].operator),
            )
        predicates = [self._as_shown(predicate) for predicate in predicates]
        self._require_spelling(predicates)
        asked = [one.value for one in predicates if one.value is not None and one.value not in self.listed]
        share = np.array([_share_meeting(_spell_out(members, asked), predicates) for members in self.sets])
        other = share if self.plain is None else np.array([_share_meeting([cell], predicates) for cell in self.plain])
        least, most = np.minimum(share, other)[self.codes], np.maximum(share, other)[self.codes]
        guesses = self._guesses(predicates, share)
        if any(predicate.operator == "=" for predicate in predicates):
            guesses = np.where(share == 0.0, other, guesses)  # who asks for "a|b" knows that it is one value
        count, likely = self.count.astype(np.float64), np.maximum(guesses, LEAST_SHARE)[self.codes]
        return MeetingRows(
            np.where(least == 1.0, count, 0.0),
            np.where(most > 0.0, count, 0.0),
            count * np.where(most > 0.0, likely, 0.0),
        )

    def _guesses(self, predicates: Sequence[Predicate], share: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the shares that most likely meet the predicates, with cells read as sets."""
        wide = [position for position, members in enumerate(self.sets) if ANY in members]
        if not wide:
            return share
        shown, guesses = sorted(self._names - self.listed), share.copy()
        for position in wide:
            guesses[position] = _share_meeting(_spell_out(self.sets[position], shown), predicates)
        return guesses

    @property
    def _names(self) -> set[str]:
        """All values that the column shows, in either reading."""
        cells = (*self.sets, *((cell,) for cell in self.plain or ()))
        return {member for members in cells for member in members if isinstance(member, str)}

    def _as_shown(self, predicate: Predicate) -> Predicate:
        """Return the predicate with True, TRUE or 1 as the column writes it, if that holds true and false only."""
        known = self._names
        if predicate.value is None or predicate.value in known or not {name.lower() for name in known} <= set(TRUTHS):
            return predicate
        wanted = TRUTHS.get(predicate.value.lower(), _number_of(predicate.value))
        alike = [name for name in known if TRUTHS[name.lower()] == wanted]
        return replace(predicate, value=alike[0]) if alike else predicate

    def _require_spelling(self, predicates: Sequence[Predicate]) -> None:
        """Raise if a number is written otherwise than a category, such as 0.0 for 0: as texts they are not equal."""
        known = self._names
        for predicate in predicates:
            number = None if predicate.value is None or predicate.value in known else _number_of(predicate.value)
            alike = [member for member in known if number is not None and _number_of(member) == number]
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


def _share_meeting(members: Sequence[Member], predicates: Sequence[Predicate]) -> float:
    """Return the share of the members that meet all predicates; a missing member meets only ``= (missing)``."""

    def meets(member: Member, predicate: Predicate) -> bool:
        if predicate.value is None:
            return (member is None) == (predicate.operator == "=")
        return member is not None and (member == predicate.value) == (predicate.operator == "=")

    met = sum(all(meets(member, predicate) for predicate in predicates) for member in members)
    return met / len(members)
