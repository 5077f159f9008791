"""Permutation tests, against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sfumato.measures.confidence import (
    EXCHANGES,
    adjust_p_values,
    area_under_curve,
    areas,
    exceedance_shares,
    exchanged_p_values,
    exchanges,
    exchanges_among,
    largest_gaps,
)


def test_the_first_row_is_how_it_is_and_all_have_the_same_sizes():
    labels = exchanges(7, 4, np.random.default_rng(1))
    assert labels.shape == (EXCHANGES + 1, 11)
    assert labels[0].tolist() == [True] * 7 + [False] * 4
    assert set(labels.sum(axis=1)) == {7}


def test_labels_of_some_rows_are_distributed_as_those_of_all_rows():
    draw, chosen = np.random.default_rng(5), np.array([0, 3, 7, 8, 10])
    few = exchanges_among(chosen, 7, 5, draw)
    assert few[0].tolist() == [True, True, False, False, False]
    some = np.concatenate([exchanges_among(chosen, 7, 5, draw)[1:].sum(axis=1) for _ in range(20)])
    whole = np.concatenate([exchanges(7, 5, draw)[1:, chosen].sum(axis=1) for _ in range(20)])
    assert np.bincount(some, minlength=6) / some.size == pytest.approx(
        np.bincount(whole, minlength=6) / whole.size, abs=0.02
    )


def test_statistics_of_an_exchange_are_those_of_its_samples():
    draw = np.random.default_rng(2)
    numbers, labels = draw.normal(size=30).round(1), exchanges(15, 15, draw)
    for gap, area, label in zip(largest_gaps(labels, numbers)[:9], areas(labels, numbers)[:9], labels[:9], strict=True):
        assert gap == pytest.approx(ks_2samp(numbers[label], numbers[~label]).statistic)
        assert area == pytest.approx(area_under_curve(numbers[label], numbers[~label]).value)


def test_a_p_value_is_the_share_of_exchanges_that_are_as_bad():
    assert exceedance_shares(np.array([[3.0], [1.0], [2.0], [3.0]]))[:, 0].tolist() == [0.5, 1.0, 0.75, 0.5]


def test_several_statistics_are_adjusted_together():
    draw = np.random.default_rng(3)
    one = draw.normal(size=(200, 1))
    assert adjust_p_values(np.hstack([one] * 5)) == pytest.approx(
        np.repeat(exceedance_shares(one)[0], 5)
    )  # the same test five times
    failed = [adjust_p_values(draw.normal(size=(100, 5))).min() <= 0.05 for _ in range(400)]
    assert 0.02 < np.mean(failed) < 0.09
    control = [exceedance_shares(draw.normal(size=(100, 5)))[0].min() <= 0.05 for _ in range(400)]
    assert np.mean(control) > 0.15


def test_an_excess_is_seen():
    draw = np.random.default_rng(4)
    often, seldom = np.repeat([1, 0], [60, 40]), np.repeat([1, 0], [20, 80])
    attacks = np.column_stack([np.concatenate([often, seldom]), np.concatenate([seldom, often])])
    assert exchanged_p_values(attacks, 100, draw).tolist() == [pytest.approx(1 / 2000), pytest.approx(1.0)]
    assert exchanged_p_values(np.zeros((3, 1)), 0, draw).tolist() == [1.0]
