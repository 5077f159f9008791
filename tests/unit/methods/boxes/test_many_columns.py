"""Weights and partitions of tables with many columns."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.engines.memory import engine
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.errors import OptionError, OutOfMemory
from sfumato.methods.boxes.sensitivities import correlations, root_mean_squares
from sfumato.methods.boxes.sensitivity_kernels import pair_sums
from sfumato.randomness import Randomness
from sfumato.schema.schema import FittedTable
from sfumato.sources.frames import as_table


def factors(rows, columns, seed=0):
    draw = np.random.default_rng(seed)
    common = draw.normal(size=(rows, 3)) @ draw.normal(size=(3, columns))
    return pd.DataFrame(common + draw.normal(size=(rows, columns)), columns=[f"v{i}" for i in range(columns)])


def weights_of(data, **options):
    table = as_table(data)
    schema = FittedTable.of(table, dict.fromkeys(data, "quasi")).schema
    plan = sf.Boxes(k=5, l=1, **options).plan(MemorySurvey(table), schema, Randomness(1))
    return plan.sensitivities.of(table), plan


class TestAllStatistics:
    def test_are_the_statistics_one_by_one(self):
        data = factors(400, 26)
        data["v3"] = 7.0  # a constant column has no statistics
        many, plan = weights_of(data)
        assert not plan.kept
        listed, _ = weights_of(data, importance={"mean(v0)": 1.0})  # an importance lists every statistic
        assert many == pytest.approx(listed, rel=1e-4)
        assert not many[:, 3].any()

    def test_leave_out_missing_values(self):
        data = factors(300, 26)
        data.loc[:20, "v1"] = np.nan
        many, _ = weights_of(data)
        listed, _ = weights_of(data, importance={"mean(v0)": 1.0})
        assert not many[:20, 1].any()
        assert many[30:] == pytest.approx(listed[30:], rel=0.05)  # moments of each column, not of each pair

    def test_pair_sums_equal_the_slow_twin(self):
        draw = np.random.default_rng(1)
        z, r = draw.normal(size=(20, 7)).astype(np.float32), np.corrcoef(draw.normal(size=(7, 9))).astype(np.float32)
        z[3, 2] = np.nan
        found = pair_sums(z, r)
        for row in range(20):
            for i in range(7):
                terms = [abs(z[row, j] - r[i, j] * z[row, i]) for j in range(7) if not np.isnan(z[row, j])]
                assert found[row, i] == pytest.approx(sum(terms), rel=1e-5, nan_ok=True)

    def test_the_root_mean_square_is_near_the_sum_for_normal_numbers(self):
        data = factors(300, 300).to_numpy()
        z = ((data - data.mean(axis=0)) / data.std(axis=0)).astype(np.float32)
        z[5, 7] = np.nan
        r = correlations(z, None)
        ratio = root_mean_squares(z, r) / pair_sums(z, r)
        assert np.isnan(ratio[5, 7])
        assert np.nanmean(ratio) == pytest.approx(1.0, abs=0.1)
        assert np.nanstd(ratio) < 0.15

    def test_correlations_are_those_of_numpy(self):
        data = factors(500, 30).to_numpy()
        z = ((data - data.mean(axis=0)) / data.std(axis=0)).astype(np.float32)
        assert correlations(z, None) == pytest.approx(np.corrcoef(data.T), abs=1e-4)
        doubled = np.repeat(z[:250], 2, axis=0)
        assert correlations(z[:250], np.full(250, 2.0)) == pytest.approx(correlations(doubled, None), abs=1e-4)


class TestKeepAmongManyColumns:
    def width(self, columns, keep, **options):
        data = factors(3000, columns)
        release = sf.Boxes(k=5, l=1, keep=keep, **options).release(data, schema=dict.fromkeys(data, "quasi"), seed=1)
        found = release.estimate("mean(v0)")
        return found.high - found.low

    def test_a_kept_mean_is_much_narrower_than_an_unnamed_one(self):
        assert self.width(30, ["mean(v0)"]) < 0.2 * self.width(30, None)

    def test_the_share_of_the_others_does_not_grow_with_their_number(self):
        few, many = self.width(4, ["mean(v0)"]), self.width(40, ["mean(v0)"])
        assert many < 1.5 * few

    def test_others_is_a_share_of_the_whole_weight(self):
        data = factors(2000, 12)
        sd = data.std(ddof=0).to_numpy()
        for others in (0.1, 0.5):
            weights, _ = weights_of(data, keep=["mean(v0)", "mean(v1)"], others=others)
            total = (weights * sd).mean(axis=0)
            assert total[2:].sum() / total.sum() == pytest.approx(others, rel=1e-5)
            assert total[2:] == pytest.approx(total[2])

    def test_all_of_the_weight_cannot_be_left_to_the_others(self):
        with pytest.raises(OptionError, match="below 1"):
            sf.Boxes(k=5, keep=["mean(x)"], others=1.0)

    def test_without_a_kept_weight_all_others_count_alike(self):
        weights, _ = weights_of(factors(100, 4), keep=["mean(v0)"], importance=[0.0])
        assert not weights[:, 0].any()
        assert weights[:, 1:].all()


def test_memory_that_is_not_there_is_said_before_the_work(monkeypatch):
    data = factors(500, 10)
    roles = dict.fromkeys(data, "quasi")
    monkeypatch.setattr(engine, "available_memory", lambda: 100_000)
    monkeypatch.setattr(engine, "LITTLE", 0)
    monkeypatch.setattr(engine, "run", lambda *_, **__: pytest.fail("the work was begun"))
    with pytest.raises(OutOfMemory, match="500 rows") as raised:
        sf.Boxes(k=5, l=1).release(data, schema=roles, seed=1)
    assert "fewer quasi-identifiers" in str(raised.value)


def test_hundreds_of_columns_take_seconds():
    data = factors(400, 600)
    small = factors(60, 30)
    sf.Boxes(k=5, l=1).release(small, schema=dict.fromkeys(small, "quasi"), seed=1)  # compiles
    start = time.process_time()
    release = sf.Boxes(k=5, l=1).release(data, schema=dict.fromkeys(data, "quasi"), seed=1)
    assert time.process_time() - start < 20.0
    assert release.optimality().records == 400
