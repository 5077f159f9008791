"""Highest covariance and correlation of two columns; the lowest are the highest of a mirrored column, turned round."""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.attain import Ascent, Ceiling, Choice, close_in
from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.enclosure import End
from sfumato.statistics.bounds.scaled_boxes import EPS, ScaledBoxes
from sfumato.statistics.bounds.supremum import Form, Supremum, is_stuck, lowered, minimise_on_a_line, supremum
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.bounds.attain import Lines

MOST_RATIO_CELLS = 80
RATIO_PATIENCE = 16
MOST_RATIOS = 12  # tried for the upper end of a negative correlation
NEXT_RATIO = 0.02  # how far apart the first two are, in ln t


def highest_covariance(problem: ScaledBoxes, slack: float, deadline: Deadline) -> End:
    """C = Σ w (x − Ex) y is a sum of products once Ex is known, so the cells are ranges of Ex and γ stands for Ey."""
    return _highest_covariance(problem, np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0]), slack, deadline)


def highest_variance(problem: ScaledBoxes, sign: float, slack: float, deadline: Deadline) -> End:
    """The variance (or, with ``sign`` −1, minus the variance) of a column when some weights are open."""
    return _highest_covariance(problem, np.array([0.0, sign]), np.array([0.0, 1.0]), slack, deadline)


def _highest_covariance(
    problem: ScaledBoxes, first: NDArray[np.float64], second: NDArray[np.float64], slack: float, deadline: Deadline
) -> End:
    """Highest covariance of two linear combinations."""
    least_weight = float(problem.weight.sum())

    def lines(moments: Moments) -> Lines:
        return lowered(first, float(first[1:] @ moments.mean)), lowered(second, float(second[1:] @ moments.mean))

    def value(moments: Moments) -> float:
        return float(first[1:] @ moments.covariance @ second[1:])

    def ceiling(at: float, choice: Choice) -> Ceiling:
        if least_weight == 0.0:
            reach = problem.reach(first) * problem.reach(second)
            return Ceiling(reach, reach)
        form = Form(first, second, at)
        eta, gamma = (float(line[1:] @ choice.moments.mean) for line in (second, first))
        found = supremum(problem, form, eta, gamma, slack * least_weight / 2.0, deadline)
        outer = at + max(found.bound, 0.0) / least_weight
        near = ascent.at(*problem.points(*form.lines(found.gamma, found.eta), at))
        return Ceiling(outer + 8.0 * EPS * abs(outer), outer, near)

    ascent = Ascent(problem, value, lines, slack / 100.0, value)
    return close_in(ascent, ceiling, slack)


