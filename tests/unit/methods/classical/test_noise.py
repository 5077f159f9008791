"""Additive noise: its variance, its covariance, and Kim's correction."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.memory import MemorySurvey
from sfumato.errors import OptionError
from sfumato.methods.classical.noise import Noise
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

ROWS = 20_000
WIDE = (-1e9, 1e9)


@pytest.fixture(scope="module")
def pair():
    draw = np.random.default_rng(0)
    first = draw.normal(size=ROWS)
    return Table.from_arrow(pa.table({"x": first + 5, "y": 3 * (0.8 * first + 0.6 * draw.normal(size=ROWS))}))


def masked(method, table):
    schema = Schema(tuple(Column(name=name, role=Role.QUASI, domain=WIDE) for name in table.names))
    outcome = method.plan(MemorySurvey(table), schema, Randomness(3)).transform(table, 0)
    return outcome.released.matrix(table.names), table.matrix(table.names)[outcome.origin]


@pytest.mark.parametrize("kind", ["correlated", "uncorrelated"])
@pytest.mark.parametrize("level", [0.1, 0.5])
def test_noise_has_the_asked_variance(pair, kind, level):
    after, before = masked(Noise(kind=kind, level=level, correct=False), pair)
    noise = after - before
    assert noise.var(axis=0) == pytest.approx(level * before.var(axis=0), rel=0.05)
    correlation = np.corrcoef(noise.T)[0, 1]
    assert correlation == pytest.approx(0.8 if kind == "correlated" else 0.0, abs=0.03)


def test_the_correction_gives_back_mean_and_covariance(pair):
    after, before = masked(Noise(level=0.5), pair)
    assert after.mean(axis=0) == pytest.approx(before.mean(axis=0), abs=0.05)
    assert np.cov(after.T) == pytest.approx(np.cov(before.T), rel=0.05)
    # control: without it the covariance has grown by half
    plain, _ = masked(Noise(level=0.5, correct=False), pair)
    assert np.cov(plain.T) == pytest.approx(1.5 * np.cov(before.T), rel=0.05)


def test_each_released_row_stands_for_its_original(pair):
    after, before = masked(Noise(level=0.01), pair)
    assert np.corrcoef(after[:, 0], before[:, 0])[0, 1] > 0.99


@pytest.mark.parametrize("option", [{"level": 0.0}, {"level": "much"}, {"kind": "white"}])
def test_options_are_checked(option):
    with pytest.raises(OptionError, match=next(iter(option))):
        Noise(**option)
