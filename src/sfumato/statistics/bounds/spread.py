"""Least and largest sum of squares of interval data about its own mean, both in O(N log N).

The least sum is exact: Σ w dist(e, [l, u])² is jointly convex in the data and e. The largest sum is NP-hard in general,
but min over e of Σ w max((l−e)², (u−e)²) exceeds it by at most the square of one record's weight × half-width (Ferson,
Ginzburg, Kreinovich, Longpré and Aviles 2002; Dantsin, Kreinovich, Wolpert and Xiang 2006; de Angelis 2024). Boxes may
be nested, overlap and repeat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.enclosure import EPS

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SumOfSquares:
    """A rigorous ``bound`` on Σ w (x − E)², and the ``centre`` at which it was found."""

    bound: float
    centre: float


def least_sum_of_squares(
    low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]
) -> SumOfSquares:
    """Compute a lower bound, exact up to rounding; it is attained by clipping ``centre`` to each interval."""
    total = float(weight.sum())
    if total == 0.0:
        return SumOfSquares(0.0, 0.0)
    centre = _nearest_centre(low, high, weight)
    distance = np.maximum(np.maximum(low - centre, centre - high), 0.0)
    weighted = weight * distance
    # rounding leaves f(e*) ≥ f(e) − |f'(e)| · |e* − e|, where e* is a mean of clipped values
    slope = 2.0 * abs(float(np.where(low > centre, weighted, -weighted).sum()))
    slope += 4.0 * len(low) * EPS * float(weighted.sum())
    reach = float((weight * (high - low)).sum()) / total + 4.0 * EPS * abs(centre)
    squares = float((weighted * distance).sum())
    rounding = (len(low) + 16) * EPS * squares + _end_rounding(low, high, weighted)
    return SumOfSquares(max(0.0, squares - rounding - slope * reach), centre)


def _end_rounding(low: NDArray[np.float64], high: NDArray[np.float64], factors: NDArray[np.float64]) -> float:
    """Bound the effect of rounding errors in the ends on Σ factors · ends; the ends result from a subtraction."""
    return 8.0 * EPS * float((factors * np.maximum(np.abs(low), np.abs(high))).sum())


def _nearest_centre(low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Find the minimum of f(e) = Σ w dist(e, [l, u])².

    f' is piecewise linear and increasing, so the interval between two kinks that contains its root is searched.
    """
    by_low, by_high = np.argsort(low), np.argsort(high)
    lows, highs = low[by_low], high[by_high]
    # sums over the intervals entirely below e (prefixes by high) and entirely above e (suffixes by low)
    below_w, below_s = (np.concatenate([[0.0], np.cumsum(s)]) for s in (weight[by_high], (weight * high)[by_high]))
    above_w, above_s = (
        np.concatenate([np.cumsum(s[::-1])[::-1], [0.0]]) for s in (weight[by_low], (weight * low)[by_low])
    )
    kinks = np.sort(np.concatenate([lows, highs]))
    below = np.searchsorted(highs, kinks, side="left")
    above = np.searchsorted(lows, kinks, side="right")
    slope = kinks * (below_w[below] + above_w[above]) - below_s[below] - above_s[above]
    after = int(np.searchsorted(slope, 0.0, side="left"))  # the first kink where f' ≥ 0
    if after in (0, len(kinks)):
        return float(kinks[min(after, len(kinks) - 1)])
    zone = (kinks[after - 1] + kinks[after]) / 2.0
    below_zone = int(np.searchsorted(highs, zone, side="left"))
    above_zone = int(np.searchsorted(lows, zone, side="right"))
    row_weight = below_w[below_zone] + above_w[above_zone]
    centre = (below_s[below_zone] + above_s[above_zone]) / row_weight if row_weight > 0.0 else zone
    return float(min(max(centre, kinks[after - 1]), kinks[after]))


def largest_sum_of_squares(
    low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]
) -> SumOfSquares:
    """Compute an upper bound: the minimum of g(e) = Σ w max((l−e)², (u−e)²)."""
    centre = _farthest_centre(low, high, weight)
    distance = np.maximum(np.abs(low - centre), np.abs(high - centre))
    squares = float((weight * distance**2).sum())
    return SumOfSquares(squares * (1.0 + (len(low) + 16) * EPS) + _end_rounding(low, high, weight * distance), centre)


def _farthest_centre(low: NDArray[np.float64], high: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Find where the mean m(e) of the farther ends equals e: m decreases stepwise as e passes midpoints."""
    total = float(weight.sum())
    if total == 0.0:
        return 0.0
    middle = low + (high - low) / 2.0
    order = np.argsort(middle)
    steps = middle[order]
    mean = np.concatenate([[0.0], np.cumsum((weight * (low - high))[order])]) + float((weight * high).sum())
    mean /= total
    passed = int(np.searchsorted(np.append(steps, np.inf) - mean, 0.0, side="left"))  # number of midpoints below e
    floor = steps[passed - 1] if passed > 0 else -np.inf
    ceiling = steps[passed] if passed < len(steps) else np.inf
    return float(min(max(mean[passed], floor), ceiling))


def farthest_ends(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    weight: NDArray[np.float64],
    parts: NDArray[np.int64],
    centre: float,
) -> NDArray[np.float64]:
    """Return a choice with (nearly) the largest variance: the share of each box's records at its high end.

    Boxes with midpoints below ``centre`` (where the bound was found) go to their low ends, those above to their high
    ends. The records of boxes with their midpoint at the centre are divided between both ends, the largest box first,
    so that the mean comes as close to the centre as possible. The variance misses the bound by the square of the
    remaining distance, which is at most one record's weight × half-width.
    """
    half = (high - low) / 2.0
    middle = low + half
    share = (middle > centre).astype(np.float64)
    rounding = 1e-12 * (abs(centre) + float(half.max(initial=0.0)))
    tied = np.flatnonzero((np.abs(middle - centre) <= rounding) & (weight * half > 0.0))
    distance = weight * (low + share * (high - low) - centre)
    distance[tied] = 0.0
    off = float(distance.sum())  # distance of the mean from the centre, times the total weight
    for g in tied[np.argsort(-(weight * half / parts)[tied], kind="stable")]:
        reach = float(weight[g] * half[g])
        at_high_end = min(max(round((1.0 - off / reach) / 2.0 * int(parts[g])), 0), int(parts[g]))
        share[g] = at_high_end / parts[g]
        off += (2.0 * share[g] - 1.0) * reach
    return share
