"""How much each record changes a statistic, computed from the value and the gradient of the statistic.

For C = g(E, S) with gradient (g_E, G), for every statistic (XK §II, XF §II):

- ∂C/∂x_i of a record with weight share w is w · b_i(x), with b(x) = g_E + 2 G (x − E);
- the sensitivity is a_i(x) = |b_i(x)|;
- the influence function is IF(x) = g_E·(x−E) + (x−E)ᵀG(x−E) − tr(G S);
- the sampling error of M records is A/√M with A = sqrt(Σ w IF²), which is σ for a mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


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
