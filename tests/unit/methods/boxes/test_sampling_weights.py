"""Sampling weights leave as the mean of their box, or exactly with a warning, and the release says which."""

from __future__ import annotations

import json
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.engines.memory.engine import Memory
from sfumato.errors import OptionError, SchemaError, StatisticError
from sfumato.methods.boxes.partition import BoxWeights, round_outward
from sfumato.methods.partition import BoxPartition
from sfumato.report.summary import treatment
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate
from sfumato.table.table import Table

ROLES = {"age": "quasi", "sex": "quasi", "income": "other", "weight": "weight"}
ROWS = 400


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    drawn = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": drawn.integers(18, 90, ROWS),
            "sex": drawn.choice(["f", "m"], ROWS),
            "income": drawn.lognormal(10, 1, ROWS),
            "weight": drawn.permutation(np.arange(10_000, 10_000 + 37 * ROWS, 37)),
        }
    )


@pytest.fixture(scope="module")
def released(people) -> sf.Release:
    return sf.Boxes(k=5).release(people, schema=ROLES)


class TestBoxMeans:
    def test_are_those_of_a_plain_loop(self):
        drawn = np.random.default_rng(0)
        weights, starts = drawn.lognormal(5, 3, 50), np.array([0, 3, 10, 11, 50])
        leaves = BoxPartition(drawn.permutation(50), starts, np.empty((0, 4)))
        plain = [np.mean([weights[row] for row in leaves.order[a:b]]) for a, b in pairwise(starts)]
        assert BoxWeights.of(weights, leaves).mean == pytest.approx(plain, rel=1e-14)

    def test_of_equal_weights_are_exact(self):
        leaves = BoxPartition(np.arange(7), np.array([0, 7]), np.empty((0, 4)))
        assert BoxWeights.of(np.full(7, 0.1), leaves).mean.tolist() == [0.1]


class TestRanges:
    @pytest.mark.parametrize(
        ("number", "down", "up"),
        [
            (0.0, 0.0, 0.0),
            (1.0, 1.0, 1.0),
            (0.13747, 0.137, 0.138),
            (13492.17, 13400.0, 13500.0),
            (999.9, 999.0, 1000.0),
        ],
    )
    def test_are_rounded_outward_to_three_digits(self, number, down, up):
        numbers = np.array([number])
        assert [round_outward(numbers, np.floor)[0], round_outward(numbers, np.ceil)[0]] == [down, up]

    @pytest.mark.parametrize("number", [5e-324, 1e-323, 1e-300, 1e300, 1.7976931348623157e308])
    def test_of_the_smallest_and_largest_numbers_hold_them(self, number):
        numbers = np.array([number])
        low, high = (round_outward(numbers, outward)[0] for outward in (np.floor, np.ceil))
        assert 0.0 <= low <= number <= high < np.inf

    def test_hold_the_weights_and_make_intervals_narrow(self):
        drawn = np.random.default_rng(1)
        rows = 1000
        people = pd.DataFrame(
            {
                "age": drawn.integers(18, 90, rows),
                "outcome": drawn.normal(100, 22, rows),
                "weight": drawn.uniform(0.9, 1.1, rows).round(4),
            }
        )
        release = sf.Boxes(k=5).release(people, schema={"age": "quasi", "outcome": "other", "weight": "weight"})
        found = release.estimate("mean(outcome)")
        assert found.low <= np.average(people.outcome, weights=people.weight) <= found.high
        assert found.high - found.low < 5.0
        bare = {name: release.table.arrow.column(name) for name in release.table.names if "weight_" not in name}
        without = CountedBoxes.of(Table.from_arrow(pa.table(bare)), ["outcome"], weight="weight", pooled=True, sets=[])
        wide = estimate(parse("mean(outcome)"), without)[0]
        assert wide.high - wide.low > 40.0  # control: without the ranges it says nothing


