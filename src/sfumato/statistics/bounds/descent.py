"""Minimise a linear function plus a multiple of the largest of several convex functions.

Every point that the search visits gives a valid bound, so the search may stop at any time. It stops when the bound is
low enough.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.budget import Deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
