"""Weighted means and covariances, merged over parts, and how much each record changes a function of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StatisticError

CHUNK = 1 << 15  # number of rows of a few columns that fit into the cache of a processor
NEARLY_CONSTANT = 1e-24  # variance ÷ mean² that can be due to rounding


def infinite_squares() -> StatisticError:
    """Return the error for numbers whose squares are too large for a float."""
    return StatisticError(
        "Moments need finite numbers with finite squares.",
        found="a number that is infinite or too large",
        fix="make infinite cells missing, or express the column in a larger unit",
    )


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean vector and population covariance (divided by the total weight, as in XK and XF) of some columns.

    ``weight`` is the total weight, or the number of records if there are no weights. ``records`` counts the rows
    without a missing cell. If the total weight is zero, mean and covariance are NaN.
    """

    weight: float
    mean: NDArray[np.float64]  # (n,)
    covariance: NDArray[np.float64]  # (n, n), symmetric
    records: int
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the names and the number of records only: the mean of one record would reveal it."""
        return f"Moments({', '.join(self.names) or f'{len(self.mean)} columns'}; {self.records:,} records)"

    @classmethod
    def of(cls, matrix: ArrayLike, weights: ArrayLike | None = None, *, names: Sequence[str] = ()) -> Moments:
        """Compute the moments of the rows of a matrix; rows with NaN in any column or in the weight are left out."""
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2:
            raise StatisticError("Moments need a matrix with one row per record.", found=f"{rows.ndim} dimensions")
        row_weight = _check_weights(weights, len(rows))
        total = cls.empty(rows.shape[1], names=names)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            part_weight = None if row_weight is None else row_weight[start : start + CHUNK]
            total = total.merge(_moments_of_chunk(part, part_weight, total.names))
        if total.weight > 0.0 and not (np.isfinite(total.mean).all() and np.isfinite(total.covariance).all()):
            raise infinite_squares()
        return total

    @classmethod
    def empty(cls, columns: int, *, names: Sequence[str] = ()) -> Moments:
        """Return the moments of no record; merging them changes nothing."""
        return cls(0.0, np.full(columns, np.nan), np.full((columns, columns), np.nan), 0, tuple(names))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of records together (Chan, Golub and LeVeque); associative up to rounding."""
        if self.mean.shape != other.mean.shape or (self.names and other.names and self.names != other.names):
            raise StatisticError("Only moments of the same columns can be merged.")
        names, records = self.names or other.names, self.records + other.records
        if self.weight == 0.0 or other.weight == 0.0:
            present_moments = self if other.weight == 0.0 else other
            return Moments(present_moments.weight, present_moments.mean, present_moments.covariance, records, names)
        weight = self.weight + other.weight
        share = other.weight / weight
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            between = share * (1.0 - share) * np.outer(step, step)
            covariance = (1.0 - share) * self.covariance + share * other.covariance + between
            return Moments(weight, self.mean + share * step, covariance, records, names)

    def select(self, positions: Sequence[int]) -> Moments:
        """Return the moments of some of the columns, in this order."""
        chosen = list(positions)
        names = tuple(self.names[position] for position in chosen) if self.names else ()
        return Moments(self.weight, self.mean[chosen], self.covariance[np.ix_(chosen, chosen)], self.records, names)

    @property
    def sd(self) -> NDArray[np.float64]:
        """Standard deviations of the columns."""
        deviations: NDArray[np.float64] = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return deviations


