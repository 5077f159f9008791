"""Enclosures of means and variances, and what can be attained where nothing better is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Clock
from sfumato.statistics.bounds.enclosure import Enclosure, Witness
from sfumato.statistics.bounds.pairs import highest_variance
from sfumato.statistics.bounds.problem import EPS, Problem
from sfumato.statistics.bounds.spread import largest_sum_of_squares, least_sum_of_squares
from sfumato.statistics.influence import derivatives
from sfumato.statistics.interval_table import Sample
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray


def mean_enclosure(sample: Sample) -> Enclosure:
    """[Σ w l, Σ w u], exact."""
    problem = Problem.of(sample)
    low, high = problem.mean_range(np.array([0.0, 1.0]))
    pad = 8.0 * EPS * (abs(float(problem.centre[0])) + float(problem.unit[0]) * max(abs(low), abs(high)))
    low, high = (float(problem.centre[0] + problem.unit[0] * end) for end in (low, high))
    low, high = low - pad, high + pad
    ends = []
    for sign, side in ((-1.0, sample.low), (1.0, sample.high)):
        value = sign * side[:, 0]
        order = np.argsort(-value)
        heft = sample.weight.sum() + np.concatenate([[0.0], np.cumsum(sample.extra[order])])
        mass = sample.weight @ value + np.concatenate([[0.0], np.cumsum((sample.extra * value)[order])])
        with np.errstate(invalid="ignore", divide="ignore"):
            joined = int(np.nanargmax(np.where(heft > 0.0, mass / heft, -np.inf)))
        weight = sample.weight.copy()
        weight[order[:joined]] += sample.extra[order[:joined]]
        ends.append(Witness(sample.box, side, weight))
    inner = [min(max(float(witness.moments.mean[0]), low), high) for witness in ends]
    return Enclosure(low, high, inner[0], inner[1], ends[0], ends[1])


def variance_enclosure(sample: Sample, *, root: bool, clock: Clock) -> Enclosure:
    """Population variance, or its root (the standard deviation)."""
    problem = Problem.of(sample)
    unit = float(problem.unit[0]) ** 2
    if sample.is_certain:
        total = float(problem.weight.sum())
        low, high, weight = problem.low[:, 0], problem.high[:, 0], problem.weight
        least = least_sum_of_squares(low, high, weight)
        most = largest_sum_of_squares(low, high, weight)
        ends = (least.bound / total, most.bound / total)
        near = np.clip(problem.centre[0] + problem.unit[0] * least.centre, sample.low, sample.high)
        lowest = Witness(sample.box, near, sample.weight)
        highest = _spread_out(sample, float(problem.centre[0] + problem.unit[0] * most.centre))
    else:
        width = float(problem.largest_spread(0))
        top = highest_variance(problem, 1.0, width, clock)
        bottom = highest_variance(problem, -1.0, width, clock)
        ends = (max(-bottom.outer, 0.0), top.outer)
        lowest, highest = (_in_units(sample, problem, end.points, end.weight) for end in (bottom, top))
    low, high = ends[0] * unit * (1.0 - 8.0 * EPS), ends[1] * unit * (1.0 + 8.0 * EPS)
    inner = [float(witness.moments.covariance[0, 0]) for witness in (lowest, highest)]
    if root:
        low, high = math.sqrt(low) * (1.0 - 4.0 * EPS), math.sqrt(high) * (1.0 + 4.0 * EPS)
        inner = [math.sqrt(max(value, 0.0)) for value in inner]
    inner = [min(max(value, low), high) for value in inner]
    return Enclosure(low, high, inner[0], inner[1], lowest, highest)


def _in_units(
    sample: Sample, problem: Problem, points: NDArray[np.float64] | None, weight: NDArray[np.float64] | None
) -> Witness:
    assert points is not None and weight is not None
    extra = (weight > problem.weight) & (sample.extra > 0.0)
    inside = np.clip(problem.to_data(points), sample.low, sample.high)
    return Witness(sample.box, inside, np.where(extra, sample.weight + sample.extra, sample.weight))


def _spread_out(sample: Sample, centre: float) -> Witness:
    """The largest variance: every record at the end that is farther from the centre.

    Boxes whose midpoint is the centre may go either way; their records are dealt out, the heaviest first, so that the mean
    comes as near to the centre as it can. The variance then misses the bound by the square of what is left.
    """
    low, high, weight = sample.low[:, 0], sample.high[:, 0], sample.weight
    middle = sample.midpoints[:, 0]
    order = np.argsort(middle, kind="stable")
    total = float(weight.sum())
    # prefix t at the low ends: its mean; the centre is crossed inside one group of equal midpoints
    mean = (float(weight @ high) + np.concatenate([[0.0], np.cumsum((weight * (low - high))[order])])) / total
    before = int(np.searchsorted(-mean, -centre, side="right")) - 1  # the last t with mean ≥ centre
    before = min(max(before, 0), len(low) - 1)
    tied = middle == middle[order[before]]
    at_low = np.zeros(len(low), dtype=bool)
    at_low[order[: np.searchsorted(middle[order], middle[order[before]], side="left")]] = True
    at_low[tied] = True
    raised = np.zeros(len(low), dtype=np.int64)  # records of a tied box that go up
    short = centre - (float(weight @ np.where(at_low, low, high))) / total
    step = weight * (high - low) / sample.parts / total
    for g in sorted(np.flatnonzero(tied), key=lambda g: -step[g]):
        if step[g] > 0.0:
            raised[g] = min(
                max(int(round(short / step[g])) if sample.parts[g] > 1 else int(short > step[g] / 2.0), 0),
                sample.parts[g],
            )
            short -= raised[g] * step[g]
    share = raised / sample.parts
    whole = np.where(at_low, low, high)
    split = (share > 0.0) & at_low
    box = np.concatenate([np.arange(len(low)), np.flatnonzero(split)])
    points = np.concatenate([whole, high[split]])[:, None]
    heft = np.concatenate([np.where(split, weight * (1.0 - share), weight), (weight * share)[split]])
    kept = heft > 0.0
    return Witness(sample.box[box[kept]], points[kept], heft[kept])


def attained_by_slopes(statistic: Statistic, sample: Sample) -> Enclosure:
    """A user's own function of moments: nothing is certain, but ends by the sign of the derivative are attained."""
    ends: list[tuple[float, Witness]] = []
    for sign in (-1.0, 1.0):
        best: tuple[float, Witness] | None = None
        points = sample.midpoints
        for _ in range(20):
            moments = Moments.of(points, sample.likely_weight)
            slopes = sign * derivatives(statistic, moments, points)
            points = np.where(slopes > 0.0, sample.high, np.where(slopes < 0.0, sample.low, points))
            witness = Witness(sample.box, points, sample.weight + sample.extra)
            value = statistic.value(witness.moments)
            if math.isnan(value) or (best is not None and sign * value <= sign * best[0]):
                break
            best = (value, witness)
        if best is None:
            return Enclosure(-math.inf, math.inf, math.nan, math.nan, None, None)
        ends.append(best)
    return Enclosure(-math.inf, math.inf, ends[0][0], ends[1][0], ends[0][1], ends[1][1])
