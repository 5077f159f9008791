"""Pairs of records whose order is certain: ranks, Mann–Whitney's U and Kendall's S over all values in the boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from sfumato.statistics.weighted_boxes import WeightedBoxes

Array = NDArray[np.float64]
Ends = tuple[float, float]


def weight_below(values: Array, weight: Array, limits: Array, *, or_equal: bool = False) -> Array:
    """Return for each limit the total weight of the values below it."""
    order = np.argsort(values, kind="stable")
    totals = np.concatenate([[0.0], np.cumsum(weight[order])])
    return totals[np.searchsorted(values[order], limits, side="right" if or_equal else "left")]


def rank_ends(low: Array, high: Array, weight: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest rank of the records of each group; ties have the mean of their ranks."""
    total = float(weight.sum())
    point = low == high
    tied = np.where(
        point, _weight_equal(low[point], weight[point], low), 1.0
    )  # certainly equal, with the record itself
    least = weight_below(high, weight, low) + 0.5 + tied / 2.0
    most = total - weight_below(-low, weight, -high) + 0.5 - tied / 2.0
    return least, most


def _weight_equal(values: Array, weight: Array, limits: Array) -> Array:
    return weight_below(values, weight, limits, or_equal=True) - weight_below(values, weight, limits)


@dataclass(frozen=True, eq=False, repr=False)
class UStatistic:
    """How often a value of one group exceeds one of another, ties half, over all values in the boxes."""

    value: float
    ends: Ends
    z_ends: Ends
    p_value: float

    @classmethod
    def of(cls, one: WeightedBoxes, other: WeightedBoxes) -> UStatistic:
        """Count pairs; a record that may be in a group is in a pair if that widens the interval."""
        low = _wins(one.low[:, 0], one.weight, other.high[:, 0], other.weight)
        high = _wins(one.high[:, 0], one.weight + one.extra, other.low[:, 0], other.weight + other.extra)
        value = _wins(one.midpoints[:, 0], one.likely_weight, other.midpoints[:, 0], other.likely_weight)
        sizes = [(float(side.weight.sum()), float((side.weight + side.extra).sum())) for side in (one, other)]
        likely = [float(side.likely_weight.sum()) for side in (one, other)]
        ends = np.concatenate([one.low[:, 0], other.low[:, 0]]), np.concatenate([one.high[:, 0], other.high[:, 0]])
        weight = np.concatenate([side.weight + side.extra for side in (one, other)])
        middle = (ends[0] + ends[1]) / 2.0
        certain = np.concatenate([side.weight for side in (one, other)])
        equal = _weight_equal(middle, np.concatenate([side.likely_weight for side in (one, other)]), middle)
        guess = np.concatenate([side.likely_weight for side in (one, other)])
        error = _error(likely[0], likely[1], float(guess @ (equal**2 - 1.0)))
        point = ends[0] == ends[1]
        least_ties = float(certain[point] @ (_weight_equal(ends[0][point], certain[point], ends[0][point]) ** 2 - 1.0))
        overlap = weight.sum() - weight_below(ends[1], weight, ends[0]) - weight_below(-ends[0], weight, -ends[1])
        overlap = np.where(
            point & (overlap <= _weight_equal(ends[0][point], weight[point], ends[0])),
            _weight_equal(ends[0][point], weight[point], ends[0]),
            overlap,
        )
        most_ties = float(weight @ (overlap**2 - 1.0))
        errors = (_error(sizes[0][0], sizes[1][0], most_ties), _error(sizes[0][1], sizes[1][1], least_ties))
        half = (sizes[0][0] * sizes[1][0] / 2.0, sizes[0][1] * sizes[1][1] / 2.0)
        gaps = (low - half[1], high - half[0])
        far = max(abs(gaps[0]), abs(gaps[1])) - 0.5
        near = max(gaps[0], -gaps[1], 0.0) - 0.5
        z_ends = (
            max(near, -0.5) / errors[1] if errors[1] > 0.0 else 0.0,
            far / errors[0] if errors[0] > 0.0 else math.inf,
        )
        z = (abs(value - likely[0] * likely[1] / 2.0) - 0.5) / error if error > 0.0 else math.nan
        return cls(value, (low, high), z_ends, min(1.0, 2.0 * float(stats.norm.sf(z))))


