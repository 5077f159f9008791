"""Boxes in units in which rounding can be bounded, and the least and largest sums of squares of their values."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS, End, Witness, largest_mean
from sfumato.statistics.moments import Moments
from sfumato.statistics.weighted_boxes import WeightedBoxes

# Least and largest sum of squares of interval data about its own mean, both in O(N log N).
#
# The least sum is exact: Σ w dist(e, [l, u])² is jointly convex in the data and e. The largest sum is NP-hard in
# general, but min over e of Σ w max((l−e)², (u−e)²) exceeds it by at most the square of one record's weight × half-
# width (Ferson, Ginzburg, Kreinovich, Longpré and Aviles 2002; Dantsin, Kreinovich, Wolpert and Xiang 2006; de
# Angelis 2024). Boxes may be nested, overlap and repeat.


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


NEGLIGIBLE = 1e-20  # sum of squares, in scaled units, below which it differs from zero only by rounding


@dataclass(frozen=True, eq=False, repr=False)
class ScaledBoxes:
    """Boxes z = (x − centre)/unit with their weights; ``extra`` weight may count or not."""

    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    weight: NDArray[np.float64]  # (G,)
    extra: NDArray[np.float64]  # (G,)
    centre: NDArray[np.float64]  # (n,)
    unit: NDArray[np.float64]  # (n,), powers of two
    magnitude: NDArray[np.float64]  # (n + 1, n + 1), Σ (weight + extra) · |(1, z)| |(1, z)|ᵀ, for rounding errors

    @classmethod
    def of(cls, boxes: WeightedBoxes) -> ScaledBoxes:
        """Scale the boxes, so that all columns have a similar magnitude."""
        moments = Moments.of(boxes.midpoints, boxes.likely_weight)
        spread = np.maximum(moments.sd, boxes.likely_weight @ boxes.half_widths / moments.weight)
        unit = np.array([2.0 ** round(math.log2(s)) if s > 0.0 else 1.0 for s in spread])
        total = moments.weight
        return cls.make(
            (boxes.low - moments.mean) / unit,
            (boxes.high - moments.mean) / unit,
            boxes.weight / total,
            boxes.extra / total,
            moments.mean,
            unit,
        )

    @classmethod
    def make(
        cls,
        low: NDArray[np.float64],
        high: NDArray[np.float64],
        weight: NDArray[np.float64],
        extra: NDArray[np.float64],
        centre: NDArray[np.float64],
        unit: NDArray[np.float64],
    ) -> ScaledBoxes:
        """Return a problem from boxes that are scaled already."""
        reach = np.column_stack([np.ones(len(low)), np.maximum(np.abs(low), np.abs(high))])
        magnitude = (reach * (weight + extra)[:, None]).T @ reach
        low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
        return cls(low, high, weight, extra, centre, unit, magnitude)

    @functools.cached_property
    def mirrored(self) -> ScaledBoxes:
        """The same records with the sign of the first column changed: the lowest value becomes the highest."""
        low, high, centre = self.low.copy(), self.high.copy(), self.centre.copy()
        low[:, 0], high[:, 0] = -self.high[:, 0], -self.low[:, 0]
        centre[0] = -centre[0]
        return ScaledBoxes.make(low, high, self.weight, self.extra, centre, self.unit)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self.low.shape[1])

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Centres of the boxes."""
        return self.low + (self.high - self.low) / 2.0

    def largest(
        self, first: NDArray[np.float64], second: NDArray[np.float64], offset: float = 0.0
    ) -> tuple[float, NDArray[np.float64]]:
        """Compute an upper bound of Σ ω (L₁L₂ − offset) over all choices, and its derivative by ``first``.

        A choice consists of values and extra weights. A bound of the rounding errors, which is a multiple of the sum of
        magnitudes, is added.
        """
        from sfumato.statistics.bounds.kernels import BLOCK, largest_product_sum

        total, slope = largest_product_sum(self.low, self.high, self.weight, self.extra, first, second, offset)
        terms = np.abs(first) @ self.magnitude @ np.abs(second) + abs(offset) * self.magnitude[0, 0]
        steps = BLOCK + len(self.weight) / BLOCK + 100.0 * (self.columns + 1)
        return float(total + steps * EPS * terms), slope

    def largest_each(
        self, first: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute the same bounds for one L₁ with each of several L₂ (one per row), without offset."""
        from sfumato.statistics.bounds.kernels import BLOCK, largest_product_sums

        totals, slopes = largest_product_sums(self.low, self.high, self.weight, self.extra, first, seconds)
        terms = np.abs(seconds) @ (np.abs(first) @ self.magnitude)
        steps = BLOCK + len(self.weight) / BLOCK + 100.0 * (self.columns + 1)
        return totals + steps * EPS * terms, slopes

    def squares(self, lines: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Approximate the least and the largest Σ weight · L² of several combinations (one per row); no bounds."""
        centre = np.abs(lines[:, 0] + self.midpoints @ lines[:, 1:].T)
        half = (self.high - self.low) / 2.0 @ np.abs(lines[:, 1:]).T
        return self.weight @ np.maximum(centre - half, 0.0) ** 2, self.weight @ (centre + half) ** 2

    @functools.cached_property
    def merged(self) -> ScaledBoxes:
        """The same problem with consecutive equal boxes merged; all sums stay the same."""
        if len(self.low) < 2:
            return self
        differs = ((self.low[1:] != self.low[:-1]) | (self.high[1:] != self.high[:-1])).any(axis=1)
        starts = np.concatenate([[0], np.flatnonzero(differs) + 1])
        weight, extra = (np.add.reduceat(row_weight, starts) for row_weight in (self.weight, self.extra))
        return ScaledBoxes.make(self.low[starts], self.high[starts], weight, extra, self.centre, self.unit)

    def points(
        self, first: NDArray[np.float64], second: NDArray[np.float64], offset: float = 0.0
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return values that attain the largest sum, and their weights."""
        from sfumato.statistics.bounds.kernels import best_points

        points, products = best_points(self.low, self.high, first, second)
        return points, np.where(products > offset, self.weight + self.extra, self.weight)

    def mean_range(self, line: NDArray[np.float64]) -> tuple[float, float]:
        """Compute the least and the largest mean of a linear combination (constant first) over all choices."""
        middle = line[0] + self.midpoints @ line[1:]
        half = (self.high - self.low) / 2.0 @ np.abs(line[1:])
        top = largest_mean(middle + half, self.weight, self.extra)[0]
        bottom = -largest_mean(half - middle, self.weight, self.extra)[0]
        rounding = (len(middle) + 100.0 * self.columns) * EPS * float((np.abs(middle) + half).max())
        return bottom - rounding, top + rounding

    def half_range(self, line: NDArray[np.float64]) -> float:
        """Compute an upper bound of half the range of a linear combination over all records."""
        middle = self.midpoints @ line[1:]
        half = (self.high - self.low) / 2.0 @ np.abs(line[1:])
        return float((middle + half).max() - (middle - half).min()) / 2.0 * (1.0 + 1e-12)

    def least_spread(self, column: int) -> float:
        """Compute a lower bound of Σ ω (z − E)² of a column over all choices; extra weights only increase the sum."""
        bound = least_sum_of_squares(self.low[:, column], self.high[:, column], self.weight).bound
        return bound if bound > NEGLIGIBLE else 0.0

    def largest_spread(self, column: int) -> float:
        """Compute an upper bound of Σ ω (z − E)² of a column over all choices."""
        return largest_sum_of_squares(self.low[:, column], self.high[:, column], self.weight + self.extra).bound

    def to_table_units(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert scaled values to the units of the table."""
        return self.centre + points * self.unit

    def witness(self, boxes: WeightedBoxes, end: End) -> Witness | None:
        """Return a choice in the units of the table, clipped so that it lies exactly inside the boxes."""
        if end.points is None or end.weight is None:
            return None
        inside = np.clip(self.to_table_units(end.points), boxes.low, boxes.high)
        joins = (end.weight > self.weight) & (boxes.extra > 0.0)
        return Witness(boxes.box, inside, np.where(joins, boxes.weight + boxes.extra, boxes.weight))


@functools.cache
def compile_kernels() -> None:
    """Compile, or load from the cache, all kernels that enclosures call, so that no deadline includes this time."""
    from scipy.optimize import linprog, minimize  # noqa: F401  loaded here, because they are needed within deadlines

    from sfumato.kernels.jit import always_compiled

    one, line = np.ones((1, 1)), np.array([0.0, 1.0])
    problem = ScaledBoxes.make(-one, one, np.ones(1), np.zeros(1), np.zeros(1), np.ones(1))
    with always_compiled():
        problem.largest(line, line)
        problem.largest_each(line, line[None])
        problem.points(line, line)
