"""Highest coefficient of a linear regression with any number of regressors; the lowest by mirroring the response.

Write the regressors, including the constant, as functions z_j (the one with the coefficient c in question) and f (the
others). The slope of a single regressor is bounded like a covariance: with z̃ = z_j − η, the regressor minus its mean,
for every κ and γ, (c − κ) Σ w z̃² = Σ w (y − κ z_j − γ)(z_j − η). This is a sum of products as in :mod:`.supremum`, and
c ≤ κ + bound / (least Σ w z̃²). Every other coefficient is bounded by :mod:`.cones`, and by :mod:`.perturbation` where
the cones have not come near an attained value in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.attain import Candidate, LocalSearch, UpperBound, tighten
from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.cones import Cones, second_moments
from sfumato.statistics.bounds.enclosure import EPS, End
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.bounds.supremum import LinearPair, supremum
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.bounds.attain import Lines


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
