"""An audit of private synthesis: neighbouring tables, a lower bound of ε, and a planted fault that it must find."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

import sfumato as sf
from sfumato.methods.discrete_noise import NoisyNumbers

SCHEMA = {"x": {"role": "quasi", "domain": [0, 100]}, "g": "quasi"}
EPSILON, DELTA = 1.0, 1e-6


def neighbours() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return two tables that differ in one person, who is far from all others."""
    generator = np.random.default_rng(1)
    base = pd.DataFrame({"x": generator.uniform(0, 40, 100), "g": ["a", "b"] * 50})
    odd = pd.concat([base, pd.DataFrame({"x": [99.0], "g": ["c"]})], ignore_index=True)
    return tuple(one.assign(g=pd.Categorical(one.g, categories=list("abc"))) for one in (base, odd))


def lower_bound(seen: tuple[int, int], runs: int, confidence: float = 0.99) -> float:
    """Return an ε that such counts prove, by Clopper and Pearson's limits of both probabilities."""
    error = (1.0 - confidence) / 4.0
    low = [beta.ppf(error, one, runs - one + 1) if one else 0.0 for one in seen]
    high = [beta.ppf(1.0 - error, one + 1, runs - one) if one < runs else 1.0 for one in seen]
    bounds = [low[1] - DELTA, high[0]], [1.0 - high[0] - DELTA, 1.0 - low[1]]
    return max(float(np.log(max(top, 1e-12) / max(bottom, 1e-12))) for top, bottom in bounds)


def count_outliers(runs: int) -> tuple[int, int]:
    """Return how many releases of either table seem to have the odd person."""
    method = sf.PrivateSynthesis(epsilon=EPSILON, delta=DELTA)

    def seems_there(table: pd.DataFrame) -> bool:
        release = method.release(table, schema=SCHEMA)
        outliers, thirds = release.estimate("count(x > 90)").value, release.estimate('count(g = "c")').value
        return outliers + thirds > 1.0

    base, odd = neighbours()
    return sum(seems_there(base) for _ in range(runs)), sum(seems_there(odd) for _ in range(runs))


def test_one_person_is_hidden_as_epsilon_says():
    assert lower_bound(count_outliers(150), 150) <= EPSILON


def test_the_audit_finds_a_release_without_noise(monkeypatch):
    def forget_noise(numbers, *, squared_sensitivity, rho):
        return NoisyNumbers(numbers, 1.0)

    monkeypatch.setattr("sfumato.methods.private_synthesis.budget_spending.measure", forget_noise)
    assert lower_bound(count_outliers(40), 40) > EPSILON


@pytest.mark.parametrize(("seen", "proves"), [((0, 40), True), ((20, 20), False), ((12, 25), False)])
def test_the_bound_itself(seen, proves):
    assert (lower_bound(seen, 40) > EPSILON) == proves