def _sloping_lines(
    r: float, ratio: float, mean: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """L₁ L₂ = u v − (r/2)(t u² + v²/t) for u, v = x, y less their means and t = ``ratio``; −1 ≤ r ≤ 1."""
    a = math.sqrt((1.0 + math.sqrt(max(1.0 - r * r, 0.0))) / 2.0)
    b = r / (2.0 * a)
    x, y = math.sqrt(ratio), 1.0 / math.sqrt(ratio)
    first, second = np.array([0.0, -b * x, a * y]), np.array([0.0, a * x, -b * y])
    first[0], second[0] = -(first[1:] @ mean), -(second[1:] @ mean)
    return first, second


def _ratio(choice: Choice) -> float:
    """σy/σx."""
    return float(choice.moments.sd[1] / choice.moments.sd[0])


def _raised(r: float, excess: float, least: float) -> float:
    """r + excess/least, rounded up; an excess below zero is no use, since it may come with any denominator."""
    return r + max(excess, 0.0) / least * (1.0 + 8.0 * EPS) + 8.0 * EPS


class _Ratios:
    """Bounds of R_t = 2C/(t Vx + Vy/t), which is r where t is the data's own ratio σy/σx, and nearer 0 elsewhere."""

    def __init__(self, problem: ScaledBoxes, deadline: Deadline) -> None:
        self.problem = problem
        self.deadline = deadline
        self.least = (problem.least_spread(0), problem.least_spread(1))
        self.most = (problem.largest_spread(0), problem.largest_spread(1))

    def bound(self, r: float, ratio: float, choice: Choice, slack: float) -> float:
        """At least R_t of every choice, for t = ``ratio``; sharp when r is near it."""
        least = self._least_mean_square(ratio)
        if least <= 0.0:
            return 1.0
        return _raised(r, self._excess(r, ratio, choice.moments.mean, slack * least)[0].bound, least)

    def ceiling_below_zero(self, r: float, choice: Choice, ascent: Ascent, slack: float) -> Ceiling:
        """At least R_t of every choice for the best t, when r < 0.

        The excess of C over (r/2)(t Vx + Vy/t) is then convex in ln t, and so is its maximum over all choices. Where
        choices with different ratios are equally good, t must lie between their ratios.
        """
        near, enough = choice, slack * self._least_mean_square(_ratio(choice))
        if enough <= 0.0:
            return Ceiling(1.0, 1.0)

        def evaluate(log_ratio: float) -> tuple[float, float]:
            nonlocal near
            t = math.exp(log_ratio)
            found, form = self._excess(r, t, near.moments.mean, enough)
            near = ascent.at(*self.problem.points(*form.lines(found.gamma, found.eta)))
            x, y = np.diag(near.moments.covariance)
            return found.bound, float(-r / 2.0 * near.moments.weight * (t * x - y / t))

        start = math.log(_ratio(choice))
        excess, best = minimise_on_a_line(evaluate, start, NEXT_RATIO, enough, self.deadline, MOST_RATIOS)
        outer = _raised(r, excess, self._least_mean_square(math.exp(best)))
        step = excess / (choice.moments.weight * float(choice.moments.sd.prod()))
        return Ceiling(outer, r + step if excess > enough else (choice.value + outer) / 2.0, near)

    def _least_mean_square(self, ratio: float) -> float:
        """At most ½ (t Vx + Vy/t) of every choice."""
        return (ratio * self.least[0] + self.least[1] / ratio) / 2.0

    def _excess(self, r: float, ratio: float, mean: NDArray[np.float64], enough: float) -> tuple[Supremum, Form]:
        """By how much C can exceed (r/2)(t Vx + Vy/t); ``mean`` is where to look first."""
        first, second = _sloping_lines(r, ratio, np.zeros(2))
        eta, gamma = (float(line[1:] @ mean) for line in (second, first))
        form = Form(first, second)
        return supremum(self.problem, form, eta, gamma, enough, self.deadline), form

    def bound_over_all(self, r: float, choice: Choice, slack: float) -> float:
        """At least r of every choice with C > 0: r ≤ R_t · cosh(h) where the data's ratio is within e^±h of t.

        (Chords of the root √(Vx Vy) lie below it.) So the possible ratios are covered by cells: a small one about the
        attained ratio and long ones away from it, which are cut where needed.
        """
        low, high = math.log(self.least[1] / self.most[0]) / 2.0, math.log(self.most[1] / self.least[0]) / 2.0
        margin = 1e-12 * (1.0 + max(abs(low), abs(high)))
        low, high, middle, near = low - margin, high + margin, math.log(_ratio(choice)), math.sqrt(max(slack, 1e-15))
        edges = sorted({min(max(edge, low), high) for edge in (low, middle - near, middle + near, high)})
        target = r + slack

        def bounded(left: float, right: float) -> float:
            stretch = math.cosh((right - left) / 2.0) * (1.0 + 4.0 * EPS)
            if target >= stretch:
                return 1.0
            return stretch * self.bound(target / stretch, math.exp((left + right) / 2.0), choice, slack / 2.0)

        heap = [(-bounded(left, right), left, right) for left, right in itertools.pairwise(edges)]
        heapq.heapify(heap)
        tops: list[float] = []
        for _ in range(MOST_RATIO_CELLS):
            worst, left, right = heap[0]
            tops.append(-worst - target)
            if (
                tops[-1] <= slack
                or right - left < near / 2.0
                or is_stuck(tops, RATIO_PATIENCE)
                or self.deadline.is_over
            ):
                break
            cut = (left + right) / 2.0
            heapq.heapreplace(heap, (max(worst, -bounded(left, cut)), left, cut))
            heapq.heappush(heap, (max(worst, -bounded(cut, right)), cut, right))
        return -heap[0][0]


def highest_correlation(problem: ScaledBoxes, slack: float, deadline: Deadline) -> End:
    """r > 0: the largest R_t over all ratios t. r ≤ 0: R_t at one good t bounds r, since R_t is nearer 0."""
    ratios = _Ratios(problem, deadline)

    @functools.cache
    def never_positive() -> bool:
        return highest_covariance(problem, slack, deadline).outer < 0.0

    def value(moments: Moments) -> float:
        x, y = moments.sd
        return float(np.clip(moments.covariance[0, 1] / x / y, -1.0, 1.0)) if x > 0.0 and y > 0.0 else math.nan

    def lines(moments: Moments) -> Lines | None:
        r = value(moments)
        return None if math.isnan(r) else _sloping_lines(r, float(moments.sd[1] / moments.sd[0]), moments.mean)

    def ceiling(at: float, choice: Choice) -> Ceiling:
        if at <= 0.0 and never_positive():
            return ratios.ceiling_below_zero(at, choice, ascent, slack / 2.0)
        if min(ratios.least) <= 0.0 or at >= 1.0:
            return Ceiling(1.0, 1.0)
        outer = min(ratios.bound_over_all(max(at, 0.0), choice, slack / 4.0), 1.0)
        return Ceiling(outer, outer)

    ascent = Ascent(problem, value, lines, slack / 100.0)
    end = close_in(ascent, ceiling, slack)
    return End(min(end.outer, 1.0), end.inner, end.points, end.weight)
