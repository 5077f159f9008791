"""Sensitivities and influence functions against what moving or adding a record really does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.statistics.custom import Custom
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.moments import Moments, derivatives, influence, sampling_constant
from sfumato.statistics.regression import Regression

RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(30, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.5, -0.4], [0.0, 0.0, 0.8]]) + 3.0
WEIGHTS = RNG.uniform(0.5, 2.0, size=30)
STATISTICS = [
    Mean("a"),
    Variance("a"),
    Sd("a"),
    Covariance("a", "b"),
    Correlation("a", "b"),
    *Regression("a", ("b",)).parts(),
    *Regression("a", ("b", "c")).parts(),
    Custom("cv", ("a",), lambda mean, covariance: math.sqrt(covariance[0, 0]) / mean[0]),
]


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_the_derivative_by_a_record_is_its_weight_times_b(statistic):
    rows = ROWS[:, : len(statistic.columns)]
    moments = Moments.of(rows, WEIGHTS)
    b = derivatives(statistic, moments, rows)
    for record, column in ((0, 0), (7, len(statistic.columns) - 1), (29, 0)):
        moved = []
        for step in (-1e-5, 1e-5):
            shifted = rows.copy()
            shifted[record, column] += step
            moved.append(statistic.value(Moments.of(shifted, WEIGHTS)))
        slope = (moved[1] - moved[0]) / 2e-5
        assert np.isclose(slope, WEIGHTS[record] / WEIGHTS.sum() * b[record, column], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_the_influence_is_what_a_little_weight_at_a_point_does(statistic):
    rows = ROWS[:, : len(statistic.columns)]
    moments = Moments.of(rows, WEIGHTS)
    point = rows[3:4] + 0.7
    little = 1e-6 * moments.weight
    more = statistic.value(Moments.of(np.vstack([rows, point]), np.append(WEIGHTS, little)))
    expected = (more - statistic.value(moments)) / 1e-6
    assert np.isclose(influence(statistic, moments, point)[0], expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("statistic", STATISTICS, ids=str)
def test_the_influences_of_the_records_cancel(statistic):
    rows = ROWS[:, : len(statistic.columns)]
    effect = influence(statistic, Moments.of(rows, WEIGHTS), rows)
    assert abs(WEIGHTS @ effect) / WEIGHTS.sum() < 1e-6 * (1.0 + np.abs(effect).max())


def test_the_sampling_constant_of_a_mean_is_the_standard_deviation():
    assert np.isclose(sampling_constant(Mean("a"), ROWS[:, :1]), ROWS[:, 0].std())
    with_missing = np.vstack([ROWS[:, :1], [[np.nan]]])
    assert np.isclose(sampling_constant(Mean("a"), with_missing), ROWS[:, 0].std())
    assert math.isnan(sampling_constant(Mean("a"), np.empty((0, 1))))


def test_the_sampling_constant_foretells_the_scatter_of_samples():
    rng = np.random.default_rng(2)
    population = rng.exponential(size=(20_000, 1))
    constant = sampling_constant(Variance("a"), population)
    samples = [population[rng.integers(0, len(population), 400), 0].var() for _ in range(2_000)]
    ratio = np.std(samples) / (constant / math.sqrt(400))
    assert 0.93 < ratio < 1.07  # fixed seed; the scatter of the ratio is about 2.5 %
    assert not 0.93 < np.std(samples) / (population.std() / math.sqrt(400)) < 1.07  # control: the mean's constant fails
