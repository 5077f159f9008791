"""Restoration of means and covariances, in the units of the columns and within the ranges of the numbers.

Logarithms, ranges and rounding come between scores and columns, so white scores alone do not keep the moments of the
columns. Two steps alternate: clip the numbers to their ranges, then map them to the wanted mean and covariance by the
smallest linear change. The original meets both requirements, so the iteration can converge. If its pace shows that it
will not, Newton's method takes over: it moves only the cells that are free to move. A cell whose range is one value,
such as a zero of a column with many zeros, never moves.

The range comes first. If both cannot be had, the numbers are within their ranges and ``error`` tells what is missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The smallest change of some cells of a matrix that gives it mean 0 and a wanted covariance, to first order.
#
# With Y the matrix and F the cells that are free to change, the change is F∘(μ + 2YΛ). The vector μ and the symmetric
# matrix Λ are the multipliers of the means and of the covariances, and solve a linear system of columns² equations.
# It is never formed: conjugate gradients need only products of the size of Y.

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

    def precondition(self, residual: NDArray[np.float64]) -> NDArray[np.float64]:
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
    direction = nearly = equations.precondition(residual)
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
        nearly = equations.precondition(residual)
        before, slope = slope, float((residual * nearly).sum())
        direction = nearly + slope / before * direction
    return solution


if TYPE_CHECKING:
    Array = NDArray[np.float64]

EXACT = 1e-11  # relative error of mean and covariance up to which moments count as kept
ROUNDS = 400  # largest number of alternating rounds
WIDE_WORK = 2 * 10**10  # rows × rows × columns of all rounds of a wide table, about
FEWEST_ROUNDS = 5
PACE_ROUNDS = 25  # rounds over which the pace of convergence is measured
NEGLIGIBLE = 1e-13  # an eigenvalue below this share of the largest is a rounding error
NEWTON_STEPS = 30
STEP_LENGTHS = (1.0, 0.5, 0.2)  # shares of a Newton step that are tried
GAIN = 0.95  # a Newton step must reduce the error to this share, or it is the last one
OVERSHOOT = 1.8  # wide tables: numbers move this many times the way to their range, which halves the number of rounds
MARGIN = 0.01  # wide tables: numbers first move this share of the range inside it, which is then met in few rounds
MARGIN_DECAY = 0.98  # per round, because numbers of a few values cannot keep away from their ends


@dataclass(frozen=True, repr=False)
class Restored:
    """Numbers within their ranges, and how near their moments are to the wanted ones."""

    numbers: Array
    error: float  # largest error of a mean in standard deviations, or of a covariance of standardised columns
    rounds: int  # alternating rounds and Newton steps
    converged: bool  # whether the error is within the tolerance


def with_moments(numbers: Array, like: Array, low: Array, high: Array, *, tolerance: float = EXACT) -> Restored:
    """Return numbers within ``low`` … ``high`` with the means and covariances of ``like``, as far as possible.

    ``low`` and ``high`` have one value per column or one per cell. ``tolerance`` is the relative error that is
    accepted: numbers that will be rounded need no more digits than they keep.
    """
    mean = column_means(like)
    centred = like - mean
    spread = np.sqrt(np.einsum("ij,ij->j", centred, centred) / max(1, len(like)))
    scale = np.where(spread > 0.0, spread, 1.0)
    target = centred / scale
    standard = (numbers - mean) / scale
    bottom, top = (low - mean) / scale, (high - mean) / scale
    wide = like.shape[1] >= len(like)
    restored = (_wide if wide else _narrow)(standard, target, bottom, top, tolerance)
    exact = np.clip(restored.numbers * scale + mean, low, high)  # a zero is zero, without a rounding error
    return Restored(exact, restored.error, restored.rounds, restored.converged)


def _narrow(numbers: Array, target: Array, bottom: Array, top: Array, tolerance: float) -> Restored:
    """Alternate between the ranges and the moments; go on by Newton's method if that will not converge."""
    wanted = target.T @ target / len(target)
    loadings = _loadings(wanted)
    current = _map_to(_Moments.of(_map_to(_Moments.of(numbers), loadings)), loadings)  # twice: to the last digits
    errors: list[float] = []
    for step in range(1, ROUNDS + 1):
        inside = np.clip(current, bottom, top, out=current)
        moments = _Moments.of(inside)
        errors.append(moments.error(wanted))
        if errors[-1] < tolerance:
            return Restored(inside, errors[-1], step, converged=True)
        if _too_slow(errors, tolerance):
            break
        current = _map_to(moments, loadings)
    return _newton(inside, wanted, bottom, top, tolerance, rounds=len(errors))


