"""Best guess and attained values when only weight totals per box are known.

If a column was released as it is, the rows of such a box differ. The bounds hold for any point of the smallest box
around the rows, but only the points of the rows themselves are attained: a choice of points is replaced by that of the
nearest rows, each of which gets the whole weight that the choice has in its box.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.enclosure import Enclosure, Witness
from sfumato.statistics.moments import Moments
from sfumato.statistics.weighted_boxes import WeightedBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class PooledRows:
    """The rows that may count for a statistic, each with its released weight, and the box of each."""

    boxes: WeightedBoxes
    box: NDArray[np.int64]  # (rows,)

    def attain(self, value: Callable[[Moments], float], enclosure: Enclosure) -> Enclosure:
        """Return the enclosure of a statistic with inner ends that rows attain."""
        lowest, highest = (self._nearest(choice) for choice in (enclosure.lowest, enclosure.highest))
        inner_low, inner_high = (math.nan if choice is None else value(choice.moments) for choice in (lowest, highest))
        return Enclosure(enclosure.low, enclosure.high, inner_low, inner_high, lowest, highest)

    def _nearest(self, choice: Witness | None) -> Witness | None:
        """Move each point of a choice into the nearest row of its box; distances count in standard deviations."""
        if choice is None:
            return None
        order = np.argsort(self.box, kind="stable")
        start, end = (np.searchsorted(self.box[order], choice.box, side=side) for side in ("left", "right"))
        rows_of = end - start  # at least 1: a box counts only if one of its rows may
        first = np.cumsum(rows_of) - rows_of
        point = np.repeat(np.arange(len(rows_of)), rows_of)
        row = order[np.arange(len(point)) - np.repeat(first - start, rows_of)]
        inside = np.clip(choice.points[point], self.boxes.low[row], self.boxes.high[row])
        distance = (((inside - choice.points[point]) / self._scale) ** 2).sum(axis=1)
        nearest = np.lexsort((distance, point))[first]
        return Witness(choice.box, inside[nearest], choice.weight)

    @property
    def _scale(self) -> NDArray[np.float64]:
        spread = Moments.of(self.boxes.midpoints, self.boxes.likely_weight).sd
        return np.where(spread > 0.0, spread, 1.0)
