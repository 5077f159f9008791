"""Bounds of the error of marginals hold in at least the stated share of releases; half of them do not."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.discrete_noise import draw_discrete_gaussian, largest_noise
from sfumato.methods.private_columns import read_as_declared
from sfumato.methods.private_synthesis import method as synthesis
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table

PROBABILITY = 0.95
SCHEMA = {name: {"role": "quasi", "domain": [0, 2]} for name in "abc"}


@pytest.mark.parametrize("numbers", [1, 4, 30, 400])
def test_the_sum_of_noise_is_bounded(numbers):
    runs = 4000
    noise = np.abs(draw_discrete_gaussian(Fraction(9), runs * numbers)).reshape(runs, -1).sum(axis=1)
    bound = largest_noise(np.full(numbers, 9.0), 1.0 - PROBABILITY)
    least = binom.ppf(1e-4, runs, PROBABILITY)
    assert (noise <= bound + 0.5).sum() >= least
    assert (noise <= bound / 2.0).sum() < least, "the control: half of the bound does not hold"


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    a = draw.integers(0, 3, 3000)
    b = np.where(draw.random(3000) < 0.7, a, draw.integers(0, 3, 3000))
    return pd.DataFrame({"a": a, "b": b, "c": draw.integers(0, 3, 3000)})


def distances(people: pd.DataFrame, runs: int, kind: str, monkeypatch) -> list[dict[frozenset[str], tuple[float, int]]]:
    """Return, for each release, the true distance of every marginal, and the bound that is told."""
    kept = []
    original = synthesis.bound_marginals

    def remember(selection, released):
        kept.append((selection, released))
        return original(selection, released)

    monkeypatch.setattr(synthesis, "bound_marginals", remember)
    fitted = read_as_declared(as_table(people), Schema.of(SCHEMA))
    method, found = sf.PrivateSynthesis(epsilon=0.5, kind=kind), []
    for _ in range(runs):
        plan = method.plan(MemorySurvey(fitted.table), fitted.schema, Randomness())
        selection, released = kept[-1]
        names = [column.attribute.domain.name for column in selection.columns]
        told = {frozenset(one["columns"]): one["rows"] for one in plan.notes["errors"]}
        own = {}
        for clique in [(0,), (1,), (2,), *combinations(range(3), 2)]:
            tables = []
            for table in (fitted.table, released):
                codes = [
                    selection.columns[one].bin_codes(selection.columns[one].attribute.encode(table)) for one in clique
                ]
                shape = [selection.sizes[one] for one in clique]
                tables.append(np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))))
            key = frozenset(names[one] for one in clique)
            own[key] = (float(np.abs(tables[0] - tables[1]).sum()), told[key])
        found.append(own)
    return found


@pytest.mark.parametrize("kind", ["aim", "mst"])
def test_rows_are_as_near_as_is_told(people, kind, monkeypatch):
    runs = 60
    found = distances(people, runs, kind, monkeypatch)
    least = binom.ppf(1e-4, runs, PROBABILITY)
    for key in found[0]:
        assert sum(one[key][0] <= one[key][1] for one in found) >= least, sorted(key)
    pair = frozenset("ab")
    typical = np.median([one[pair][1] for one in found])
    assert typical < 2 * len(people), "the bound tells more than that there are so many rows"
    narrow = sum(one[pair][0] <= one[pair][1] / 6.0 for one in found)
    assert narrow < least, "the control: a sixth of the bound does not hold"


def test_counts_of_private_boxes_are_as_near_as_is_told(people):
    runs = 240
    held, half = 0, 0
    truth = np.bincount(people.a, minlength=3)
    for _ in range(runs):
        release = sf.PrivateBoxes(epsilon=0.5).release(people, schema=SCHEMA)
        noisy = release.manifest.notes["histograms"]["a"]["counts"]
        (error,) = [one for one in release.marginal_errors if one.columns == ("a",)]
        distance = np.abs(np.array(noisy) - np.append(truth, 0)).sum()
        held += distance <= error.rows
        half += distance <= error.rows / 2
    least = binom.ppf(1e-4, runs, PROBABILITY)
    assert held >= least
    assert half < least


def test_a_release_of_another_method_tells_no_errors():
    assert sf.Boxes(k=2).release({"age": [1, 1, 2, 2]}, schema={"age": "quasi"}).marginal_errors == ()
