"""Audits of differential privacy: what an intruder can tell about one person, against what is promised.

The intruder of the release knows the table but for one person, and the manifest: her best test weighs the difference
that this person makes to every noisy number by its noise. From the errors of that test over many releases follows a
lower bound of ε, with 99 % confidence. A fault is planted as the control: noise of sums that forgets the grid.
"""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.discrete_noise import NoisyNumbers, gaussian_scale
from sfumato.methods.private_boxes import axes, moment_sums
from sfumato.methods.private_boxes.method import PrivateBoxes
from sfumato.methods.private_boxes.moment_sums import MomentSet, MomentSums
from sfumato.methods.private_columns import NumberDomain, read_as_declared
from sfumato.plan.claims.concentrated_privacy import rho_of
from sfumato.randomness import Randomness
from sfumato.release.private_estimates import ESTIMATORS, NoisySums
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

EPSILON, DELTA = 1.0, 1e-6
RUNS = 1000  # of each of two neighbouring tables
SCHEMA = {name: {"role": "quasi", "domain": [0, 100]} for name in "xy"}


def hockey_stick(sigma: float, shift: int, epsilon: float) -> float:
    """Return the exact δ of discrete Gaussian noise whose whole number moves by ``shift``."""
    reach = int(40 * sigma) + 40
    values = np.arange(-reach, reach + 1)
    logs = -(values.astype(float) ** 2) / (2 * sigma**2)
    total = np.logaddexp.reduce(logs)
    moved = -((values - shift).astype(float) ** 2) / (2 * sigma**2)
    return float(np.maximum(np.exp(logs - total) - np.exp(epsilon + moved - total), 0.0).sum())


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_exact_distribution_of_neighbours_is_within_delta(epsilon, shift):
    sigma = float(gaussian_scale(squared_sensitivity=shift**2, rho=rho_of(epsilon, DELTA)))
    assert hockey_stick(sigma, shift, epsilon) <= DELTA
    assert hockey_stick(-sigma, -shift, epsilon) <= DELTA
    assert hockey_stick(sigma / 1.5, shift, epsilon) > DELTA, "the control: noise that is a third too small"


def neighbours() -> tuple[pd.DataFrame, pd.DataFrame]:
    draw = np.random.default_rng(1)
    base = pd.DataFrame({"x": draw.uniform(0, 40, 150), "y": draw.uniform(0, 40, 150)})
    return base, pd.concat([base, pd.DataFrame({"x": [99.0], "y": [99.0]})], ignore_index=True)


def numbers_of(notes) -> tuple[np.ndarray, np.ndarray]:
    """Return all noisy sums and counts whose number does not depend on noise, and the noise of each."""
    parts = [(one["sums"], one["sigma"]) for one in notes["moments"]]
    parts += [(one["counts"], one["sigma"]) for one in notes["histograms"].values()]
    sigmas = np.concatenate([np.full(len(sums), sigma) for sums, sigma in parts])
    return np.concatenate([np.asarray(sums, dtype=float) for sums, _ in parts]), sigmas


def exactly(numbers, *, squared_sensitivity, rho):
    """Measure without noise, which the intruder can do on tables that she knows."""
    return NoisyNumbers(numbers, 1.0)


