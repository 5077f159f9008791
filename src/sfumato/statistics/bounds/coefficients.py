"""Highest coefficient of a linear regression with any number of regressors; the lowest by mirroring the response.

Write the regressors, including the constant, as functions z_j (the one with the coefficient c in question) and f (the
others). The slope of a single regressor is bounded like a covariance: with z̃ = z_j − η, the regressor minus its mean,
for every κ and γ, (c − κ) Σ w z̃² = Σ w (y − κ z_j − γ)(z_j − η). This is a sum of products as in :mod:`.supremum`, and
c ≤ κ + bound / (least Σ w z̃²). Every other coefficient is bounded by :mod:`.cones`, and by ``Perturbation`` where
the cones have not come near an attained value in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.attain import Candidate, Lines, LocalSearch, UpperBound, tighten
from sfumato.statistics.bounds.cones import Cones, second_moments
from sfumato.statistics.bounds.enclosure import EPS, Deadline, End
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.bounds.supremum import LinearPair, supremum
from sfumato.statistics.moments import Moments


@dataclass(frozen=True, eq=False)
class Target:
    """A coefficient as functions of (1, y, x₁ …).

    The functions are the response, the regressor in question, and the other regressors (one per row).
    """

    response: NDArray[np.float64]
    regressor: NDArray[np.float64]
    others: NDArray[np.float64]

    @classmethod
    def slope(cls, regressors: int, which: int) -> Target:
        """Return the slope of a regressor (counted from 0); it does not depend on the centres of the columns."""
        unit = np.eye(regressors + 2)
        others = [unit[0], *(unit[2 + i] for i in range(regressors) if i != which)]
        return cls(unit[1], unit[2 + which], np.array(others))

    @classmethod
    def intercept(cls, origin: NDArray[np.float64]) -> Target:
        """Return the intercept; ``origin`` is the zero of the regressors in the units of the table."""
        unit = np.eye(len(origin) + 2)
        others = np.array([unit[2 + i] - origin[i] * unit[0] for i in range(len(origin))])
        return cls(unit[1], unit[0], others)

    @property
    def functions(self) -> NDArray[np.float64]:
        """All regressors, with the one in question first."""
        return np.vstack([self.regressor, self.others])

    @property
    def functional(self) -> NDArray[np.float64]:
        """The vector a for which the coefficient is a·c, with c the coefficients of (1, x₁ …)."""
        if self.regressor[0] == 0.0:
            return np.delete(self.regressor, 1)
        return np.append(1.0, -self.others[:, 0])

    @property
    def is_mean(self) -> bool:
        """Whether the only other function is the constant, so that η is a mean."""
        return len(self.others) == 1 and self.others[0, 0] == 1.0 and not self.others[0, 1:].any()


@dataclass(frozen=True, eq=False)
class _Fit:
    """A regression for given moments.

    ``gamma`` are the coefficients of the other regressors, and ``eta`` those of a regression of the regressor on them.
    """

    coefficient: float
    gamma: NDArray[np.float64]
    eta: NDArray[np.float64]
    residual: float  # Σ w z̃²


def _fit(target: Target, moments: Moments) -> _Fit | None:
    """Compute least squares from the second moments of (1, z); None if the regressors are collinear."""
    moments_of_all = second_moments(np.vstack([target.functions, target.response]), moments)
    gram = moments_of_all[:-1, :-1]
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    if not (scale > 0.0).all():
        return None
    gram = gram / np.outer(scale, scale)
    if np.linalg.eigvalsh(gram)[0] < 1e-13:
        return None
    solution = np.linalg.solve(gram, moments_of_all[:-1, -1] / scale) / scale
    eta = np.linalg.solve(gram[1:, 1:], gram[1:, 0]) * scale[0] / scale[1:]
    residual = float(scale[0] ** 2 / np.linalg.inv(gram)[0, 0])
    return _Fit(float(solution[0]), solution[1:], eta, residual)


def highest_coefficient(
    problem: ScaledBoxes,
    target: Target,
    slack: float,
    deadline: Deadline,
    quick_bound: Callable[[], float] = lambda: math.inf,
) -> End:
    """Compute the upper end of the range of the coefficient; ``quick_bound`` is used where cones are not enough."""

    def value(moments: Moments) -> float:
        fit = _fit(target, moments)
        return math.nan if fit is None else fit.coefficient

    def lines(moments: Moments) -> Lines | None:
        fit = _fit(target, moments)
        if fit is None:
            return None
        residual = target.response - fit.coefficient * target.regressor - fit.gamma @ target.others
        return residual, target.regressor - fit.eta @ target.others

    search = LocalSearch(problem, value, lines, slack / 100.0, deadline)
    if target.is_mean:
        return tighten(search, _single_slope_bound(search, target, slack, deadline), slack)
    return tighten(search, _coefficient_bound(search, target, slack, deadline, quick_bound), slack)


def _single_slope_bound(
    search: LocalSearch, target: Target, slack: float, deadline: Deadline
) -> Callable[[float, Candidate], UpperBound]:
    """Return the upper bound for the slope of a single regressor, where η is its mean."""
    problem = search.problem
    least = problem.least_spread(int(np.flatnonzero(target.regressor[1:])[0]))

    def upper_bound(at: float, choice: Candidate) -> UpperBound:
        fit = _fit(target, choice.moments)
        if fit is None or least <= 0.0:
            return UpperBound(math.inf, math.inf)
        pair = LinearPair(target.response - at * target.regressor, target.regressor)
        cell = supremum(problem, pair, float(fit.eta[0]), float(fit.gamma[0]), slack * least / 2.0, deadline)
        outer = at + max(cell.bound, 0.0) / least
        nearby = search.at(*problem.points(*pair.lines(cell.gamma, cell.eta)))
        return UpperBound(outer + 8.0 * EPS * (abs(outer) + 1.0), at + max(cell.bound, 0.0) / fit.residual, nearby)

    return upper_bound


def _coefficient_bound(
    search: LocalSearch, target: Target, slack: float, deadline: Deadline, quick_bound: Callable[[], float]
) -> Callable[[float, Candidate], UpperBound]:
    """Return the upper bound for any coefficient.

    The cones start from the best choice, so they are searched again only for a better choice.
    """
    cones = Cones(search.problem, target.response, target.functions, deadline)

    def upper_bound(at: float, choice: Candidate) -> UpperBound:
        fit = _fit(target, choice.moments)
        if fit is None:
            return UpperBound(math.inf, math.inf)
        start, enough = np.append(fit.coefficient, fit.gamma), choice.value + slack / 2.0
        cone = cones.bound(start, choice.moments, enough)
        if math.isinf(cone.bound):
            return UpperBound(quick_bound(), math.inf)
        residual = target.response - cone.coefficients @ target.functions
        nearby = search.at(*search.problem.points(residual, cone.edge @ target.functions))
        return UpperBound(cone.bound if cone.bound <= enough else min(cone.bound, quick_bound()), math.inf, nearby)

    return upper_bound


# Quick bounds for the coefficients of a regression with any number of regressors; they need no branching.
#
# Write x for the regressors, including the constant, G = Σ ω x xᵀ and r = Σ ω x (y − b·x). For every b the
# coefficients are c = b + G⁻¹ r. Let T be the symmetric root of the inverse of G at the midpoints, u = T x, d =
# |T|·half-widths. Then
#
#     √(vᵀ T G T v)  ≥  √(v·v) − √(Σ ω (|v|·d)²)  ≥  s · ‖v‖,     s = 1 − √(largest eigenvalue of Σ ω d dᵀ),
#
# by the triangle inequality, because |u − u(midpoint)| ≤ d. If s > 0, no data are collinear, (T G T)⁻¹ differs from
# the identity by at most κ = 1/s² − 1 (or 1, if extra weights make G larger), and
#
#     a·(c − b)  =  (T a)·(T G T)⁻¹ T r  ≤  (T² a)·r  +  ‖T a‖ κ ‖T r‖     for every a.
#
# The first term and each component of T r are sums of products, which are maximised box by box. For narrow boxes κ is
# small, and the bound is nearly the first-order one. ‖T r‖ is the same for all coefficients.


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
