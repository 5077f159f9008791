"""The records that a statistic uses, as boxes with weights; of the weights, only the total of each box may be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.released_columns import MeetingRows
from sfumato.table.groups import first_rows, sum_groups


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


def rounding_of_rest(
    total: NDArray[np.float64], lightest: NDArray[np.float64], heaviest: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Bound the rounding of what is left of a total without some rows; whole weights are not rounded."""
    whole = np.all([np.rint(one) == one for one in (total, lightest, heaviest)], axis=0)
    return np.where(whole, 0.0, 4.0 * EPS * total)


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
        total = np.where(differ, sum_groups(repeats * weight, labels), rows * shown)
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
        rounding = rounding_of_rest(self.total, self.lightest, self.heaviest)
        outside = self.total - (every - least) * self.heaviest - rounding
        lowest = np.where(least == every, self.total, np.maximum(outside, least * self.lightest))
        inside = self.total - (every - most) * self.lightest + rounding
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
