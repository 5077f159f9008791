"""Moments and marginals given back in the columns' own units."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from scipy.stats import ks_2samp

from sfumato.methods.spectral.restore import with_marginals, with_moments, with_shares
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table


def covariance_error(numbers, like):
    scale = np.where(like.std(axis=0) > 0, like.std(axis=0), 1.0)
    return np.abs(np.cov((numbers / scale).T, bias=True) - np.cov((like / scale).T, bias=True)).max()


@given(st.integers(0, 2**32 - 1))
def test_moments_and_limits_hold_together(seed):
    draw = np.random.default_rng(seed)
    like = np.exp(draw.normal(size=(200, 3)) @ draw.normal(size=(3, 3)) * 0.4)
    numbers = draw.permuted(like, axis=0)
    found = with_moments(numbers, like, like.min(axis=0), like.max(axis=0))
    assert np.allclose(found.numbers.mean(axis=0), like.mean(axis=0), rtol=1e-9)
    assert covariance_error(found.numbers, like) < 1e-9
    if found.within:
        assert (found.numbers >= like.min(axis=0) - 1e-9).all()
        assert (found.numbers <= like.max(axis=0) + 1e-9).all()


def test_limits_are_reached_on_skewed_columns():
    draw = np.random.default_rng(0)
    like = draw.lognormal(0, 1, (1000, 4))
    assert with_moments(draw.permuted(like, axis=0), like, like.min(axis=0), like.max(axis=0)).within


def test_moments_come_first_where_both_cannot_be_had():
    like = np.random.default_rng(0).normal(size=(100, 2))
    narrow = np.full(2, 0.1)
    found = with_moments(like[::-1].copy(), like, -narrow, narrow)
    assert not found.within
    assert covariance_error(found.numbers, like) < 1e-9


def test_collinear_columns_stay_collinear():
    draw = np.random.default_rng(1)
    first, second = draw.normal(size=(2, 300))
    like = np.column_stack([first, second, first + second, np.full(300, 5.0)])
    found = with_moments(draw.permuted(like, axis=0), like, like.min(axis=0), like.max(axis=0)).numbers
    assert np.allclose(found[:, 0] + found[:, 1], found[:, 2], atol=1e-6)
    assert np.allclose(found[:, 3], 5.0)


def test_no_columns_are_no_trouble():
    empty = np.empty((5, 0))
    assert with_moments(empty, empty, np.empty(0), np.empty(0)).numbers.shape == (5, 0)


class TestMarginals:
    draw = np.random.default_rng(2)
    like = np.column_stack([draw.lognormal(0, 1, 500), draw.normal(size=500)])
    numbers = draw.normal(size=(500, 2))

    def test_follow_the_original(self):
        restored = with_marginals(self.numbers, self.like, np.random.default_rng(0))
        for column in range(2):
            assert ks_2samp(restored[:, column], self.like[:, column]).statistic < 0.01
            assert ks_2samp(self.numbers[:, column] + 1, self.like[:, column]).statistic > 0.1  # control

    def test_keep_the_ranks(self):
        restored = with_marginals(self.numbers, self.like, np.random.default_rng(0))
        assert np.array_equal(restored[:, 0].argsort(), self.numbers[:, 0].argsort())

    def test_hardly_ever_repeat_a_value(self):
        restored = with_marginals(self.numbers, self.like, np.random.default_rng(0))
        assert np.isin(restored, self.like).mean() < 0.01

    def test_pass_over_missing_values(self):
        like = self.like.copy()
        like[::2, 0], like[:, 1] = np.nan, np.nan
        restored = with_marginals(self.numbers, like, np.random.default_rng(0))
        assert restored[:, 0].min() >= np.nanmin(like[:, 0])
        assert restored[:, 1] == pytest.approx(self.numbers[:, 1])


class TestShares:
    draw = np.random.default_rng(3)
    table = Table.from_arrow(
        pa.table(
            {
                "c": draw.choice(["a", "b", "c", "d"], 400, p=[0.6, 0.3, 0.06, 0.04]),
                "x": pa.array(np.where(draw.random(400) < 0.2, np.nan, 1.0), from_pandas=True),
                "rare": ["one", "two"] + ["many"] * 398,
            }
        )
    )
    code = Encoder.fit(table)
    before = code.encode(table)
    mixed = before + draw.normal(0, 2, before.shape)

    def counts(self, matrix):
        decoded = self.code.decode(matrix).arrow
        categories = decoded.column("c").to_pylist()
        return [decoded.column("x").null_count, *(categories.count(value) for value in "abcd")]

    def test_are_those_of_the_original(self):
        restored = with_shares(self.mixed, self.before, self.code)
        assert self.counts(restored) == self.counts(self.before)
        assert min(np.abs(np.subtract(self.counts(self.mixed), self.counts(self.before)))) > 5  # control

    def test_are_reached_by_moving_an_indicator_in_all_rows_alike(self):
        moved = with_shares(self.mixed, self.before, self.code) - self.mixed
        assert np.allclose(moved, moved[0])

    def test_of_a_few_people_are_left_alone(self):
        moved = (with_shares(self.mixed, self.before, self.code) - self.mixed)[0, self.code.columns("rare")]
        by_value = dict(zip(self.code.categories[1].values.to_pylist(), moved, strict=True))
        assert by_value["one"] == by_value["two"] == 0.0

    def test_that_are_right_are_not_touched(self):
        assert np.array_equal(with_shares(self.before, self.before, self.code), self.before)