class TestTheRule:
    def test_no_weight_is_unique_and_none_splits_a_box(self, people, released):
        frame = released.to_pandas()
        assert frame.groupby("box").weight.nunique().max() == 1
        assert frame.groupby(["age_low", "age_high", "sex", "weight"]).size().min() >= 5
        assert frame.weight.sum() == pytest.approx(people.weight.sum(), rel=1e-12)
        assert released.findings[0].claim == "5-anonymous in age, sex, weight"

    def test_the_totals_are_a_promise(self, released):
        promised = [finding for finding in released.findings if "total of weight" in finding.claim]
        assert [finding.kind for finding in promised] == ["integrity"]

    @pytest.mark.parametrize("engine", [Memory(block_rows=100, sample_rows=200), sf.DuckDB(block_rows=100)])
    def test_in_several_blocks_too(self, people, engine):
        release = sf.Boxes(k=5).release(people, schema=ROLES, engine=engine)
        assert release.to_pandas().groupby("box").weight.nunique().max() == 1
        assert release.estimate("count()").value == people.weight.sum()

    def test_manifest_and_report_tell_it(self, people, released):
        manifest = released.manifest
        assert manifest.sampling_weights == manifest.options["sampling_weights"] == "box-mean"
        assert json.loads(manifest.to_json())["sampling_weights"] == "box-mean"
        assert treatment(manifest.columns[-1], manifest) == "mean and range of each box"
        exact = sf.Boxes(k=5, sampling_weights="exact").release(people, schema=ROLES).manifest
        assert exact.sampling_weights == "exact"
        assert treatment(exact.columns[-1], exact) == "unaltered"

    def test_exact_weights_are_only_released_with_a_warning_that_counts_the_unique_ones(self, people):
        some = people.assign(weight=np.where(np.arange(ROWS) < 30, people.weight, 1))
        with pytest.warns(sf.SfumatoWarning, match=r"'weight' are released exactly, and 30 of 400 rows"):
            sf.Boxes(k=5, sampling_weights="exact").release(some, schema=ROLES)

    @pytest.mark.parametrize("weights", ["box-mean", "exact"])
    def test_there_is_no_warning_where_weights_tell_nothing(self, people, weights):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sf.Boxes(k=5, sampling_weights=weights).release(people.assign(weight=2), schema=ROLES)

    def test_another_rule_is_refused(self):
        with pytest.raises(OptionError, match="sampling_weights must be one of 'box-mean', 'exact'"):
            sf.Boxes(k=5, sampling_weights="rounded")


class TestOddWeights:
    @pytest.mark.parametrize(
        ("wrong", "found"),
        [(np.nan, "1 missing"), (np.inf, "1 infinite"), (-1.0, "negative weights"), (1e308, "total is too large")],
    )
    def test_missing_infinite_and_negative_weights_are_refused(self, people, wrong, found):
        weights = people.weight.astype(float)
        weights[3] = wrong
        with pytest.raises(SchemaError, match="must be finite, not negative and not missing") as refused:
            sf.Boxes(k=5).release(people.assign(weight=weights), schema=ROLES)
        assert found in str(refused.value)

    def test_a_weight_of_zero_is_a_weight(self, people):
        weights = np.where(people.age < 50, 0, people.weight)
        release = sf.Boxes(k=5).release(people.assign(weight=weights), schema=ROLES)
        assert release.estimate("count()").value == weights.sum()
        found = release.estimate("mean(income)")
        assert found.low <= np.average(people.income, weights=weights) <= found.high

    def test_without_any_weight_there_is_no_weighted_statistic(self, people):
        release = sf.Boxes(k=5).release(people.assign(weight=0), schema=ROLES)
        with pytest.raises(StatisticError, match="has a positive weight"):
            release.estimate("mean(age)")
        assert release.estimate("mean(age)", unweighted=True).records == ROWS


class TestEstimates:
    def test_intervals_cost_nothing_and_exact_columns_are_known_up_to_their_box(self, people, released):
        exact = sf.Boxes(k=5, sampling_weights="exact").release(people, schema=ROLES)
        for statistic in ("mean(age)", "var(age)"):
            first, second = released.estimate(statistic), exact.estimate(statistic)
            assert (first.low, first.high) == pytest.approx((second.low, second.high), rel=1e-9)
        frame = released.to_pandas()
        by_box = frame.groupby("box")
        totals = by_box.weight.sum()
        found = released.estimate("mean(income)")
        assert found.low > np.average(by_box.income.min(), weights=totals)
        assert found.high < np.average(by_box.income.max(), weights=totals)
        assert found.gap < 1e-9
        assert found.value == pytest.approx(np.average(frame.income, weights=frame.weight))

    def test_means_taken_for_the_true_weights_would_be_falsely_certain(self, people, released):
        """The control: what the rows show is not the statistic of the original."""
        frame, true = released.to_pandas(), np.average(people.income, weights=people.weight)
        assert np.average(frame.income, weights=frame.weight) != pytest.approx(true, rel=1e-6)
        found = released.estimate("mean(income)")
        assert found.low < true < found.high

    def test_a_folder_read_back_obeys_the_rule(self, released, tmp_path, capfd):
        folder = released.write(tmp_path / "out")
        here, there = released.estimate("mean(income)"), sf.read_release(folder).estimate("mean(income)")
        assert (here.low, here.value, here.high) == pytest.approx((there.low, there.value, there.high))
        capfd.readouterr()
        assert run(["estimate", str(folder), "mean(income)", "--json"]) == 0
        printed = json.loads(capfd.readouterr().out)[0]
        assert (printed["low"], printed["high"]) == pytest.approx((there.low, there.high))
        assert "mean and range of each box" in (folder / "report.html").read_text()

    def test_the_weights_themselves_have_no_guaranteed_interval(self, released):
        assert np.isinf(released.estimate("mean(weight)", unweighted=True).high)
