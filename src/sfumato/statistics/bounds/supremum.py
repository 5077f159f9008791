"""The largest covariance of two linear combinations over all choices of values: branch and bound over a dual.

Let L₁ = A − γ·f and L₂ = B − η·f be affine in the record z, where f are a few affine functions (for a covariance only
the constant 1). Whatever the data, take η from the regression of B on f: then L₂ is orthogonal to f, and Σ w L₁ L₂ is
the same for every γ. So for all data whose η lies in a cell,

    Σ w A B̃  ≤  min over γ of max over the cell's corners of Φ(η, γ),   Φ(η, γ) = Σ w max over the box of L₁ L₂,

because Φ is convex in η (a maximum of functions linear in η) and so largest at a corner, and any γ may be chosen: Φ is
convex in γ too. Cells that touch the best η are bounded to fourth order in the boxes' size, so few are needed. What
remains for small tables is the duality gap, a few records' worth (Shapley–Folkman).
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Clock
from sfumato.statistics.bounds.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Evaluate = Callable[[NDArray[np.float64]], list[tuple[float, NDArray[np.float64]]]]

MOST_CELLS = 120
PATIENCE = 8  # cuts without much gain
MOST_ROUNDS = 40  # evaluations of a cell's corners
ALL_CORNERS = 5  # dimensions up to which every corner of a cell is visited


@dataclass(frozen=True, eq=False)
class Form:
    """A and B with a constant and a coefficient for each column, and the functions f (one a row) likewise."""

    first: NDArray[np.float64]  # A: (n + 1,)
    second: NDArray[np.float64]  # B: (n + 1,)
    others: NDArray[np.float64]  # f: (m, n + 1)
    offset: float = 0.0  # subtracted from each record's product

    def lines(
        self, gamma: NDArray[np.float64], eta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """L₁ and L₂."""
        return self.first - gamma @ self.others, self.second - eta @ self.others


@dataclass(frozen=True, eq=False)
class Supremum:
    """A rigorous upper ``bound`` on Σ ω (A B̃ − offset), and the multipliers of the best cell."""

    bound: float
    eta: NDArray[np.float64]
    gamma: NDArray[np.float64]
    cells: int


@dataclass(order=True)
class _Cell:
    priority: float
    low: NDArray[np.float64] = field(compare=False)
    high: NDArray[np.float64] = field(compare=False)
    gamma: NDArray[np.float64] = field(compare=False)

    @property
    def bound(self) -> float:
        return -self.priority


def supremum(
    problem: Problem,
    form: Form,
    region: NDArray[np.float64],
    eta: NDArray[np.float64],
    gamma: NDArray[np.float64],
    enough: float,
    clock: Clock,
) -> Supremum:
    """Bound Σ ω (A B̃ − offset) from above, as far as ``enough``, over all data; ``region`` (m, 2) holds every η.

    ``eta`` and ``gamma`` are guesses (from an attained choice): good ones save cells, bad ones cost nothing else.
    """
    if not len(region):
        return Supremum(problem.largest(form.first, form.second, form.offset)[0], eta, gamma, 1)
    region = np.sort(region, axis=1)
    scale = np.maximum(region[:, 1] - region[:, 0], 1e-300)
    heap = [_bounded(problem, form, region[:, 0], region[:, 1], gamma, enough, clock, rounds=1)]
    cells = 1
    tops: list[float] = []
    while heap[0].bound > enough and cells < MOST_CELLS and not clock.is_over:
        tops.append(heap[0].bound - enough)
        width = (heap[0].high - heap[0].low) / scale
        if is_stuck(tops) or width.max() < 1e-9:
            break
        worst, axis = heapq.heappop(heap), int(np.argmax(width))
        cut = eta[axis]
        share = (cut - worst.low[axis]) / (worst.high[axis] - worst.low[axis])
        if not 1e-3 < share < 1.0 - 1e-3:
            cut = (worst.low[axis] + worst.high[axis]) / 2.0
        for half in range(2):
            low, high = worst.low.copy(), worst.high.copy()
            (high if half == 0 else low)[axis] = cut
            child = _bounded(problem, form, low, high, worst.gamma, enough, clock)
            child.priority = max(child.priority, worst.priority)  # a part is bounded by the whole
            cells += 1
            heapq.heappush(heap, child)
    worst = heap[0]
    return Supremum(worst.bound, (worst.low + worst.high) / 2.0, worst.gamma, cells)


def is_stuck(tops: list[float], patience: int = PATIENCE) -> bool:
    """Whether the last cuts have hardly lowered what is open: then it is the duality gap, which no cut closes."""
    return len(tops) > patience and tops[-1] > 0.9 * tops[-1 - patience]


def _bounded(
    problem: Problem,
    form: Form,
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    gamma: NDArray[np.float64],
    enough: float,
    clock: Clock,
    rounds: int = MOST_ROUNDS,
) -> _Cell:
    corners = _corners(low, high)

    def evaluate(multipliers: NDArray[np.float64]) -> list[tuple[float, NDArray[np.float64]]]:
        first = form.first - multipliers @ form.others
        values = []
        for corner in corners:
            value, slope = problem.largest(first, form.second - corner @ form.others, form.offset)
            values.append((value, -(form.others @ slope)))
        return values

    step = max(float((high - low).max()) / 2.0, 1e-9)
    minimise = _minimise_on_a_line if len(low) == 1 else _minimise_in_space
    bound, best = minimise(evaluate, gamma, step, enough, clock, rounds)
    return _Cell(-bound, low, high, best)


def _corners(low: NDArray[np.float64], high: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Points whose hull holds the cell: its corners or, in many dimensions, the tips of a cross that covers it."""
    m = len(low)
    if (low == high).all():
        return [low]
    if m <= ALL_CORNERS:
        return [np.array(corner) for corner in itertools.product(*zip(low, high, strict=True))]
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    return [middle + sign * m * half[i] * np.eye(m)[i] for i in range(m) for sign in (-1.0, 1.0)]


