"""Least and largest sum of squares of interval data about its own mean, both in O(N log N).

The least one is exact: Σ w dist(e, [l, u])² is jointly convex in the data and e. The largest one is NP-hard in general,
yet min over e of Σ w max((l−e)², (u−e)²) exceeds it by at most the square of one record's weight × half-width
(literature: Ferson et al. 2002, Dantsin et al. 2006, de Angelis 2024; boxes may nest, overlap and repeat).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class SumOfSquares:
    """A rigorous ``bound`` on Σ w (x − E)² and the centre ``e`` at which it was found."""

    bound: float
    centre: float


def least_sum_of_squares(
    low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]
) -> SumOfSquares:
    """A lower bound, exact up to rounding; attained by clipping ``centre`` to each interval."""
    total = float(weight.sum())
    if total == 0.0:
        return SumOfSquares(0.0, 0.0)
    centre = _nearest_centre(low, high, weight)
    apart = np.maximum(np.maximum(low - centre, centre - high), 0.0)
    squares = float(weight @ apart**2)
    # f(e*) ≥ f(e) − |f'(e)| · |e* − e|, and e* is a mean of clipped values
    pulls = weight * apart
    tilt = 2.0 * abs(float(pulls @ np.where(low > centre, 1.0, -1.0))) + 4.0 * len(low) * EPS * float(pulls.sum())
    reach = float(weight @ (high - low)) / total + 4.0 * EPS * abs(centre)
    return SumOfSquares(max(0.0, squares * (1.0 - (len(low) + 16) * EPS) - tilt * reach), centre)


def _nearest_centre(low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Where f(e) = Σ w dist(e, [l, u])² is least: f' is piecewise linear and increasing, so a search over its kinks."""
    by_low, by_high = np.argsort(low), np.argsort(high)
    lows, highs = low[by_low], high[by_high]
    # sums over the intervals wholly below e (prefixes by high) and wholly above e (suffixes by low)
    below_w, below_s = (np.concatenate([[0.0], np.cumsum(s)]) for s in (weight[by_high], (weight * high)[by_high]))
    above_w, above_s = (
        np.concatenate([np.cumsum(s[::-1])[::-1], [0.0]]) for s in (weight[by_low], (weight * low)[by_low])
    )
    kinks = np.sort(np.concatenate([lows, highs]))
    below = np.searchsorted(highs, kinks, side="left")
    above = np.searchsorted(lows, kinks, side="right")
    slope = kinks * (below_w[below] + above_w[above]) - below_s[below] - above_s[above]
    after = int(np.searchsorted(slope, 0.0, side="left"))  # the first kink where f' ≥ 0
    if after == 0:
        return float(kinks[0])
    if after == len(kinks):
        return float(kinks[-1])
    zone = (kinks[after - 1] + kinks[after]) / 2.0
    count_below, count_above = np.searchsorted(highs, zone, side="left"), np.searchsorted(lows, zone, side="right")
    heft = below_w[count_below] + above_w[count_above]
    if heft <= 0.0:
        return float(zone)
    centre = (below_s[count_below] + above_s[count_above]) / heft
    return float(np.clip(centre, kinks[after - 1], kinks[after]))


def largest_sum_of_squares(
    low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]
) -> SumOfSquares:
    """An upper bound: g(e) = Σ w max((l−e)², (u−e)²) at its minimum."""
    centre = _farthest_centre(low, high, weight)
    squares = float(weight @ np.maximum((low - centre) ** 2, (high - centre) ** 2))
    return SumOfSquares(squares * (1.0 + (len(low) + 16) * EPS), centre)


def _farthest_centre(low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Where the mean m(e) of the farther ends crosses e: m falls step by step as e passes midpoints."""
    total = float(weight.sum())
    if total == 0.0:
        return 0.0
    middle = low + (high - low) / 2.0
    order = np.argsort(middle)
    steps = middle[order]
    # with t midpoints passed, these t stand at their low ends and the rest at their high ends
    mean = np.concatenate([[0.0], np.cumsum((weight * (low - high))[order])]) + float(weight @ high)
    mean /= total
    # the smallest t with mean[t] ≤ steps[t]: there m has fallen below e
    passed = int(np.searchsorted(np.append(steps, np.inf) - mean, 0.0, side="left"))
    lower = steps[passed - 1] if passed > 0 else -np.inf
    upper = steps[passed] if passed < len(steps) else np.inf
    return float(min(max(mean[passed], lower), upper))
