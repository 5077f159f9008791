"""Highest coefficient of a linear regression, with any number of regressors; the lowest by mirroring the response.

Write the regressors, the constant among them, as functions z_j (whose coefficient c is asked for) and f (the others).
By Frisch and Waugh c = Σ w y z̃ / Σ w z̃², z̃ = z_j − η·f the residual of z_j on f. So for every κ and every γ

    (c − κ) Σ w z̃² = Σ w (y − κ z_j − γ·f)(z_j − η·f),

a sum of products as in :mod:`.supremum`, and c ≤ κ + bound / (least Σ w z̃²). With one regressor the slope's η is the
mean of x, known exactly; in general it is first enclosed by a linear system or by smaller regressions. Where the
regressors may be collinear the coefficient has no bound.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.bounds.attain import Ascent, Ceiling, Choice, close_in
from sfumato.statistics.bounds.budget import Clock
from sfumato.statistics.bounds.enclosure import End
from sfumato.statistics.bounds.problem import EPS, NOTHING, Problem
from sfumato.statistics.bounds.supremum import Form, supremum
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.bounds.attain import Lines

DEEPEST = 3  # others up to which η is enclosed by regressions of its own
LOOSE = 0.02  # slack of these, in standard deviations
PIECES = 60  # cuts of the region of η when the residual variance is bounded


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

    def form(self, coefficient: float) -> Form:
        """The products whose sum is (c − coefficient) · Σ ω z̃²."""
        return Form(self.response - coefficient * self.regressor, self.regressor, self.others)

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
    mean = np.concatenate([[1.0], moments.mean])
    second = np.outer(mean, mean)
    second[1:, 1:] += moments.covariance
    all_functions = np.vstack([target.regressor, target.others])
    gram = all_functions @ second @ all_functions.T
    scale = np.sqrt(np.maximum(np.diag(gram), 0.0))
    if not (scale > 0.0).all():
        return None
    gram = gram / np.outer(scale, scale)
    if np.linalg.eigvalsh(gram)[0] < 1e-13:
        return None
    solution = np.linalg.solve(gram, all_functions @ second @ target.response / scale) / scale
    eta = np.linalg.solve(gram[1:, 1:], gram[1:, 0]) * scale[0] / scale[1:]
    residual = float(scale[0] ** 2 / np.linalg.inv(gram)[0, 0])
    return _Fit(float(solution[0]), solution[1:], eta, residual)


def highest_coefficient(problem: Problem, target: Target, slack: float, clock: Clock) -> End:
    """Upper end of the coefficient's range."""
    cache: list[tuple[NDArray[np.float64], float] | None] = []

    def value(moments: Moments) -> float:
        fit = _fit(target, moments)
        return math.nan if fit is None else fit.coefficient

    def lines(moments: Moments) -> Lines | None:
        fit = _fit(target, moments)
        if fit is None:
            return None
        return target.form(fit.coefficient).lines(fit.gamma, fit.eta)

    def ceiling(at: float, choice: Choice) -> Ceiling:
        fit = _fit(target, choice.moments)
        if not cache:
            cache.append(None if fit is None else _residuals(problem, target, fit.eta, clock))
        if fit is None or cache[0] is None:
            return Ceiling(math.inf, math.inf)
        region, least = cache[0]
        form = target.form(at)
        found = supremum(problem, form, region, fit.eta, fit.gamma, slack * least / 2.0, clock)
        outer = at + max(found.bound, 0.0) / least
        near = ascent.at(*problem.points(*form.lines(found.gamma, found.eta)))
        return Ceiling(outer + 8.0 * EPS * (abs(outer) + 1.0), at + max(found.bound, 0.0) / fit.residual, near)

    ascent = Ascent(problem, value, lines, slack / 100.0)
    return close_in(ascent, ceiling, slack)


def _residuals(
    problem: Problem, target: Target, eta: NDArray[np.float64], clock: Clock
) -> tuple[NDArray[np.float64], float] | None:
    """A box that holds η of every choice, and a positive lower bound of Σ ω z̃²; None where there is none."""
    region = _region_by_system(problem, target, eta)
    least = 0.0 if region is None else _least_residual(problem, target, region)
    if least <= 0.0 and len(target.others) <= DEEPEST:
        region = _region_by_coefficients(problem, target, clock)
        least = 0.0 if region is None else _least_residual(problem, target, region)
    return None if region is None or least <= 0.0 else (region, least)


