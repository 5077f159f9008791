"""Highest coefficient of a linear regression, with any number of regressors; the lowest by mirroring the response.

Write the regressors, the constant among them, as functions z_j (whose coefficient c is asked for) and f (the others).
The slope of a single regressor is found as a covariance is: with z̃ = z_j − η the regressor less its mean, for every κ
and γ, (c − κ) Σ w z̃² = Σ w (y − κ z_j − γ)(z_j − η), a sum of products as in :mod:`.supremum`, and
c ≤ κ + bound / (least Σ w z̃²). Every other coefficient is found by :mod:`.cones`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.attain import Ascent, Ceiling, Choice, close_in
from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.bounds.cones import Cones, second_moments
from sfumato.statistics.bounds.enclosure import End
from sfumato.statistics.bounds.scaled_boxes import EPS, ScaledBoxes
from sfumato.statistics.bounds.supremum import Form, supremum
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.bounds.attain import Lines


@dataclass(frozen=True, eq=False)
class Target:
    """A coefficient as functions of (1, y, x₁ …): the response, the regressor in question, the others (one a row)."""

    response: NDArray[np.float64]
    regressor: NDArray[np.float64]
    others: NDArray[np.float64]

    @classmethod
    def slope(cls, regressors: int, which: int) -> Target:
        """The slope of a regressor (from 0), whatever the columns' centres."""
        unit = np.eye(regressors + 2)
        others = [unit[0], *(unit[2 + i] for i in range(regressors) if i != which)]
        return cls(unit[1], unit[2 + which], np.array(others))

    @classmethod
    def intercept(cls, origin: NDArray[np.float64]) -> Target:
        """The intercept: regressors count from ``origin``, which is zero in the table's units."""
        unit = np.eye(len(origin) + 2)
        others = np.array([unit[2 + i] - origin[i] * unit[0] for i in range(len(origin))])
        return cls(unit[1], unit[0], others)

    @property
    def functions(self) -> NDArray[np.float64]:
        """All regressors, the one in question first."""
        return np.vstack([self.regressor, self.others])

    @property
    def is_mean(self) -> bool:
        """Whether the only other function is the constant, so that η is a mean."""
        return len(self.others) == 1 and self.others[0, 0] == 1.0 and not self.others[0, 1:].any()


@dataclass(frozen=True, eq=False)
class _Fit:
    """A regression at some moments: the coefficient, the others' coefficients, and those of regressor on others."""

    coefficient: float
    gamma: NDArray[np.float64]
    eta: NDArray[np.float64]
    residual: float  # Σ w z̃²


def _fit(target: Target, moments: Moments) -> _Fit | None:
    """Least squares from the second moments of (1, z)."""
    of_all = second_moments(np.vstack([target.functions, target.response]), moments)
    gram = of_all[:-1, :-1]
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    if not (scale > 0.0).all():
        return None
    gram = gram / np.outer(scale, scale)
    if np.linalg.eigvalsh(gram)[0] < 1e-13:
        return None
    solution = np.linalg.solve(gram, of_all[:-1, -1] / scale) / scale
    eta = np.linalg.solve(gram[1:, 1:], gram[1:, 0]) * scale[0] / scale[1:]
    residual = float(scale[0] ** 2 / np.linalg.inv(gram)[0, 0])
    return _Fit(float(solution[0]), solution[1:], eta, residual)


def highest_coefficient(problem: ScaledBoxes, target: Target, slack: float, deadline: Deadline) -> End:
    """Upper end of the coefficient's range."""

    def value(moments: Moments) -> float:
        fit = _fit(target, moments)
        return math.nan if fit is None else fit.coefficient

    def lines(moments: Moments) -> Lines | None:
        fit = _fit(target, moments)
        if fit is None:
            return None
        residual = target.response - fit.coefficient * target.regressor - fit.gamma @ target.others
        return residual, target.regressor - fit.eta @ target.others

    ascent = Ascent(problem, value, lines, slack / 100.0)
    find = _mean_ceiling if target.is_mean else _cone_ceiling
    return close_in(ascent, find(ascent, target, slack, deadline), slack)


def _mean_ceiling(
    ascent: Ascent, target: Target, slack: float, deadline: Deadline
) -> Callable[[float, Choice], Ceiling]:
    """The slope of the only regressor: η is its mean."""
    problem = ascent.problem
    least = problem.least_spread(int(np.flatnonzero(target.regressor[1:])[0]))

    def ceiling(at: float, choice: Choice) -> Ceiling:
        fit = _fit(target, choice.moments)
        if fit is None or least <= 0.0:
            return Ceiling(math.inf, math.inf)
        form = Form(target.response - at * target.regressor, target.regressor)
        found = supremum(problem, form, float(fit.eta[0]), float(fit.gamma[0]), slack * least / 2.0, deadline)
        outer = at + max(found.bound, 0.0) / least
        near = ascent.at(*problem.points(*form.lines(found.gamma, found.eta)))
        return Ceiling(outer + 8.0 * EPS * (abs(outer) + 1.0), at + max(found.bound, 0.0) / fit.residual, near)

    return ceiling


def _cone_ceiling(
    ascent: Ascent, target: Target, slack: float, deadline: Deadline
) -> Callable[[float, Choice], Ceiling]:
    """Any coefficient: the cones begin at the best choice, so they are asked again only for a better one."""
    cones = Cones(ascent.problem, target.response, target.functions, deadline)

    def ceiling(at: float, choice: Choice) -> Ceiling:
        fit = _fit(target, choice.moments)
        if fit is None:
            return Ceiling(math.inf, math.inf)
        peak = cones.peak(np.append(fit.coefficient, fit.gamma), choice.moments, choice.value + slack / 2.0)
        residual = target.response - peak.coefficients @ target.functions
        near = ascent.at(*ascent.problem.points(residual, peak.edge @ target.functions))
        return Ceiling(peak.bound, math.inf, near)

    return ceiling
