"""Noise for differential privacy: exact distributions, the budget of a scale, and bits that no seed determines."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.errors import OptionError
from sfumato.methods.discrete_noise import (
    choose_exponentially,
    draw_below,
    draw_discrete_gaussian,
    draw_discrete_laplace,
    gaussian_scale,
)

DRAWS = 40_000
SURE = 1e-6  # how seldom a right sampler fails a test of fit


def fixed_bytes(seed: int):
    """Return a source of bytes that a test can repeat; the library itself only reads the system's."""
    return np.random.default_rng(seed).bytes


def improbable(draws: np.ndarray, weight) -> float:
    """Return the p-value of Pearson's test of the draws against probabilities proportional to the weights."""
    reach = int(np.abs(draws).max()) + 400
    values = np.arange(-reach, reach + 1)
    probabilities = np.array([weight(int(value)) for value in values])
    expected = probabilities / probabilities.sum() * len(draws)
    seen = np.bincount(draws + reach, minlength=len(values))
    enough = expected >= 5.0
    expected = np.append(expected[enough], expected[~enough].sum())
    seen = np.append(seen[enough], seen[~enough].sum())
    statistic = float(((seen - expected) ** 2 / np.maximum(expected, 1e-300)).sum())
    return float(chi2.sf(statistic, len(seen) - 1))


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(37, 8), Fraction(2047, 1024), Fraction(40)])
@pytest.mark.parametrize("at_once", [DRAWS, 2000])  # few numbers are drawn in another order than many
def test_the_discrete_gaussian_has_its_distribution(sigma, at_once):
    source = fixed_bytes(1)
    draws = np.concatenate([draw_discrete_gaussian(sigma, at_once, entropy=source) for _ in range(DRAWS // at_once)])
    assert improbable(draws, lambda x: math.exp(-(x**2) / (2.0 * float(sigma) ** 2))) > SURE
    wrong = float(sigma) * 1.1  # the control: a scale that is off by a tenth is found
    assert improbable(draws, lambda x: math.exp(-(x**2) / (2.0 * wrong**2))) < SURE


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(20)])
def test_the_discrete_laplace_has_its_distribution(scale):
    draws = draw_discrete_laplace(scale, DRAWS, entropy=fixed_bytes(2))
    assert improbable(draws, lambda x: math.exp(-abs(x) / float(scale))) > SURE
    assert improbable(draws, lambda x: math.exp(-abs(x) / (1.1 * float(scale)))) < SURE


def test_a_choice_has_the_odds_of_the_exponential_mechanism():
    scores, epsilon, source = np.array([0, 3, 5]), Fraction(1, 2), fixed_bytes(3)
    chosen = np.bincount([choose_exponentially(scores, epsilon=epsilon, entropy=source) for _ in range(3000)])
    odds = np.exp(0.25 * scores)
    expected = odds / odds.sum() * 3000
    assert chi2.sf(((chosen - expected) ** 2 / expected).sum(), 2) > SURE
    doubled = np.exp(0.5 * scores)
    expected = doubled / doubled.sum() * 3000
    assert chi2.sf(((chosen - expected) ** 2 / expected).sum(), 2) < SURE


@pytest.mark.parametrize("limit", [1, 2, 3, 255, 257, 70_000, 2**33 + 1, 2**62])
def test_uniform_numbers_stay_below_their_limit_and_reach_both_halves(limit):
    draws = draw_below(limit, 500, entropy=fixed_bytes(4))
    assert draws.min() >= 0
    assert draws.max() < limit
    assert limit == 1 or ((draws < (limit + 1) // 2).any() and (draws >= limit // 2).any())


@pytest.mark.parametrize("rho", [1e-9, 1e-4, 0.0243, 0.5, 3.0, 1000.0])
@pytest.mark.parametrize("squared", [1, 2, 5, 10_001])
def test_a_scale_pays_for_its_budget_exactly(rho, squared):
    sigma = gaussian_scale(squared_sensitivity=squared, rho=rho)
    assert Fraction(squared) / (2 * sigma**2) <= Fraction(rho)
    assert float(sigma) <= 1.01 * math.sqrt(squared / (2 * rho)) + 1 / 1024  # and wastes little


def test_scales_that_would_overflow_are_refused():
    with pytest.raises(OptionError, match="scale"):
        draw_discrete_gaussian(Fraction(2**23), 1)
    with pytest.raises(OptionError, match="scale"):
        draw_discrete_gaussian(Fraction(0), 1)
    with pytest.raises(OptionError, match="positive"):
        gaussian_scale(squared_sensitivity=1, rho=0.0)


def test_no_seed_of_numpy_or_python_determines_the_noise():
    import random

    draws = []
    for _ in range(2):
        np.random.seed(0)
        random.seed(0)
        draws.append(draw_discrete_gaussian(Fraction(1000), 20))
    assert not np.array_equal(*draws)
