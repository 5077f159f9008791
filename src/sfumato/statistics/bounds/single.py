"""Enclosures of the mean and the variance of one column."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.enclosure import EPS, Enclosure, Witness
from sfumato.statistics.bounds.pairs import highest_variance
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes, largest_mean
from sfumato.statistics.bounds.spread import farthest_ends, largest_sum_of_squares, least_sum_of_squares
from sfumato.statistics.moments import infinite_squares
from sfumato.statistics.weighted_boxes import WeightedBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def enclose_mean(boxes: WeightedBoxes) -> Enclosure:
    """Compute [Σ w l, Σ w u], exactly; a record that may be missing counts if that widens the interval."""
    low, lowest = _mean_end(boxes, boxes.low[:, 0], -1.0)
    high, highest = _mean_end(boxes, boxes.high[:, 0], 1.0)
    inner_low, inner_high = (float(end.moments.mean[0]) for end in (lowest, highest))
    return Enclosure(low, high, inner_low, inner_high, lowest, highest)


def _mean_end(boxes: WeightedBoxes, ends: NDArray[np.float64], sign: float) -> tuple[float, Witness]:
    centre = float(ends[0])
    away = sign * (ends - centre)
    mean, joins = largest_mean(away, boxes.weight, boxes.extra)
    weight = np.where(joins, boxes.weight + boxes.extra, boxes.weight)
    spread = float((weight * np.abs(away)).sum() / weight.sum())
    end = centre + sign * mean
    rounding = 4.0 * EPS * (len(ends) * spread + abs(centre) + abs(end))
    return end + sign * rounding, Witness(boxes.box, ends[:, None], weight)


def zero_spread(boxes: WeightedBoxes) -> Enclosure:
    """Return the variance or covariance of a single record, which is zero."""
    here = Witness(boxes.box, boxes.midpoints, boxes.weight)
    return Enclosure(0.0, 0.0, 0.0, 0.0, here, here)


def enclose_variance(boxes: WeightedBoxes, deadline: Deadline) -> Enclosure:
    """Enclose the population variance; that of a single record is zero for every box."""
    if boxes.is_one_record:
        return zero_spread(boxes)
    problem = ScaledBoxes.of(boxes)
    unit = float(problem.unit[0]) * float(problem.unit[0])
    if unit == math.inf:
        raise infinite_squares()
    ends = _certain_variance(boxes, problem) if boxes.is_certain else _uncertain_variance(boxes, problem, deadline)
    low, high = max(ends.low, 0.0) * unit * (1.0 - 8.0 * EPS), ends.high * unit * (1.0 + 8.0 * EPS)
    high = math.nextafter(high, math.inf) if ends.high > 0.0 else high  # the square may underflow
    assert ends.lowest is not None and ends.highest is not None
    inner_low, inner_high = (float(end.moments.covariance[0, 0]) for end in (ends.lowest, ends.highest))
    return Enclosure(low, high, inner_low, inner_high, ends.lowest, ends.highest)


def _certain_variance(boxes: WeightedBoxes, problem: ScaledBoxes) -> Enclosure:
    """Enclose the variance in scaled units for known weights, with the sorting algorithms of :mod:`.spread`."""
    low, high, weight = problem.low[:, 0], problem.high[:, 0], problem.weight
    total = float(weight.sum())
    least, most = least_sum_of_squares(low, high, weight), largest_sum_of_squares(low, high, weight)
    near = np.clip(problem.to_table_units(np.array([[least.centre]])), boxes.low, boxes.high)
    up = farthest_ends(low, high, weight, boxes.parts, most.centre)
    highest = Witness(
        np.concatenate([boxes.box, boxes.box]),
        np.concatenate([boxes.low, boxes.high]),
        np.concatenate([boxes.weight * (1.0 - up), boxes.weight * up]),
    )
    lowest = Witness(boxes.box, near, boxes.weight)
    return Enclosure(least.bound / total, most.bound / total, math.nan, math.nan, lowest, highest)


def _uncertain_variance(boxes: WeightedBoxes, problem: ScaledBoxes, deadline: Deadline) -> Enclosure:
    """Enclose the variance in scaled units for open weights, as the covariance of the column with itself."""
    slack = deadline.gap * problem.largest_spread(0)
    bottom, top = highest_variance(problem, -1.0, slack, deadline), highest_variance(problem, 1.0, slack, deadline)
    return Enclosure(
        -bottom.outer, top.outer, math.nan, math.nan, problem.witness(boxes, bottom), problem.witness(boxes, top)
    )
