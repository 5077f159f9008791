"""The anonymity budget: the largest number of combinations that hides everyone among k."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from sfumato.errors import OptionError
from sfumato.risk.anonymity_budget import anonymity_budget

populations = st.integers(1, 10**9)
betas = st.floats(1e-6, 0.999)


@st.composite
def requests(draw):
    population = draw(populations)
    return population, draw(st.integers(1, min(population, 10**5))), draw(betas)


@given(requests())
def test_the_exact_budget_holds_and_one_combination_more_does_not(request):
    population, k, beta = request
    budget = anonymity_budget(population, k, beta).exact
    # scipy.stats takes another road to the same tail; its last digits differ
    assert binom.cdf(k - 1, population, 1.0 / budget) <= beta * (1 + 1e-6) or budget == 1
    assert binom.cdf(k - 1, population, 1.0 / (budget + 1)) > beta * (1 - 1e-6)


@given(requests())
def test_chernoff_never_allows_more_than_the_exact_tail(request):
    budget = anonymity_budget(*request)
    assert 1 <= budget.chernoff <= budget.exact


def test_chernoff_is_the_formula_of_the_paper():
    population, k, beta = 3e8, 100, 0.1
    x = -np.log(beta) / (k - 1)
    printed = population / (k - 1) * (1 + x - np.sqrt(x**2 + 2 * x))
    assert anonymity_budget(population, k, beta).chernoff == int(printed)


@given(st.integers(20, 400), st.integers(1, 8), st.floats(0.02, 0.5), st.integers(0, 2**32 - 1))
def test_the_budget_for_any_distribution_holds_for_any_distribution(population, k, beta, seed):
    budget = anonymity_budget(population, k, beta).any_distribution
    rng = np.random.default_rng(seed)
    for shape in (0.05, 0.5, 5.0):
        p = rng.dirichlet(np.full(budget, shape))
        assert (p * binom.cdf(k - 1, population, p)).sum() <= beta + 1e-9


def test_the_budget_for_any_distribution_cannot_be_much_larger():
    population, k, beta = 100_000, 20, 0.1
    budget = anonymity_budget(population, k, beta).any_distribution
    cells = int(budget * 1.05)
    p = np.linspace(1e-6, 3 * k / population, 4000)
    worst = p[np.argmax(p * binom.cdf(k - 1, population, p))]
    assert cells * worst < 1.0  # so many cells of the worst size fit beside one large cell
    assert cells * worst * binom.cdf(k - 1, population, worst) > beta


@pytest.mark.parametrize(
    "wrong",
    [
        {"population": 0},
        {"population": 2.5},
        {"population": float("inf")},
        {"population": "many"},
        {"k": 0},
        {"k": 2.5},
        {"k": 1001},
        {"beta": 0.0},
        {"beta": 1.0},
        {"beta": float("nan")},
    ],
)
def test_a_request_out_of_range_is_refused(wrong):
    with pytest.raises(OptionError):
        anonymity_budget(**({"population": 1000, "k": 5, "beta": 0.1} | wrong))
