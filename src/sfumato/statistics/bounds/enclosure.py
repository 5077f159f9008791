"""Enclosures of a statistic, the choices of values that attain their ends, and a factor that is known up to limits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPS = float(np.finfo(np.float64).eps)


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

    ``lowest`` and ``highest`` are None if no choice is kept; the inner ends are NaN if no choice is known for which the
    statistic is defined. ``value`` is the best guess, and the linear ends belong to it.
    """

    low: float
    high: float
    inner_low: float
    inner_high: float
    lowest: Witness | None = None
    highest: Witness | None = None
    value: float = math.nan
    linear_low: float = math.nan
    linear_high: float = math.nan

    def __post_init__(self) -> None:
        """Order the attained ends, because rounding may swap them or move them outside the guaranteed interval.

        If the search for one end found only choices that leave the statistic undefined, the other end replaces it.
        """
        attained = [
            (min(max(value, self.low), self.high), witness)
            for value, witness in ((self.inner_low, self.lowest), (self.inner_high, self.highest))
            if not math.isnan(value)
        ]
        if attained:
            lowest, highest = (pick(attained, key=lambda end: end[0]) for pick in (min, max))
            object.__setattr__(self, "inner_low", lowest[0])
            object.__setattr__(self, "lowest", lowest[1])
            object.__setattr__(self, "inner_high", highest[0])
            object.__setattr__(self, "highest", highest[1])

    @classmethod
    def unknown(cls) -> Enclosure:
        """Return the enclosure of a statistic that may be any number, or may not be defined."""
        return cls(-math.inf, math.inf, math.nan, math.nan)


@dataclass(frozen=True, eq=False, repr=False)
class End:
    """The upper end of an enclosure in scaled units.

    No choice exceeds ``outer``, and ``points`` (one per box) with these weights attain ``inner``.
    """

    outer: float
    inner: float
    points: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Factor:
    """A factor of which only limits are known; ∞ if the statistic may not be defined."""

    least: float = 1.0
    most: float = 1.0
    likely: float = 1.0

    def multiply(self, enclosure: Enclosure) -> Enclosure:
        """Multiply the ends; the limits are widened so that rounding cannot make the interval wrong."""
        if self.least == self.most == 1.0:
            return enclosure
        if math.isinf(self.least):
            return Enclosure.unknown()
        low = min(_multiply(limit, enclosure.low) for limit in (self.least, self.most))
        high = max(_multiply(limit, enclosure.high) for limit in (self.least, self.most))
        inner = self.likely if self.least == self.most else math.nan
        return Enclosure(
            low - 8.0 * EPS * abs(low) if math.isfinite(low) else low,
            high + 8.0 * EPS * abs(high) if math.isfinite(high) else high,
            inner * enclosure.inner_low,
            inner * enclosure.inner_high,
            enclosure.lowest,
            enclosure.highest,
        )


def _multiply(factor: float, end: float) -> float:
    """Return the product, in which an infinite factor makes 0 infinite."""
    return 0.0 if end == 0.0 and math.isfinite(factor) else math.inf if end == 0.0 else factor * end
