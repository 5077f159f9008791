"""Sampling weights of which only the total of each box is known.

If the rows of a box show its mean weight, the original weight of each row may be anything from 0 to the total W of the
box. For a statistic, a box is then one part of weight W, somewhere in the smallest box around those of its rows that
may count. If all of its rows certainly count, so does W; otherwise the rows that do not count may have any share of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.condition_counts import MeetingRows
from sfumato.statistics.weighted_boxes import WeightedBoxes
from sfumato.table.groups import first_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
