"""Differential privacy from random sampling (Li, Qardaji and Su 2012; SafePub: Bild, Kuhn and Prasser 2018).

Keep each row with probability β, generalize by a scheme that does not depend on the data, and suppress every group of
fewer than k rows. The release is (ε, δ)-differentially private for every ε ≥ −ln(1 − β), with

    γ = (e^ε − 1 + β) / e^ε,    δ = max over n ≥ ⌈k/γ − 1⌉ of P[Bin(n, β) > γ·n].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-9  # by which γ·n may be rounded up; a smaller γ·n only gives a larger δ
SMALLEST_SHARE = 1e-9  # of the rows that is left out; with less, the sums below are not exact
MOST = 20_000_000  # largest n that is tried


@dataclass(frozen=True, kw_only=True)
class SamplingParameters:
    """The probability that a row is kept, and the smallest group that is released."""

    beta: float
    k: int
    delta: float  # reached with this k; at most what was asked for


def sampling_parameters(epsilon: float, delta: float) -> SamplingParameters:
    """Return the largest sampling probability and the smallest k for (ε, δ)-differential privacy.

    Examples
    --------
    >>> parameters = sampling_parameters(1.0, 1e-4)
    >>> round(parameters.beta, 4), parameters.k
    (0.6321, 47)
    """
    beta = -math.expm1(-epsilon)
    if beta > 1.0 - SMALLEST_SHARE:
        raise OptionError(
            "epsilon must be small enough for some rows to be left out.",
            found=f"epsilon {epsilon:g}, with which nearly every row would be kept",
            fix="epsilon between 0.1 and 5",
        )
    tails = _tails(epsilon, beta, least=delta)
    worst = np.maximum.accumulate(tails[::-1])[::-1]  # of all n from this one on
    first = int(np.argmax(worst <= delta)) if worst[-1] <= delta else len(worst)
    gamma = _gamma(epsilon, beta)
    k = max(1, math.floor((first + 1) * gamma))
    while _first(k, gamma) < first:
        k += 1
    while k > 1 and _first(k - 1, gamma) >= first:
        k -= 1
    start = min(_first(k, gamma), len(worst) - 1)
    return SamplingParameters(beta=beta, k=k, delta=float(worst[start]))


def sampling_delta(k: int, beta: float, epsilon: float) -> float:
    """Return the δ that sampling with probability β and groups of at least k rows reaches for this ε; 1 if none."""
    if beta >= 1.0 or epsilon < -math.log1p(-beta) * (1.0 - 1e-12):
        return 1.0
    first, least = _first(k, _gamma(epsilon, beta)), 1e-3
    while True:  # the tail of all larger n is below ``least``, so more of them are needed if none was larger
        tails = _tails(epsilon, beta, least=least)
        delta = float(tails[first:].max(initial=0.0))
        if delta >= least or least < 1e-250:
            return delta
        least *= 1e-3


def _gamma(epsilon: float, beta: float) -> float:
    return (math.expm1(epsilon) + beta) / math.exp(epsilon)


def _first(k: int, gamma: float) -> int:
    return max(0, math.ceil(k / gamma - 1.0 - ROUNDING))


def _tails(epsilon: float, beta: float, *, least: float) -> NDArray[np.float64]:
    """Return P[Bin(n, β) > γ·n] for n = 0, 1, …, until Chernoff's bound e^(−n(γ ln(γ/β) − γ + β)) is ``least``."""
    from scipy.special import betainc

    gamma = _gamma(epsilon, beta)
    rate = gamma * math.log(gamma / beta) - (gamma - beta)
    most = -math.log(least) / rate
    if not most < MOST:
        raise OptionError(
            "epsilon must be large enough for a group of rows to be released.",
            found=f"epsilon {epsilon:g}, which needs groups of millions of rows",
            fix="a larger epsilon or delta",
        )
    n = np.arange(math.ceil(most) + 2, dtype=np.float64)
    above = np.floor(gamma * n - ROUNDING) + 1.0  # P[X ≥ above] is an incomplete beta function
    above = np.maximum(above, 1.0)
    inside = above <= n
    tails = np.zeros(len(n))
    tails[inside] = betainc(above[inside], n[inside] - above[inside] + 1.0, beta)
    return tails
