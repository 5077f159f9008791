"""Enclosures of the mean and variance of one column, and of the covariance and correlation of two."""

from __future__ import annotations

import functools
import heapq
import itertools
import math

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.attain import Candidate, Lines, LocalSearch, UpperBound, tighten
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure, End, Witness, largest_mean
from sfumato.statistics.bounds.scaled_boxes import (
    ScaledBoxes,
    farthest_ends,
    largest_sum_of_squares,
    least_sum_of_squares,
)
from sfumato.statistics.bounds.supremum import (
    LinearPair,
    Supremum,
    is_stuck,
    minimise_on_a_line,
    minus_constant,
    supremum,
)
from sfumato.statistics.moments import Moments, infinite_squares
from sfumato.statistics.weighted_boxes import WeightedBoxes

# Highest covariance and correlation of two columns.
#
# The lowest ones are those of a mirrored column with the sign changed.


MAX_RATIO_CELLS = 200
RATIO_PATIENCE = 40
MAX_RATIOS = 12  # largest number of ratios that are tried for the upper end of a negative correlation
FIRST_RATIO_STEP = 0.02  # distance of the first two ratios, in ln t


def highest_covariance(problem: ScaledBoxes, slack: float, deadline: Deadline) -> End:
    """Compute the upper end of a covariance.

    C = Σ w (x − Ex) y is a sum of products for a given Ex, so the cells are ranges of Ex, and γ takes the place of Ey.
    """
    return _highest_covariance(problem, np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]), slack, deadline)


def highest_variance(problem: ScaledBoxes, sign: float, slack: float, deadline: Deadline) -> End:
    """Compute the upper end of the variance of a column with open weights; of minus the variance if ``sign`` is −1."""
    return _highest_covariance(problem, np.array([0.0, sign]), np.array([0.0, 1.0]), slack, deadline)


def _highest_covariance(
    problem: ScaledBoxes, first: NDArray[np.float64], second: NDArray[np.float64], slack: float, deadline: Deadline
) -> End:
    """Compute the upper end of the covariance of two linear combinations."""
    least_weight = float(problem.weight.sum())

    def lines(moments: Moments) -> Lines:
        first_mean, second_mean = (float(line[1:] @ moments.mean) for line in (first, second))
        return minus_constant(first, first_mean), minus_constant(second, second_mean)

    def value(moments: Moments) -> float:
        return float(first[1:] @ moments.covariance @ second[1:])

    def upper_bound(at: float, choice: Candidate) -> UpperBound:
        if least_weight == 0.0:
            reach = problem.half_range(first) * problem.half_range(second)
            return UpperBound(reach, reach)
        pair = LinearPair(first, second, at)
        eta, gamma = (float(line[1:] @ choice.moments.mean) for line in (second, first))
        cell = supremum(problem, pair, eta, gamma, slack * least_weight / 2.0, deadline)
        outer = at + max(cell.bound, 0.0) / least_weight
        near = search.at(*problem.points(*pair.lines(cell.gamma, cell.eta), at))
        return UpperBound(outer + 8.0 * EPS * abs(outer), outer, near)

    search = LocalSearch(problem, value, lines, slack / 100.0, deadline, value)
    return tighten(search, upper_bound, slack)


