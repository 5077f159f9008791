"""What Boxes promises to a user, option by option."""

from __future__ import annotations

import pickle
from typing import ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey, run
from sfumato.errors import CannotRelease, OptionError, StatisticError, TableError
from sfumato.methods.boxes import optimality
from sfumato.methods.boxes.optimality import log_density
from sfumato.methods.boxes.rules import Trapezoid
from sfumato.plan.plan import Evidence
from sfumato.randomness import Randomness
from sfumato.release.verify import verify
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.table.groups import group_sizes
from sfumato.table.intervals import ANY, parse_set


@pytest.fixture(scope="module")
def people():
    numbers = np.random.default_rng(3)
    rows = 600
    age = numbers.integers(18, 90, rows)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.exp(numbers.normal(10, 0.6, rows) + age / 80),
            "bmi": np.where(numbers.random(rows) < 0.05, np.nan, numbers.normal(25, 4, rows)),
            "city": numbers.choice(["Ulm", "Rom", "Oslo", "Bern"], rows, p=[0.6, 0.2, 0.15, 0.05]),
            "born": pd.Timestamp("2000-01-01") - pd.to_timedelta(age * 365 + numbers.integers(0, 365, rows), "D"),
        }
    )


def width(release, statistic):
    estimate = release.estimate(statistic)
    return estimate.linear_high - estimate.linear_low


def column_width(release, name):
    return float((release.table.numbers(f"{name}_high") - release.table.numbers(f"{name}_low")).mean())


class TestWhatLeaves:
    def test_numbers_leave_as_intervals_categories_as_sets_and_days_as_days(self, people):
        release = sf.Boxes(k=5).release(people, seed=1)
        names = set(release.table.names)
        assert names == {
            "age_low", "age_high", "income_low", "income_high", "bmi_low", "bmi_high", "bmi_missing", "born_low",
            "born_high", "city", "box",
        }  # fmt: skip
        assert pa.types.is_integer(release.table.arrow.schema.field("age_low").type)
        assert pa.types.is_timestamp(release.table.arrow.schema.field("born_low").type)
        frame = release.table.to_pandas()
        assert (frame.born_low <= frame.born_high).all()
        assert set("|".join(frame.city).split("|")) == {"Ulm", "Rom", "Oslo", "Bern"}

    def test_every_row_shares_its_box_with_k_others_in_every_released_column(self, people):
        release = sf.Boxes(k=7).release(people, seed=1)
        assert group_sizes(release.table, release.table.names).min() >= 7

    def test_columns_that_are_not_protected_leave_as_they_are(self, people):
        release = sf.Boxes(k=5).release(people, schema={"income": "sensitive", "bmi": "other"}, seed=1)
        assert sorted(release.table.to_pandas().income) == sorted(people.income)
        assert release.table.to_pandas().bmi.isna().sum() == people.bmi.isna().sum()

    def test_the_number_of_missing_values_of_a_box_is_told_and_nothing_else_of_them(self, people):
        frame = sf.Boxes(k=5).release(people, seed=1).table.to_pandas()
        boxes = frame.groupby("box").agg(
            rows=("box", "size"), missing=("bmi_missing", "first"), low=("bmi_low", "first")
        )
        assert boxes.missing.sum() == people.bmi.isna().sum()
        assert (boxes.low.isna() == (boxes.missing == boxes.rows)).all()

    def test_missing_values_are_kept_apart_from_the_others_where_k_allows(self, people):
        frame = sf.Boxes(k=5).release(people, seed=1).table.to_pandas()
        boxes = frame.groupby("box").agg(rows=("box", "size"), missing=("bmi_missing", "first"))
        mixed = (boxes.missing > 0) & (boxes.missing < boxes.rows)
        assert mixed.sum() <= 6


ROLES = {"female": "quasi", "age": "quasi", "x": "other"}