def _minimise_on_a_line(
    evaluate: Evaluate, gamma: NDArray[np.float64], step: float, enough: float, clock: Clock, rounds: int
) -> tuple[float, NDArray[np.float64]]:
    """Least maximum of convex functions of one multiplier: tangents of both sides meet below the minimum."""
    at = float(gamma[0])
    best, best_at = np.inf, at
    left: tuple[float, float, float] | None = None  # position, value, slope of a tangent that falls
    right: tuple[float, float, float] | None = None  # … that rises
    for round_ in range(rounds):
        value, slope = max(((v, float(s[0])) for v, s in evaluate(np.array([at]))), key=lambda pair: pair[0])
        if value < best:
            best, best_at = value, at
        if best <= enough or slope == 0.0 or clock.is_over:
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
    return best, np.array([best_at])


def _minimise_in_space(
    evaluate: Evaluate, gamma: NDArray[np.float64], step: float, enough: float, clock: Clock, rounds: int
) -> tuple[float, NDArray[np.float64]]:
    """The same for several multipliers: least t with every corner's function below t, by sequential quadratic steps.

    Wherever the steps end, the best point visited is as valid as any.
    """
    from scipy.optimize import minimize

    m, start, seen = len(gamma), evaluate(gamma), _Best(enough, clock)
    seen.offer(start, gamma)
    if rounds == 1 or seen.is_enough:
        return seen.value, seen.at
    scale = max(step, 1e-9)
    memory = {gamma.tobytes(): start}

    def at(point: NDArray[np.float64]) -> list[tuple[float, NDArray[np.float64]]]:
        where = gamma + scale * point[:m]
        key = where.tobytes()
        if key not in memory:
            memory[key] = evaluate(where)
            seen.offer(memory[key], where)
            if seen.is_enough:
                raise _EnoughSeenError
        return memory[key]

    height = max(abs(seen.value - enough), 1e-300)  # the functions are measured in units of what is open
    with contextlib.suppress(_EnoughSeenError):
        minimize(
            lambda point: point[m],
            np.append(np.zeros(m), (seen.value - enough) / height),
            jac=lambda point: np.append(np.zeros(m), 1.0),
            constraints={
                "type": "ineq",
                "fun": lambda point: np.array([point[m] - (v - enough) / height for v, _ in at(point)]),
                "jac": lambda point: np.array([np.append(-s * scale / height, 1.0) for _, s in at(point)]),
            },
            method="SLSQP",
            options={"maxiter": rounds, "ftol": 1e-3},
        )
    return seen.value, seen.at


class _EnoughSeenError(Exception):
    """The minimum is known well enough."""


class _Best:
    """The least maximum seen so far."""

    def __init__(self, enough: float, clock: Clock) -> None:
        self.enough = enough
        self.clock = clock
        self.value = np.inf
        self.at = np.zeros(0)

    def offer(self, found: list[tuple[float, NDArray[np.float64]]], at: NDArray[np.float64]) -> None:
        value = max(v for v, _ in found)
        if value < self.value:
            self.value, self.at = value, at

    @property
    def is_enough(self) -> bool:
        return self.value <= self.enough or self.clock.is_over
