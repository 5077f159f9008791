"""Choices of values that push a statistic as high as a local search can.

At a choice with mean E and covariance S, the statistic changes to first order by the influence of each record, which
for every statistic here is a product of two linear combinations L₁ · L₂. So let each box take the values where its
product is largest, look at the new moments, and repeat while the statistic grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.enclosure import Enclosure, End, Witness
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.influence import derivatives
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import WeightedBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lines = tuple[NDArray[np.float64], NDArray[np.float64]]

MOST_STEPS = 60
RESTARTS = 20
ROUNDS = 8  # times a ceiling is asked for


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Values in the boxes with their weights, and the statistic there."""

    value: float
    points: NDArray[np.float64]
    weight: NDArray[np.float64]
    moments: Moments


class Ascent:
    """Local search for one statistic: ``value`` of moments, and the two ``lines`` whose product is the influence."""

    def __init__(
        self,
        problem: ScaledBoxes,
        value: Callable[[Moments], float],
        lines: Callable[[Moments], Lines | None],
        fine: float,
        offset: Callable[[Moments], float] = lambda moments: 0.0,
    ) -> None:
        self.problem = problem
        self.value = value
        self.lines = lines
        self.fine = fine  # a step that gains less is the last
        self.offset = offset

    def at(self, points: NDArray[np.float64], weight: NDArray[np.float64]) -> Choice:
        """The statistic at a choice; −∞ where it is not defined."""
        moments = Moments.of(points, weight)
        value = self.value(moments) if moments.weight > 0.0 else math.nan
        return Choice(-math.inf if math.isnan(value) else value, points, weight, moments)

    def climb(self, start: Choice, rng: np.random.Generator) -> Choice:
        """Improve a choice until nothing does."""
        best, failures = start, 0
        for _ in range(MOST_STEPS):
            lines = self.lines(best.moments)
            if lines is None:
                break
            points, weight = self.problem.points(*lines, self.offset(best.moments))
            if failures:  # the whole step overshot: take it for some boxes only
                keep = rng.random(len(points)) < 0.5**failures
                points = np.where(keep[:, None], points, best.points)
                weight = np.where(keep, weight, best.weight)
            trial = self.at(points, weight)
            if trial.value > best.value + 1e-14 * abs(best.value):
                gain = trial.value - best.value
                best, failures = trial, 0
                if gain <= self.fine:
                    break
            elif failures == 4:
                break
            else:
                failures += 1
        return best

    def start(self) -> Choice:
        """A climb from the midpoints."""
        problem = self.problem
        return self.climb(self.at(problem.midpoints, problem.weight + problem.extra), np.random.default_rng(0))

    def restarted(self, best: Choice, enough: float) -> Choice:
        """The best of more climbs, from random corners; only tables of few boxes need them, and only these get them.

        The generator has a fixed seed because this is a search and no draw: it must give the same answer each time.
        """
        problem, rng = self.problem, np.random.default_rng(0)
        everything = problem.weight + problem.extra
        for _ in range(min(RESTARTS, 4000 // max(len(everything), 1))):
            if best.value >= enough:
                break
            corners = np.where(rng.random(problem.low.shape) < 0.5, problem.high, problem.low)
            best = max(best, self.climb(self.at(corners, everything), rng), key=lambda choice: choice.value)
        return best


@dataclass(frozen=True, eq=False, repr=False)
class Ceiling:
    """A bound that no choice exceeds; where the bound may be looked for next; and a choice that comes near it."""

    outer: float
    aim: float
    near: Choice | None = None


def close_in(ascent: Ascent, ceiling: Callable[[float, Choice], Ceiling], slack: float) -> End:
    """Bring the ceiling and the best choice together, as far as ``slack``.

    ``ceiling(κ, choice)`` bounds the statistic by asking how far it can exceed κ; the answer is sharp for κ near the
    truth, so it is asked again when a better choice turns up, or when its own aim is clearly below its bound.
    """
    choice, outer = ascent.start(), math.inf
    if choice.value == -math.inf:
        choice = ascent.restarted(choice, math.inf)
    if choice.value == -math.inf:
        return End(math.inf, math.nan, None, None)
    at = choice.value
    for _ in range(ROUNDS):
        found = ceiling(at, choice)
        outer = min(outer, found.outer)
        better = choice
        if found.near is not None:
            better = max(choice, ascent.climb(found.near, np.random.default_rng(1)), key=lambda one: one.value)
        if slack < outer - better.value < math.inf:
            better = ascent.restarted(better, outer - slack)
        rise, choice = better.value - choice.value, better
        if outer - choice.value <= 2.0 * slack:
            break
        at = choice.value if rise > slack else found.aim
        if at >= outer - slack:
            break
    return End(max(outer, choice.value), choice.value, choice.points, choice.weight)


def attained_by_slopes(statistic: Statistic, boxes: WeightedBoxes) -> Enclosure:
    """A user's own function of moments: nothing is certain, but the ends that its derivatives point to are attained."""
    lowest, highest = (_pushed(statistic, boxes, sign) for sign in (-1.0, 1.0))
    inner_low, inner_high = (
        math.nan if witness is None else statistic.value(witness.moments) for witness in (lowest, highest)
    )
    return Enclosure(-math.inf, math.inf, inner_low, inner_high, lowest, highest)


def _pushed(statistic: Statistic, boxes: WeightedBoxes, sign: float) -> Witness | None:
    weight, points = boxes.weight + boxes.extra, boxes.midpoints
    best, best_value = None, -math.inf
    for _ in range(MOST_STEPS):
        witness = Witness(boxes.box, points, weight)
        value = sign * statistic.value(witness.moments)
        if math.isnan(value) or value <= best_value:
            break
        best, best_value = witness, value
        slopes = sign * derivatives(statistic, witness.moments, points)
        points = np.where(slopes > 0.0, boxes.high, np.where(slopes < 0.0, boxes.low, points))
    return best
