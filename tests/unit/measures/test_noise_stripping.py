"""SVD noise stripping removes independent noise from correlated columns, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.measures.privacy.attacks.noise_stripping import strip_noise, without_noise
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

NAME = "noise stripped by SVD"


@pytest.fixture(scope="module")
def people():
    """Twelve columns that depend on three."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(2000, 3)) @ draw.normal(size=(3, 12)) + 0.1 * draw.normal(size=(2000, 12))
    return pd.DataFrame(rows, columns=[f"x{i}" for i in range(12)])


def score(method, people):
    table = Table.from_arrow(pa.Table.from_pandas(people))
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    outcome = method.plan(MemorySurvey(table), schema, Randomness(1)).transform(table, 0)
    return sf.assess(table, outcome.released, measures=["noise-stripping"], origin=outcome.origin, seed=1)[NAME]


@pytest.mark.parametrize("options", [{"level": 0.1}, {"level": 0.5}, {"level": 0.1, "correct": False}], ids=str)
def test_at_least_half_of_uncorrelated_noise_is_removed_and_little_of_correlated_noise(people, options):
    found = score(sf.Noise(kind="uncorrelated", **options), people)
    assert found.low > 0.5
    assert found.low <= found.value <= found.high
    for kind in ("correlated", "mixture"):
        assert score(sf.Noise(kind=kind, **options), people).value < 0.1


@pytest.mark.parametrize("method", [sf.Swap(kind="plain"), sf.Shuffle(), sf.SvdSwap()], ids=lambda one: one.name)
def test_cells_of_other_people_are_no_noise(people, method):
    assert score(method, people).value < 0.1


def test_columns_without_relations_hide_noise():
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(2000, 6))
    assert strip_noise(rows, rows + 0.3 * draw.normal(size=rows.shape), draw).share < 0.05


def test_the_guess_is_the_wiener_filter():
    """The decomposition gives x̄ + (x − x̄)(Σ − I)Σ⁻¹, if no component has less variance than the noise."""
    draw = np.random.default_rng(2)
    rows = draw.normal(size=(500, 4)) @ (3.0 * draw.normal(size=(4, 4))) + 5.0 * draw.normal(size=(500, 4))
    covariance = np.cov(rows.T, bias=True)
    assert np.linalg.eigvalsh(covariance).min() > 1.0
    expected = rows.mean(axis=0) + (rows - rows.mean(axis=0)) @ np.linalg.solve(covariance, covariance - np.eye(4))
    assert without_noise(rows, draw) == pytest.approx(expected)


def test_it_needs_two_altered_columns_and_some_rows():
    rows = np.random.default_rng(3).normal(size=(100, 3))
    draw = np.random.default_rng(4)
    assert strip_noise(rows, rows, draw) is None
    assert strip_noise(rows, rows + np.array([1.0, 0.0, 0.0]), draw) is None
    assert strip_noise(rows[:5], rows[:5] + 1.0, draw) is None


def lines_of_two_kinds(draw, rows=1500):
    """Two kinds of people, with another relation between all six columns in each: together they fill the plane."""
    place, kind = draw.normal(size=(rows, 1)), draw.random(rows) < 0.5
    one, other = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    return 4.0 * np.where(kind[:, None], place * one, place * other)


def test_rows_of_several_kinds_lose_more_noise_than_one_decomposition_removes():
    draw = np.random.default_rng(5)
    rows = lines_of_two_kinds(draw)
    noisy = rows + draw.normal(size=rows.shape)
    centred = noisy - noisy.mean(axis=0)
    covariance = np.cov(noisy.T, bias=True)
    linear = noisy.mean(axis=0) + centred @ np.linalg.solve(covariance, covariance - np.eye(6))
    guess = without_noise(noisy, draw)
    assert ((guess - rows) ** 2).sum() < 0.75 * ((linear - rows) ** 2).sum()


def test_the_mixture_finds_the_true_normals():
    """The posterior mean with the true mixture, computed by hand, is almost reached."""
    draw = np.random.default_rng(6)
    kind = draw.random(2000) < 0.5
    rows = np.where(kind[:, None], 5.0, -5.0) + 0.5 * draw.normal(size=(2000, 3))
    noisy = rows + draw.normal(size=rows.shape)
    logs = [-((noisy - mean) ** 2).sum(axis=1) / 2.5 for mean in (5.0, -5.0)]
    chance = 1.0 / (1.0 + np.exp(logs[1] - logs[0]))[:, None]
    best = chance * (5.0 + 0.2 * (noisy - 5.0)) + (1.0 - chance) * (-5.0 + 0.2 * (noisy + 5.0))
    assert ((without_noise(noisy, draw) - rows) ** 2).mean() < 1.15 * ((best - rows) ** 2).mean()  # one filter: 2.3


def test_of_noise_is_the_share_of_the_noise_itself(people):
    draw = np.random.default_rng(7)
    rows = people.to_numpy()
    found = strip_noise(rows, rows + 0.5 * draw.normal(size=rows.shape), draw)
    assert found.share < found.of_noise < 1.0
