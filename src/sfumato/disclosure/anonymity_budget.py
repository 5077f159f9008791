"""How many combinations of values a release may show so that everyone stays hidden among k of a population.

A population of n people falls into D' cells, the combinations of released values. With cells of equal probability the
number of people in a cell is binomial, and the budget is the largest D' for which a cell holds at least k of them with
probability 1 − β (LT Theorem 4). Three ways to bound it:

- ``exact``: the binomial tail itself;
- ``chernoff``: LT's formula, a lower bound of it;
- ``any_distribution``: cells of any probabilities whatever. A person falls into cell i with probability p_i and finds
  fewer than k there with probability P[Bin(n, p_i) < k], so the expected share of people who find fewer than k is at
  most D'·max_p p·P[Bin(n, p) < k]; the budget keeps that at β. It needs no assumption, and costs for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.optimize import minimize_scalar
from scipy.special import betaincc, betaincinv

from sfumato.errors import OptionError
from sfumato.params import require_int, require_number, require_probability


@dataclass(frozen=True, kw_only=True)
class AnonymityBudget:
    """The largest numbers of combinations that keep the promise, at least 1: one cell holds everybody."""

    population: int
    k: int
    beta: float
    exact: int
    chernoff: int
    any_distribution: int


def anonymity_budget(population: float, k: int, beta: float) -> AnonymityBudget:
    """The budget D'(n, k, β): each person matches at least k of ``population`` people with probability 1 − ``beta``."""
    n = require_population(population)
    k = require_int(k, name="k", at_least=1)
    beta = require_probability(beta, name="beta")
    if k > n:
        raise OptionError("The population must hold at least k people.", found=f"population {n:,}, k {k:,}")
    return AnonymityBudget(
        population=n,
        k=k,
        beta=beta,
        exact=_exact(n, k, beta),
        chernoff=_chernoff(n, k, beta),
        any_distribution=_any_distribution(n, k, beta),
    )


def require_population(value: Any) -> int:
    """A whole number of people, at least 1; 3e8 is a whole number too."""
    number = require_number(value, name="population", at_least=1.0)
    if number != math.floor(number):
        raise OptionError("population must be a whole number of people.", found=f"{number:g}")
    return int(value)


def _exact(n: int, k: int, beta: float) -> int:
    """Largest whole D' with P[Bin(n, 1/D') ≥ k] ≥ 1 − β.

    The tail is the regularised incomplete beta function I_p(k, n − k + 1). SciPy's inverse of it is only a first guess:
    for large k it can be wrong by several per cent. So the bracket is widened until the tail itself says that one end
    holds and the other fails, and then bisected over whole numbers.
    """
    guess = max(1, math.floor(1.0 / float(betaincinv(k, n - k + 1, 1.0 - beta))))
    holds, fails, step = guess, guess + 1, 1
    while holds > 1 and _fewer_than(k, n, 1.0 / holds) > beta:
        holds, fails, step = max(1, holds - step), holds, 2 * step
    step = 1
    while _fewer_than(k, n, 1.0 / fails) <= beta:
        holds, fails, step = fails, fails + step, 2 * step
    while fails - holds > 1:
        middle = (holds + fails) // 2
        if _fewer_than(k, n, 1.0 / middle) <= beta:
            holds = middle
        else:
            fails = middle
    return holds


def _chernoff(n: int, k: int, beta: float) -> int:
    """LT Theorem 4, D' = n/(k−1)·(1 + x − √(x² + 2x)), written without the cancellation and without 0/0 at k = 1."""
    deviance = -math.log(beta)
    return max(1, math.floor(n / (k - 1 + deviance + math.sqrt(deviance * (deviance + 2 * (k - 1))))))


def _any_distribution(n: int, k: int, beta: float) -> int:
    """Largest D' with D'·max_p p·P[Bin(n, p) < k] ≤ β; the product has one maximum, not far from p = k/n."""

    def share_short(log_p: float) -> float:
        return -math.exp(log_p) * _fewer_than(k, n, math.exp(log_p))

    around = math.log(k / n)
    found = minimize_scalar(share_short, bounds=(around - 5.0, min(0.0, around + 2.0)), method="bounded")
    return max(1, math.floor(-beta / float(found.fun)))


def _fewer_than(k: int, n: int, p: float) -> float:
    """P[Bin(n, p) < k]."""
    return float(betaincc(k, n - k + 1, p))
