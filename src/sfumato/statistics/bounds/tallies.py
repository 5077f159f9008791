"""Counts, sums and quantiles: exact intervals by sorting.

A record that may or may not meet a condition counts if that widens the interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.spread import EPS
from sfumato.statistics.weighted_boxes import WeightedBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Tally:
    """A best guess, the interval of all possible values, and its attained part."""

    value: float
    low: float
    high: float
    inner_low: float
    inner_high: float


def count_tally(boxes: WeightedBoxes) -> Tally:
    """Compute the total weight of the records that count."""
    low, high = float(boxes.weight.sum()), float((boxes.weight + boxes.extra).sum())
    whole = all(float(weight).is_integer() for weight in (low, high))
    rounding = 0.0 if whole else (len(boxes.weight) + 2) * EPS * high
    return Tally(float(boxes.likely_weight.sum()), low - rounding, high + rounding, low, high)


def sum_tally(boxes: WeightedBoxes) -> Tally:
    """Compute Σ w x of one column."""
    low, high = boxes.low[:, 0], boxes.high[:, 0]
    bottom = float((boxes.weight * low + boxes.extra * np.minimum(low, 0.0)).sum())
    top = float((boxes.weight * high + boxes.extra * np.maximum(high, 0.0)).sum())
    size = float(((boxes.weight + boxes.extra) * np.maximum(np.abs(low), np.abs(high))).sum())
    rounding = 2.0 * len(low) * EPS * size
    value = float((boxes.likely_weight * boxes.midpoints[:, 0]).sum())
    return Tally(value, bottom - rounding, top + rounding, bottom, top)


def quantile_tally(boxes: WeightedBoxes, share: float) -> Tally:
    """Compute a quantile; it increases with every value, so its ends are quantiles of the ends.

    For the lowest quantile, records that may not count are added at low ends up to it. For the highest quantile, they
    are added at high ends from it upward.
    """
    low, high = boxes.low[:, 0], boxes.high[:, 0]
    value = _quantile(boxes.midpoints[:, 0], boxes.likely_weight, share)
    bottom = _lowest_quantile(low, boxes.weight, boxes.extra, share)
    top = -_lowest_quantile(-high, boxes.weight, boxes.extra, 1.0 - share)
    inner_low = _quantile(low, boxes.weight + np.where(low <= bottom, boxes.extra, 0.0), share)
    inner_high = _quantile(high, boxes.weight + np.where(high >= top, boxes.extra, 0.0), share)
    if boxes.is_certain:
        return Tally(value, inner_low, inner_high, inner_low, inner_high)
    return Tally(value, bottom, top, inner_low, inner_high)


def _lowest_quantile(
    values: NDArray[np.float64], weight: NDArray[np.float64], extra: NDArray[np.float64], share: float
) -> float:
    """Compute the smallest v that can have a share of the weight at or below it, with extra weight added only there."""
    order = np.argsort(values, kind="stable")
    joined = np.cumsum(extra[order])
    below = np.cumsum(weight[order]) + joined
    total = float(weight.sum()) + joined
    counts = ((weight + extra)[order] > 0.0) & (below >= (share - len(order) * EPS) * total)
    return float(values[order][int(np.argmax(counts))])


def _quantile(values: NDArray[np.float64], weight: NDArray[np.float64], share: float) -> float:
    """Compute the mean of the smallest v with at least the share of the weight at or below it and that with more."""
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0.0]
    below = np.cumsum(weight[order])
    rounding = len(order) * EPS * below[-1]
    first = int(np.searchsorted(below, share * below[-1] - rounding, side="left"))
    second = int(np.searchsorted(below, share * below[-1] + rounding, side="right"))
    lower, upper = (float(values[order[min(place, len(order) - 1)]]) for place in (first, second))
    return lower if lower == upper else lower + (upper - lower) / 2.0
