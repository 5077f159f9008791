"""Intervals that join both uncertainties: what the boxes leave open, and that the records are a sample.

θ(x) is the statistic of a completion x, from θ_L to θ_U, and s(x) its standard error. The *union*
[θ_L − z s, θ_U + z s] with the largest s covers the parameter at least as often as the interval of each completion
does. The shorter interval of Imbens and Manski (2004) covers the parameter, not the whole range, with the same
probability: its c solves
Φ(c + (θ_U − θ_L)/s) − Φ(−c) = 1 − α. Where θ_U − θ_L is less than s, the union takes its place (Stoye 2009).

With sampling weights or the design of a survey, s follows from the influences of rows or clusters
(:mod:`.survey_design`), and Φ is the distribution of t with as many degrees of freedom as there are clusters less
strata.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

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
from sfumato.statistics.moments import Moments, derivatives, influence
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.survey_design import Labels, SurveyDesign
from sfumato.statistics.tallies import Count, Quantile, Sum
from sfumato.statistics.weighted_boxes import WeightedBoxes

Array = NDArray[np.float64]
WAYS = ("imbens-manski", "union")
PUSHES = 3  # steps that push clusters apart
NOT_KNOWN = "no joined interval: the sampling error of this statistic is not known"


@dataclass(frozen=True)
class SamplingError:
    """The largest standard error of a statistic over completions, and its degrees of freedom."""

    size: float
    freedom: float = math.inf

    def quantile(self, probability: float) -> float:
        """Return a quantile of the error of a statistic, in standard errors."""
        return float(stats.t.ppf(probability, self.freedom))


def join_confidence(
    part: Statistic, table: CountedBoxes, found: Estimate, confidence: float, way: str, survey: SurveyDesign | None
) -> Estimate:
    """Return the estimate with a joined interval; without one, and a note, if its sampling error is not known."""
    found = replace(found, confidence=confidence)
    error = None
    if not set(part.columns) & set(table.calendars):
        error = _error_in_sample(part, table, found) if survey is None else _error_in_survey(part, survey)
    if error is None or math.isnan(error.size):
        return replace(found, notes=(*found.notes, NOT_KNOWN))
    found = found if survey is None else replace(found, notes=(*found.notes, *survey.notes))
    if isinstance(part.unconditional, Quantile):
        return _join_quantile(part, table, found, confidence, error)
    low, high = float(found.low), float(found.high)
    factor, name = _factor(high - low, error, confidence, way)
    ends = low - factor * error.size, high + factor * error.size
    return replace(found, confidence_low=ends[0], confidence_high=ends[1], confidence_by=name)


def _factor(width: float, error: SamplingError, confidence: float, way: str) -> tuple[float, str]:
    """Return how many standard errors are added at each end, and the name of the interval."""
    widest = error.quantile(0.5 + confidence / 2.0)
    if way == "union" or not error.size > 0.0 or width < error.size or not math.isfinite(width / error.size):
        return widest, "union over completions"
    narrowest, t = error.quantile(confidence), stats.t(error.freedom)
    solved = optimize.brentq(
        lambda c: t.cdf(c + width / error.size) - t.cdf(-c) - confidence, narrowest - 1e-9, widest + 1e-9
    )
    return float(solved), "Imbens and Manski (2004)"


def _join_quantile(
    part: Statistic, table: CountedBoxes, found: Estimate, confidence: float, error: SamplingError
) -> Estimate:
    """Take quantiles of shares that are a few standard errors of a share lower and higher: no density is needed."""
    boxes, inner = part.records_in(table), part.unconditional
    assert isinstance(inner, Quantile)
    reach = error.quantile(0.5 + confidence / 2.0) * error.size
    low = -math.inf if inner.share - reach <= 0.0 else replace(inner, share=inner.share - reach).tally(boxes).low
    high = math.inf if inner.share + reach >= 1.0 else replace(inner, share=inner.share + reach).tally(boxes).high
    return replace(found, confidence_low=low, confidence_high=high, confidence_by="union over completions, by ranks")


def _error_in_sample(part: Statistic, table: CountedBoxes, found: Estimate) -> SamplingError | None:
    """Return the sampling error of records without weights, drawn one by one; that of a share, for a quantile."""
    inner = part.unconditional
    if isinstance(inner, Quantile):
        records = max(part.records_in(table).records, 1)
        return SamplingError(math.sqrt(inner.share * (1.0 - inner.share) / records))
    error = _largest_error(part, table, found)
    return None if error is None else SamplingError(error)


def _largest_error(part: Statistic, table: CountedBoxes, found: Estimate) -> float | None:
    """Return the largest standard error of the statistic over all completions, or None if it is not known."""
    if isinstance(part, Combination):
        return _error_of_two(part, table)
    inner = part.unconditional
    if isinstance(inner, ShareMeeting | Count):
        boxes = table.meeting([], part.where if isinstance(inner, ShareMeeting) else ALWAYS)
        total = 1.0 if isinstance(inner, ShareMeeting) else float((boxes.weight + boxes.extra).sum())
        least, most = float(found.low) / total, float(found.high) / total
        worst = min(max(0.5, least), most)
        return total * math.sqrt(max(worst * (1.0 - worst), 0.0) / max(boxes.records, 1))
    if not isinstance(inner, Sum) and not inner.is_characteristic:
        return None
    boxes = part.records_in(table)
    if isinstance(inner, Mean | Sum):
        variance = enclose_variance(boxes, Deadline(5.0, 1e-3)).high
        error = math.sqrt(max(variance, 0.0) / max(boxes.records - 1.0, 1e-300))
        return error if isinstance(inner, Mean) else _error_of_sum(boxes, error, table)
    return max(_error_at(inner, boxes, points) for points in _completions(boxes))


def _error_of_sum(boxes: WeightedBoxes, of_mean: float, table: CountedBoxes) -> float:
    """Return the error of a sum, of which the mean and the number of records that have a value both vary."""
    weight = boxes.weight + boxes.extra
    total, absent = float(weight.sum()), max(1.0 - boxes.records / max(float(table.count.sum()), 1.0), 0.0)
    mean = max(abs(float(weight @ end[:, 0])) for end in (boxes.low, boxes.high)) / max(total, 1e-300)
    return math.hypot(of_mean * total, mean * math.sqrt(total * absent))


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


def _completions(boxes: WeightedBoxes) -> list[Array]:
    """Return some choices of values: the midpoints, the ends, and those farthest from and nearest to the mean."""
    middle = boxes.midpoints
    mean = Moments.of(middle, boxes.likely_weight).mean
    far = np.where(middle >= mean, boxes.high, boxes.low)
    return [middle, boxes.low, boxes.high, far, np.clip(mean, boxes.low, boxes.high)]


def _error_at(statistic: Statistic, boxes: WeightedBoxes, points: Array) -> float:
    """Return the standard error of one completion, by the influence of the records."""
    moments = Moments.of(points, boxes.likely_weight)
    if not math.isfinite(statistic.value(moments)):
        return 0.0
    squares = influence(statistic, moments, points) ** 2
    return math.sqrt(float(boxes.likely_weight @ squares)) / moments.weight


# The sampling error of a survey: the totals of clusters for some completions, of which the largest variance is taken.


def _error_in_survey(part: Statistic, survey: SurveyDesign) -> SamplingError | None:
    """Return the largest standard error by the design over some completions, or None if it is not known."""
    if isinstance(part, Combination):
        return _error_of_two_in_survey(part, survey)
    found = _SurveyedStatistic.of(part, survey)
    freedom = survey.freedom(found.boxes.box) if found is not None else 0
    if found is None or not freedom:
        return None
    return SamplingError(max(float(np.linalg.norm(totals)) for totals in found.centred_totals()), freedom)


def _error_of_two_in_survey(part: Combination, survey: SurveyDesign) -> SamplingError | None:
    """Return the error of a difference or ratio: its influence is that of both, so that common clusters count."""
    both = [_SurveyedStatistic.of(one, survey) for one in (part.first, part.second)]
    if both[0] is None or both[1] is None:
        return None
    freedom = survey.freedom(np.concatenate([both[0].boxes.box, both[1].boxes.box]))
    first, second = (np.array(list(one.centred_totals())) for one in both if one is not None)
    squares = [np.einsum("ku,ku->k", one, one) for one in (first, second)]
    slopes = [(1.0, -1.0)] if isinstance(part, Difference) else _slopes_of_ratio(part, survey.table)
    if not slopes or not freedom:
        return None
    across = first @ second.T
    largest = max(
        float((a * a * squares[0][:, None] + b * b * squares[1] + 2.0 * a * b * across).max()) for a, b in slopes
    )
    return SamplingError(math.sqrt(max(largest, 0.0)), freedom)


def _slopes_of_ratio(part: Combination, table: CountedBoxes) -> list[tuple[float, float]]:
    """Return the derivatives of a ratio to both statistics where they are largest; none if it may divide by 0."""
    top, bottom = (one.estimate_in(table, Deadline(5.0, 1e-3)) for one in (part.first, part.second))
    if bottom.low <= 0.0 <= bottom.high:
        return []
    smallest = min(abs(float(bottom.low)), abs(float(bottom.high)))
    return [(1.0 / smallest, -float(end) / smallest**2) for end in (top.low, top.high)]


@dataclass(frozen=True, eq=False, repr=False)
class _SurveyedStatistic:
    """A statistic with its records in a survey, and its influence function."""

    statistic: Statistic
    boxes: WeightedBoxes
    survey: SurveyDesign
    row_weight: Array  # (B,), of one row
    least: Labels  # (B,), rows that certainly count
    most: Labels

    @classmethod
    def of(cls, part: Statistic, survey: SurveyDesign) -> _SurveyedStatistic | None:
        """Return a statistic whose influence function is known: a count or share as a sum or mean of the truth."""
        inner, table = part.unconditional, survey.table.as_released
        if isinstance(inner, ShareMeeting | Count):
            truth = inner if isinstance(inner, ShareMeeting) else ShareMeeting(inner.where)
            boxes = truth.records_where(table, part.where if isinstance(inner, ShareMeeting) else ALWAYS)
            boxes = replace(boxes, low=boxes.low[:, :1], high=boxes.high[:, :1])
            inner = Mean("") if isinstance(inner, ShareMeeting) else Sum("")
        elif isinstance(inner, Sum | Quantile) or inner.is_characteristic:
            boxes = part.records_in(table)
        else:
            return None
        weight = (table.weight / table.count)[boxes.box]
        least, most = (np.rint(one / weight).astype(np.int64) for one in (boxes.weight, boxes.weight + boxes.extra))
        return cls(inner, boxes, survey, weight, least, most)

    def centred_totals(self) -> Iterator[Array]:
        """Yield the centred totals of clusters for some completions."""
        boxes, likely = self.boxes, self._likely_rows()
        wide = (boxes.low < boxes.high).any(axis=1)
        turns = (np.cumsum(wide) % 2, self._cluster % 2)  # every second wide record, and every second cluster
        values = _completions(boxes) + [np.where(turn[:, None] == 0, boxes.low, boxes.high) for turn in turns]
        chosen = [(points, likely) for points in values]
        if not boxes.is_certain:
            chosen += [(values[0], self.least), (values[0], self.most)]
        if wide.any() or not boxes.is_certain:
            chosen += [one for start in (values[0], values[-1]) for one in self._pushed(start, likely)]
        for points, rows in chosen:
            for weight in self._weights(points, rows):
                yield self.survey.centred(self._totals(points, rows, weight))

    @property
    def _cluster(self) -> Labels:
        """The cluster of the first row of each group."""
        return self.survey.cluster[np.flatnonzero(self.survey.place == 0)[self.boxes.box]]

    def _likely_rows(self) -> Labels:
        """Return how many rows count: rounded so that the numbers of neighbouring groups add up."""
        whole = np.rint(np.cumsum(self.boxes.likely_weight / self.row_weight)).astype(np.int64)
        return np.clip(np.diff(whole, prepend=0), self.least, self.most)

    def _pushed(self, points: Array, rows: Labels) -> list[tuple[Array, Labels]]:
        """Push the values of each cluster away from the mean of its stratum, by the slope of the influence."""
        found, boxes, survey = [], self.boxes, self.survey
        for _ in range(PUSHES):
            influences, slopes = self._linearised(points, rows * self.row_weight)
            away = survey.centred(self._totals(points, rows, self.row_weight))[self._cluster]
            points = np.where(away[:, None] * slopes > 0.0, boxes.high, boxes.low)
            rows = np.where(away * influences > 0.0, self.most, self.least)
            if not rows.any():
                break
            found.append((points, rows))
        return found

    def _weights(self, points: Array, rows: Labels) -> list[Array]:
        """Return weights of single rows: the released ones and, if only totals are known, most on large influences."""
        table, pools = self.survey.table, self.survey.table.pools
        if pools is None:
            return [self.row_weight]
        sizes = np.zeros(len(table.count))
        sizes[self.boxes.box] = np.abs(self._linearised(points, rows * self.row_weight)[0])
        filled = pools.fill(pools.box, table.count, np.lexsort((-sizes, pools.box)))
        return [self.row_weight, (filled / table.count)[self.boxes.box]]

    def _totals(self, points: Array, rows: Labels, weight: Array) -> Array:
        influences, _ = self._linearised(points, rows * weight)
        return self.survey.totals(self.boxes.box, rows * weight * influences, rows)

    def _linearised(self, points: Array, weight: Array) -> tuple[Array, Array]:
        """Return the influence of each record on the statistic, per unit of its weight, and its derivatives."""
        statistic, total = self.statistic, max(float(weight.sum()), 1e-300)
        if isinstance(statistic, Sum):
            return points[:, 0], np.ones_like(points)
        if isinstance(statistic, Quantile):
            order = np.argsort(points[:, 0], kind="stable")
            last = np.searchsorted(np.cumsum(weight[order]), statistic.share * total * (1.0 - 1e-12))
            at = points[order[min(int(last), len(order) - 1)], 0]
            return ((points[:, 0] <= at) - statistic.share) / total, -np.ones_like(points)
        moments = Moments.of(points, weight)
        if not moments.weight > 0.0 or not math.isfinite(statistic.value(moments)):
            return np.zeros(len(points)), np.zeros_like(points)
        return influence(statistic, moments, points) / total, derivatives(statistic, moments, points) / total
