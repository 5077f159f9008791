"""The largest covariance of two linear combinations over all choices of values: branch and bound over a dual.

Let L₁ = A − γ and L₂ = B − η be affine in the record z, with constants γ and η. Whatever the data, take for η the mean
of B: then Σ w L₂ = 0, and Σ w L₁ L₂ is the same for every γ. So for all data whose η lies in a cell,

    Σ w A (B − η)  ≤  min over γ of the larger of Φ(η, γ) at the cell's ends,   Φ(η, γ) = Σ w max over the box of L₁ L₂,

because Φ is convex in η (a maximum of functions linear in η) and so largest at an end, and any γ may be chosen: Φ is
convex in γ too. Cells that touch the best η are bounded to fourth order in the boxes' size, so few are needed. What
remains for small tables is the duality gap, a few records' worth (Shapley–Folkman).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Tangent = tuple[float, float]  # the value of a convex function somewhere, and its slope there

MOST_CELLS = 120
PATIENCE = 8  # cuts without much gain
MOST_ROUNDS = 40  # evaluations of a cell's ends


@dataclass(frozen=True, eq=False)
class Form:
    """A and B, each with a constant and a coefficient for each column."""

    first: NDArray[np.float64]  # A: (n + 1,)
    second: NDArray[np.float64]  # B: (n + 1,)
    offset: float = 0.0  # subtracted from each record's product

    def lines(self, gamma: float, eta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L₁ and L₂."""
        return lowered(self.first, gamma), lowered(self.second, eta)


def lowered(line: NDArray[np.float64], by: float) -> NDArray[np.float64]:
    """The combination less a constant."""
    line = line.copy()
    line[0] -= by
    return line


@dataclass(frozen=True)
class Supremum:
    """A rigorous upper ``bound`` on Σ ω (A (B − η) − offset), and the multipliers of the best cell."""

    bound: float
    eta: float
    gamma: float


@dataclass(order=True)
class _Cell:
    priority: float
    low: float = field(compare=False)
    high: float = field(compare=False)
    gamma: float = field(compare=False)

    @property
    def bound(self) -> float:
        return -self.priority


def supremum(problem: ScaledBoxes, form: Form, eta: float, gamma: float, enough: float, deadline: Deadline) -> Supremum:
    """Bound Σ ω (A (B − η) − offset) from above, as far as ``enough``, over all data, η being the mean of B.

    ``eta`` and ``gamma`` are guesses (from an attained choice): good ones save cells, bad ones cost nothing else.
    """
    low, high = problem.mean_range(form.second)
    heap = [_bounded(problem, form, low, high, gamma, enough, deadline, rounds=1)]
    finest = 1e-9 * (high - low)
    tops: list[float] = []
    while heap[0].bound > enough and len(heap) < MOST_CELLS and not deadline.is_over:
        tops.append(heap[0].bound - enough)
        if is_stuck(tops) or heap[0].high - heap[0].low <= finest:
            break
        worst = heapq.heappop(heap)
        width = worst.high - worst.low
        cut = eta if worst.low + 1e-3 * width < eta < worst.high - 1e-3 * width else worst.low + width / 2.0
        for left, right in ((worst.low, cut), (cut, worst.high)):
            part = _bounded(problem, form, left, right, worst.gamma, enough, deadline)
            part.priority = max(part.priority, worst.priority)  # a part is bounded by the whole
            heapq.heappush(heap, part)
    worst = heap[0]
    return Supremum(worst.bound, (worst.low + worst.high) / 2.0, worst.gamma)


def is_stuck(tops: list[float], patience: int = PATIENCE) -> bool:
    """Whether the last cuts have hardly lowered what is open: then it is the duality gap, which no cut closes."""
    return len(tops) > patience and tops[-1] > 0.9 * tops[-1 - patience]


def _bounded(
    problem: ScaledBoxes,
    form: Form,
    low: float,
    high: float,
    gamma: float,
    enough: float,
    deadline: Deadline,
    rounds: int = MOST_ROUNDS,
) -> _Cell:
    ends = np.array([lowered(form.second, end) for end in ((low, high) if low < high else (low,))])

    def evaluate(multiplier: float) -> Tangent:
        first = lowered(form.first, multiplier)
        found = (problem.largest(first, second, form.offset) for second in ends)
        value, slope = max(found, key=lambda pair: pair[0])
        return value, -float(slope[0])

    bound, best = minimise_on_a_line(evaluate, gamma, max((high - low) / 2.0, 1e-9), enough, deadline, rounds)
    return _Cell(-bound, low, high, best)


def minimise_on_a_line(
    evaluate: Callable[[float], Tangent], start: float, step: float, enough: float, deadline: Deadline, rounds: int
) -> tuple[float, float]:
    """Least value of a convex function and where it is, as far as ``enough``: tangents of both sides meet below it."""
    at, best, best_at = start, np.inf, start
    left: tuple[float, float, float] | None = None  # position, value, slope of a tangent that falls
    right: tuple[float, float, float] | None = None  # … that rises
    for round_ in range(rounds):
        value, slope = evaluate(at)
        if value < best:
            best, best_at = value, at
        if best <= enough or slope == 0.0 or deadline.is_over:
            break
        if slope < 0.0:
            left = (at, value, slope)
        else:
            right = (at, value, slope)
        if left is None or right is None:
            at += -np.sign(slope) * step * 2.0**round_
            continue
        meet = (right[1] - left[1] + left[2] * left[0] - right[2] * right[0]) / (left[2] - right[2])
        floor = left[1] + left[2] * (meet - left[0])
        if floor > enough + 0.9 * max(best - enough, 0.0) or right[0] - left[0] <= 1e-13 * (1.0 + abs(at)):
            break  # even the minimum is hardly better
        inset = 0.02 * (right[0] - left[0])
        at = float(np.clip(meet, left[0] + inset, right[0] - inset))
    return best, best_at