def _wins(first: Array, first_weight: Array, second: Array, second_weight: Array) -> float:
    below = weight_below(second, second_weight, first)
    return float(first_weight @ (below + weight_below(second, second_weight, first, or_equal=True))) / 2.0


def _error(first: float, second: float, ties: float) -> float:
    """Return the standard deviation of U; ``ties`` is Σ (t³ − t) over groups of t equal values."""
    records = first + second
    if records < 2.0:
        return 0.0
    return math.sqrt(max(first * second / 12.0 * (records + 1.0 - ties / (records * (records - 1.0))), 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class KendallPairs:
    """Pairs of records that are certainly concordant, discordant or tied."""

    pairs: float
    concordant: float
    discordant: float
    tied: tuple[float, float, float]  # in the first column, in the second, in both
    possibly_tied: Ends

    @classmethod
    def of(cls, boxes: WeightedBoxes) -> KendallPairs:
        """Count all pairs in O(n log n)."""
        weight, total = boxes.weight, float(boxes.weight.sum())
        pairs = total * (total - 1.0) / 2.0
        (ax, ay), (bx, by) = boxes.low.T, boxes.high.T
        ties, possible = [], []
        for columns in ([0], [1], [0, 1]):
            point = (boxes.low[:, columns] == boxes.high[:, columns]).all(axis=1)
            _, label = np.unique(boxes.low[point][:, columns], axis=0, return_inverse=True)
            sizes = np.bincount(label.ravel(), weights=weight[point])
            ties.append(float((sizes * (sizes - 1.0)).sum()) / 2.0)
        for low, high in ((ax, bx), (ay, by)):
            possible.append(pairs - float(weight @ weight_below(high, weight, low)))
        concordant = count_dominated(ax, bx, ay, by, weight)
        discordant = count_dominated(ax, bx, -by, -ay, weight)
        return cls(pairs, concordant, discordant, (ties[0], ties[1], ties[2]), (possible[0], possible[1]))

    @property
    def ends(self) -> Ends:
        """The interval of τ-b."""
        tied = self.tied[0] + self.tied[1] - self.tied[2]
        high = self.pairs - tied - 2.0 * self.discordant
        low = -(self.pairs - tied - 2.0 * self.concordant)
        widest = math.sqrt((self.pairs - self.tied[0]) * (self.pairs - self.tied[1]))
        narrowest = math.sqrt((self.pairs - self.possibly_tied[0]) * (self.pairs - self.possibly_tied[1]))
        return -_ratio(-low, narrowest, widest), _ratio(high, narrowest, widest)


def _ratio(number: float, narrowest: float, widest: float) -> float:
    divisor = narrowest if number > 0.0 else widest
    return min(number / divisor * (1.0 + 1e-12) if divisor > 0.0 else 1.0, 1.0)


def count_dominated(low_x: Array, high_x: Array, low_y: Array, high_y: Array, weight: Array) -> float:
    """Return the weight of pairs of which one record is certainly larger in both columns."""
    edges, place = np.unique(high_y, return_inverse=True)
    below = np.searchsorted(edges, low_y, side="left")
    return float(
        _count_dominated(
            np.argsort(low_x, kind="stable"),
            np.argsort(high_x, kind="stable"),
            low_x,
            high_x,
            below,
            place,
            weight,
            len(edges),
        )
    )


@njit(cache=False)  # type: ignore[untyped-decorator]
def _count_dominated(
    by_low: NDArray[np.int64],
    by_high: NDArray[np.int64],
    low: Array,
    high: Array,
    below: NDArray[np.int64],
    place: NDArray[np.int64],
    weight: Array,
    size: int,
) -> float:
    """Insert records in the order of their high ends into a Fenwick tree, and ask it in the order of the low ends."""
    tree, total, entered = np.zeros(size + 1), 0.0, 0
    for record in by_low:
        while entered < len(by_high) and high[by_high[entered]] < low[record]:
            at = place[by_high[entered]] + 1
            while at <= size:
                tree[at] += weight[by_high[entered]]
                at += at & (-at)
            entered += 1
        at, found = below[record], 0.0
        while at > 0:
            found += tree[at]
            at -= at & (-at)
        total += found * weight[record]
    return total