class TestZeroAndOne:
    """Whole numbers that are 0 and 1 are a category, unless a kept statistic computes with them."""

    @pytest.fixture
    def table(self):
        numbers = np.random.default_rng(4)
        female = numbers.integers(0, 2, 300)
        return pd.DataFrame(
            {"female": female, "age": numbers.integers(18, 90, 300), "x": female + numbers.normal(size=300)}
        )

    def test_leave_as_a_set_and_still_give_a_guaranteed_mean(self, table):
        release = sf.Boxes(k=5).release(table, schema=ROLES, seed=1)
        assert "female" in release.table.names
        assert "female_low" not in release.table.names
        assert set(map(str, release.table.arrow["female"].to_pylist())) <= {"0", "1", "0|1"}
        for statistic, truth in (("mean(female)", table.female.mean()), ("count(female = 1)", table.female.sum())):
            estimate = release.estimate(statistic)
            assert estimate.low <= truth <= estimate.high

    def test_are_numbers_if_a_kept_statistic_uses_them(self, table):
        release = sf.Boxes(k=5, keep=["corr(female, age)"]).release(table, schema=ROLES, seed=1)
        assert {"female_low", "female_high"} <= set(release.table.names)
        estimate = release.estimate("corr(female, age)")
        assert estimate.low <= np.corrcoef(table.female, table.age)[0, 1] <= estimate.high

    def test_are_numbers_if_a_domain_is_declared(self, table):
        schema = ROLES | {"female": {"role": "quasi", "domain": [0, 1]}}
        assert "female_low" in sf.Boxes(k=5).release(table, schema=schema, seed=1).table.names

    def test_are_numbers_in_statistics_where_they_are_released_unaltered(self, table):
        schema = {"female": "sensitive", "age": "quasi", "x": "quasi"}
        release = sf.Boxes(k=5).release(table, schema=schema, seed=1)
        assert release.estimate("mean(female)").value == pytest.approx(table.female.mean())


@pytest.mark.parametrize("moments", [[2**53 + number for number in range(1, 60, 2)], [-(2**55) - 1, *range(29)]])
def test_timestamps_that_floats_would_round_are_refused(moments):
    times = pa.array(moments, pa.timestamp("us"))
    with pytest.raises(TableError, match="'seen' must be exact"):
        sf.Boxes(k=3).release(pa.table({"seen": times}), schema={"seen": "quasi"})
    released = sf.Boxes(k=3).release(
        pa.table({"seen": times, "age": range(len(moments))}), schema={"seen": "other", "age": "quasi"}, seed=1
    )
    assert sorted(released.table.arrow["seen"].cast(pa.int64()).to_pylist()) == sorted(moments)


