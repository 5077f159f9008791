"""Enclosures of a statistic, and the choices of values that attain their ends."""

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
    """A choice of values in the boxes: ``weight[i]`` of box ``box[i]`` is located at ``points[i]``."""

    box: NDArray[np.int64]  # (M,)
    points: NDArray[np.float64]  # (M, n)
    weight: NDArray[np.float64]  # (M,)

    @property
    def moments(self) -> Moments:
        """Moments of the chosen values."""
        return Moments.of(self.points, self.weight)


@dataclass(frozen=True, eq=False, repr=False)
class Enclosure:
    """An interval ``low``–``high`` that contains the statistic of every choice, and choices that attain the inner ends.

    ``lowest`` and ``highest`` are None and the inner ends NaN if no choice is known for which the statistic is defined.
    """

    low: float
    high: float
    inner_low: float
    inner_high: float
    lowest: Witness | None
    highest: Witness | None

    def __post_init__(self) -> None:
        """Order the attained ends, because rounding may swap them or move them outside the guaranteed interval.

        If the search for one end found only choices that leave the statistic undefined, the other end replaces it.
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
    """The upper end of an enclosure in scaled units.

    No choice exceeds ``outer``, and ``points`` (one per box) with these weights attain ``inner``.
    """

    outer: float
    inner: float
    points: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None
