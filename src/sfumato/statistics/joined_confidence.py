"""Intervals that join both uncertainties: what the boxes leave open, and that the records are a sample.

θ(x) is the statistic of a completion x, from θ_L to θ_U, and s(x) its standard error. The *union*
[θ_L − z s, θ_U + z s] with the largest s covers the parameter at least as often as the interval of each completion
does. The shorter interval of Imbens and Manski (2004) covers the parameter, not the whole range, with the same
probability: its c solves
Φ(c + (θ_U − θ_L)/s) − Φ(−c) = 1 − α. Where θ_U − θ_L is less than s, the union takes its place (Stoye 2009).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from sfumato.statistics.bounds.enclosure import Deadline
from sfumato.statistics.bounds.one_or_two_columns import enclose_variance
from sfumato.statistics.combined import Combination, Difference, ShareMeeting
from sfumato.statistics.conditions import ALWAYS
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.moments import Moments, influence
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.tallies import Count, Quantile, Sum
from sfumato.statistics.weighted_boxes import WeightedBoxes

Array = NDArray[np.float64]
WAYS = ("imbens-manski", "union")
NOT_KNOWN = "no joined interval: the sampling error of this statistic is not known"


def join_confidence(part: Statistic, table: CountedBoxes, found: Estimate, confidence: float, way: str) -> Estimate:
    """Return the estimate with a joined interval; without one, and a note, if its sampling error is not known."""
    found = replace(found, confidence=confidence)
    if set(part.columns) & set(table.calendars):
        return replace(found, notes=(*found.notes, NOT_KNOWN))
    if isinstance(part.unconditional, Quantile):
        return _join_quantile(part, table, found, confidence)
    error = _largest_error(part, table, found)
    if error is None or math.isnan(error):
        return replace(found, notes=(*found.notes, NOT_KNOWN))
    low, high = float(found.low), float(found.high)
    factor, name = _factor(high - low, error, confidence, way)
    ends = low - factor * error, high + factor * error
    return replace(found, confidence_low=ends[0], confidence_high=ends[1], confidence_by=name)


def _factor(width: float, error: float, confidence: float, way: str) -> tuple[float, str]:
    """Return how many standard errors are added at each end, and the name of the interval."""
    widest = float(stats.norm.ppf(0.5 + confidence / 2.0))
    if way == "union" or not error > 0.0 or width < error or not math.isfinite(width / error):
        return widest, "union over completions"
    narrowest = float(stats.norm.ppf(confidence))
    solved = optimize.brentq(
        lambda c: stats.norm.cdf(c + width / error) - stats.norm.cdf(-c) - confidence, narrowest - 1e-9, widest + 1e-9
    )
    return float(solved), "Imbens and Manski (2004)"


def _join_quantile(part: Statistic, table: CountedBoxes, found: Estimate, confidence: float) -> Estimate:
    """Take quantiles of shares that are a few standard errors of a share lower and higher: no density is needed."""
    boxes, inner = part.records_in(table), part.unconditional
    assert isinstance(inner, Quantile)
    records = max(_effective_records(boxes, table.weighted_by is not None), 1.0)
    reach = float(stats.norm.ppf(0.5 + confidence / 2.0)) * math.sqrt(inner.share * (1.0 - inner.share) / records)
    low = -math.inf if inner.share - reach <= 0.0 else replace(inner, share=inner.share - reach).tally(boxes).low
    high = math.inf if inner.share + reach >= 1.0 else replace(inner, share=inner.share + reach).tally(boxes).high
    return replace(found, confidence_low=low, confidence_high=high, confidence_by="union over completions, by ranks")


def _largest_error(part: Statistic, table: CountedBoxes, found: Estimate) -> float | None:
    """Return the largest standard error of the statistic over all completions, or None if it is not known."""
    if isinstance(part, Combination):
        return _error_of_two(part, table)
    inner, weighted = part.unconditional, table.weighted_by is not None
    if isinstance(inner, ShareMeeting | Count):
        boxes = table.meeting([], part.where if isinstance(inner, ShareMeeting) else ALWAYS)
        records = _effective_records(boxes, weighted)
        total = 1.0 if isinstance(inner, ShareMeeting) else float((boxes.weight + boxes.extra).sum())
        least, most = float(found.low) / total, float(found.high) / total
        worst = min(max(0.5, least), most)
        return total * math.sqrt(max(worst * (1.0 - worst), 0.0) / max(records, 1.0))
    if not isinstance(inner, Sum) and not inner.is_characteristic:
        return None
    boxes = part.records_in(table)
    if isinstance(inner, Mean | Sum):
        variance = enclose_variance(boxes, Deadline(5.0, 1e-3)).high
        error = math.sqrt(max(variance, 0.0) / max(_effective_records(boxes, weighted) - 1.0, 1e-300))
        return error if isinstance(inner, Mean) else error * float((boxes.weight + boxes.extra).sum())
    return max(_error_at(inner, boxes, points, weighted) for points in _completions(boxes))


def _error_of_two(part: Combination, table: CountedBoxes) -> float | None:
    """Return the error of a difference or ratio: errors add up at worst, as squares if no record is in both."""
    singles = [one.estimate_in(table, Deadline(5.0, 1e-3)) for one in (part.first, part.second)]
    errors = [_largest_error(one, table, found) for one, found in zip((part.first, part.second), singles, strict=True)]
    if errors[0] is None or errors[1] is None:
        return None
    both = table.rows_meeting(table.clauses([], part.first.where.joined(part.second.where))).most.sum() > 0.0
    if isinstance(part, Difference):
        return errors[0] + errors[1] if both else math.hypot(errors[0], errors[1])
    smallest = min(abs(float(singles[1].low)), abs(float(singles[1].high)))
    largest = max(abs(float(singles[0].low)), abs(float(singles[0].high)))
    if singles[1].low <= 0.0 <= singles[1].high or smallest == 0.0:
        return None
    shares = errors[0] / smallest, largest / smallest * (errors[1] / smallest)
    return sum(shares) if both else math.hypot(*shares)


def _effective_records(boxes: WeightedBoxes, weighted: bool) -> float:
    """Return the number of records or, with sampling weights, Kish's effective number; the smallest that is certain."""
    if not weighted:
        return float(max(boxes.records, 1))
    squares = float((boxes.likely_weight**2 / np.maximum(boxes.parts, 1)).sum())
    return float(boxes.likely_weight.sum()) ** 2 / squares if squares > 0.0 else 1.0


def _completions(boxes: WeightedBoxes) -> list[Array]:
    """Return some choices of values: the midpoints, the ends, and those farthest from and nearest to the mean."""
    middle = boxes.midpoints
    mean = Moments.of(middle, boxes.likely_weight).mean
    far = np.where(middle >= mean, boxes.high, boxes.low)
    return [middle, boxes.low, boxes.high, far, np.clip(mean, boxes.low, boxes.high)]


def _error_at(statistic: Statistic, boxes: WeightedBoxes, points: Array, weighted: bool) -> float:
    """Return the standard error of one completion, by the influence of the records."""
    moments = Moments.of(points, boxes.likely_weight)
    if not math.isfinite(statistic.value(moments)):
        return 0.0
    squares = influence(statistic, moments, points) ** 2
    weight = boxes.likely_weight**2 / np.maximum(boxes.parts, 1) if weighted else boxes.likely_weight
    return math.sqrt(float(weight @ squares)) / moments.weight
