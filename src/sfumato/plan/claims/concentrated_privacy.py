"""One currency for private measurements: zero-concentrated differential privacy (Bun and Steinke 2016), ρ-zCDP.

Budgets of measurements of the same people add up. What is said to a reader is (ε, δ), converted by the tightest known
bound (Canonne, Kamath and Steinke 2020, proposition 12): ρ-zCDP is (ε, δ)-differentially private with

    δ = min over α > 1 of e^((α − 1)(αρ − ε)) ÷ (α − 1) · (1 − 1/α)^α.

Every α gives a true bound, so that an α found in floating point loses nothing but tightness.
"""

from __future__ import annotations

import math

ROUNDS = 200  # halvings of an interval: more than the bits of a number


def delta_of(rho: float, epsilon: float) -> float:
    """Return a δ with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> f"{delta_of(0.05, 1.0):.1e}"
    '3.9e-04'
    """
    if rho <= 0.0:
        return 0.0
    low, high = 1.0 + 1e-12, (epsilon + 1.0) / (2.0 * rho) + 2.0
    for _ in range(ROUNDS):  # the derivative of the logarithm grows with α
        middle = (low + high) / 2.0
        if (2.0 * middle - 1.0) * rho - epsilon + math.log1p(-1.0 / middle) < 0.0:
            low = middle
        else:
            high = middle
    alpha = (low + high) / 2.0
    logarithm = (alpha - 1.0) * (alpha * rho - epsilon) + alpha * math.log1p(-1.0 / alpha) - math.log(alpha - 1.0)
    return min(1.0, math.exp(min(logarithm, 0.0)) * (1.0 + 1e-9))


def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ, rounded down, with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(rho_of(1.0, 1e-6), 5)
    0.02436
    """
    low, high = 0.0, epsilon + 1.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        if delta_of(middle, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """Return the smallest ε, rounded up, with which ρ-zCDP is (ε, δ)-differentially private.

    Examples
    --------
    >>> round(epsilon_of(rho_of(1.0, 1e-6), 1e-6), 9)
    1.0
    """
    if rho <= 0.0:
        return 0.0
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # Bun and Steinke, proposition 1.3
    for _ in range(ROUNDS):
        middle = (low + high) / 2.0
        if delta_of(rho, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def rho_of_pure(epsilon: float) -> float:
    """Return the ρ of a measurement that is ε-differentially private: ε²/2 (Bun and Steinke, proposition 1.4)."""
    return epsilon * epsilon / 2.0


def rho_of_choice(epsilon: float) -> float:
    """Return the ρ of a choice by the exponential mechanism with ε: ε²/8 (Cesar and Rogers 2021)."""
    return epsilon * epsilon / 8.0