class TestKeep:
    def test_the_kept_statistic_is_narrower_than_without_keep_and_than_mondrian(self, people):
        data = people[["age", "income"]]
        kept = sf.Boxes(k=5, keep=["corr(age, income)"]).release(data, seed=1)
        mondrian = sf.Boxes(k=5, cut="median").release(data, seed=1)
        assert width(kept, "corr(age, income)") < 0.8 * width(mondrian, "corr(age, income)")

    def test_importance_moves_the_balance(self, people):
        data = people[["age", "income"]]
        keep = ["mean(age)", "mean(income)"]
        first, second = (sf.Boxes(k=5, keep=keep, importance=p).release(data, seed=1) for p in ([9, 1], [1, 9]))
        assert width(first, "mean(age)") < width(second, "mean(age)")
        assert width(first, "mean(income)") > width(second, "mean(income)")

    def test_accuracy_moves_it_the_other_way_and_may_be_a_mapping(self, people):
        data = people[["age", "income"]]
        keep = ["mean(age)", "mean(income)"]
        tight = sf.Boxes(k=5, keep=keep, accuracy={"mean(age)": 0.1, "mean(income)": 5000.0}).release(data, seed=1)
        loose = sf.Boxes(k=5, keep=keep, accuracy=[5.0, 500.0]).release(data, seed=1)
        assert width(tight, "mean(age)") < width(loose, "mean(age)")

    def test_others_keeps_columns_useful_that_no_statistic_names(self, people):
        data = people[["age", "income", "bmi"]].dropna()
        few, more = (sf.Boxes(k=5, keep=["mean(age)"], others=share).release(data, seed=1) for share in (0.0, 0.5))
        assert column_width(more, "income") < column_width(few, "income")
        assert column_width(more, "age") >= column_width(few, "age")

    def test_sampling_weights_make_the_boxes_of_heavy_records_narrower(self):
        numbers = np.random.default_rng(4)
        data = pd.DataFrame(numbers.random((4000, 2)), columns=["x", "y"])
        data["sampling"] = np.where(data.x > 0.5, 100.0, 1.0)
        spans = {}
        for role in ("weight", "other"):
            release = sf.Boxes(k=5, keep=["mean(x)", "var(y)"], others=0.0).release(
                data, schema={"sampling": role}, seed=1
            )
            spans[role] = release.estimate("mean(x)").linear_high - release.estimate("mean(x)").linear_low
        assert spans["weight"] != spans["other"]

    def test_estimates_weigh_the_records_by_their_sampling_weight(self, people):
        data = people[["age", "income"]].assign(sampling=np.where(people.age > 60, 50.0, 1.0))
        release = sf.Boxes(k=5, keep=["mean(income)"]).release(data, schema={"sampling": "weight"}, seed=1)
        estimate = release.estimate("mean(income)")
        assert estimate.low <= np.average(data.income, weights=data.sampling) <= estimate.high

    def test_a_user_s_own_statistic_can_be_kept(self, people):
        ratio = sf.Custom("proportion", ("age", "income"), lambda mean, covariance: mean[1] / mean[0])
        kept = sf.Boxes(k=5, keep=[ratio], others=0.0).release(people[["age", "income"]], seed=1)
        other = sf.Boxes(k=5, keep=["var(age)"], others=0.0).release(people[["age", "income"]], seed=1)
        intervals = [CountedBoxes.of(release.table, ("age", "income")) for release in (kept, other)]
        spans = [
            float(((one.high - one.low) * one.weight[:, None] / [people.age.mean(), people.income.mean()]).sum())
            for one in intervals
        ]
        assert spans[0] < spans[1]

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"keep": ["corr(age, nothing)"]}, StatisticError),
            ({"keep": ["mean(city)"]}, StatisticError),
            ({"keep": ["mean(age)"], "importance": [1, 2]}, OptionError),
            ({"keep": ["mean(age)"], "accuracy": {"mean(income)": 1.0}}, StatisticError),
            ({"keep": ["mean(age)"], "accuracy": [0.0]}, OptionError),
            ({"keep": "mean(age)"}, OptionError),
            ({"l": 9}, OptionError),
            ({"edges": "soft"}, OptionError),
            ({"snap": -1.0}, OptionError),
            ({"suppress": 1.5}, OptionError),
            ({"epsilon": {"city": 1.0}, "l": 2}, OptionError),
            ({"domain": {"city": (0, 1)}}, OptionError),
            ({"domain": {"age": (30, 40)}, "edges": "cells"}, CannotRelease),
        ],
    )
    def test_what_cannot_be_is_refused(self, people, options, error):
        with pytest.raises(error):
            sf.Boxes(k=5, **options).release(people)

    def test_more_rows_than_there_are_cannot_share_a_box(self, people):
        with pytest.raises(CannotRelease, match="700"):
            sf.Boxes(k=700).release(people)

    def test_a_column_that_would_meet_a_released_name_is_refused(self, people):
        with pytest.raises(OptionError, match="'age_low'"):
            sf.Boxes(k=5).release(people.assign(age_low=1.0))


