"""The smallest change of some cells of a matrix that gives it mean 0 and a wanted covariance, to first order.

With Y the matrix and F the cells that are free to change, the change is F∘(μ + 2YΛ). The vector μ and the symmetric
matrix Λ are the multipliers of the means and of the covariances, and solve a linear system of columns² equations. It
is never formed: conjugate gradients need only products of the size of Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


GRADIENT_ROUNDS = 40  # largest number of rounds of conjugate gradients
ENOUGH = 0.01  # share of the residual at which the solution is accurate enough for a Newton step
UNSOLVABLE = 1e-10  # equations of directions with less than this share of the largest variance are left out


def smallest_change(
    numbers: NDArray[np.float64], free: NDArray[np.bool_], wanted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the change; it is 0 in the cells that are not free."""
    equations = Equations(numbers, free.astype(np.float64))
    residual = np.vstack([-numbers.mean(axis=0), wanted - equations.covariance])
    return equations.change(_solution(equations, residual))


@dataclass(frozen=True, repr=False)
class Equations:
    """The linear system for the multipliers, which are stacked: μ in the first row, Λ in the others."""

    numbers: NDArray[np.float64]
    free: NDArray[np.float64]  # 1 where a cell is free, else 0

    @cached_property
    def covariance(self) -> NDArray[np.float64]:
        """Second moments of the numbers; their mean is nearly 0."""
        return np.asarray(self.numbers.T @ self.numbers / len(self.numbers))

    def change(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the change of the numbers that these multipliers give."""
        return np.asarray(self.free * (multipliers[0] + 2.0 * (self.numbers @ multipliers[1:])))

    def effect(self, multipliers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the change of the means and covariances: symmetric and not negative as a function of multipliers."""
        moved = self.change(multipliers)
        product = self.numbers.T @ moved / len(moved)
        return np.vstack([moved.mean(axis=0), product + product.T])

    def nearly_solved(self, residual: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the solution if all cells were free, in the eigenvectors of the covariance: a preconditioner."""
        values, vectors = self._eigen
        sums = 2.0 * (values[:, None] + values)
        solvable = sums > UNSOLVABLE * max(float(sums.max(initial=0.0)), np.finfo(float).tiny)
        inner = vectors.T @ residual[1:] @ vectors
        inner = np.where(solvable, inner / np.where(solvable, sums, 1.0), 0.0)
        return np.vstack([residual[0], vectors @ inner @ vectors.T])

    @cached_property
    def _eigen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values, vectors = np.linalg.eigh(self.covariance)
        return values, vectors


def _solution(equations: Equations, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve the equations by preconditioned conjugate gradients."""
    solution, enough = np.zeros_like(residual), ENOUGH * float(np.abs(residual).max(initial=0.0))
    direction = nearly = equations.nearly_solved(residual)
    slope = float((residual * nearly).sum())
    for _ in range(GRADIENT_ROUNDS):
        response = equations.effect(direction)
        curvature = float((direction * response).sum())
        if curvature <= 0.0:
            break
        solution = solution + slope / curvature * direction
        residual = residual - slope / curvature * response
        if float(np.abs(residual).max()) <= enough:
            break
        nearly = equations.nearly_solved(residual)
        before, slope = slope, float((residual * nearly).sum())
        direction = nearly + slope / before * direction
    return solution