def _correlation_lines(
    r: float, ratio: float, mean: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L₁ and L₂ with L₁ L₂ = u v − (r/2)(t u² + v²/t), where u, v are x, y minus their means and t is ``ratio``.

    r must be from −1 to 1.
    """
    a = math.sqrt((1.0 + math.sqrt(max(1.0 - r * r, 0.0))) / 2.0)
    b = r / (2.0 * a)
    x, y = math.sqrt(ratio), 1.0 / math.sqrt(ratio)
    first, second = np.array([0.0, -b * x, a * y]), np.array([0.0, a * x, -b * y])
    first[0], second[0] = -(first[1:] @ mean), -(second[1:] @ mean)
    return first, second


def _ratio(choice: Candidate) -> float:
    """Return σy/σx."""
    return float(choice.moments.sd[1] / choice.moments.sd[0])


def _correlation_bound(r: float, excess: float, least: float) -> float:
    """Return r + excess/least, rounded up; a negative excess counts as 0, since it may come with any denominator."""
    return r + max(excess, 0.0) / least * (1.0 + 8.0 * EPS) + 8.0 * EPS


class _RatioBounds:
    """Bounds of R_t = 2C/(t Vx + Vy/t).

    R_t equals the correlation r if t is the ratio σy/σx of the data, and is closer to 0 otherwise.
    """

    def __init__(self, problem: ScaledBoxes, deadline: Deadline) -> None:
        self.problem = problem
        self.deadline = deadline
        self.least = (problem.least_spread(0), problem.least_spread(1))
        self.most = (problem.largest_spread(0), problem.largest_spread(1))

    def bound(self, r: float, ratio: float, choice: Candidate, slack: float) -> float:
        """Compute an upper bound of R_t over all choices, for t = ``ratio``; it is tight if r is near it."""
        least = self._least_mean_square(ratio)
        if least <= 0.0:
            return 1.0
        return _correlation_bound(r, self._excess(r, ratio, choice.moments.mean, slack * least)[0].bound, least)

    def loose_bound(
        self, outer: float, r: float, ratio: float, choice: Candidate, search: LocalSearch, slack: float
    ) -> UpperBound:
        """Return a bound that exceeds r by more than wanted, with the choice to which it belongs.

        The bound divides the excess by the least denominator of all choices. Divided by the denominator of that choice,
        the excess is a better guess of the maximum (a step of Dinkelbach's method).
        """
        cell, pair = self._excess(r, ratio, choice.moments.mean, slack * self._least_mean_square(ratio))
        near = search.at(*self.problem.points(*pair.lines(cell.gamma, cell.eta)))
        x, y = np.diag(near.moments.covariance)
        mean_square = near.moments.weight * float(ratio * x + y / ratio) / 2.0
        step = max(cell.bound, 0.0) / mean_square if mean_square > 0.0 else math.inf
        return UpperBound(outer, min(outer, r + step + slack), near)

    def upper_bound_below_zero(self, r: float, choice: Candidate, search: LocalSearch, slack: float) -> UpperBound:
        """Compute an upper bound of R_t over all choices for the best t, if r < 0.

        The excess of C over (r/2)(t Vx + Vy/t) is then convex in ln t, and so is its maximum over all choices. If
        choices with different ratios are equally good, t must lie between their ratios.
        """
        near, enough = choice, slack * self._least_mean_square(_ratio(choice))
        if enough <= 0.0:
            return UpperBound(1.0, 1.0)

        def evaluate(log_ratio: float) -> tuple[float, float]:
            nonlocal near
            t = math.exp(log_ratio)
            cell, pair = self._excess(r, t, near.moments.mean, enough)
            near = search.at(*self.problem.points(*pair.lines(cell.gamma, cell.eta)))
            x, y = np.diag(near.moments.covariance)
            return cell.bound, float(-r / 2.0 * near.moments.weight * (t * x - y / t))

        start = math.log(_ratio(choice))
        excess, best = minimise_on_a_line(evaluate, start, FIRST_RATIO_STEP, enough, self.deadline, MAX_RATIOS)
        outer = _correlation_bound(r, excess, self._least_mean_square(math.exp(best)))
        step = excess / (choice.moments.weight * float(choice.moments.sd.prod()))
        return UpperBound(outer, r + step if excess > enough else (choice.value + outer) / 2.0, near)

    def _least_mean_square(self, ratio: float) -> float:
        """Compute a lower bound of ½ (t Vx + Vy/t) over all choices."""
        return (ratio * self.least[0] + self.least[1] / ratio) / 2.0

    def _excess(self, r: float, ratio: float, mean: NDArray[np.float64], enough: float) -> tuple[Supremum, LinearPair]:
        """Bound by how much C can exceed (r/2)(t Vx + Vy/t); ``mean`` is the initial guess."""
        first, second = _correlation_lines(r, ratio, np.zeros(2))
        eta, gamma = (float(line[1:] @ mean) for line in (second, first))
        pair = LinearPair(first, second)
        return supremum(self.problem, pair, eta, gamma, enough, self.deadline), pair

    def bound_over_all(self, r: float, choice: Candidate, search: LocalSearch, slack: float) -> UpperBound:
        """Compute an upper bound of r over all choices with C > 0: r ≤ R_t · cosh(h) if the ratio is within e^±h of t.

        (Chords of the root √(Vx Vy) lie below it.) The possible ratios are therefore covered by cells: a small one
        around the attained ratio and long ones away from it, which are split if needed.
        """
        low, high = math.log(self.least[1] / self.most[0]) / 2.0, math.log(self.most[1] / self.least[0]) / 2.0
        margin = 1e-12 * (1.0 + max(abs(low), abs(high)))
        low, high, middle, around = low - margin, high + margin, math.log(_ratio(choice)), math.sqrt(max(slack, 1e-15))
        edges = sorted({min(max(edge, low), high) for edge in (low, middle - around, middle + around, high)})
        target = r + slack

        def bound_cell(left: float, right: float) -> float:
            stretch = math.cosh((right - left) / 2.0) * (1.0 + 4.0 * EPS)
            if target >= stretch:
                return 1.0
            return stretch * self.bound(target / stretch, math.exp((left + right) / 2.0), choice, slack / 2.0)

        heap = [(-bound_cell(left, right), left, right) for left, right in itertools.pairwise(edges)]
        heapq.heapify(heap)
        gaps: list[float] = []
        for _ in range(MAX_RATIO_CELLS):
            worst, left, right = heap[0]
            gaps.append(-worst - target)
            if (
                gaps[-1] <= slack
                or right - left < around / 2.0
                or is_stuck(gaps, RATIO_PATIENCE)
                or self.deadline.is_over
            ):
                break
            cut = (left + right) / 2.0
            heapq.heapreplace(heap, (max(worst, -bound_cell(left, cut)), left, cut))
            heapq.heappush(heap, (max(worst, -bound_cell(cut, right)), cut, right))
        worst, left, right = heap[0]
        outer = min(-worst, 1.0)
        if outer <= target + slack:
            return UpperBound(outer, outer)
        return self.loose_bound(outer, target, math.exp((left + right) / 2.0), choice, search, slack)


def highest_correlation(problem: ScaledBoxes, slack: float, deadline: Deadline) -> End:
    """Compute the upper end of a correlation.

    For r > 0 it is the largest R_t over all ratios t. For r ≤ 0, R_t at one good t bounds r, since R_t is closer to 0.
    """
    ratios = _RatioBounds(problem, deadline)

    @functools.cache
    def never_positive() -> bool:
        return highest_covariance(problem, slack, deadline).outer < 0.0

    def value(moments: Moments) -> float:
        x, y = moments.sd
        return float(np.clip(moments.covariance[0, 1] / x / y, -1.0, 1.0)) if x > 0.0 and y > 0.0 else math.nan

    def lines(moments: Moments) -> Lines | None:
        r = value(moments)
        return None if math.isnan(r) else _correlation_lines(r, float(moments.sd[1] / moments.sd[0]), moments.mean)

    def upper_bound(at: float, choice: Candidate) -> UpperBound:
        if at <= 0.0 and never_positive():
            return ratios.upper_bound_below_zero(at, choice, search, slack / 2.0)
        if min(ratios.least) <= 0.0 or at >= 1.0:
            return UpperBound(1.0, 1.0)
        return ratios.bound_over_all(max(at, 0.0), choice, search, slack / 4.0)

    search = LocalSearch(problem, value, lines, slack / 100.0, deadline)
    end = tighten(search, upper_bound, slack)
    return End(min(end.outer, 1.0), end.inner, end.points, end.weight)


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
    """Enclose the variance in scaled units for known weights, with the sorting algorithms of :mod:`.scaled_boxes`."""
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