class TestDiversity:
    def test_sensitive_columns_stay_diverse(self, people):
        data = people.assign(illness=np.where(people.age % 3 == 0, "flu", "none"))
        frame = sf.Boxes(k=5, l=2).release(data, schema={"illness": "sensitive"}, seed=1).table.to_pandas()
        assert frame.groupby("box").illness.nunique().min() >= 2

    def test_every_column_is_diverse_beside_a_sensitive_one_if_asked(self, people):
        rows = people.assign(illness=np.random.default_rng(1).choice(["flu", "cold", "none"], len(people)))
        names = ["age", "income", "city"]
        roles = {**dict.fromkeys(names, "quasi"), "illness": "sensitive"}

        def fewest(diverse):
            outcome = sf.Boxes(k=5, l=3, diverse=diverse).release(rows[[*names, "illness"]], schema=roles, seed=1)
            promised = [one.claim for one in outcome.findings if "values of" in one.claim or "different" in one.claim]
            sets = outcome.table.arrow.column("city").to_pylist()
            members = [parse_set(one) for one in sets]
            return promised, min(rows["city"].nunique() if ANY in one else len(one) for one in members)

        every, least = fewest("all")
        assert all(any(name in claim for claim in every) for name in (*names, "illness"))
        assert least >= 3
        alone, few = fewest("sensitive")
        assert not any("city" in claim.split(" in ")[0] for claim in alone) or few < 3  # the control

    def test_numbers_count_as_different_from_epsilon_on(self, people):
        release = sf.Boxes(k=5, l=3, epsilon={"age": 4.0}).release(people[["age", "income"]], seed=1)
        assert (release.table.numbers("age_high") - release.table.numbers("age_low")).min() >= 8.0

    def test_diversity_that_no_box_can_have_is_refused(self, people):
        with pytest.raises(sf.SfumatoError):
            sf.Boxes(k=5, l=3).release(people.assign(same="x"), schema={"same": "sensitive"})


class TestEdges:
    def test_hulls_touch_records_and_cells_do_not(self, people):
        data = people[["income"]]
        hull, cells = (sf.Boxes(k=5, edges=edges).release(data, seed=1).table for edges in ("hull", "cells"))
        assert set(hull.numbers("income_low")) <= set(people.income)
        assert not set(cells.numbers("income_low")) & set(people.income)
        assert not set(cells.numbers("income_high")) & set(people.income)

    def test_cells_reach_to_the_declared_domain(self, people):
        release = sf.Boxes(k=5, edges="cells", domain={"age": (0, 120)}).release(people[["age", "income"]], seed=1)
        assert release.table.numbers("age_low").min() == 0
        assert release.table.numbers("age_high").max() == 120

    def test_the_domain_may_stand_in_the_schema(self, people):
        schema = {"age": {"role": "quasi", "domain": [0, 120]}}
        release = sf.Boxes(k=5, edges="cells").release(people[["age"]], schema=schema, seed=1)
        assert release.table.numbers("age_high").max() == 120

    def test_faces_snap_outward_to_the_precision(self, people):
        table = sf.Boxes(k=5, snap={"income": 1000.0, "age": 5}).release(people[["age", "income"]], seed=1).table
        for name, step in (("income", 1000.0), ("age", 5)):
            assert not np.any(table.numbers(f"{name}_low") % step)
            assert not np.any(table.numbers(f"{name}_high") % step)


class TestSuppression:
    def test_outliers_go_instead_of_widening_boxes(self, people):
        data = people[["age", "income"]].copy()
        data.loc[:4, "income"] = 1e8
        data.loc[5:9, "age"] = 5000
        none, some = (
            sf.Boxes(k=5, keep=["mean(income)"], suppress=share).release(data, seed=1) for share in (0.0, 0.05)
        )
        assert none.table.rows == len(data)
        assert 0.95 * len(data) <= some.table.rows < len(data)
        assert column_width(some, "income") < column_width(none, "income")

    def test_a_table_without_outliers_loses_little(self):
        data = pd.DataFrame(np.random.default_rng(2).random((2000, 2)), columns=["x", "y"])
        assert sf.Boxes(k=5, suppress=0.2).release(data, seed=1).table.rows > 1900


