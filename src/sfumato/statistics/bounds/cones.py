"""Highest coefficient of a regression with any number of regressors: branch and bound over directions of residuals.

Write x for the regressors, including the constant, and x_j for the one with the coefficient c in question. By Frisch
and Waugh there are coefficients λ with λ_j > 0 such that λ·x is orthogonal to all x except x_j. Therefore for *every* b

    (c − b_j) Σ ω (λ·x)²  =  λ_j Σ ω (λ·x)(y − b·x).

If λ lies in the cone of some edges v_k, the sum on the right is a combination, with nonnegative weights, of

    h_k(b)  =  Σ ω max over the box of (v_k·x)(y − b·x),

each of which is convex in b. So c ≤ b_j for all data whose λ lies in the cone, if b makes every h_k ≤ 0. This need not
hold exactly: with d the sum of the edges and q_k = Σ ω min (v_k·x)(d·x), moving b by t·d lowers h_k by at least t·q_k,
hence

    c  ≤  b_j + d_j · max_k h_k(b)₊ / q_k     if all q_k > 0,

for every b. Cones that cover the half-space λ_j ≥ 0 cover all data. The first cones share the λ of the best known
choice as an edge. The cone with the highest bound is then halved until that bound is near the choice.

Nothing has to be known about λ in advance. The bound is infinite only as long as some cone is so wide that collinear
regressors cannot be excluded. Rounding moves an edge by much less than the amount by which each h_k is rounded up.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS, Deadline
from sfumato.statistics.bounds.scaled_boxes import NEGLIGIBLE, ScaledBoxes
from sfumato.statistics.moments import Moments

# Minimise a linear function plus a multiple of the largest of several convex functions.
#
# Every point that the search visits gives a valid bound, so the search may stop at any time. It stops when the bound
# is low enough.


Values = tuple[NDArray[np.float64], NDArray[np.float64]]  # (K,) and their derivatives (K, m)

QUADRATIC_STEPS = 15
QUADRATIC_RUNS = 3
PLANE_STEPS = 12
FIRST_RADIUS = 0.05  # of the first plane step, relative to the point


class _SearchEnded(Exception):
    """The value is low enough, or the time is over."""


@dataclass(eq=False)
class Descent:
    """Minimisation of b₀ + factor · max(0, v₁(b), …, v_K(b)) over b, where the v are convex.

    The search stops when the value is at most ``enough``.
    """

    evaluate: Callable[[NDArray[np.float64]], Values]
    factor: float
    enough: float
    deadline: Deadline
    value: float = math.inf
    at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    seen: dict[bytes, Values] = field(default_factory=dict)

    def visit(self, b: NDArray[np.float64]) -> Values:
        """Evaluate the convex functions at a point; end the search if the value is low enough or the time is over."""
        key = b.tobytes()
        if key not in self.seen:
            self.seen[key] = self.evaluate(b)
            value = float(b[0] + self.factor * max(float(self.seen[key][0].max()), 0.0))
            if value < self.value:
                self.value, self.at = value, b.copy()
            if self.value <= self.enough or self.deadline.is_over:
                raise _SearchEnded
        return self.seen[key]

    def begin(self, start: NDArray[np.float64]) -> None:
        """Evaluate one point only."""
        with contextlib.suppress(_SearchEnded):
            self.visit(start)

    def run(self, start: NDArray[np.float64], parent: float) -> None:
        """Make sequential quadratic steps, then cutting-plane steps if the bound of the ``parent`` hardly improves."""
        with contextlib.suppress(_SearchEnded):
            self.visit(start)
            for _ in range(QUADRATIC_RUNS):
                before = self.value
                self._quadratic_steps()
                if before - self.value < 0.5 * (before - self.enough):
                    break
            if self.value - self.enough > 0.9 * (parent - self.enough):
                self._plane_steps()

    def _quadratic_steps(self) -> None:
        """Minimise b₀ + factor · t subject to t ≥ 0 and every function at most t, in units of the remaining gap."""
        from scipy.optimize import minimize

        m, gap = len(self.at), max(self.value - self.enough, 1e-300)
        slope = np.append(np.eye(m)[0], self.factor) / gap
        largest = max(float(self.visit(self.at)[0].max()), 0.0)
        ones = np.ones((len(self.visit(self.at)[0]), 1))
        minimize(
            lambda z: (z[0] + self.factor * z[m] - self.enough) / gap,
            np.append(self.at, largest),
            jac=lambda z: slope,
            bounds=[(None, None)] * m + [(0.0, None)],
            constraints={
                "type": "ineq",
                "fun": lambda z: (z[m] - self.visit(z[:m])[0]) / gap,
                "jac": lambda z: np.hstack([-self.visit(z[:m])[1], ones]) / gap,
            },
            method="SLSQP",
            options={"maxiter": QUADRATIC_STEPS, "ftol": 1e-3},
        )

    def _plane_steps(self) -> None:
        """Minimise the tangents of all visited points, which bound the functions from below, within a trust region."""
        from scipy.optimize import linprog

        m = len(self.at)
        radius = FIRST_RADIUS * np.maximum(np.abs(self.at), 1.0)
        for _ in range(PLANE_STEPS):
            slopes = [np.hstack([slope, -np.ones((len(value), 1))]) for value, slope in self.seen.values()]
            offsets = [slope @ np.frombuffer(key) - value for key, (value, slope) in self.seen.items()]
            solution = linprog(
                np.append(np.eye(m)[0], self.factor),
                A_ub=np.vstack(slopes),
                b_ub=np.concatenate(offsets),
                bounds=[*zip(self.at - radius, self.at + radius, strict=True), (0.0, None)],
                method="highs",
            )
            if solution.status != 0 or solution.fun > self.value - 0.1 * (self.value - self.enough):
                return  # even the lower bound is hardly lower
            before = self.value
            self.visit(solution.x[:m])
            if before - self.value < 0.3 * (before - solution.fun):
                radius = radius / 4.0


MAX_CONES = 200_000
FIRST_CUTS = 32  # times 2^m: number of cuts before progress is checked
COLLINEAR_STEPS = 20  # largest number of steps towards collinear data
NARROWEST = 1.0 - 5e-7  # cosine of 0.001: if a narrower cone may hold collinear data, no useful bound exists
MAX_AXES = 12  # there are 2^axes initial cones


@dataclass(order=True)
class _Cone:
    priority: float
    breadth: float  # among equal bounds the narrowest comes first: it shows soonest that there is no bound
    edges: NDArray[np.float64] = field(compare=False)  # (m, m), one edge per row; coefficient of x_j first
    start: NDArray[np.float64] = field(compare=False)  # the best known b
    rates: NDArray[np.float64] | None = field(compare=False)  # the q_k; None if one of them is not positive
    can_improve: bool = field(compare=False)  # whether a better b is still to be searched

    @property
    def bound(self) -> float:
        return -self.priority


@dataclass(frozen=True, eq=False)
class ConeBound:
    """An upper bound for the coefficient of all choices.

    A choice near the bound would have residuals ``edge``·x and the regression coefficients ``coefficients``.
    """

    bound: float
    edge: NDArray[np.float64]
    coefficients: NDArray[np.float64]


class Cones:
    """Branch and bound for one coefficient.

    ``response`` and ``functions`` (x_j first) are linear forms in (1, columns).
    """

    def __init__(
        self, problem: ScaledBoxes, response: NDArray[np.float64], functions: NDArray[np.float64], deadline: Deadline
    ) -> None:
        self.problem = problem.merged
        self.response = response
        self.functions = functions
        self.deadline = deadline

    def bound(self, b: NDArray[np.float64], moments: Moments, enough: float) -> ConeBound:
        """Bound the coefficient, starting from the coefficients and moments of a good choice; stop at ``enough``."""
        gram = second_moments(self.functions, moments)
        heap = self._initial_cones(gram, b, enough)
        if not heap:
            return ConeBound(math.inf, b, b)
        gaps: list[float] = []
        while heap[0].bound > enough and len(heap) < MAX_CONES and not self.deadline.is_over:
            gaps.append(heap[0].bound - enough)
            if _is_stuck(gaps, FIRST_CUTS * 2 ** len(gram)) or self._is_too_narrow(heap[0], gram):
                break
            worst = heapq.heappop(heap)
            if worst.can_improve:
                heapq.heappush(heap, self._refine(worst, enough))
                continue
            i, j = self._edges_to_split(worst, gram)
            middle = _normalise(worst.edges[i] + worst.edges[j], gram)
            for edge in (i, j):
                edges = worst.edges.copy()
                edges[edge] = middle
                heapq.heappush(heap, self._new_cone(edges, worst, worst.start, enough))
        return ConeBound(heap[0].bound, heap[0].edges.sum(axis=0), heap[0].start)

    def _initial_cones(self, gram: NDArray[np.float64], b: NDArray[np.float64], enough: float) -> list[_Cone]:
        """Return cones that cover λ_j ≥ 0.

        The edges of each cone are the λ of the choice and one end of every axis within λ_j = 0. The list is empty if
        the data may be collinear, if there are too many axes, or if the time is used up.
        """
        m = len(gram)
        if m - 1 > MAX_AXES or not self.problem.weight.any() or self._is_collinear(gram):
            return []
        first = _normalise(np.append(1.0, -np.linalg.solve(gram[1:, 1:], gram[1:, 0])), gram)
        values, vectors = np.linalg.eigh(gram[1:, 1:])
        axes = np.column_stack([np.zeros(m - 1), vectors.T / np.sqrt(np.maximum(values, NEGLIGIBLE))[:, None]])
        cones = []
        for signs in itertools.product((1.0, -1.0), repeat=m - 1):
            if self.deadline.is_over:
                return []
            cones.append(self._new_cone(np.vstack([first, axes * np.array(signs)[:, None]]), None, b, enough))
        heapq.heapify(cones)
        return cones

    def _new_cone(
        self, edges: NDArray[np.float64], parent: _Cone | None, b: NDArray[np.float64], enough: float
    ) -> _Cone:
        """Return a cone with the bound that the coefficients b of its parent give, at most the bound of the parent."""
        bound, rates = math.inf if parent is None else parent.bound, None
        least = -self.problem.largest_each(-(edges.sum(axis=0) @ self.functions), edges @ self.functions)[0]
        if (least > 0.0).all():
            rates = least
            descent = self._descent(edges, rates, enough)
            descent.begin(b)
            bound = min(bound, _round_up(descent))
        breadth = 1.0 if parent is None else parent.breadth / 2.0
        return _Cone(-bound, breadth, edges, b, rates, can_improve=rates is not None)

    def _refine(self, cone: _Cone, enough: float) -> _Cone:
        """Return the same cone with the best b that a search finds."""
        assert cone.rates is not None
        descent = self._descent(cone.edges, cone.rates, enough)
        descent.run(cone.start, cone.bound)
        bound = min(cone.bound, _round_up(descent))
        return _Cone(-bound, cone.breadth, cone.edges, descent.at, cone.rates, can_improve=False)

    def _descent(self, edges: NDArray[np.float64], rates: NDArray[np.float64], enough: float) -> Descent:
        """Return the bound of a cone as a function of b."""
        lines = edges @ self.functions

        def evaluate(b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            values, slopes = self.problem.largest_each(self.response - b @ self.functions, lines)
            return values / rates, -(slopes @ self.functions.T) / rates[:, None]

        return Descent(evaluate, float(edges[:, 0].sum()), enough, self.deadline)

    def _edges_to_split(self, cone: _Cone, gram: NDArray[np.float64]) -> tuple[int, int]:
        """Return the two edges between which to split the cone.

        These are the edges with the widest angle. As long as the bound is infinite, they are the edges between which
        the boxes can least exclude collinear data.
        """
        i, j = np.triu_indices(len(gram), 1)
        if math.isfinite(cone.bound):
            widest = int(np.argmin((cone.edges @ gram @ cone.edges.T)[i, j]))
        else:
            lines, problem = cone.edges @ self.functions, self.problem
            least = problem.squares((lines[i] + lines[j]) / 2.0)[0]
            most = problem.squares((lines[i] - lines[j]) / 2.0)[1]
            widest = int(np.argmin(least - most))
        return int(i[widest]), int(j[widest])

    def _is_too_narrow(self, cone: _Cone, gram: NDArray[np.float64]) -> bool:
        """Return whether a cone that may hold collinear data is too narrow for a useful bound."""
        return math.isinf(cone.bound) and float((cone.edges @ gram @ cone.edges.T).min()) > NARROWEST

    def _is_collinear(self, gram: NDArray[np.float64]) -> bool:
        """Return whether some choice makes the regressors collinear: minimise the smallest combination step by step."""
        least = math.inf
        for _ in range(COLLINEAR_STEPS):
            scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), NEGLIGIBLE))
            line = (np.linalg.eigh(gram * np.outer(scale, scale))[1][:, 0] * scale) @ self.functions
            nearer = -self.problem.largest(-line, line)[0]
            if nearer <= 0.0 or nearer > 0.9 * least or self.deadline.is_over:
                return nearer <= 0.0
            least, gram = nearer, second_moments(self.functions, Moments.of(*self.problem.points(-line, line)))
        return False


def second_moments(functions: NDArray[np.float64], moments: Moments) -> NDArray[np.float64]:
    """Compute Σ ω f fᵀ / Σ ω of linear forms in (1, columns)."""
    mean = np.concatenate([[1.0], moments.mean])
    second = np.outer(mean, mean)
    second[1:, 1:] += moments.covariance
    gram: NDArray[np.float64] = functions @ second @ functions.T
    return gram


def _round_up(descent: Descent) -> float:
    """Return the value found plus an upper bound of its rounding error."""
    start = float(descent.at[0])
    return descent.value + 8.0 * EPS * (abs(start) + descent.value - start)


def _normalise(edge: NDArray[np.float64], gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same direction with mean square 1."""
    return edge / math.sqrt(float(edge @ gram @ edge))


def _is_stuck(gaps: list[float], first: int) -> bool:
    """Return whether doubling the number of cuts has not halved the gap.

    The rest is then the duality gap, which no cut closes.
    """
    return len(gaps) > 2 * first and gaps[-1] > 0.5 * gaps[len(gaps) // 2]
