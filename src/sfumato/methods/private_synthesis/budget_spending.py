"""Spend a budget of zCDP on measurements: every number about the people passes through here, and nothing else does.

All counts are sums of whole numbers of rows. One person has at most m rows, so that she changes a table of counts by at
most m in Euclidean length (all her rows may be in one cell), and the sum of distances of a table from fixed counts by
at most m. A noisy table with discrete Gaussian noise of standard deviation σ costs m² ÷ 2σ², a choice by the
exponential mechanism costs ε² ÷ 8. What is spent is added as fractions, without rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.discrete_noise import NoisyNumbers, choose_exponentially, measure
from sfumato.plan.plan import FAULT

if TYPE_CHECKING:
    from numpy.typing import NDArray

STEPS = 2**20  # ε of a choice is a multiple of 1 ÷ STEPS
UNITS = 16  # scores count sixteenths of rows


def choice_epsilon(rho: float) -> Fraction:
    """Return the largest ε of a choice whose cost ε² ÷ 8 is at most ρ."""
    return Fraction(math.isqrt(int(8 * Fraction(rho) * STEPS**2)), STEPS)


@dataclass(repr=False)
class Spending:
    """What is left of a budget ρ. Measurements are refused when it is spent."""

    rho: Fraction
    rows_per_person: int = 1
    spent: Fraction = field(default=Fraction(0), init=False)

    @property
    def left(self) -> float:
        """The rest of the budget, rounded down."""
        return max(0.0, math.nextafter(float(self.rho - self.spent), 0.0))

    def measure(self, counts: NDArray[np.int64], rho: float) -> NoisyNumbers:
        """Return whole counts of rows, each row in one cell at most, with noise that costs ρ."""
        self.spend(Fraction(rho))
        return measure(counts, squared_sensitivity=self.rows_per_person**2, rho=rho)

    def choose(
        self,
        counts: Sequence[NDArray[np.int64]],
        expected: Sequence[NDArray[np.float64]],
        allowances: Sequence[float],
        weights: Sequence[int],
        rho: float,
    ) -> int:
        """Choose a table whose counts are far from expected ones, at a cost of at most ρ.

        The score of a table is its weight · (Σ |count − expected| − allowance). What is expected and allowed does not
        depend on the people beyond earlier noisy answers. It is rounded to sixteenths of rows, so that scores are whole
        and a person changes one by at most 16 · weight · (her rows).
        """
        scores = [
            weight
            * (int(np.abs(UNITS * table - np.rint(UNITS * fitted).astype(np.int64)).sum()) - round(UNITS * allowed))
            for table, fitted, allowed, weight in zip(counts, expected, allowances, weights, strict=True)
        ]
        self.spend(Fraction(rho))
        epsilon = choice_epsilon(rho)
        if epsilon == 0:  # nothing to spend: the choice must not depend on the people
            scores = [0] * len(scores)
            epsilon = Fraction(1)
        sensitivity = UNITS * max(weights) * self.rows_per_person
        return choose_exponentially(np.array(scores, dtype=np.int64), epsilon=epsilon, sensitivity=sensitivity)

    def spend(self, cost: Fraction) -> None:
        """Take a cost off the budget, before the measurement; raise if it is more than what is left."""
        if self.spent + cost > self.rho:
            raise CannotRelease("No more than the whole budget may be spent.", found="a larger cost", fix=FAULT)
        self.spent += cost
