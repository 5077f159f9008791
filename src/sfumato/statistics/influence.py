"""How much each record changes a statistic, computed from the value and the gradient of the statistic.

For C = g(E, S) with gradient (g_E, G), for every statistic (XK §II, XF §II):

- ∂C/∂x_i of a record with weight share w is w · b_i(x), with b(x) = g_E + 2 G (x − E);
- the sensitivity is a_i(x) = |b_i(x)|;
- the influence function is IF(x) = g_E·(x−E) + (x−E)ᵀG(x−E) − tr(G S);
- the sampling error of M records is A/√M with A = sqrt(Σ w IF²), which is σ for a mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def derivatives(statistic: Statistic, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute b(x) at each row of ``points``, in units of C per unit of x; shape (N, n).

    The columns of ``points`` are those of the statistic.
    """
    gradient = statistic.gradient(moments)
    slopes: NDArray[np.float64] = gradient.mean + 2.0 * (points - moments.mean) @ gradient.covariance
    return slopes


def sensitivities(statistic: Statistic, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute a(x) = |b(x)| at each row of ``points``."""
    return np.abs(derivatives(statistic, moments, points))


def combined_sensitivities(
    statistics: Sequence[Statistic],
    shares: Sequence[float],
    columns: Sequence[str],
    moments: Moments,
    points: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute a_i(x) = Σ_C share_C · a_i^C(x) for several statistics (XF §IV), with share_C = p_C / Δ0_C.

    ``moments`` and ``points`` belong to ``columns``; a statistic adds nothing for columns that it does not use.
    """
    if len(statistics) != len(shares):
        raise StatisticError("There must be one share per statistic.", found=f"{len(shares)} for {len(statistics)}")
    position = {name: number for number, name in enumerate(columns)}
    total = np.zeros(points.shape)
    for statistic, share in zip(statistics, shares, strict=True):
        chosen = [position[name] for name in statistic.columns]
        total[:, chosen] += share * sensitivities(statistic, moments.select(chosen), points[:, chosen])
    return total


def influence(statistic: Statistic, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute IF(x) at each row of ``points``; its weighted mean over the records themselves is 0."""
    gradient = statistic.gradient(moments)
    centred = points - moments.mean
    quadratic = np.einsum("pi,ij,pj->p", centred, gradient.covariance, centred, optimize=True)
    constant = float(np.sum(gradient.covariance * moments.covariance))
    influences: NDArray[np.float64] = centred @ gradient.mean + quadratic - constant
    return influences


def sampling_constant(statistic: Statistic, points: NDArray[np.float64], weights: ArrayLike | None = None) -> float:
    """Compute A of the sampling error A/√M (XK §III), from the records or the midpoints of their boxes."""
    moments = Moments.of(points, weights)
    if moments.weight == 0.0:
        return math.nan
    row_weight = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)
    present = ~(np.isnan(points).any(axis=1) | np.isnan(row_weight))
    influences = influence(statistic, moments, points[present])
    return math.sqrt(float(row_weight[present] @ influences**2) / moments.weight)
