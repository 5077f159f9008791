"""Distributions of numbers and shares of categories are given back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from sfumato.methods.components.restore import with_marginals, with_shares
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table


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

    def test_atoms_stay_and_the_other_numbers_follow_the_others(self):
        code = Encoder.fit(Table.from_arrow(pa.table({"a": np.append(np.zeros(400), self.like[:100, 0])})), atoms=True)
        like = np.append(np.zeros(400), self.like[:100, 0])[:, None]
        is_atom = np.random.default_rng(1).permutation(like == 0.0)
        numbers = np.where(is_atom, 0.0, self.draw.normal(size=(500, 1)))
        restored = with_marginals(
            numbers, like, np.random.default_rng(0), is_atom=is_atom, codes=code.numbers, only_mixtures=True
        )
        assert (restored[is_atom] == 0.0).all() and (restored[~is_atom] > 0.0).all()
        assert ks_2samp(restored[~is_atom], self.like[:100, 0]).statistic < 0.03


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
