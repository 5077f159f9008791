"""From value and gradient to everything the papers need: how much each record moves a statistic.

For C = g(E, S) with gradient (g_E, G), for every statistic alike (XK §II, XF §II):

- ∂C/∂x_i of a record with weight share w is w · b_i(x), with b(x) = g_E + 2 G (x − E);
- the sensitivity is a_i(x) = |b_i(x)|;
- the influence function is IF(x) = g_E·(x−E) + (x−E)ᵀG(x−E) − tr(G S);
- the sampling error of M records is A/√M with A = sqrt(Σ w IF²): σ for a mean.
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
    """b(x) at each row of ``points`` (whose columns are the statistic's): (N, n), in units of C per unit of x."""
    gradient = statistic.gradient(moments)
    slopes: NDArray[np.float64] = gradient.mean + 2.0 * (points - moments.mean) @ gradient.covariance
    return slopes


def sensitivities(statistic: Statistic, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """a(x) = |b(x)| at each row of ``points``."""
    return np.abs(derivatives(statistic, moments, points))


def combined_sensitivities(
    statistics: Sequence[Statistic],
    shares: Sequence[float],
    columns: Sequence[str],
    moments: Moments,
    points: NDArray[np.float64],
) -> NDArray[np.float64]:
    """a_i(x) = Σ_C share_C · a_i^C(x) for several statistics (XF §IV), share_C = p_C / Δ0_C.

    ``moments`` and ``points`` are of ``columns``; a statistic leaves the columns that it does not name alone.
    """
    if len(statistics) != len(shares):
        raise StatisticError("There must be one share a statistic.", found=f"{len(shares)} for {len(statistics)}")
    position = {name: number for number, name in enumerate(columns)}
    total = np.zeros(points.shape)
    for statistic, share in zip(statistics, shares, strict=True):
        chosen = [position[name] for name in statistic.columns]
        total[:, chosen] += share * sensitivities(statistic, moments.select(chosen), points[:, chosen])
    return total


def influence(statistic: Statistic, moments: Moments, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """IF(x) at each row of ``points``; its weighted mean over the records themselves is 0."""
    gradient = statistic.gradient(moments)
    centred = points - moments.mean
    quadratic = np.einsum("pi,ij,pj->p", centred, gradient.covariance, centred, optimize=True)
    constant = float(np.sum(gradient.covariance * moments.covariance))
    effect: NDArray[np.float64] = centred @ gradient.mean + quadratic - constant
    return effect


def sampling_constant(statistic: Statistic, points: NDArray[np.float64], weights: ArrayLike | None = None) -> float:
    """A of the sampling error A/√M (XK §III), from the records themselves (or the midpoints of their boxes)."""
    moments = Moments.of(points, weights)
    if moments.weight == 0.0:
        return math.nan
    row_weight = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)
    present = ~(np.isnan(points).any(axis=1) | np.isnan(row_weight))
    effect = influence(statistic, moments, points[present])
    return math.sqrt(float(row_weight[present] @ effect**2) / moments.weight)