class TestCategories:
    TREE = "Ulm;Germany;Europe\nBern;Switzerland;Europe\nRom;Italy;Europe\nOslo;Norway;Europe\n"

    @pytest.mark.parametrize("categories", ["sets", "tree"])
    def test_leave_as_sets_or_as_nodes_of_the_tree(self, people, tmp_path, categories):
        (tmp_path / "city.csv").write_text(self.TREE)
        schema = {"city": {"role": "quasi", "tree": str(tmp_path / "city.csv")}}
        release = sf.Boxes(k=40, categories=categories).release(people[["age", "city"]], schema=schema, seed=1)
        words = set(release.table.arrow.column("city").to_pylist())
        nodes = {"Ulm", "Bern", "Rom", "Oslo", "Germany", "Switzerland", "Italy", "Norway", "Europe"}
        assert words <= nodes if categories == "tree" else any("|" in word for word in words)

    def test_a_value_with_the_sign_of_a_set_is_not_taken_for_two(self):
        data = pd.DataFrame({"x": ["a|b", "a", "b", "(missing)", None, "\\"] * 4, "y": np.arange(24.0)})
        from sfumato.table.intervals import parse_set

        release = sf.Boxes(k=5).release(data, seed=1)
        members = {value for word in release.table.arrow.column("x").to_pylist() for value in parse_set(word)}
        assert members == {"a|b", "a", "b", "(missing)", None, "\\"}


def test_many_blocks_keep_the_same_claims_and_nearly_the_same_widths(people):
    numbers = np.random.default_rng(9)
    data = as_table(pd.DataFrame(numbers.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 20_000), columns=["x", "y"]))
    schema = Schema.for_table(data)
    method = sf.Boxes(k=5, keep=["corr(x, y)"])
    widths, promises = [], []
    for block_rows in (None, 1_000):
        plan = method.plan(MemorySurvey(data, block_rows), schema, Randomness(1))
        assert plan.blocks == 1 if block_rows is None else plan.blocks >= 20
        outcome = run(plan, data)
        findings = verify(plan.claims, [Evidence(outcome.released, data, outcome.origin)])
        promises.append([finding.claim for finding in findings])
        release = sf.Release(outcome.released)
        widths.append(width(release, "corr(x, y)"))
    assert promises[0] == promises[1]
    assert widths[1] == pytest.approx(widths[0], rel=0.03)


def test_the_limit_is_near_what_was_achieved_on_smooth_data():
    numbers = np.random.default_rng(6)
    data = pd.DataFrame(numbers.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 20_000), columns=["x", "y"])
    limit = sf.Boxes(k=5, keep=["mean(x)", "mean(y)"]).release(data, seed=1).optimality()
    assert 0.9 < limit.ratio < 1.15
    assert limit.shrunk == pytest.approx(limit.asymptotic * 4 / 6)
    mondrian = sf.Boxes(k=5, keep=["mean(x)", "mean(y)"], cut="median").release(data, seed=1).optimality()
    assert mondrian.ratio > 1.2 * limit.ratio


