"""The records that count for a statistic, as boxes: what every bound is computed from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class WeightedBoxes:
    """Boxes with weights.

    The weight of a box is at least ``weight`` and at most ``weight + extra``; ``extra`` is zero unless missing cells or
    a condition leave open how many records of a box count. A box can be dealt out to ``parts`` records of equal weight.
    """

    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    weight: NDArray[np.float64]  # (G,), sum of weights of the records that certainly count
    extra: NDArray[np.float64]  # (G,), weight that may count too
    likely_weight: NDArray[np.float64]  # (G,), between the two: for a single best guess
    parts: NDArray[np.int64]  # (G,)
    box: NDArray[np.int64]  # (G,), which group of the table this is
    records: int  # that certainly count

    def dealt(self, limit: int) -> WeightedBoxes:
        """The same records, each in a box of its own, unless there are more than ``limit``.

        The largest values of small tables part records that share a box.
        """
        if self.parts.sum() > limit or (self.parts == 1).all():
            return self
        again = np.repeat(np.arange(len(self.parts)), self.parts)
        share = 1.0 / self.parts[again]
        return WeightedBoxes(
            self.low[again],
            self.high[again],
            self.weight[again] * share,
            self.extra[again] * share,
            self.likely_weight[again] * share,
            np.ones(len(again), dtype=np.int64),
            self.box[again],
            self.records,
        )

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Centres of the boxes."""
        return self.low + (self.high - self.low) / 2.0

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half-widths of the boxes."""
        return (self.high - self.low) / 2.0

    @property
    def is_one_record(self) -> bool:
        """Whether exactly one record counts: then nothing can spread."""
        return self.records == 1 and self.is_certain

    @property
    def is_certain(self) -> bool:
        """Whether it is known how many records of each box count."""
        return not self.extra.any()
