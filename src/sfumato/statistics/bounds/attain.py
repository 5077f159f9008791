"""Local search for a choice of values in the boxes that makes a statistic as large as possible.

At a choice with mean E and covariance S, the statistic changes to first order by the influence of each record. For
every statistic here this influence is a product of two linear combinations L₁ · L₂. Each step moves every box to the
values where its product is largest and recomputes the moments, as long as the statistic increases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import Deadline, End
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.moments import Moments

Lines = tuple[NDArray[np.float64], NDArray[np.float64]]

MAX_STEPS = 60
RESTARTS = 20
ROUNDS = 8  # largest number of upper bounds that are computed


@dataclass(frozen=True, eq=False, repr=False)
class Candidate:
    """Values in the boxes with their weights, and the statistic of these values."""

    value: float
    points: NDArray[np.float64]
    weight: NDArray[np.float64]
    moments: Moments


@dataclass(frozen=True, eq=False, repr=False)
class LocalSearch:
    """Local search for one statistic.

    ``value`` computes the statistic from moments, and ``lines`` returns the two linear combinations whose product is
    the influence of a record.
    """

    problem: ScaledBoxes
    value: Callable[[Moments], float]
    lines: Callable[[Moments], Lines | None]
    smallest_gain: float  # a step with a smaller gain is the last one
    deadline: Deadline
    offset: Callable[[Moments], float] = lambda moments: 0.0

    def at(self, points: NDArray[np.float64], weight: NDArray[np.float64]) -> Candidate:
        """Evaluate the statistic at a choice; −∞ if it is not defined."""
        moments = Moments.of(points, weight)
        value = self.value(moments) if moments.weight > 0.0 else math.nan
        return Candidate(-math.inf if math.isnan(value) else value, points, weight, moments)

    def climb(self, initial: Candidate, rng: np.random.Generator) -> Candidate:
        """Improve a choice until no step increases the statistic."""
        best, failures = initial, 0
        for _ in range(MAX_STEPS):
            lines = self.lines(best.moments)
            if lines is None or self.deadline.is_over:
                break
            points, weight = self.problem.points(*lines, self.offset(best.moments))
            if failures:  # the full step was too large: move only some of the boxes
                keep = rng.random(len(points)) < 0.5**failures
                points = np.where(keep[:, None], points, best.points)
                weight = np.where(keep, weight, best.weight)
            trial = self.at(points, weight)
            if trial.value > best.value + 1e-14 * abs(best.value):
                gain = trial.value - best.value
                best, failures = trial, 0
                if gain <= self.smallest_gain:
                    break
            elif failures == 4:
                break
            else:
                failures += 1
        return best

    def from_midpoints(self) -> Candidate:
        """Climb from the midpoints."""
        problem = self.problem
        return self.climb(self.at(problem.midpoints, problem.weight + problem.extra), np.random.default_rng(0))

    def with_restarts(self, best: Candidate, enough: float) -> Candidate:
        """Return the best of several climbs from random corners; larger tables get fewer, because they need fewer.

        The generator has a fixed seed, because an optimisation must return the same result every time.
        """
        problem, rng = self.problem, np.random.default_rng(0)
        full_weight = problem.weight + problem.extra
        for _ in range(min(RESTARTS, 4000 // max(len(full_weight), 1))):
            if best.value >= enough or self.deadline.is_over:
                break
            corners = np.where(rng.random(problem.low.shape) < 0.5, problem.high, problem.low)
            best = max(best, self.climb(self.at(corners, full_weight), rng), key=lambda choice: choice.value)
        return best


@dataclass(frozen=True, eq=False, repr=False)
class UpperBound:
    """An upper bound for all choices, the value from which to compute the next bound, and a choice near the bound."""

    outer: float
    next_target: float
    nearby: Candidate | None = None


def tighten(search: LocalSearch, upper_bound: Callable[[float, Candidate], UpperBound], slack: float) -> End:
    """Bring the upper bound and the best choice together until they differ by at most about ``slack``.

    ``upper_bound(κ, choice)`` bounds the statistic by bounding how far it can exceed κ. The bound is tight if κ is near
    the true maximum. It is therefore computed again when a better choice is found, or when its ``next_target`` is
    clearly below the bound.
    """
    choice, outer = search.from_midpoints(), math.inf
    if choice.value == -math.inf:
        choice = search.with_restarts(choice, math.inf)
    if choice.value == -math.inf:
        return End(math.inf, math.nan, None, None)
    at = choice.value
    for _ in range(ROUNDS):
        upper = upper_bound(at, choice)
        outer = min(outer, upper.outer)
        better = choice
        if upper.nearby is not None:
            better = max(choice, search.climb(upper.nearby, np.random.default_rng(1)), key=lambda trial: trial.value)
        if slack < outer - better.value < math.inf:
            better = search.with_restarts(better, outer - slack)
        rise, choice = better.value - choice.value, better
        if outer - choice.value <= 2.0 * slack or search.deadline.is_over:
            break
        at = choice.value if rise > slack else upper.next_target
        if at >= outer - slack:
            break
    return End(max(outer, choice.value), choice.value, choice.points, choice.weight)
