"""From a statistic and boxes to an Estimate: each statistic finds its own enclosure here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.budget import Budget, Clock
from sfumato.statistics.bounds.coefficients import Target, highest_coefficient
from sfumato.statistics.bounds.enclosure import Enclosure, End, Witness
from sfumato.statistics.bounds.ends import attained_by_slopes, mean_enclosure, variance_enclosure
from sfumato.statistics.bounds.pairs import highest_correlation, highest_covariance
from sfumato.statistics.bounds.problem import Problem
from sfumato.statistics.characteristics import Coefficient, Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.influence import sensitivities
from sfumato.statistics.interval_table import IntervalTable, Sample
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEALT = 4000  # records up to which each stands for itself: 1/N matters there


def estimate(statistic: Statistic, intervals: IntervalTable, budget: Budget | None = None) -> tuple[Estimate, ...]:
    """One Estimate for each part of the statistic."""
    parts = statistic.parts()
    clocks = (budget or Budget()).clocks(len(parts))
    return tuple(_estimate(part, intervals, clock) for part, clock in zip(parts, clocks, strict=True))


def _estimate(statistic: Statistic, intervals: IntervalTable, clock: Clock) -> Estimate:
    sample = _complete(statistic, intervals)
    value, half = linear_interval(statistic, sample)
    enclosure = _enclose(statistic, sample, half, clock)
    return Estimate(
        name=str(statistic),
        value=value,
        low=enclosure.low,
        high=enclosure.high,
        inner_low=enclosure.inner_low,
        inner_high=enclosure.inner_high,
        linear_low=value - half,
        linear_high=value + half,
        records=sample.records,
    )


def enclose(statistic: Statistic, intervals: IntervalTable, budget: Budget | None = None) -> Enclosure:
    """The enclosure of a single number, with the choices of values that attain its ends."""
    sample = _complete(statistic, intervals)
    clock = next((budget or Budget()).clocks(1))
    return _enclose(statistic, sample, linear_interval(statistic, sample)[1], clock)


def _complete(statistic: Statistic, intervals: IntervalTable) -> Sample:
    sample = intervals.sample(statistic.columns)
    if not len(sample.weight):
        raise StatisticError(
            f"{statistic} needs at least one record in which no column of it is missing.",
            found=f"{int(intervals.count.sum())} records, none of them complete or all of weight zero",
        )
    return sample


def linear_interval(statistic: Statistic, sample: Sample) -> tuple[float, float]:
    """C̃ at the midpoints and Δ = Σ w Σᵢ aᵢΔᵢ with the sensitivities there (XK §II)."""
    weight, middle = sample.likely_weight, sample.midpoints
    moments = Moments.of(middle, weight)
    slopes = sensitivities(statistic, moments, middle)
    value = statistic.value(moments)
    half = float(weight @ (slopes * sample.half_widths).sum(axis=1)) / moments.weight
    return value, half if math.isfinite(value) else math.nan


def _enclose(statistic: Statistic, sample: Sample, half: float, clock: Clock) -> Enclosure:
    if isinstance(statistic, Mean):
        return mean_enclosure(sample)
    if isinstance(statistic, Variance | Sd):
        return variance_enclosure(sample, root=isinstance(statistic, Sd), clock=clock)
    width = 2.0 * half if half > 0.0 else 1.0
    sample = sample.dealt(DEALT)
    problem = Problem.of(sample)
    if isinstance(statistic, Covariance):
        unit = float(problem.unit.prod())
        return _both(statistic, sample, problem, lambda p: highest_covariance(p, width / unit, clock), unit, 0.0)
    if isinstance(statistic, Correlation):
        return _both(statistic, sample, problem, lambda p: highest_correlation(p, width, clock), 1.0, 0.0)
    if isinstance(statistic, Coefficient):
        return _coefficient(statistic, sample, problem, width, clock)
    return attained_by_slopes(statistic, sample)


def _coefficient(statistic: Coefficient, sample: Sample, problem: Problem, width: float, clock: Clock) -> Enclosure:
    regressors = statistic.regression.regressors
    if statistic.term is None:
        unit, shift = float(problem.unit[0]), float(problem.centre[0])
        target = Target.intercept(-problem.centre[1:] / problem.unit[1:])
    else:
        which = regressors.index(statistic.term)
        unit, shift = float(problem.unit[0] / problem.unit[1 + which]), 0.0
        target = Target.slope(len(regressors), which)
    return _both(
        statistic,
        sample,
        problem,
        lambda p: highest_coefficient(p, target, clock.gap * width / unit, clock),
        unit,
        shift,
    )


def _both(
    statistic: Statistic,
    sample: Sample,
    problem: Problem,
    highest: Callable[[Problem], End],
    unit: float,
    shift: float,
) -> Enclosure:
    """Both ends, in the table's units: the lower one is the upper one of the mirrored problem."""
    upper, lower = highest(problem), highest(problem.mirrored())
    pad = 8.0 * np.finfo(np.float64).eps
    high, low = shift + unit * upper.outer, shift - unit * lower.outer
    high += pad * (abs(shift) + abs(high)) if math.isfinite(high) else 0.0
    low -= pad * (abs(shift) + abs(low)) if math.isfinite(low) else 0.0
    if isinstance(statistic, Correlation):
        low, high = max(low, -1.0), min(high, 1.0)
    top, bottom = _witness(sample, problem, upper, 1.0), _witness(sample, problem, lower, -1.0)
    return Enclosure(
        low,
        high,
        _attained(statistic, bottom, low, high),
        _attained(statistic, top, low, high),
        bottom,
        top,
    )


def _witness(sample: Sample, problem: Problem, end: End, sign: float) -> Witness | None:
    """The choice in the table's own units, inside the boxes to the last bit."""
    if end.points is None or end.weight is None:
        return None
    points = end.points.copy()
    points[:, 0] *= sign
    inside: NDArray[np.float64] = np.clip(problem.to_data(points), sample.low, sample.high)
    extra = (end.weight > problem.weight) & (sample.extra > 0.0)
    return Witness(sample.box, inside, np.where(extra, sample.weight + sample.extra, sample.weight))


def _attained(statistic: Statistic, witness: Witness | None, low: float, high: float) -> float:
    if witness is None:
        return math.nan
    value = statistic.value(witness.moments)
    return value if math.isnan(value) else min(max(value, low), high)
