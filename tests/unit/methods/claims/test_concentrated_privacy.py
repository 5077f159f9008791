"""zCDP: conversions that are true bounds, tight, and each other's inverse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.plan.claims.concentrated_privacy import delta_of, epsilon_of, rho_of


def true_delta_of_gaussian(rho: float, epsilon: float) -> float:
    """Return the exact δ of Gaussian noise of ρ (Balle and Wang 2018), which is ρ-zCDP with equality."""
    from scipy.stats import norm

    mu = math.sqrt(2.0 * rho)
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))


@pytest.mark.parametrize("rho", [1e-4, 0.0243, 0.3, 2.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_the_delta_covers_the_gaussian_and_no_smaller_alpha_does_better(rho, epsilon):
    delta = delta_of(rho, epsilon)
    assert true_delta_of_gaussian(rho, epsilon) <= delta
    alphas = 1.0 + np.geomspace(1e-3, 1e5, 4000)
    exponents = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
    assert delta <= min(1.0, float(np.exp(np.minimum(exponents, 0.0).min()))) * 1.001


def test_a_bound_that_is_too_small_would_be_noticed():
    """The control: half of the δ does not cover the Gaussian everywhere that the whole does."""
    gaps = [true_delta_of_gaussian(rho, 1.0) / delta_of(rho, 1.0) for rho in (0.05, 0.3, 2.0)]
    assert max(gaps) > 0.5


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3)])
def test_conversions_are_each_other_s_inverse_and_round_to_the_safe_side(epsilon, delta):
    rho = rho_of(epsilon, delta)
    assert delta_of(rho, epsilon) <= delta
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert delta_of(rho, epsilon_of(rho, delta)) <= delta
    assert delta_of(rho * 1.001, epsilon) > delta


def test_nothing_measured_costs_nothing():
    assert delta_of(0.0, 1.0) == 0.0
    assert epsilon_of(0.0, 1e-6) == 0.0