def scores(runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the intruder's score of releases without and with the person: the likelihood ratio of the noise."""
    method = PrivateBoxes(epsilon=EPSILON, delta=DELTA, keep=["mean(x)", "corr(x, y)"])
    fitted = [read_as_declared(as_table(table), Schema.of(SCHEMA)) for table in neighbours()]

    def measured(one):
        return numbers_of(method.plan(MemorySurvey(one.table), one.schema, Randomness()).notes)

    with patch.object(moment_sums, "measure", exactly), patch.object(axes, "measure", exactly):
        without, with_her = (measured(one)[0] for one in fitted)
    sigmas = measured(fitted[0])[1]
    weights = (with_her - without) / sigmas**2
    return tuple(np.array([(measured(one)[0] - without) @ weights for _ in range(runs)]) for one in fitted)


def least_epsilon(without: np.ndarray, with_her: np.ndarray, confidence: float = 0.99) -> float:
    """Return a lower bound of ε, by Clopper and Pearson at the threshold that tells most."""
    half = len(without) // 2  # one half chooses the threshold, the other counts
    thresholds = np.quantile(np.concatenate([without[:half], with_her[:half]]), np.linspace(0.02, 0.98, 49))
    best = max(thresholds, key=lambda at: abs(_loss((without[:half] > at).mean(), (with_her[:half] > at).mean(), half)))
    error, count = (1.0 - confidence) / 4.0, len(without) - half
    hits, alarms = int((with_her[half:] > best).sum()), int((without[half:] > best).sum())
    bounds = []
    for more, less in ((hits, alarms), (count - alarms, count - hits)):
        low = beta.ppf(error, more, count - more + 1) if more else 0.0
        high = beta.ppf(1.0 - error, less + 1, count - less) if less < count else 1.0
        bounds.append(math.log(max(low - DELTA, 1e-12) / high))
    return max(*bounds, 0.0)


def _loss(alarms: float, hits: float, runs: int) -> float:
    floor = 1.0 / runs
    return max(math.log((hits + floor) / (alarms + floor)), math.log((1 - alarms + floor) / (1 - hits + floor)))


def test_the_measured_epsilon_is_below_the_promised_one():
    without, with_her = scores(RUNS)
    assert least_epsilon(without, with_her) <= EPSILON
    apart = (with_her.mean() - without.mean()) / without.std()
    largest = math.sqrt(2.0 * rho_of(EPSILON, DELTA))  # by which noise of the whole budget lets neighbours differ
    assert 0.4 * largest < apart + 3.0 * math.sqrt(2.0 / RUNS), "the test would see a difference"
    assert apart - 3.0 * math.sqrt(2.0 / RUNS) < largest


def test_a_planted_fault_is_found(monkeypatch):
    """Noise of sums for one unit of the grid, and not for the whole domain: then the person stands out."""
    right = moment_sums.measure

    def forgets_the_grid(numbers, *, squared_sensitivity, rho):
        return right(numbers, squared_sensitivity=max(1, squared_sensitivity // 2**20), rho=rho)

    monkeypatch.setattr(moment_sums, "measure", forgets_the_grid)
    assert least_epsilon(*scores(100)) > EPSILON


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    x = np.clip(draw.normal(50, 15, 2000), 0, 100)
    return pd.DataFrame({"x": x, "y": np.clip(0.5 * x + draw.normal(25, 10, 2000), 0, 100)})


class TestIntervals:
    """Intervals hold the statistic of the table in at least the stated share of 1,000 releases."""

    RUNS, PROBABILITY = 1000, 0.95
    STATISTICS = ("mean(x)", "var(x)", "sd(x)", "sum(x)", "cov(x, y)", "corr(x, y)", "regress(y ~ x): x")

    def truth(self, text, table):
        x, y = table["x"].to_numpy(), table["y"].to_numpy()
        covariance = np.cov(x, y, bias=True)
        known = {"mean(x)": x.mean(), "var(x)": covariance[0, 0], "sd(x)": x.std(), "sum(x)": x.sum()}
        known |= {"cov(x, y)": covariance[0, 1], "corr(x, y)": np.corrcoef(x, y)[0, 1]}
        return known.get(text, covariance[0, 1] / covariance[0, 0])

    def held(self, text, table, noise=1.0):
        part, known = parse(text).parts()[0], self.truth(text, table)
        domains = {name: NumberDomain(name=name, kind=Kind.CONTINUOUS, low=0.0, high=100.0) for name in "xy"}
        asked = MomentSet(columns=part.columns, order=2)
        arrow, held = as_table(table), 0
        for _ in range(self.RUNS):
            note = MomentSums.measure(asked, domains, arrow, rho=0.01, rows_per_person=1).note
            sums = NoisySums.of(note | {"sigma": note["sigma"] * noise})
            _, low, high = ESTIMATORS[type(part)](sums, part, 1.0 - self.PROBABILITY)
            held += low <= known <= high
        return held

    @pytest.mark.parametrize("text", STATISTICS)
    def test_they_hold_as_often_as_they_say(self, text, table):
        assert self.held(text, table) >= binom.ppf(1e-4, self.RUNS, self.PROBABILITY)

    def test_intervals_for_half_of_the_noise_do_not(self, table):
        assert self.held("mean(x)", table, noise=0.5) < binom.ppf(1e-4, self.RUNS, self.PROBABILITY)