def _wide(numbers: Array, target: Array, bottom: Array, top: Array, tolerance: float) -> Restored:
    """Alternate in the space of the rank, so that a table with more columns than rows costs no more than its rows.

    The error is a bound: numbers that differ from numbers with the wanted moments by at most d, as a root mean square
    of each standardised column, have means within d and covariances within 2d + d² of them.
    """
    loadings = _scaled_singular_vectors(target)
    width = top - bottom
    margin = MARGIN * np.where(np.isfinite(width), width, 0.0)
    current = _nearest(numbers, loadings)
    errors: list[float] = []
    best = Restored(np.clip(numbers, bottom, top), math.inf, 0, converged=False)
    # moments of wide tables are not promised, so that a table with very many columns gets fewer rounds
    for step in range(1, int(np.clip(WIDE_WORK // (len(target) * target.size), FEWEST_ROUNDS, ROUNDS)) + 1):
        inside = np.clip(current, bottom, top)
        apart = float(np.sqrt(((inside - current) ** 2).mean(axis=0).max(initial=0.0)))
        errors.append(2.0 * apart + apart**2)
        if errors[-1] < best.error:
            best = Restored(inside, errors[-1], step, converged=errors[-1] < tolerance)
        if best.converged or _too_slow(errors, tolerance):
            break
        margin = MARGIN_DECAY * margin
        moved = np.clip(current, bottom + margin, top - margin) - current
        current = _nearest(current + OVERSHOOT * moved, loadings)
    return Restored(best.numbers, best.error, len(errors), best.converged)


def _too_slow(errors: list[float], tolerance: float) -> bool:
    """Return whether the iteration, at the pace of its last rounds, would not end within ``ROUNDS`` rounds."""
    if len(errors) <= PACE_ROUNDS:
        return False
    pace = math.log(errors[-1 - PACE_ROUNDS] / errors[-1]) / PACE_ROUNDS  # per round
    return pace <= 0.0 or len(errors) + math.log(errors[-1] / tolerance) / pace > ROUNDS


def _newton(numbers: Array, wanted: Array, bottom: Array, top: Array, tolerance: float, rounds: int) -> Restored:
    """Move the cells that are inside their ranges, by the smallest change, until the moments are the wanted ones.

    Cells that reach the end of their range are clipped, and are not free in the next step.
    """
    best = Restored(numbers, _Moments.of(numbers).error(wanted), rounds, converged=False)
    for step in range(1, NEWTON_STEPS + 1):
        current = best.numbers
        change = smallest_change(current, (current > bottom) & (current < top), wanted)
        for length in STEP_LENGTHS:
            moved = np.clip(current + length * change, bottom, top)
            error = _Moments.of(moved).error(wanted)
            if error < GAIN * best.error:
                break
        else:
            break
        best = Restored(moved, error, rounds + step, converged=error < tolerance)
        if best.converged:
            break
    return best


def column_means(numbers: Array) -> Array:
    """Return the mean of each column, as a product with a vector: four times as fast as ``mean(axis=0)``."""
    return np.asarray(np.ones(len(numbers)) @ numbers / max(1, len(numbers)))


@dataclass(frozen=True, repr=False)
class _Moments:
    """Numbers without their mean, the mean, and the covariance."""

    centred: Array
    mean: Array
    covariance: Array

    @classmethod
    def of(cls, numbers: Array) -> _Moments:
        mean = column_means(numbers)
        centred = numbers - mean
        return cls(centred, mean, centred.T @ centred / len(centred))

    def error(self, wanted: Array) -> float:
        """Return the largest error of a mean (in standard deviations) or of a covariance (of standardised columns)."""
        if not self.mean.size:
            return 0.0
        return float(max(np.abs(self.mean).max(), np.abs(self.covariance - wanted).max()))


def _map_to(numbers: _Moments, wanted: Array) -> Array:
    """Apply the smallest linear change that gives the numbers mean 0 and the covariance of the wanted loadings.

    The numbers are whitened, rotated to be as close as possible to the original numbers (a Procrustes problem), and
    given the wanted loadings. This is the optimal transport map between two normal distributions, for any rank.
    """
    loadings = _loadings(numbers.covariance)
    left, _, right = np.linalg.svd(loadings @ wanted.T, full_matrices=False)
    whiten = loadings.T / (loadings**2).sum(axis=1)  # loadings are orthogonal, so this is their inverse
    return np.asarray(numbers.centred @ (whiten @ left @ right @ wanted))


def _loadings(covariance: Array) -> Array:
    """Return L (rank, columns) with LᵀL the covariance: its eigenvectors times the square roots of the eigenvalues."""
    values, vectors = np.linalg.eigh(covariance)
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def _nearest(numbers: Array, loadings: Array) -> Array:
    """Return the nearest numbers with mean 0 and the covariance LᵀL of the loadings.

    They are √rows·QL with the orthonormal Q, orthogonal to the constant, that is nearest to the projections of the
    numbers on the loadings. This is the map of ``_mapped``, by decompositions of the size of the rank.
    """
    rows = len(numbers)
    basis, parts = np.linalg.qr(np.column_stack([np.ones(rows), numbers @ loadings.T]))
    left, _, right = np.linalg.svd(parts[1:, 1:])
    return np.asarray(np.sqrt(rows) * (basis[:, 1:] @ (left @ right)) @ loadings)


def _scaled_singular_vectors(centred: Array) -> Array:
    """Return L (rank, columns) with LᵀL the covariance of centred numbers, without forming the covariance."""
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    real = singular > math.sqrt(NEGLIGIBLE) * max(singular.max(initial=0.0), np.finfo(float).tiny)
    real[len(centred) - 1 :] = False  # centred rows have a smaller rank than their number; the rest is rounding
    return np.asarray(singular[real, None] * right[real] / np.sqrt(len(centred)))
