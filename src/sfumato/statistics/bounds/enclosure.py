"""What is known of one statistic, and the choices of values that show it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Witness:
    """A choice of values in the boxes: ``weight[i]`` of box ``box[i]`` stands at ``points[i]``."""

    box: NDArray[np.int64]  # (M,)
    points: NDArray[np.float64]  # (M, n)
    weight: NDArray[np.float64]  # (M,)

    @property
    def moments(self) -> Moments:
        """Moments of the chosen values."""
        return Moments.of(self.points, self.weight)


@dataclass(frozen=True, eq=False, repr=False)
class Enclosure:
    """``low``–``high`` holds the statistic of every choice; ``lowest`` and ``highest`` are choices at the inner ends.

    Where no choice is known for which the statistic is defined, they are None and the inner ends NaN.
    """

    low: float
    high: float
    inner_low: float
    inner_high: float
    lowest: Witness | None
    highest: Witness | None

    def __post_init__(self) -> None:
        """Put the attained ends in order: rounding may turn them round or carry them past what is certain.

        Where the search for one end found only choices that leave the statistic undefined, the other end stands for it.
        """
        found = [
            (min(max(value, self.low), self.high), witness)
            for value, witness in ((self.inner_low, self.lowest), (self.inner_high, self.highest))
            if not math.isnan(value)
        ]
        if found:
            lowest, highest = (pick(found, key=lambda end: end[0]) for pick in (min, max))
            object.__setattr__(self, "inner_low", lowest[0])
            object.__setattr__(self, "lowest", lowest[1])
            object.__setattr__(self, "inner_high", highest[0])
            object.__setattr__(self, "highest", highest[1])


@dataclass(frozen=True, eq=False, repr=False)
class End:
    """The upper end of an enclosure in scaled units: no choice exceeds ``outer``, and ``points`` (one a box) attain
    ``inner`` with these weights.
    """

    outer: float
    inner: float
    points: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None
