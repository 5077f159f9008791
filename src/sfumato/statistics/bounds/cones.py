"""Highest coefficient of a regression with any number of regressors: branch and bound over directions of residuals.

Write x for the regressors, the constant among them, x_j for the one whose coefficient c is asked for. By Frisch and
Waugh there are coefficients λ with λ_j > 0 such that λ·x is orthogonal to all x but x_j. So for *every* b

    (c − b_j) Σ ω (λ·x)²  =  λ_j Σ ω (λ·x)(y − b·x).

If λ lies in the cone of some edges v_k, the sum on the right is a combination, with weights that are not negative, of

    h_k(b)  =  Σ ω max over the box of (v_k·x)(y − b·x),

each of which is convex in b. So c ≤ b_j for all data whose λ lies in the cone, if b makes every h_k ≤ 0. It need not
quite: with d the sum of the edges and q_k = Σ ω min (v_k·x)(d·x), going on by t·d lowers h_k by at least t·q_k, hence

    c  ≤  b_j + d_j · max_k h_k(b)₊ / q_k     if all q_k > 0,

whatever b is. Cones that cover the half-space λ_j ≥ 0 cover all data. They begin with the λ of the best choice known
as a common edge, and the one with the highest bound is halved until that bound is near the choice.

Nothing has to be known about λ beforehand; the bound is infinite only as long as some cone is too wide to exclude that
the regressors are collinear. Rounding an edge moves it by far less than what each h_k is rounded up by.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.descent import Descent
from sfumato.statistics.bounds.scaled_boxes import EPS, NOTHING, ScaledBoxes
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_CONES = 200_000
FIRST_CUTS = 32  # times 2^m: cuts before it is asked whether they are of use
NEARER_STEPS = 20  # towards collinear data
NARROWEST = 1.0 - 5e-7  # cosine: a cone of a thousandth that may hold collinear data leaves nothing worth knowing
MOST_AXES = 12  # a fan has 2^axes cones


@dataclass(order=True)
class _Cone:
    priority: float
    breadth: float  # of equal bounds the narrowest comes first: it shows soonest that there is no bound
    edges: NDArray[np.float64] = field(compare=False)  # (m, m), one a row; coefficients, that of x_j first
    start: NDArray[np.float64] = field(compare=False)  # the best b known
    depth: NDArray[np.float64] | None = field(compare=False)  # the q_k; None where one is not positive
    is_open: bool = field(compare=False)  # whether a better b is to be looked for

    @property
    def bound(self) -> float:
        return -self.priority


@dataclass(frozen=True, eq=False)
class Peak:
    """No choice has a coefficient above ``bound``; one near it would have residuals λ·x and coefficients b."""

    bound: float
    edge: NDArray[np.float64]
    coefficients: NDArray[np.float64]


class Cones:
    """The search, for one coefficient: ``response`` and ``functions`` (x_j first) as linear forms in (1, columns)."""

    def __init__(
        self, problem: ScaledBoxes, response: NDArray[np.float64], functions: NDArray[np.float64], deadline: Deadline
    ) -> None:
        self.problem = problem.pooled()
        self.response = response
        self.functions = functions
        self.deadline = deadline

    def peak(self, b: NDArray[np.float64], moments: Moments, enough: float) -> Peak:
        """Bound the coefficient, as far as ``enough``, beginning with the coefficients and moments of a good choice."""
        gram = second_moments(self.functions, moments)
        heap = self._fan(gram, b, enough)
        if not heap:
            return Peak(math.inf, b, b)
        tops: list[float] = []
        while heap[0].bound > enough and len(heap) < MOST_CONES and not self.deadline.is_over:
            tops.append(heap[0].bound - enough)
            if _is_stuck(tops, FIRST_CUTS * 2 ** len(gram)) or self._is_hopeless(heap[0], gram):
                break
            worst = heapq.heappop(heap)
            if worst.is_open:
                heapq.heappush(heap, self._refined(worst, enough))
                continue
            i, j = self._longest(worst, gram)
            middle = _scaled(worst.edges[i] + worst.edges[j], gram)
            for edge in (i, j):
                edges = worst.edges.copy()
                edges[edge] = middle
                heapq.heappush(heap, self._begun(edges, worst, worst.start, enough))
        return Peak(heap[0].bound, heap[0].edges.sum(axis=0), heap[0].start)

    def _fan(self, gram: NDArray[np.float64], b: NDArray[np.float64], enough: float) -> list[_Cone]:
        """Cones that cover λ_j ≥ 0: each has the choice's own λ and one end of every axis within λ_j = 0.

        None where the data may be collinear, or there are more axes than can be covered.
        """
        m = len(gram)
        if m - 1 > MOST_AXES or not self.problem.weight.any() or self._is_collinear(gram):
            return []
        first = _scaled(np.append(1.0, -np.linalg.solve(gram[1:, 1:], gram[1:, 0])), gram)
        values, vectors = np.linalg.eigh(gram[1:, 1:])
        axes = np.column_stack([np.zeros(m - 1), vectors.T / np.sqrt(np.maximum(values, NOTHING))[:, None]])
        fan = []
        for signs in itertools.product((1.0, -1.0), repeat=m - 1):
            fan.append(self._begun(np.vstack([first, axes * np.array(signs)[:, None]]), None, b, enough))
        heapq.heapify(fan)
        return fan

    def _begun(self, edges: NDArray[np.float64], parent: _Cone | None, b: NDArray[np.float64], enough: float) -> _Cone:
        """A cone with the bound that the coefficients b of its parent give; never above the parent's own."""
        bound, depth = math.inf if parent is None else parent.bound, None
        depths = -self.problem.largest_each(-(edges.sum(axis=0) @ self.functions), edges @ self.functions)[0]
        if (depths > 0.0).all():
            depth = depths
            descent = self._descent(edges, depth, enough)
            descent.begin(b)
            bound = min(bound, _rounded_up(descent))
        breadth = 1.0 if parent is None else parent.breadth / 2.0
        return _Cone(-bound, breadth, edges, b, depth, is_open=depth is not None)

    def _refined(self, cone: _Cone, enough: float) -> _Cone:
        """The same cone with the best b that a search finds."""
        assert cone.depth is not None
        descent = self._descent(cone.edges, cone.depth, enough)
        descent.run(cone.start, cone.bound)
        bound = min(cone.bound, _rounded_up(descent))
        return _Cone(-bound, cone.breadth, cone.edges, descent.at, cone.depth, is_open=False)

    def _descent(self, edges: NDArray[np.float64], depth: NDArray[np.float64], enough: float) -> Descent:
        """The bound of a cone as a function of b."""
        lines = edges @ self.functions

        def evaluate(b: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            values, slopes = self.problem.largest_each(self.response - b @ self.functions, lines)
            return values / depth, -(slopes @ self.functions.T) / depth[:, None]

        return Descent(evaluate, float(edges[:, 0].sum()), enough, self.deadline)

    def _longest(self, cone: _Cone, gram: NDArray[np.float64]) -> tuple[int, int]:
        """The two edges to part: those with the widest angle or, while the bound is infinite, those between which the
        boxes leave the least to distinguish the data from collinear ones.
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

    def _is_hopeless(self, cone: _Cone, gram: NDArray[np.float64]) -> bool:
        """Whether a cone that may hold collinear data is too narrow for its bound to be worth knowing."""
        return math.isinf(cone.bound) and float((cone.edges @ gram @ cone.edges.T).min()) > NARROWEST

    def _is_collinear(self, gram: NDArray[np.float64]) -> bool:
        """Whether some choice makes the regressors collinear: go where the least combination is nearest to zero."""
        least = math.inf
        for _ in range(NEARER_STEPS):
            scale = 1.0 / np.sqrt(np.maximum(np.diag(gram), NOTHING))
            line = (np.linalg.eigh(gram * np.outer(scale, scale))[1][:, 0] * scale) @ self.functions
            nearer = -self.problem.largest(-line, line)[0]
            if nearer <= 0.0 or nearer > 0.9 * least:
                return nearer <= 0.0
            least, gram = nearer, second_moments(self.functions, Moments.of(*self.problem.points(-line, line)))
        return False


def second_moments(functions: NDArray[np.float64], moments: Moments) -> NDArray[np.float64]:
    """Σ ω f fᵀ / Σ ω of linear forms in (1, columns)."""
    mean = np.concatenate([[1.0], moments.mean])
    second = np.outer(mean, mean)
    second[1:, 1:] += moments.covariance
    gram: NDArray[np.float64] = functions @ second @ functions.T
    return gram


def _rounded_up(descent: Descent) -> float:
    """The value found, and what rounding may have taken from it."""
    start = float(descent.at[0])
    return descent.value + 8.0 * EPS * (abs(start) + descent.value - start)


def _scaled(edge: NDArray[np.float64], gram: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same direction with mean square 1."""
    return edge / math.sqrt(float(edge @ gram @ edge))


def _is_stuck(tops: list[float], first: int) -> bool:
    """Whether twice as many cuts have not halved what is open: then it is the duality gap, which no cut closes."""
    return len(tops) > 2 * first and tops[-1] > 0.5 * tops[len(tops) // 2]
