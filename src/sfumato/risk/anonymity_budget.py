"""The anonymity budget: how many combinations of values a release may contain so that everyone matches k people.

A population of n people is divided into D' cells, the combinations of released values. If the cells are equally likely,
the number of people in a cell is binomial, and the budget is the largest D' for which a cell contains at least k people
with probability 1 − β (LT Theorem 4). There are three versions:

- ``exact``: from the binomial tail;
- ``chernoff``: LT's formula, a lower bound of ``exact``;
- ``any_distribution``: for cells of any probabilities. A person falls into cell i with probability p_i and matches
  fewer than k people there with probability P[Bin(n, p_i) < k]. The expected share of people who match fewer than k is
  therefore at most D'·max_p p·P[Bin(n, p) < k], and the budget keeps this at β. It needs no assumption and is smaller.
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
    """The largest numbers of combinations that a release may contain, each at least 1 (one cell contains everybody).

    Attributes
    ----------
    population : int
        Number of people in the population.
    k : int
        Number of people that each person must match.
    beta : float
        Probability of matching fewer than ``k`` people.
    exact : int
        Budget for equally likely combinations, from the binomial tail.
    chernoff : int
        Budget for equally likely combinations, from the formula of Lodha and Thomas; at most ``exact``.
    any_distribution : int
        Budget that holds for every distribution of the combinations.
    count_error : float
        Share by which the population may be wrong.
    exact_interval, any_distribution_interval : tuple of int, or None
        The budgets if the population is so much smaller and larger: the first is the safe one. None without an error.
    """

    population: int
    k: int
    beta: float
    exact: int
    chernoff: int
    any_distribution: int
    count_error: float = 0.0
    exact_interval: tuple[int, int] | None = None
    any_distribution_interval: tuple[int, int] | None = None


def anonymity_budget(population: float, k: int, beta: float, *, count_error: float = 0.0) -> AnonymityBudget:
    """Compute how many combinations of values a release may contain.

    Each person then matches at least ``k`` of ``population`` people with probability 1 − ``beta`` (LT Theorem 4).

    Parameters
    ----------
    population : float
        Number of people in the population, a whole number of at least ``k``.
    k : int
        Number of people that each person must match, including the person, at least 1.
    beta : float
        Probability that a person matches fewer than ``k`` people, between 0 and 1.
    count_error : float, default 0.0
        Share, from 0 to below 1, by which the number of people may be wrong (LT §2: it is never known exactly).

    Returns
    -------
    AnonymityBudget
        Three budgets, in numbers of combinations: ``exact``, ``chernoff`` and ``any_distribution``.

    Examples
    --------
    >>> import sfumato as sf
    >>> budget = sf.anonymity_budget(population=3e8, k=100, beta=0.1)
    >>> budget.exact, budget.chernoff, budget.any_distribution
    (2654620, 2443425, 375310)

    If the census may have missed or invented 2 % of the people:

    >>> sf.anonymity_budget(population=3e8, k=100, beta=0.1, count_error=0.02).exact_interval
    (2601527, 2707712)
    """
    n = require_population(population)
    k = require_int(k, name="k", at_least=1)
    beta = require_probability(beta, name="beta")
    if k > n:
        raise OptionError("The population must have at least k people.", found=f"population {n:,}, k {k:,}")
    ends = population_ends(n, count_error, at_least=k)
    wrong = count_error > 0.0
    return AnonymityBudget(
        count_error=count_error,
        exact_interval=(_exact(ends[0], k, beta), _exact(ends[1], k, beta)) if wrong else None,
        any_distribution_interval=(
            (_any_distribution(ends[0], k, beta), _any_distribution(ends[1], k, beta)) if wrong else None
        ),
        population=n,
        k=k,
        beta=beta,
        exact=_exact(n, k, beta),
        chernoff=_chernoff(n, k, beta),
        any_distribution=_any_distribution(n, k, beta),
    )


def population_ends(people: int, count_error: float, *, at_least: int) -> tuple[int, int]:
    """Return the smallest and the largest number of people, if the count may be wrong by a share.

    Examples
    --------
    >>> population_ends(1000, 0.05, at_least=980)
    (980, 1050)
    """
    error = require_number(count_error, name="count_error", at_least=0.0)
    if error >= 1.0:
        raise OptionError("count_error must be a share from 0 to below 1.", found=f"{error:g}")
    return max(at_least, math.floor(people * (1.0 - error))), max(at_least, math.ceil(people * (1.0 + error)))


def require_population(value: Any) -> int:
    """Return the population as an integer; raise unless it is a whole number (3e8 is one) of at least 1."""
    number = require_number(value, name="population", at_least=1.0)
    if number != math.floor(number):
        raise OptionError("population must be a whole number of people.", found=f"{number:g}")
    return int(value)


def _exact(n: int, k: int, beta: float) -> int:
    """Return the largest integer D' with P[Bin(n, 1/D') ≥ k] ≥ 1 − β.

    The tail is the regularised incomplete beta function I_p(k, n − k + 1). SciPy's inverse of it is only a first guess,
    because for large k it can be wrong by several per cent. The bracket is widened until the condition holds at one end
    and fails at the other, and is then bisected over integers.
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
    """Return LT Theorem 4, D' = n/(k−1)·(1 + x − √(x² + 2x)), without its cancellation and its 0/0 at k = 1."""
    deviance = -math.log(beta)
    return max(1, math.floor(n / (k - 1 + deviance + math.sqrt(deviance * (deviance + 2 * (k - 1))))))


def _any_distribution(n: int, k: int, beta: float) -> int:
    """Return the largest D' with D'·max_p p·P[Bin(n, p) < k] ≤ β; the product has one maximum, close to p = k/n."""

    def share_short(log_p: float) -> float:
        return -math.exp(log_p) * _fewer_than(k, n, math.exp(log_p))

    around = math.log(k / n)
    worst = minimize_scalar(share_short, bounds=(around - 5.0, min(0.0, around + 2.0)), method="bounded")
    return max(1, math.floor(-beta / float(worst.fun)))


def _fewer_than(k: int, n: int, p: float) -> float:
    """Return P[Bin(n, p) < k]."""
    return float(betaincc(k, n - k + 1, p))
