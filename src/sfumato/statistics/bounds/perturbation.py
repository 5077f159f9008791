"""Quick bounds for the coefficients of a regression with any number of regressors; they need no branching.

Write x for the regressors, including the constant, G = Σ ω x xᵀ and r = Σ ω x (y − b·x). For every b the coefficients
are c = b + G⁻¹ r. Let T be the symmetric root of the inverse of G at the midpoints, u = T x, d = |T|·half-widths. Then

    √(vᵀ T G T v)  ≥  √(v·v) − √(Σ ω (|v|·d)²)  ≥  s · ‖v‖,     s = 1 − √(largest eigenvalue of Σ ω d dᵀ),

by the triangle inequality, because |u − u(midpoint)| ≤ d. If s > 0, no data are collinear, (T G T)⁻¹ differs from the
identity by at most κ = 1/s² − 1 (or 1, if extra weights make G larger), and

    a·(c − b)  =  (T a)·(T G T)⁻¹ T r  ≤  (T² a)·r  +  ‖T a‖ κ ‖T r‖     for every a.

The first term and each component of T r are sums of products, which are maximised box by box. For narrow boxes κ is
small, and the bound is nearly the first-order one. ‖T r‖ is the same for all coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1.0 + 1e-9  # far above the rounding errors of sums over a few regressors


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    """The bounds of one regression of the first column on the others and the constant, in scaled units."""

    problem: ScaledBoxes
    b: NDArray[np.float64]  # (m,), coefficients at the midpoints, that of the constant first
    root: NDArray[np.float64]  # (m, m), T
    inverse: NDArray[np.float64]  # (m, m), T⁻¹
    kappa: float
    size: float  # upper bound of ‖T r‖

    @classmethod
    def of(cls, problem: ScaledBoxes) -> Perturbation | None:
        """Prepare the bounds; None if the boxes are too wide for this method to exclude collinear data."""
        gram, products = _moments(problem)
        values, vectors = np.linalg.eigh(gram)
        if not values[0] > 1e-12 * values[-1]:
            return None
        root, inverse = (vectors / np.sqrt(values)) @ vectors.T, (vectors * np.sqrt(values)) @ vectors.T
        least = _least_root(problem, gram, root)
        if least <= 0.0:
            return None
        b = root @ (root @ products)
        kappa = max(1.0 / least**2 - 1.0, 1.0 if problem.extra.any() else 0.0) * ROUNDING
        lines = _lines(root)
        sums = problem.largest_each(_residual(b), np.ascontiguousarray(np.vstack([lines, -lines])))[0]
        size = float(np.linalg.norm(np.maximum(sums.reshape(2, -1).max(axis=0), 0.0))) * ROUNDING
        return cls(problem, b, root, inverse, kappa, size)

    def highest(self, functional: NDArray[np.float64]) -> float:
        """Return an upper bound of functional · c over all choices."""
        scaled = self.root @ functional
        direction = self.root @ scaled
        first = self.problem.largest(_residual(self.b), _lines(direction[None])[0])[0]
        # rounding of T² a changes its product with r, whose components are at most ‖row of T⁻¹‖ · ‖T r‖
        terms = np.abs(self.root) @ np.abs(self.root) @ np.abs(functional)
        slack = 8.0 * len(self.b) * EPS * float(terms @ np.linalg.norm(self.inverse, axis=1)) * self.size
        excess = first + (float(np.linalg.norm(scaled)) * self.kappa * self.size + slack) * ROUNDING
        start = float(functional @ self.b)
        rounding = 8.0 * len(self.b) * EPS * (float(np.abs(functional) @ np.abs(self.b)) + abs(excess))
        bound = start + excess + rounding
        return bound if math.isfinite(bound) else math.inf


def _lines(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return combinations of (1, x₁ …) as linear forms in (1, y, x₁ …)."""
    lines: NDArray[np.float64] = np.insert(rows, 1, 0.0, axis=1)
    return lines


def _residual(b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return y − b·x as a linear form in (1, y, x₁ …)."""
    line: NDArray[np.float64] = -_lines(b[None])[0]
    line[1] = 1.0
    return line


def _moments(problem: ScaledBoxes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Σ w x xᵀ and Σ w x y at the midpoints."""
    points = problem.midpoints
    response = points[:, 0].copy()
    points[:, 0] = 1.0
    weighted = problem.weight[:, None] * points
    return weighted.T @ points, weighted.T @ response


def _least_root(problem: ScaledBoxes, gram: NDArray[np.float64], root: NDArray[np.float64]) -> float:
    """Return a lower bound s of √(vᵀ T G T v) for all unit vectors v and all choices; extra weights only add to it."""
    steps = (len(problem.weight) + 100.0 * (problem.columns + 1)) * EPS
    regressors = [0, *range(2, problem.columns + 1)]
    sizes = problem.magnitude[np.ix_(regressors, regressors)]
    error = steps * float(np.linalg.norm(np.abs(root) @ sizes @ np.abs(root)))
    off = float(np.linalg.norm(root @ gram @ root - np.eye(len(root)))) + error
    reach = (problem.high - problem.low)[:, 1:] / 2.0 @ np.abs(root[1:])
    spread = (reach.T @ (problem.weight[:, None] * reach)) * (1.0 + 4.0 * steps)
    widest = math.sqrt(max(float(np.linalg.eigvalsh(spread)[-1]), 0.0) * ROUNDING)
    return math.sqrt(max(1.0 - off * ROUNDING, 0.0)) - widest - 1e-12
