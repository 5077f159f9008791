"""Least value of a linear function plus a multiple of the largest of several convex ones.

Whatever point the search visits gives a valid bound, so it may end anywhere; it ends when the bound is low enough.
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
FIRST_RADIUS = 0.05  # of the first of these, in units of the point itself


class _EndedError(Exception):
    """The value is low enough, or the time is over."""


@dataclass(eq=False)
class Descent:
    """Minimise b₀ + lever · max(0, v₁(b), …, v_K(b)) over b, as far as ``enough``; the v are convex."""

    evaluate: Callable[[NDArray[np.float64]], Values]
    lever: float
    enough: float
    deadline: Deadline
    value: float = math.inf
    at: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    seen: dict[bytes, Values] = field(default_factory=dict)

    def visit(self, b: NDArray[np.float64]) -> Values:
        """The convex functions at a point; ends the search when there is nothing left to do."""
        key = b.tobytes()
        if key not in self.seen:
            self.seen[key] = self.evaluate(b)
            value = float(b[0] + self.lever * max(float(self.seen[key][0].max()), 0.0))
            if value < self.value:
                self.value, self.at = value, b.copy()
            if self.value <= self.enough or self.deadline.is_over:
                raise _EndedError
        return self.seen[key]

    def begin(self, start: NDArray[np.float64]) -> None:
        """Look at one point only."""
        with contextlib.suppress(_EndedError):
            self.visit(start)

    def run(self, start: NDArray[np.float64], parent: float) -> None:
        """Sequential quadratic steps; then, where these stop short of what a ``parent`` had, cutting planes."""
        with contextlib.suppress(_EndedError):
            self.visit(start)
            for _ in range(QUADRATIC_RUNS):
                before = self.value
                self._quadratic_steps()
                if before - self.value < 0.5 * (before - self.enough):
                    break
            if self.value - self.enough > 0.9 * (parent - self.enough):
                self._plane_steps()

    def _quadratic_steps(self) -> None:
        """Least b₀ + lever · t with every function below t ≥ 0, in units of what is open."""
        from scipy.optimize import minimize

        m, open_ = len(self.at), max(self.value - self.enough, 1e-300)
        slope = np.append(np.eye(m)[0], self.lever) / open_
        above = max(float(self.visit(self.at)[0].max()), 0.0)
        ones = np.ones((len(self.visit(self.at)[0]), 1))
        minimize(
            lambda z: (z[0] + self.lever * z[m] - self.enough) / open_,
            np.append(self.at, above),
            jac=lambda z: slope,
            bounds=[(None, None)] * m + [(0.0, None)],
            constraints={
                "type": "ineq",
                "fun": lambda z: (z[m] - self.visit(z[:m])[0]) / open_,
                "jac": lambda z: np.hstack([-self.visit(z[:m])[1], ones]) / open_,
            },
            method="SLSQP",
            options={"maxiter": QUADRATIC_STEPS, "ftol": 1e-3},
        )

    def _plane_steps(self) -> None:
        """The tangents of all points visited bound the functions from below: go where they are least, nearby."""
        from scipy.optimize import linprog

        m = len(self.at)
        radius = FIRST_RADIUS * np.maximum(np.abs(self.at), 1.0)
        for _ in range(PLANE_STEPS):
            slopes = [np.hstack([slope, -np.ones((len(value), 1))]) for value, slope in self.seen.values()]
            offsets = [slope @ np.frombuffer(key) - value for key, (value, slope) in self.seen.items()]
            found = linprog(
                np.append(np.eye(m)[0], self.lever),
                A_ub=np.vstack(slopes),
                b_ub=np.concatenate(offsets),
                bounds=[*zip(self.at - radius, self.at + radius, strict=True), (0.0, None)],
                method="highs",
            )
            if found.status != 0 or found.fun > self.value - 0.1 * (self.value - self.enough):
                return  # even the tangents are hardly lower
            before = self.value
            self.visit(found.x[:m])
            if before - self.value < 0.3 * (before - found.fun):
                radius = radius / 4.0