def _region_by_system(problem: Problem, target: Target, eta: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """η − η₀ solves M (η − η₀) = v with M = Σ ω f fᵀ and v = Σ ω f (z_j − η₀·f), whose entries are bounded one by one.

    With M within R of its centre M₀ and P ≈ M₀⁻¹: |η − η₀| ≤ |P| |v| + (|I − P M₀| + |P| R) |η − η₀|. Any half-widths
    that are at least as large as this makes of them hold η; None where there are none.
    """
    others, m = target.others, len(target.others)
    if target.is_mean:
        return np.array([problem.mean_range(target.regressor)])
    residual = target.regressor - eta @ others
    reach = np.array([max(problem.largest(f, residual)[0], problem.largest(-f, residual)[0]) for f in others])
    top, bottom = np.zeros((m, m)), np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            top[i, j] = top[j, i] = problem.largest(others[i], others[j])[0]
            bottom[i, j] = bottom[j, i] = -problem.largest(-others[i], others[j])[0]
    middle, radius = (top + bottom) / 2.0, (top - bottom) / 2.0
    if m and np.linalg.cond(middle) > 1e8:
        return None
    inverse = np.linalg.inv(middle)
    shrink = (np.abs(np.eye(m) - inverse @ middle) + np.abs(inverse) @ radius) * (1.0 + 1e-12) + 1e-15
    if m and np.abs(np.linalg.eigvals(shrink)).max() >= 0.99:
        return None
    start = np.abs(inverse) @ reach * (1.0 + 1e-12)
    half = np.linalg.solve(np.eye(m) - shrink, start) * (1.0 + 1e-6)
    if not (half >= (shrink @ half + start) * (1.0 + 1e-12)).all():
        return None
    return np.column_stack([eta - half, eta + half])


def _region_by_coefficients(problem: Problem, target: Target, clock: Clock) -> NDArray[np.float64] | None:
    """Each η is a coefficient itself, of a regression on one function less."""
    region = []
    for i in range(len(target.others)):
        ends = []
        for sign in (-1.0, 1.0):
            inner = Target(sign * target.regressor, target.others[i], np.delete(target.others, i, axis=0))
            end = highest_coefficient(problem, inner, LOOSE, clock)
            if not math.isfinite(end.outer):
                return None
            ends.append(sign * end.outer)
        region.append(ends)
    return np.array(region).reshape(-1, 2)


def _least_residual(problem: Problem, target: Target, region: NDArray[np.float64]) -> float:
    """At most Σ ω (z_j − η·f)² of every choice: box by box, as near zero as z and η can bring it.

    The region of η is cut where the bound is least, since a smaller piece leaves η less room.
    """
    if target.is_mean and np.count_nonzero(target.regressor[1:]) == 1:
        return problem.least_spread(int(np.flatnonzero(target.regressor[1:])[0]))
    middle, half = problem.midpoints, (problem.high - problem.low) / 2.0
    heights = [np.abs(f[0] + middle @ f[1:]) + half @ np.abs(f[1:]) for f in target.others]

    def bound(piece: NDArray[np.float64]) -> float:
        eta, spread = piece.mean(axis=1), (piece[:, 1] - piece[:, 0]) / 2.0
        line = target.regressor - eta @ target.others
        reach = half @ np.abs(line[1:])
        for height, room in zip(heights, spread, strict=True):
            reach = reach + room * height
        centre = np.abs(line[0] + middle @ line[1:])
        apart = np.maximum(centre - reach - 1e-13 * (centre + reach), 0.0)
        squares = float((problem.weight * apart**2).sum()) * (1.0 - len(apart) * EPS)
        return squares if squares > NOTHING else 0.0

    width = np.maximum(region[:, 1] - region[:, 0], 1e-300)
    counter = itertools.count()
    heap = [(bound(region), next(counter), region)]
    for _ in range(PIECES if len(region) else 0):
        _, _, piece = heapq.heappop(heap)
        axis = int(np.argmax((piece[:, 1] - piece[:, 0]) / width))
        cut = piece[axis].mean()
        for side in range(2):
            half_piece = piece.copy()
            half_piece[axis, 1 - side] = cut
            heapq.heappush(heap, (bound(half_piece), next(counter), half_piece))
    return heap[0][0]
