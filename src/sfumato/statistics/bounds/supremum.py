"""The largest covariance of two linear combinations over all choices of values: branch and bound over a dual.

Let L₁ = A − γ and L₂ = B − η be affine in the record z, with constants γ and η. Whatever the data, let η be the mean of
B: then Σ w L₂ = 0, and Σ w L₁ L₂ is the same for every γ. So for all data whose η lies in a cell,

    Σ w A (B − η)  ≤  min over γ of the larger of Φ(η, γ) at the cell's ends,   Φ(η, γ) = Σ w max over the box of L₁ L₂,

because Φ is convex in η (a maximum of functions linear in η) and therefore largest at an end, and any γ may be chosen:
Φ is convex in γ too. The bound of cells that touch the best η has an error of fourth order in the size of the boxes, so
few cells are needed. For small tables the duality gap remains, which amounts to a few records (Shapley–Folkman).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import Deadline
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes

Tangent = tuple[float, float]

MAX_CELLS = 120
PATIENCE = 8  # number of cuts without much gain before the search stops
MAX_ROUNDS = 40  # largest number of evaluations of the ends of a cell
MANY_BOXES = 20_000  # from which the two ends of a cell are evaluated side by side, and fewer cuts are waited for


@dataclass(frozen=True, eq=False)
class LinearPair:
    """The linear combinations A and B, each with a constant followed by one coefficient per column."""

    first: NDArray[np.float64]  # A: (n + 1,)
    second: NDArray[np.float64]  # B: (n + 1,)
    offset: float = 0.0  # subtracted from the product of each record

    def lines(self, gamma: float, eta: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return L₁ and L₂."""
        return minus_constant(self.first, gamma), minus_constant(self.second, eta)


def minus_constant(line: NDArray[np.float64], by: float) -> NDArray[np.float64]:
    """Return the linear combination minus a constant."""
    line = line.copy()
    line[0] -= by
    return line


@dataclass(frozen=True)
class Supremum:
    """A rigorous upper ``bound`` on Σ ω (A (B − η) − offset), and the multipliers of the cell with that bound."""

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


def supremum(
    problem: ScaledBoxes, pair: LinearPair, eta: float, gamma: float, enough: float, deadline: Deadline
) -> Supremum:
    """Compute an upper bound of Σ ω (A (B − η) − offset) over all data, where η is the mean of B; stop at ``enough``.

    ``eta`` and ``gamma`` are initial guesses from an attained choice. Good guesses save cells; bad ones only cost time.
    """
    low, high = problem.mean_range(pair.second)
    heap = [_bound_cell(problem, pair, low, high, gamma, enough, deadline, rounds=1)]
    finest = 1e-9 * (high - low)
    gaps: list[float] = []
    # the error of a cell falls faster than its size, and in a large table hardly any duality gap is left to wait for
    patience = PATIENCE if len(problem.weight) < MANY_BOXES else PATIENCE // 2
    while heap[0].bound > enough and len(heap) < MAX_CELLS and not deadline.is_over:
        gaps.append(heap[0].bound - enough)
        if is_stuck(gaps, patience) or heap[0].high - heap[0].low <= finest:
            break
        worst = heapq.heappop(heap)
        width = worst.high - worst.low
        cut = eta if worst.low + 1e-3 * width < eta < worst.high - 1e-3 * width else worst.low + width / 2.0
        for left, right in ((worst.low, cut), (cut, worst.high)):
            part = _bound_cell(problem, pair, left, right, worst.gamma, enough, deadline)
            part.priority = max(part.priority, worst.priority)  # the bound of the whole cell also holds for its parts
            heapq.heappush(heap, part)
    worst = heap[0]
    return Supremum(worst.bound, (worst.low + worst.high) / 2.0, worst.gamma)


def is_stuck(gaps: list[float], patience: int) -> bool:
    """Return whether the last cuts have hardly reduced the gap.

    The rest is then the duality gap, which no cut closes.
    """
    return len(gaps) > patience and gaps[-1] > 0.9 * gaps[-1 - patience]


def _bound_cell(
    problem: ScaledBoxes,
    pair: LinearPair,
    low: float,
    high: float,
    gamma: float,
    enough: float,
    deadline: Deadline,
    rounds: int = MAX_ROUNDS,
) -> _Cell:
    ends = np.array([minus_constant(pair.second, end) for end in ((low, high) if low < high else (low,))])

    def evaluate(multiplier: float) -> Tangent:
        first = minus_constant(pair.first, multiplier)
        tangents = each_end(lambda second: problem.largest(first, second, pair.offset), ends)
        value, slope = max(tangents, key=lambda tangent: tangent[0])
        return value, -float(slope[0])

    with ThreadPoolExecutor(len(ends)) as pool:
        each_end = pool.map if len(problem.weight) >= MANY_BOXES else map
        bound, best = minimise_on_a_line(evaluate, gamma, max((high - low) / 2.0, 1e-9), enough, deadline, rounds)
    return _Cell(-bound, low, high, best)


def minimise_on_a_line(
    evaluate: Callable[[float], Tangent], start: float, step: float, enough: float, deadline: Deadline, rounds: int
) -> tuple[float, float]:
    """Return the least value of a convex function and where it is attained; stop at ``enough``.

    The tangents on both sides of the minimum intersect below it.
    """
    at, best, best_at = start, np.inf, start
    left: tuple[float, float, float] | None = None  # position, value, slope of a descending tangent
    right: tuple[float, float, float] | None = None  # … of an ascending tangent
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
            break  # even the minimum is hardly lower
        inset = 0.02 * (right[0] - left[0])
        at = float(np.clip(meet, left[0] + inset, right[0] - inset))
    return best, best_at
