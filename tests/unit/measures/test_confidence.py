"""Confidence intervals: right values, and coverage that is what it says; p-values."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import mannwhitneyu

from sfumato.measures.confidence import area_under_curve, quantile, share, shift_p_value

numbers = st.lists(st.integers(0, 8).map(float), min_size=1, max_size=25).map(np.array)


@given(numbers, numbers)
def test_area_is_that_of_mann_and_whitney(positive, negative):
    found = area_under_curve(positive, negative)
    assert found.value == pytest.approx(mannwhitneyu(positive, negative).statistic / (len(positive) * len(negative)))
    assert 0 <= found.low <= found.value <= found.high <= 1


@given(numbers, numbers)
def test_areas_of_the_two_ends_sum_to_one(positive, negative):
    up, down = area_under_curve(positive, negative), area_under_curve(-positive, -negative)
    assert up.value + down.value == pytest.approx(1.0)


def test_nothing_to_compare_tells_nothing():
    assert area_under_curve(np.array([]), np.array([1.0])).value == 0.5
    assert np.isnan(share(0, 0).value)


@given(st.integers(1, 200), st.data())
def test_a_share_lies_in_its_interval_and_more_trials_narrow_it(trials, data):
    successes = data.draw(st.integers(0, trials))
    few, many = share(successes, trials), share(100 * successes, 100 * trials)
    assert 0 <= few.low <= few.value <= few.high <= 1
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize("truth", [0.02, 0.5])
def test_a_share_is_covered_as_often_as_stated(truth):
    draw = np.random.default_rng(0)
    covered = np.mean([share(s, 300).low <= truth <= share(s, 300).high for s in draw.binomial(300, truth, 2000)])
    assert 0.93 < covered < 0.98


def test_a_quantile_is_covered_as_often_as_stated():
    draw = np.random.default_rng(0)
    found = [quantile(draw.random(200), 0.5) for _ in range(1000)]
    assert 0.93 < np.mean([one.low <= 0.5 <= one.high for one in found]) < 0.98
    assert np.mean([one.low <= 0.6 <= one.high for one in found]) < 0.5  # control: another value is not


def test_a_shift_downward_is_seen_and_one_upward_only_by_the_two_sided_test():
    numbers = np.random.default_rng(0).random(400)
    assert shift_p_value(numbers - 0.2, numbers, alternative="greater") < 1e-3
    assert shift_p_value(numbers + 0.2, numbers, alternative="greater") > 0.5
    assert shift_p_value(numbers + 0.2, numbers) < 1e-3
    assert shift_p_value(numbers, numbers) == 1.0