class TestOptimality:
    @pytest.mark.parametrize("spread", [0.1, 1.0, 1.5])
    def test_along_one_column_the_best_boxes_are_the_optimum(self, spread):
        numbers = {"x": np.random.default_rng(1).lognormal(0, spread, 400)}
        best = sf.Boxes(k=5, l=1).release(numbers, schema={"x": "quasi"}, seed=1).optimality()
        assert best.ratio == pytest.approx(1.0, abs=1e-6)
        wide = sf.Boxes(k=5, l=1, cut="median").release(numbers, schema={"x": "quasi"}, seed=1).optimality()
        assert wide.shrunk == pytest.approx(best.shrunk)
        assert wide.ratio >= 1.0

    def test_skewed_columns_do_not_raise_the_optimum(self):
        records = np.random.default_rng(2).lognormal(0, 1.5, (1000, 2))
        logs = np.log(records)
        true = np.log(1000.0) + (-(logs**2) / 4.5 - logs - np.log(1.5 * np.sqrt(2 * np.pi))).sum(axis=1)
        scores, slope = optimality.normal_scores(records)
        high = (records.max(axis=0) - records.min(axis=0)) / 2.0
        optimum = [
            optimality.half_widths(np.ones_like(records), np.log(5) - found, np.zeros(2), high).mean()
            for found in (true, log_density(scores, scores) + slope, log_density(records, records))
        ]
        assert 0.7 < optimum[1] / optimum[0] < 1.05
        assert optimum[2] / optimum[0] > 1.1  # the control: without scores

    def test_is_computed_only_when_it_is_asked_for(self, monkeypatch):
        calls = []
        monkeypatch.setattr(optimality, "log_density", lambda *data: calls.append(1) or log_density(*data))
        data = pd.DataFrame(np.random.default_rng(2).normal(size=(500, 2)), columns=["x", "y"])
        release = sf.Boxes(k=5).release(data, schema={"x": "quasi", "y": "quasi"}, seed=1)
        assert not calls
        assert release.optimality() is release.diagnostics.optimality
        assert len(calls) == 1

    def test_a_pickled_release_has_it_and_no_row_of_the_original(self):
        secret = 123.456789012345
        data = pd.DataFrame(np.random.default_rng(2).normal(size=(500, 2)), columns=["x", "y"])
        data.loc[7, "x"] = data.x.median() + secret * 1e-9  # inside its box, not at a face
        release = sf.Boxes(k=20, edges="cells").release(data, schema={"x": "quasi", "y": "quasi"}, seed=1)
        pickled = pickle.dumps(release)
        assert np.float64(data.x[7]).tobytes() not in pickled
        assert pickle.loads(pickled).optimality() == release.optimality()

    def test_says_for_how_many_records_it_was_computed(self):
        data = pd.DataFrame(np.random.default_rng(2).normal(size=(12_000, 2)), columns=["x", "y"])
        roles = {"x": "quasi", "y": "quasi"}
        assert sf.Boxes(k=5).release(data, schema=roles, seed=1).optimality().records == 10_000
        assert sf.Boxes(k=5).release(data[:500], schema=roles, seed=1).optimality().records == 500

    def test_of_the_rows_that_were_not_suppressed(self):
        data = pd.DataFrame(np.random.default_rng(2).standard_cauchy(size=(500, 2)), columns=["x", "y"])
        release = sf.Boxes(k=5, suppress=0.1).release(data, schema={"x": "quasi", "y": "quasi"}, seed=1)
        assert release.optimality().records == release.table.rows < 500

    def test_does_not_depend_on_the_scale_of_sampling_weights(self):
        draw = np.random.default_rng(2)
        data = pd.DataFrame(draw.normal(size=(2000, 2)), columns=["x", "y"])
        boxes = sf.Boxes(k=5, keep=["mean(x)"])
        roles = {"x": "quasi", "y": "quasi", "weight": "weight"}
        one, hundred = (
            boxes.release(data.assign(weight=weight), schema=roles, seed=1).optimality() for weight in (1.0, 100.0)
        )
        assert hundred.achieved == pytest.approx(one.achieved, rel=1e-6)
        assert hundred.shrunk == pytest.approx(one.shrunk, rel=1e-6)

    @pytest.mark.parametrize(
        ("spoil", "reason"), [(lambda x: x.round(), "repeat"), (lambda x: x.where(x < 1), "missing")]
    )
    def test_no_limit_is_given_where_theory_has_none(self, spoil, reason):
        data = pd.DataFrame(np.random.default_rng(2).normal(size=(500, 2)), columns=["x", "y"])
        found = sf.Boxes(k=5).release(data.assign(x=spoil(data.x)), seed=1).optimality()
        assert np.isnan(found.shrunk)
        assert np.isnan(found.ratio)
        assert reason in found.reason
        assert found.achieved > 0.0


def test_means_are_kept_alike_wherever_their_columns_have_their_zero():
    draw = np.random.default_rng(5)
    data = pd.DataFrame({"x": 1970 + draw.normal(size=2000), "y": draw.normal(size=2000)})
    release = sf.Boxes(k=5, keep=["mean(x)", "mean(y)"], others=0.0).release(data, seed=1)
    widths = [one.linear_high - one.linear_low for one in map(release.estimate, ("mean(x)", "mean(y)"))]
    assert 0.7 <= widths[0] / widths[1] <= 1.4


