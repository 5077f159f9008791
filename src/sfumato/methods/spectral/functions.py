"""Histories as functions: their values at some times, written by a few coefficients that every history has.

    y_i(t) = Σ_j c_ij φ_j(t) + e_i(t),   c_i ~ N(μ, Σ),   e ~ N(0, σ²)

The functions φ are orthonormal over the span of the times, so that the distance of two vectors of coefficients is that
of two curves, ∫ (f − g)². The parameters follow from the observed cells by the EM algorithm (Laird and Ware, 1982;
James, Hastie and Sugar, 2000). So people who were seen at different times, and rarely, have coefficients as well: what
their own cells do not tell is that of the other people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

FunctionsName = Literal["splines", "wavelets"]
FUNCTIONS: tuple[FunctionsName, ...] = ("splines", "wavelets")

DEGREE = 3  # of the splines: cubic, unless there are fewer functions
NEGLIGIBLE = 1e-9  # a function whose rest is smaller than this, of its length 1, is one of the others
FINEST = 64  # times as many intervals as times, for times at unequal distances
ROUNDS = 50  # of the EM algorithm
CONVERGED = 1e-4  # relative change of the variance of the errors at which it ends
LEAST_ERROR = 1e-8  # variance of the errors, as a share of the variance of the cells


def orthonormal_functions(times: Array, name: FunctionsName, count: int) -> Array:
    """Return the values of orthonormal functions, one row per time; there are at most as many as times.

    Splines are smooth, and wavelets (Haar's) constant on halves, quarters, … of the span, for histories with jumps. The
    inner product is Σ w_t f(t) g(t) with the weights of the trapezoidal rule, divided by the span.
    """
    span = float(times[-1] - times[0]) or 1.0
    unit = (times - times[0]) / span
    raw = _splines(unit, min(count, len(times))) if name == "splines" else _wavelets(unit)
    gaps = np.diff(unit)
    weights = (np.append(gaps, 0.0) + np.append(0.0, gaps)) / 2.0 if len(unit) > 1 else np.ones(1)
    root = np.sqrt(weights)[:, None]
    orthonormal: list[Array] = []
    for column in (raw * root).T:
        length = float(np.linalg.norm(column))
        rest = column
        for _ in range(2):  # twice is enough for orthogonality to the last digit
            for other in orthonormal:
                rest = rest - (rest @ other) * other
        if np.linalg.norm(rest) > NEGLIGIBLE * max(length, np.finfo(float).tiny):
            orthonormal.append(rest / np.linalg.norm(rest))
        if len(orthonormal) == min(count, len(times)):
            break
    return np.asarray(np.array(orthonormal).T / root)


def _splines(unit: Array, count: int) -> Array:
    """Return B-splines with equally spaced knots, so many that they span ``count`` functions."""
    from scipy.interpolate import BSpline

    degree = min(DEGREE, count - 1)
    knots = np.concatenate([np.zeros(degree), np.linspace(0.0, 1.0, count - degree + 1), np.ones(degree)])
    return np.asarray(BSpline.design_matrix(unit, knots, degree).toarray())


def _wavelets(unit: Array) -> Array:
    """Return a constant, and steps between the halves of ever shorter intervals, until each time is told apart."""
    columns, level = [np.ones(len(unit))], 0
    while 2**level <= FINEST * len(unit):
        place = np.minimum((unit * 2**level).astype(np.int64), 2**level - 1)
        later = np.where(unit * 2**level - place >= 0.5, 1.0, -1.0)
        columns += [np.where(place == one, later, 0.0) for one in np.unique(place)]
        level += 1
    return np.column_stack(columns)


@dataclass(frozen=True, eq=False, repr=False)
class CurveModel:
    """The mean and the covariance of coefficients, and the variance of the errors."""

    functions: Array  # (times, coefficients)
    mean: Array  # μ
    covariance: Array  # Σ
    error: float  # σ²

    @classmethod
    def fit(cls, cells: Array, functions: Array) -> CurveModel:
        """Fit the parameters to observed cells, (people, times) with NaN where nothing was observed."""
        seen = ~np.isnan(cells)
        if not seen.any():
            return cls(functions, np.zeros(functions.shape[1]), np.zeros((functions.shape[1],) * 2), 0.0)
        spread = float(np.nanvar(cells))
        level = np.full(len(functions), float(np.nanmean(cells)))
        least = LEAST_ERROR * spread + np.finfo(float).tiny
        model = cls(
            functions, np.linalg.lstsq(functions, level)[0], spread * np.eye(functions.shape[1]), spread + least
        )
        for _ in range(ROUNDS):
            found = model.coefficients(cells)
            gaps = np.where(seen, cells - found.mean @ functions.T, 0.0)
            doubt = np.einsum("pjk,tj,tk->pt", found.uncertainty, functions, functions, optimize=True)
            total = float((gaps**2).sum() + (doubt[found.pattern] * seen).sum())
            mean = found.mean.mean(axis=0)
            apart = found.mean - mean
            covariance = (apart.T @ apart + np.tensordot(found.people, found.uncertainty, axes=1)) / len(cells)
            before, error = model.error, max(total / seen.sum(), least)
            model = cls(functions, mean, covariance, error)
            if abs(error - before) <= CONVERGED * before:
                break
        return model

    def coefficients(self, cells: Array) -> CurveCoefficients:
        """Return the coefficients of each person, given what was observed."""
        seen = ~np.isnan(cells)
        patterns, pattern = np.unique(seen, axis=0, return_inverse=True)
        width = self.functions.shape[1]
        squares = (self.functions[:, :, None] * self.functions[:, None, :]).reshape(len(self.functions), -1)
        information = (patterns.astype(np.float64) @ squares).reshape(-1, width, width)
        # Σ (Σ S + σ² I)⁻¹ with the information S of a pattern: no inverse of Σ, which may be singular
        gain = np.linalg.solve(
            information @ self.covariance + max(self.error, np.finfo(float).tiny) * np.eye(width),
            np.broadcast_to(np.eye(width), information.shape),
        )
        gain = self.covariance @ gain
        score = np.where(seen, cells - self.mean @ self.functions.T, 0.0) @ self.functions
        place = pattern.reshape(-1)
        mean = self.mean + np.einsum("pjk,pk->pj", gain[place], score)
        people = np.bincount(place, minlength=len(patterns)).astype(np.float64)
        return CurveCoefficients(mean, np.asarray(self.error * gain), place, people)


@dataclass(frozen=True, eq=False, repr=False)
class CurveCoefficients:
    """What is known of the coefficients of each person: mean, and covariance by the times at which it was observed."""

    mean: Array  # (people, coefficients)
    uncertainty: Array  # (patterns, coefficients, coefficients)
    pattern: NDArray[np.int64]  # (people,)
    people: Array  # (patterns,)

    def draw(self, generator: np.random.Generator) -> Array:
        """Draw coefficients that vary as much between people as those of the curves, which their means do not."""
        values, vectors = np.linalg.eigh((self.uncertainty + self.uncertainty.transpose(0, 2, 1)) / 2.0)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        normal = generator.standard_normal(self.mean.shape)
        return np.asarray(self.mean + np.einsum("pjk,pk->pj", root[self.pattern], normal))
