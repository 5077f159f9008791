"""The records that a statistic uses, as boxes with weights, of which only the total of each box may be known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.counted_columns import MeetingRows
from sfumato.table.groups import first_rows


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


# Sampling weights of which only the total of each box is known.
#
# If the rows of a box show its mean weight, the original weight of each row may be anything from 0 to the total W of
# the box. For a statistic, a box is then one part of weight W, somewhere in the smallest box around those of its rows
# that may count. If all of its rows certainly count, so does W; otherwise the rows that do not count may have any
# share of it.


@dataclass(frozen=True, eq=False, repr=False)
class WeightPools:
    """Boxes of which the total weight is known: the box of each group of equal rows, and the totals."""

    box: NDArray[np.int64]  # (G,), from 0 to B − 1
    total: NDArray[np.float64]  # (B,)

    @classmethod
    def of(
        cls,
        labels: NDArray[np.int64],
        repeats: NDArray[np.int64],
        weight: NDArray[np.float64],
        first: NDArray[np.int64],
    ) -> WeightPools:
        """Return the totals of boxes whose rows show the mean weight.

        Row i stands for ``repeats[i]`` equal rows, and ``first`` is one row of each group. The mean was rounded, so a
        total that is whole up to that rounding is taken as whole: totals of whole weights are then exact.
        """
        rows, shown = np.bincount(labels, weights=repeats), weight[first_rows(labels)]
        differ = np.bincount(labels, weights=weight != shown[labels]) > 0.0  # only if boxes cannot be told apart
        total = np.where(differ, np.bincount(labels, weights=repeats * weight), rows * shown)
        whole = np.rint(total)
        return cls(labels[first], np.where(np.abs(total - whole) <= 2.0 * EPS * total, whole, total))

    @property
    def merge_groups(self) -> bool:
        """Whether a box has several groups, so that its rows differ."""
        return len(self.box) > len(self.total)

    def gather(
        self, rows: MeetingRows, count: NDArray[np.int64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> WeightedBoxes:
        """Return one part for each box, from the rows of its groups that count and the intervals of these rows."""
        possible = (rows.most > 0.0)[:, None]
        ends_low = self._least(np.where(possible, low, np.nan))
        ends_high = -self._least(np.where(possible, -high, np.nan))
        every, least, most, likely = (self._sums(one) for one in (count, rows.least, rows.most, rows.likely))
        weight = np.where(least == every, self.total, 0.0)
        extra = np.where(most > 0.0, self.total - weight, 0.0)
        kept = weight + extra > 0.0
        return WeightedBoxes(
            ends_low[kept],
            ends_high[kept],
            weight[kept],
            extra[kept],
            np.clip(self.total * likely / every, weight, weight + extra)[kept],
            np.ones(int(kept.sum()), dtype=np.int64),
            np.flatnonzero(kept),
            int(rows.least.sum()),
            int(rows.most.sum()),
        )

    def _sums(self, values: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.float64]:
        return np.bincount(self.box, weights=values, minlength=len(self.total)).astype(np.float64)

    def _least(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest number of each box, column by column; NaN only if it has no other."""
        order = np.argsort(self.box, kind="stable")
        starts = np.searchsorted(self.box[order], np.arange(len(self.total)))
        least: NDArray[np.float64] = np.fmin.reduceat(values[order], starts, axis=0)
        return least