class TestDefaultDiversity:
    def test_a_sensitive_column_has_two_values_in_every_box_without_being_asked(self):
        draw = np.random.default_rng(4)
        people = pd.DataFrame({"age": np.arange(300), "illness": draw.choice(["a", "b"], 300, p=[0.7, 0.3])})
        release = sf.Boxes(k=5).release(people, schema={"age": "quasi", "illness": "sensitive"}, seed=1)
        assert release.table.to_pandas().groupby("box")["illness"].nunique().min() >= 2
        assert release.manifest.notes["l"] == 2
        assert release.manifest.notes["protected by l"] == ["illness"]

    def test_a_rare_value_stops_the_release_and_says_what_it_would_cost(self):
        people = pd.DataFrame({"age": np.arange(1000), "hiv": ["no"] * 990 + ["yes"] * 10})
        roles = {"age": "quasi", "hiv": "sensitive"}
        with pytest.raises(CannotRelease, match=r"at most 10 groups instead of about 200.*l=1") as refused:
            sf.Boxes(k=5).release(people, schema=roles)
        assert "95%" in str(refused.value), "the share of people who would be in a box with one value"
        assert sf.Boxes(k=5, l=1).release(people, schema=roles).manifest.options["l"] == 1

    def test_without_a_sensitive_column_nothing_is_asked_unless_l_is_given(self):
        people = pd.DataFrame({"age": np.arange(100), "sex": ["f", "m"] * 50})
        roles = {"age": "quasi", "sex": "quasi"}
        assert sf.Boxes(k=5).release(people, schema=roles).manifest.notes["protected by l"] == []
        assert sf.Boxes(k=5, l=2).release(people, schema=roles).manifest.notes["protected by l"] == ["age", "sex"]


class TestOptionsThatWereIgnored:
    DATA = pd.DataFrame({"x": np.linspace(0.03, 9.97, 40), "sex": ["f", "m"] * 20})
    ROLES: ClassVar = {"x": "quasi", "sex": "quasi"}

    def test_overlap_without_a_search_is_refused(self):
        with pytest.raises(OptionError, match="only after a search"):
            sf.Boxes(k=5, overlap="allowed")

    def test_a_domain_is_checked_with_hulls_too(self):
        with pytest.raises(CannotRelease, match="declared domain"):
            sf.Boxes(k=5, domain={"x": (0.0, 5.0)}).release(self.DATA, schema=self.ROLES)

    def test_words_of_a_column_that_is_not_there_are_named(self):
        rule = ["x matters most when x is tiny"]
        with pytest.raises(OptionError, match="words must name columns"):
            sf.Boxes(k=5, rules=rule, words={"y": {"tiny": (0, 0, 1)}}).release(self.DATA, schema=self.ROLES)

    def test_a_rule_that_is_never_true_is_named(self):
        words = {"x": {"huge": (100, 110, 120)}}
        with pytest.raises(OptionError, match="must be true of at least one record"):
            sf.Boxes(k=5, rules=["x matters most when x is huge"], words=words).release(self.DATA, schema=self.ROLES)

    def test_snapped_faces_have_the_decimals_of_the_step(self):
        release = sf.Boxes(k=5, snap=0.1).release(self.DATA, schema=self.ROLES)
        faces = np.concatenate([release.table.numbers("x_low"), release.table.numbers("x_high")])
        assert all(len(repr(float(face)).partition(".")[2]) <= 1 for face in faces)

    def test_a_quantile_cannot_be_kept_and_the_reason_says_what_can(self):
        with pytest.raises(StatisticError, match=r"how a record changes it.*difference"):
            sf.Boxes(k=5, keep=["median(x)"]).release(self.DATA, schema=self.ROLES)

    def test_where_quantiles_tie_a_value_is_low_and_not_middle_too(self):
        quantiles = np.array([0.0, 0.0, 0.0])
        zeros = np.zeros(3)
        assert Trapezoid.between(quantiles, "low").membership(zeros).tolist() == [1.0, 1.0, 1.0]
        assert Trapezoid.between(quantiles, "middle").membership(zeros).tolist() == [0.0, 0.0, 0.0]
        some = np.array([0.0, 0.0, 4.0])
        assert Trapezoid.between(some, "middle").membership(np.array([0.0, 2.0, 4.0])).tolist() == [0.0, 1.0, 0.0]
