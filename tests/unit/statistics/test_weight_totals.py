"""Totals of sampling weights are exact to the last digits, however many rows share a group."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.table.groups import sum_groups

ROLES = {"x": "quasi", "g": "quasi", "h": "other", "w": "weight"}


def weights(kind: str, rows: int, generator: np.random.Generator) -> np.ndarray:
    if kind == "wide":
        return generator.lognormal(0.0, 3.0, rows)
    if kind == "cents":
        return np.round(generator.uniform(1.0, 100.0, rows), 2)
    return 1.0 + generator.uniform(0.0, 1e-9, rows)


@pytest.mark.parametrize("kind", ["wide", "cents", "nearly equal"])
@pytest.mark.parametrize(
    "method", [sf.Recode(k=5, suppress=0.0), sf.Boxes(k=5), sf.Boxes(k=5, sampling_weights="exact")]
)
def test_intervals_hold_the_exact_total(method: sf.Method, kind: str) -> None:
    for seed in range(6):
        generator = np.random.default_rng(seed)
        people = pd.DataFrame(
            {
                "x": generator.normal(50.0, 10.0, 2000).round(1),
                "g": generator.choice(list("abc"), 2000),
                "h": generator.choice(list("uv"), 2000),
                "w": weights(kind, 2000, generator),
            }
        )
        release = method.release(people, schema=ROLES)
        exact = [Fraction(weight) for weight in people.w]
        met = {
            "sum(w)": np.ones(2000, dtype=bool),
            "count(h = u)": people.h == "u",
            "count(x > 50)": people.x > 50,
            "count(g = a and x > 50)": (people.g == "a") & (people.x > 50),
        }
        for statistic, rows in met.items():
            truth = sum((weight for weight, counts in zip(exact, rows, strict=True) if counts), Fraction(0))
            estimate = release.estimate(statistic)
            assert Fraction(estimate.low) <= truth <= Fraction(estimate.high), statistic


def test_a_sum_is_rounded_once() -> None:
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.repeat(np.arange(5), [1, 2, 100, 1000, 20_000]))
    values = generator.lognormal(0.0, 20.0, len(labels))
    exact = [float(sum(map(Fraction, values[labels == one]))) for one in range(5)]
    assert sum_groups(values, labels).tolist() == exact
    assert np.bincount(labels, weights=values).tolist() != exact, "the control: NumPy rounds after every row"
    assert sum_groups(np.empty(0), np.empty(0, dtype=np.int64)).tolist() == []