def _check_weights(weights: Any, rows: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    row_weight = np.asarray(weights, dtype=np.float64)
    if row_weight.shape != (rows,):
        raise StatisticError(
            "There must be one weight per record.", found=f"{row_weight.size} weights for {rows} records"
        )
    if (row_weight < 0.0).any() or np.isinf(row_weight).any():
        raise StatisticError("Weights must be finite and not negative.", fix="check the weight column")
    return row_weight


def _moments_of_chunk(
    rows: NDArray[np.float64], weights: NDArray[np.float64] | None, names: tuple[str, ...]
) -> Moments:
    """Compute moments in two passes over rows that are in the cache: first the mean, then squares about it."""
    columns = np.ascontiguousarray(rows.T)  # sums along contiguous numbers are faster, most of all in a single column
    present = ~np.isnan(columns).any(axis=0)
    if weights is not None:
        present &= ~np.isnan(weights)
    kept = columns if present.all() else columns[:, present]
    row_weight = np.ones(kept.shape[1]) if weights is None else weights[present]
    total = float(row_weight.sum())
    if total == 0.0:
        empty = Moments.empty(len(columns), names=names)
        return Moments(0.0, empty.mean, empty.covariance, kept.shape[1], names)
    share = row_weight / total
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (share * kept).sum(axis=1)
        centred = kept - mean[:, None]
        shared = share * centred
        residue = shared.sum(axis=1)  # rounding error of the mean
        products = shared @ centred.T if len(columns) > 1 else (shared * centred).sum(axis=1)[:, None]
        covariance = products - np.outer(residue, residue)
        mean, covariance = mean + residue, (covariance + covariance.T) / 2.0
        for column in np.flatnonzero(np.diag(covariance) <= NEARLY_CONSTANT * mean**2):
            if (kept[column] == kept[column, 0]).all():  # the spread of equal numbers is 0, not a rounding error
                mean[column], covariance[column], covariance[:, column] = kept[column, 0], 0.0, 0.0
        return Moments(total, mean, covariance, kept.shape[1], names)


def pairwise_covariance(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the population covariances of the columns; NaN is missing, and 0 stands for pairs without common rows."""
    present = ~np.isnan(matrix)
    counts = present.sum(axis=0)
    mean = np.where(present, matrix, 0.0).sum(axis=0) / np.maximum(counts, 1)
    centred = np.where(present, matrix - mean, 0.0)
    if present.all():
        return np.asarray(centred.T @ centred / max(1, len(matrix)))
    both = present.T.astype(np.float64) @ present
    rows = np.maximum(both, 1.0)
    means = centred.T @ present / rows  # of each column (rows) over the rows that have the other one (columns)
    return np.asarray(centred.T @ centred / rows - means * means.T)


# How much each record changes a statistic, computed from the value and the gradient of the statistic.
#
# For C = g(E, S) with gradient (g_E, G), for every statistic (XK §II, XF §II):
#
# - ∂C/∂x_i of a record with weight share w is w · b_i(x), with b(x) = g_E + 2 G (x − E);
# - the sensitivity is a_i(x) = |b_i(x)|;
# - the influence function is IF(x) = g_E·(x−E) + (x−E)ᵀG(x−E) − tr(G S);
# - the sampling error of M records is A/√M with A = sqrt(Σ w IF²), which is σ for a mean.


@dataclass(frozen=True, eq=False, repr=False)
class Gradient:
    """The gradient of a statistic g(E, S): dg = mean · dE + Σᵢⱼ covariance_ij dS_ij, with a symmetric covariance."""

    mean: NDArray[np.float64]  # (n,)
    covariance: NDArray[np.float64]  # (n, n)

    @classmethod
    def zero(cls, columns: int) -> Gradient:
        """Return the gradient of a statistic that does not change."""
        return cls(np.zeros(columns), np.zeros((columns, columns)))


class Differentiable(Protocol):
    """A function of mean and covariance that has a gradient, such as a statistic."""

    def gradient(self, moments: Moments) -> Gradient:
        """Return the derivatives with respect to mean and covariance."""


def derivatives(statistic: Differentiable, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute b(x) at each row of ``points``, in units of C per unit of x; shape (N, n).

    The columns of ``points`` are those of the statistic.
    """
    gradient = statistic.gradient(moments)
    slopes: NDArray[np.float64] = gradient.mean + 2.0 * (points - moments.mean) @ gradient.covariance
    return slopes


def sensitivities(statistic: Differentiable, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute a(x) = |b(x)| at each row of ``points``."""
    return np.abs(derivatives(statistic, moments, points))


def influence(statistic: Differentiable, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute IF(x) at each row of ``points``; its weighted mean over the records themselves is 0."""
    gradient = statistic.gradient(moments)
    centred = points - moments.mean
    quadratic = np.einsum("pi,ij,pj->p", centred, gradient.covariance, centred, optimize=True)
    constant = float(np.sum(gradient.covariance * moments.covariance))
    influences: NDArray[np.float64] = centred @ gradient.mean + quadratic - constant
    return influences


def sampling_constant(
    statistic: Differentiable, points: NDArray[np.float64], weights: ArrayLike | None = None
) -> float:
    """Compute A of the sampling error A/√M (XK §III), from the records or the midpoints of their boxes."""
    moments = Moments.of(points, weights)
    if moments.weight == 0.0:
        return math.nan
    row_weight = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)
    present = ~(np.isnan(points).any(axis=1) | np.isnan(row_weight))
    influences = influence(statistic, moments, points[present])
    return math.sqrt(float(row_weight[present] @ influences**2) / moments.weight)
