"""The records that a statistic uses, as boxes with weights, and the columns that tell which records these are.

Of the weights, only the total of each box may be known.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.conditions import NameSet, NumberSet, Predicate
from sfumato.statistics.units import Calendar
from sfumato.table.groups import first_rows
from sfumato.table.intervals import ANY, Member

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
        """Return the predicate with True, TRUE or 1 as the column writes it, if that holds true and false only."""
        known = self.names
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


@dataclass(frozen=True, repr=False)
class Unseen:
    """Rows of the original that were not released: their number, and the range of the columns for which it is known."""

    rows: int
    domains: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class WeightedBoxes:
    """Boxes with weights.

    The weight of a box is at least ``weight`` and at most ``weight + extra``. ``extra`` is zero unless missing cells or
    a condition leave open how many records of a box count. A box can be split into ``parts`` records of equal weight.
    """

    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    weight: NDArray[np.float64]  # (G,), total weight of the records that certainly count
    extra: NDArray[np.float64]  # (G,), additional weight that may count
    likely_weight: NDArray[np.float64]  # (G,), best guess between the two limits
    parts: NDArray[np.int64]  # (G,)
    box: NDArray[np.int64]  # (G,), group of the table
    records: int  # number of records that certainly count
    most_records: int  # number of records that may count

    def split_into_records(self, limit: int) -> WeightedBoxes:
        """Return the same records with one box per record, unless there are more than ``limit``.

        In small tables, the extremes of a statistic can need different values for records of the same box.
        """
        if self.parts.sum() > limit or (self.parts == 1).all():
            return self
        group_of_record = np.repeat(np.arange(len(self.parts)), self.parts)
        split = self.take(group_of_record, 1.0 / self.parts[group_of_record])
        return replace(split, parts=np.ones(len(group_of_record), dtype=np.int64))

    def take(self, boxes: NDArray[np.int64], factor: NDArray[np.float64]) -> WeightedBoxes:
        """Return the boxes with these positions, each with its weights multiplied by a factor."""
        return replace(
            self,
            low=self.low[boxes],
            high=self.high[boxes],
            weight=self.weight[boxes] * factor,
            extra=self.extra[boxes] * factor,
            likely_weight=self.likely_weight[boxes] * factor,
            parts=self.parts[boxes],
            box=self.box[boxes],
        )

    def with_unseen(self, low: Sequence[float], high: Sequence[float], rows: int, *, certain: bool) -> WeightedBoxes:
        """Return these records and ``rows`` more with weight 1, somewhere between ``low`` and ``high``.

        Unless they are ``certain`` to count, each of them may count or not.
        """
        weight, extra = (rows, 0) if certain else (0, rows)
        return WeightedBoxes(
            np.vstack([self.low, np.reshape(low, (1, -1))]),
            np.vstack([self.high, np.reshape(high, (1, -1))]),
            np.append(self.weight, float(weight)),
            np.append(self.extra, float(extra)),
            np.append(self.likely_weight, float(weight)),
            np.append(self.parts, 1),
            np.append(self.box, -1),
            self.records + weight,
            self.most_records + rows,
        )

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Centres of the boxes; NaN for a box without ends."""
        with np.errstate(invalid="ignore"):
            centres: NDArray[np.float64] = self.low + (self.high - self.low) / 2.0
        return centres

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half-widths of the boxes."""
        return (self.high - self.low) / 2.0

    @property
    def is_one_record(self) -> bool:
        """Whether exactly one record counts, so that every variance is zero."""
        return self.records == 1 and self.is_certain

    @property
    def is_certain(self) -> bool:
        """Whether the number of counting records is known for every box."""
        return not self.extra.any()


# Sampling weights of which only the total and the range of each box are known.
#
# If the n rows of a box show its mean weight and the range a … b of its weights, the original weights are any numbers
# in that range with the total W of the box. For a statistic, each row certainly has the weight a at its own place. The
# rest of the box, W − n·a, lies somewhere on its rows, at most b − a on each of them. If a column differs between the
# rows, the lowest b − a of the rest lies at or above the lowest row, and at or below the lowest of those highest rows
# that can hold the rest, and so on: the rest is divided into segments, each with its own ends. Without a range a is 0
# and b is W: one segment, in the smallest box around the rows. Rows that may not count may have any share that the
# range allows.


@dataclass(frozen=True, eq=False, repr=False)
class WeightPools:
    """Boxes of which the total weight is known: the box of each group of equal rows, the totals, and the ranges."""

    box: NDArray[np.int64]  # (G,), from 0 to B − 1
    total: NDArray[np.float64]  # (B,)
    lightest: NDArray[np.float64]  # (B,)
    heaviest: NDArray[np.float64]  # (B,)

    @classmethod
    def of(
        cls,
        labels: NDArray[np.int64],
        repeats: NDArray[np.int64],
        weight: NDArray[np.float64],
        first: NDArray[np.int64],
        ends: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
    ) -> WeightPools:
        """Return the totals of boxes whose rows show the mean weight, and the ``ends`` of their weights if given.

        Row i stands for ``repeats[i]`` equal rows, and ``first`` is one row of each group. The mean was rounded, so a
        total that is whole up to that rounding is taken as whole: totals of whole weights are then exact.
        """
        own = first_rows(labels)
        rows, shown = np.bincount(labels, weights=repeats), weight[own]
        differ = np.bincount(labels, weights=weight != shown[labels]) > 0.0  # only if boxes cannot be told apart
        total = np.where(differ, np.bincount(labels, weights=repeats * weight), rows * shown)
        whole = np.rint(total)
        total = np.where(np.abs(total - whole) <= 2.0 * EPS * total, whole, total)
        low, high = (np.zeros(len(total)), total) if ends is None else (end[own] for end in ends)
        return cls(labels[first], total, np.minimum(low, total / rows), np.maximum(high, total / rows))

    @property
    def merge_groups(self) -> bool:
        """Whether a box has several groups, so that its rows differ."""
        return len(self.box) > len(self.total)

    def gather(
        self, rows: MeetingRows, count: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> WeightedBoxes:
        """Return the parts of each box, from the rows of its groups that count and the intervals of these rows."""
        every, least, most, likely = (self._sums(one) for one in (count, rows.least, rows.most, rows.likely))
        limits = self.limits(every, least, most)
        possible = rows.most > 0.0
        alike = (self._sums(possible) <= 1.0) | (low.shape[1] == 0)  # nothing to tell the rows of the box apart
        own = np.where(alike, 0.0, self.lightest)  # what each row has at its own place
        certain = np.maximum(limits[0] - own * least, 0.0)
        open_ = np.maximum(limits[1] - limits[0] - own * (most - least), 0.0)
        guess = np.clip(self.total * likely / every - own * likely, certain, certain + open_) - certain
        share = np.divide(guess, open_, out=np.zeros_like(open_), where=open_ > 0.0)
        at = np.flatnonzero(possible & (own[self.box] > 0.0))
        base = own[self.box[at]]
        places = _RowPlaces.of(self.box[possible], rows.most[possible], low[possible], high[possible])
        capacity = self.heaviest - self.lightest
        fixed, loose = (places.divide(mass, capacity) for mass in (certain, open_))
        none = np.zeros(len(fixed.box)), np.zeros(len(loose.box))
        is_sure = rows.least[at] == rows.most[at]
        return WeightedBoxes(
            np.vstack([low[at], fixed.low, loose.low]),
            np.vstack([high[at], fixed.high, loose.high]),
            np.concatenate([base * rows.least[at], fixed.weight, none[1]]),
            np.concatenate([base * (rows.most - rows.least)[at], none[0], loose.weight]),
            np.concatenate([base * rows.likely[at], fixed.weight, loose.weight * share[loose.box]]),
            np.concatenate([np.where(is_sure, rows.least[at], 1.0), none[0] + 1, none[1] + 1]).astype(np.int64),
            np.concatenate([self.box[at], fixed.box, loose.box]),
            int(rows.least.sum()),
            int(rows.most.sum()),
        )

    def fill(self, box: NDArray[np.int64], count: NDArray[np.int64], order: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return weights of groups of rows that put as much as possible on the first groups of each box in this order.

        The groups are all rows of their boxes.
        """
        before, own = np.cumsum(count[order]) - count[order], box[order]
        before -= before[np.searchsorted(own, own)]
        rows = np.bincount(box, weights=count, minlength=len(self.total))
        rest = np.maximum(self.total - rows * self.lightest, 0.0)
        capacity = np.maximum(self.heaviest - self.lightest, rest / np.maximum(rows, 1.0))[own]
        held = np.clip(rest[own] - before * capacity, 0.0, count[order] * capacity)
        weight = np.empty(len(box))
        weight[order] = self.lightest[own] * count[order] + held
        return weight

    def limits(
        self, every: NDArray[np.float64], least: NDArray[np.float64], most: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and the largest weight of the rows of each box that count, of which there are so many."""
        outside = self.total - (every - least) * self.heaviest
        lowest = np.where(least == every, self.total, np.maximum(outside, least * self.lightest))
        inside = self.total - (every - most) * self.lightest
        highest = np.where(most == every, self.total, np.minimum(inside, most * self.heaviest))
        return lowest, np.maximum(highest, lowest)

    def _sums(self, values: NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.float64]:
        return np.bincount(self.box, weights=values, minlength=len(self.total)).astype(np.float64)


@dataclass(frozen=True, eq=False, repr=False)
class _Segments:
    """Parts of the weight of boxes, each between two ends."""

    low: NDArray[np.float64]  # (S, n)
    high: NDArray[np.float64]
    weight: NDArray[np.float64]  # (S,)
    box: NDArray[np.int64]  # (S,)


@dataclass(frozen=True, eq=False, repr=False)
class _RowPlaces:
    """The rows of each box that may count, one by one, sorted by the ends of the column that differs most in it."""

    low: NDArray[np.float64]  # (B, n), smallest box around the rows
    high: NDArray[np.float64]
    column: NDArray[np.int64]  # (B,)
    start: NDArray[np.int64]  # (B + 1,), of the rows of each box
    lowest: NDArray[np.float64]  # (N,), low ends of that column in ascending order in each box
    highest: NDArray[np.float64]  # (N,), and high ends
    number: NDArray[np.int64]  # (B,), of the box

    @classmethod
    def of(
        cls, box: NDArray[np.int64], count: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> _RowPlaces:
        """Sort groups of ``count`` rows each."""
        order = np.argsort(box, kind="stable")
        box, low, high = box[order], low[order], high[order]
        number, start = np.unique(box, return_index=True)
        if not len(number) or not low.shape[1]:
            none = np.empty((len(number), low.shape[1]))
            return cls(none, none, start, start, np.empty(0), np.empty(0), number)
        hull_low, hull_high = np.minimum.reduceat(low, start), np.maximum.reduceat(high, start)
        apart = hull_high - hull_low - np.maximum.reduceat(high - low, start)
        scale = hull_high.max(axis=0) - hull_low.min(axis=0)
        column = np.argmax(apart / np.where(scale > 0.0, scale, 1.0), axis=1)
        rows = np.repeat(np.arange(len(box)), count[order].astype(np.int64))
        place = np.searchsorted(number, box[rows])
        ends = [end[rows, column[place]] for end in (low, high)]
        lowest, highest = (end[np.lexsort((end, place))] for end in ends)
        starts = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=len(number)))])
        return cls(hull_low, hull_high, column, starts, lowest, highest, number)

    def divide(self, mass: NDArray[np.float64], capacity: NDArray[np.float64]) -> _Segments:
        """Divide a mass of each box, of which each row has at most the capacity, into segments from low to high."""
        own = mass[self.number]
        if not len(own) or not self.low.shape[1]:
            return self._keep(np.arange(len(own)), own, self.low.copy(), self.high.copy())
        rows = np.diff(self.start)
        unit = np.maximum(capacity[self.number], own / rows)
        unit = np.where(unit > 0.0, unit, 1.0)
        full = np.clip(np.ceil(own / unit), 1, rows).astype(np.int64)  # rows that hold the mass if they are filled
        last = own - (full - 1) * unit  # what the last of them holds
        place = np.repeat(np.arange(len(own)), full)
        step = np.arange(len(place)) - np.repeat(np.cumsum(full) - full, full)
        below = self.start[place] + step
        above = below + (rows - full)[place]
        inner = step < full[place] - 1  # between two rows the ends change twice
        boxes = np.concatenate([place, place[inner]])
        weight = np.concatenate([last[place], (unit - last)[place[inner]]])
        low, high = self.low[boxes], self.high[boxes]
        each = np.arange(len(boxes)), self.column[boxes]
        low[each] = np.concatenate([self.lowest[below], self.lowest[below[inner]]])
        high[each] = np.concatenate([self.highest[above], self.highest[above[inner] + 1]])
        return self._keep(boxes, weight, low, high)

    def _keep(
        self, boxes: NDArray[np.int64], weight: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> _Segments:
        """Return the segments that have a weight, those with the same ends as one."""
        kept = np.flatnonzero(weight > 0.0)
        boxes, weight, low, high = boxes[kept], weight[kept], low[kept], high[kept]
        if not len(kept):
            return _Segments(low, high, weight, self.number[boxes])
        order = np.lexsort((*high.T, *low.T, boxes))
        ends = np.column_stack([boxes, low, high])[order]
        first = np.flatnonzero(np.concatenate([[True], (ends[1:] != ends[:-1]).any(axis=1)]))
        chosen = order[first]
        return _Segments(low[chosen], high[chosen], np.add.reduceat(weight[order], first), self.number[boxes[chosen]])
