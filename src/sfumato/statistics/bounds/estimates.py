"""Compute an Estimate from a statistic and boxes, with the method that fits the statistic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.attain import attained_by_slopes
from sfumato.statistics.bounds.attained_rows import ReleasedRows
from sfumato.statistics.bounds.budget import Deadline, EstimateBudget
from sfumato.statistics.bounds.coefficients import Target, highest_coefficient
from sfumato.statistics.bounds.enclosure import Enclosure, End, Witness
from sfumato.statistics.bounds.pairs import highest_correlation, highest_covariance
from sfumato.statistics.bounds.records import Records
from sfumato.statistics.bounds.scaled_boxes import EPS, ScaledBoxes, compile_kernels
from sfumato.statistics.bounds.single import mean_enclosure, sd_enclosure, variance_enclosure, zero_spread
from sfumato.statistics.bounds.tallies import Tally, count_tally, quantile_tally, sum_tally
from sfumato.statistics.bounds.units import bessel_factor, in_units
from sfumato.statistics.conditions import ALWAYS, Conditional, Count, Quantile, Sum
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.influence import sensitivities
from sfumato.statistics.moment_statistics import (
    Coefficient,
    Correlation,
    Covariance,
    Mean,
    Sd,
    Variance,
    population_form,
)
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

TINY = float(np.finfo(float).tiny)  # smallest unit: a product of smaller ones is 0
FINEST = 1e-7  # width, in standard deviations, below which an interval counts as a point


def estimate(
    statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None
) -> tuple[Estimate, ...]:
    """Return one Estimate per part of the statistic."""
    parts = statistic.parts()
    boxes = _with_unseen(parts[0], intervals, boxes_for(parts[0], intervals)[1])  # all parts use the same records
    records = Records(boxes, _released_rows(parts[0], intervals))
    deadlines = started_deadlines(parts[0], boxes, budget, len(parts))
    return tuple(
        in_units(
            replace(_estimate(part, records, deadline), weighted_by=intervals.weighted_by),
            inner_statistic(part),
            intervals.calendars,
        )
        for part, deadline in zip(parts, deadlines, strict=True)
    )


def started_deadlines(
    statistic: Statistic, boxes: WeightedBoxes | None, budget: EstimateBudget | None, parts: int
) -> Iterator[Deadline]:
    """Compile the kernels that the statistic needs if the time is limited, and start the clock after that."""
    sorts_only = isinstance(inner_statistic(statistic), Variance | Sd) and boxes is not None and boxes.is_certain
    if budget and not sorts_only and not isinstance(inner_statistic(statistic), Mean | Count | Sum | Quantile):
        compile_kernels()
    return (budget or EstimateBudget()).deadlines(parts)


def _estimate(statistic: Statistic, records: Records, deadline: Deadline) -> Estimate:
    inner, boxes = inner_statistic(statistic), records.boxes
    if isinstance(inner, Count | Sum | Quantile):
        return _tally_estimate(statistic, inner, records)
    factor, population = bessel_factor(inner, boxes), population_form(inner)
    value, half = linear_interval(population, boxes)
    enclosure = enclosure_of(population, records, half, deadline)
    if records.rows is not None:
        value, enclosure = (
            linear_interval(population, records.rows.boxes)[0],
            records.rows.attained(population, enclosure),
        )
    enclosure = factor.applied_to(enclosure)
    value, half = factor.likely * value, factor.likely * half
    linear_low, linear_high = clipped(inner, value - half, value + half)
    return Estimate(
        name=str(statistic),
        value=value,
        low=enclosure.low,
        high=enclosure.high,
        inner_low=enclosure.inner_low,
        inner_high=enclosure.inner_high,
        linear_low=linear_low,
        linear_high=linear_high,
        records=boxes.records,
        uncertain_records=boxes.most_records - boxes.records,
        ended_early=deadline.ended_early,
        notes=_undefined(inner, boxes),
    )


def _undefined(statistic: Statistic, boxes: WeightedBoxes) -> tuple[str, ...]:
    """Say that a correlation or a coefficient is not defined if a column that it divides by is certainly constant."""
    if not isinstance(statistic, Correlation | Coefficient):
        return ()
    divided_by = statistic.columns if isinstance(statistic, Correlation) else statistic.regression.regressors
    constant = [
        name
        for position, name in enumerate(statistic.columns)
        if name in divided_by and boxes.low[:, position].min() == boxes.high[:, position].max()
    ]
    return (f"not defined: {', '.join(constant)} has the same value in all records",) if constant else ()


def clipped(statistic: Statistic, low: float, high: float) -> tuple[float, float]:
    """Return the ends of an interval; those of a correlation are at least −1 and at most 1."""
    return (max(low, -1.0), min(high, 1.0)) if isinstance(statistic, Correlation) else (low, high)


def _tally_estimate(statistic: Statistic, inner: Count | Sum | Quantile, records: Records) -> Estimate:
    """Estimate counts, sums and quantiles; the interval is exact, so the linear one is the same."""
    tally = _tally(inner, records.boxes)
    guess = tally if records.rows is None else _tally(inner, records.rows.boxes)
    return Estimate(
        name=str(statistic),
        value=guess.value,
        low=tally.low,
        high=tally.high,
        inner_low=tally.inner_low,
        inner_high=tally.inner_high,
        linear_low=tally.low,
        linear_high=tally.high,
        records=records.boxes.records,
        uncertain_records=records.boxes.most_records - records.boxes.records,
    )


def _tally(inner: Count | Sum | Quantile, boxes: WeightedBoxes) -> Tally:
    if isinstance(inner, Count):
        return count_tally(boxes)
    return sum_tally(boxes) if isinstance(inner, Sum) else quantile_tally(boxes, inner.share)


def _released_rows(statistic: Statistic, intervals: CountedBoxes) -> ReleasedRows | None:
    """Return the rows that may count, if only the total weight of a box is known and its rows differ."""
    pools = intervals.pools
    if pools is None or not pools.merge_groups:
        return None
    rows = boxes_for(statistic, intervals.as_released)[1]
    return ReleasedRows(rows, pools.box[rows.box])


def _with_unseen(statistic: Statistic, intervals: CountedBoxes, boxes: WeightedBoxes) -> WeightedBoxes:
    """Add the rows of the original that were not released, if the statistic can take them into account."""
    unseen = intervals.unseen
    if unseen is None or not includes_unseen(statistic, unseen):
        return boxes
    names = () if isinstance(statistic, Count) else inner_statistic(statistic).columns
    ends = [unseen.domains.get(name, (-math.inf, math.inf)) for name in names]
    certain = isinstance(statistic, Count) and not statistic.condition.predicates
    return boxes.with_unseen([low for low, _ in ends], [high for _, high in ends], unseen.rows, certain=certain)


def includes_unseen(statistic: Statistic, unseen: Unseen) -> bool:
    """Return whether the estimate covers rows that were not released.

    It does for counts and quantiles, and for all other statistics if the domains of their columns are known.
    """
    inner = inner_statistic(statistic)
    return isinstance(inner, Count | Quantile) or set(inner.columns) <= set(unseen.domains)


def enclose(statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None) -> Enclosure:
    """Return the enclosure of a single characteristic, with the choices of values that attain its ends."""
    inner, boxes = boxes_for(statistic, intervals)
    deadline = next(started_deadlines(statistic, boxes, budget, 1))
    population = population_form(inner)
    half = linear_interval(population, boxes)[1]
    return bessel_factor(inner, boxes).applied_to(enclosure_of(population, Records(boxes), half, deadline))


def inner_statistic(statistic: Statistic) -> Statistic:
    """Return the statistic without its condition."""
    return statistic.statistic if isinstance(statistic, Conditional) else statistic


def boxes_for(statistic: Statistic, intervals: CountedBoxes) -> tuple[Statistic, WeightedBoxes]:
    """Return the statistic without its condition, and the records from which to compute it."""
    if isinstance(statistic, Count):
        return statistic, intervals.meeting((), statistic.condition)
    inner, condition = inner_statistic(statistic), ALWAYS
    if isinstance(statistic, Conditional):
        condition = statistic.condition
    boxes = intervals.meeting(inner.columns, condition)
    if not len(boxes.weight):
        requirement = "is complete and meets the condition" if condition.predicates else "is complete"
        raise StatisticError(
            f"{statistic} needs at least one record that {requirement}.",
            found=f"{int(intervals.count.sum())} records, none of which qualifies or has a positive weight",
        )
    return inner, boxes


def linear_interval(statistic: Statistic, boxes: WeightedBoxes) -> tuple[float, float]:
    """Compute C̃ at the midpoints and Δ = Σ w Σᵢ aᵢΔᵢ with the sensitivities there (XK §II)."""
    weight, middle = boxes.likely_weight, boxes.midpoints
    moments = Moments.of(middle, weight)
    slopes = sensitivities(statistic, moments, middle)
    value = statistic.value(moments)
    half = float((weight[:, None] * slopes * boxes.half_widths).sum()) / moments.weight
    return value, half if math.isfinite(value) else math.nan


def enclosure_of(statistic: Statistic, records: Records, half: float, deadline: Deadline) -> Enclosure:
    """Enclose the statistic with its own method; the linear half-width ``half`` determines the precision."""
    boxes = records.boxes
    if isinstance(statistic, Mean):
        return mean_enclosure(boxes)
    if isinstance(statistic, Variance):
        return variance_enclosure(boxes, deadline)
    if isinstance(statistic, Sd):
        return sd_enclosure(boxes, deadline)
    boxes = records.split
    if not isinstance(statistic, Covariance | Correlation | Coefficient):
        return attained_by_slopes(statistic, boxes)
    problem = records.problem
    if isinstance(statistic, Covariance):
        if boxes.is_one_record:
            return zero_spread(boxes)
        scale = Scale(max(float(problem.unit.prod()), TINY))
        slack = _slack(half, scale, deadline)
        return _two_sided(statistic, boxes, problem, scale, deadline, lambda p, c: highest_covariance(p, slack, c))
    if isinstance(statistic, Correlation):
        slack = _slack(half, Scale(1.0), deadline)
        return _two_sided(
            statistic, boxes, problem, Scale(1.0), deadline, lambda p, c: highest_correlation(p, slack, c)
        )
    scale, target = _coefficient(statistic, problem)
    slack = _slack(half, scale, deadline)

    def highest(side: ScaledBoxes, limit: Deadline) -> End:
        sign = 1.0 if side is problem else -1.0
        return highest_coefficient(side, target, slack, limit, lambda: _quick_bound(records, sign * target.functional))

    return _two_sided(statistic, boxes, problem, scale, deadline, highest)


def _quick_bound(records: Records, functional: NDArray[np.float64]) -> float:
    return math.inf if records.perturbation is None else records.perturbation.highest(functional)


def _slack(half: float, scale: Scale, deadline: Deadline) -> float:
    """Compute how far an end may be from an attained value, in scaled units: a share of the linear width."""
    width = 2.0 * half / scale.unit if math.isfinite(half) else 1.0
    return deadline.gap * max(width, FINEST)


@dataclass(frozen=True)
class Scale:
    """A statistic in the units of the table is ``shift`` + ``unit`` × the statistic in scaled units."""

    unit: float
    shift: float = 0.0


def _coefficient(statistic: Coefficient, problem: ScaledBoxes) -> tuple[Scale, Target]:
    regressors = statistic.regression.regressors
    if statistic.term is None:
        origin = -problem.centre[1:] / problem.unit[1:]
        return Scale(float(problem.unit[0]), float(problem.centre[0])), Target.intercept(origin)
    which = regressors.index(statistic.term)
    return Scale(max(float(problem.unit[0] / problem.unit[1 + which]), TINY)), Target.slope(len(regressors), which)


def _two_sided(
    statistic: Statistic,
    boxes: WeightedBoxes,
    problem: ScaledBoxes,
    scale: Scale,
    deadline: Deadline,
    highest: Callable[[ScaledBoxes, Deadline], End],
) -> Enclosure:
    """Compute both ends in the units of the table; the lower end is the upper end of the mirrored problem."""
    if math.isinf(scale.unit):  # a slope that may exceed all numbers
        return Enclosure(-math.inf, math.inf, math.nan, math.nan, None, None)
    top = highest(problem, deadline.share(2))
    bottom = highest(problem.mirrored, deadline.share(1))
    high, low = scale.shift + scale.unit * top.outer, scale.shift - scale.unit * bottom.outer
    largest = abs(scale.shift) + max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0)
    rounding = 8.0 * EPS * largest
    if scale.unit <= TINY:  # the true unit may be smaller, and both ends nearer to the shift
        rounding += 2.0 * TINY * max(abs(top.outer), abs(bottom.outer))
    low, high = low - rounding, high + rounding
    low, high = clipped(statistic, low, high)
    if bottom.points is not None:
        bottom = replace(bottom, points=bottom.points * np.where(np.arange(problem.columns) == 0, -1.0, 1.0))
    lowest, inner_low = _attained(statistic, problem.witness(boxes, bottom))
    highest_choice, inner_high = _attained(statistic, problem.witness(boxes, top))
    return Enclosure(low, high, inner_low, inner_high, lowest, highest_choice)


def _attained(statistic: Statistic, witness: Witness | None) -> tuple[Witness | None, float]:
    """Return a choice and its value; None and NaN if rounding to the table's units leaves the statistic undefined."""
    value = math.nan if witness is None else statistic.value(witness.moments)
    return (None if math.isnan(value) else witness), value
