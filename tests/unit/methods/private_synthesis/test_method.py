"""Private synthesis as a whole: what is released, what is refused, and that nothing else leaves."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

AGES = {"role": "quasi", "domain": [0, 99]}
SCHEMA = {"age": AGES, "income": {"role": "quasi", "domain": [0, 10_000]}, "sex": "quasi", "retired": "sensitive"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    age = generator.integers(18, 95, 6000)
    sex = pd.Categorical(generator.choice(["f", "m"], 6000), categories=["f", "m", "x"])
    income = np.where(age > 66, 1500.0, 20.0 * age + generator.gamma(2.0, 300.0, 6000)).clip(0, 10_000)
    return pd.DataFrame({"age": age, "income": income, "sex": sex, "retired": age > 66})


@pytest.fixture(scope="module")
def release(people):
    return sf.PrivateSynthesis(epsilon=2.0, delta=1e-6).release(people, schema=SCHEMA)


class TestRelease:
    def test_the_promise_is_said(self, release):
        assert release.manifest.guarantee == "(2, 1e-06)-differentially private for one row"

    def test_columns_have_the_kinds_and_values_of_their_domains(self, release):
        frame = release.to_pandas(midpoints=True)
        assert list(frame) == ["age", "income", "sex", "retired"]
        assert frame.age.dtype.kind == "i" or str(frame.age.dtype) == "Int64"
        assert frame.age.between(0, 99).all()
        assert frame.income.between(0.0, 10_000.0).all()
        assert set(frame.sex.dropna()) <= {"f", "m", "x"}

    def test_relations_between_columns_are_kept(self, people):
        """Which pairs are measured is random, so the median of five releases is judged."""
        method = sf.PrivateSynthesis(epsilon=2.0)
        frames = [method.release(people, schema=SCHEMA).to_pandas(midpoints=True) for _ in range(5)]

        def median(figure):
            return float(np.median([figure(frame) for frame in frames]))

        assert abs(median(lambda frame: frame.age.mean()) - people.age.mean()) < 2.0
        assert abs(median(len) - len(people)) < 200
        assert median(lambda frame: (frame.age[frame.retired.eq(True).fillna(False).astype(bool)] > 60).mean()) > 0.95
        assert 0.1 < median(lambda frame: frame.age.corr(frame.income)) < 0.5  # 0.34 in the original, 0 if independent

    def test_no_row_is_that_of_a_person(self, people, release):
        assert set(release.manifest.altered) == set(people)
        assert release.manifest.unaltered == ()

    def test_it_can_be_written_read_and_verified(self, release, tmp_path):
        release.write(tmp_path / "out")
        again = sf.read_release(tmp_path / "out")
        assert again.table.rows == release.table.rows
        assert again.estimate("count(age > 66)") == release.estimate("count(age > 66)")

    def test_the_budget_is_spent_and_not_more(self, release):
        rho = release.manifest.notes["rho"]
        assert 0.999 * rho["budget"] <= rho["spent"] <= rho["budget"]

    def test_a_spanning_tree_measures_one_pair_less_than_columns(self, people):
        release = sf.PrivateSynthesis(kind="mst").release(people, schema=SCHEMA)
        assert len(release.manifest.notes["pairs"]) == 3

    def test_kept_statistics_get_their_pair(self, people):
        method = sf.PrivateSynthesis(epsilon=1.0, keep=["corr(age, income)", "mean(income)"])
        release = method.release(people, schema=SCHEMA)
        assert {"age", "income"} in [set(pair["columns"]) for pair in release.manifest.notes["pairs"]]
        assert release.manifest.keep == ("corr(age, income)", "mean(income)")

    def test_no_seed_is_taken(self, people):
        with pytest.raises(sf.SfumatoError, match="seed"):
            sf.PrivateSynthesis().release(people, schema=SCHEMA, seed=1)


class TestEstimates:
    QUESTIONS = (
        ("mean(age)", lambda d: d.age.mean()),
        ("sum(income)", lambda d: d.income.sum()),
        ("count(age > 66)", lambda d: (d.age > 66).sum()),
        ("share(retired = true)", lambda d: d.retired.mean()),
        ("median(income)", lambda d: d.income.median()),
        ('count(sex = "f")', lambda d: (d.sex == "f").sum()),
    )

    @pytest.mark.parametrize(("question", "truth"), QUESTIONS)
    def test_intervals_have_a_probability_and_hold(self, people, release, question, truth):
        estimate = release.estimate(question)
        assert estimate.probability == 0.95
        slack = 0.5 * (estimate.high - estimate.low)  # one release: an interval may miss, but not by its own width
        assert estimate.low - slack <= truth(people) <= estimate.high + slack
        assert np.isfinite([estimate.low, estimate.high]).all()

    def test_they_hold_as_often_as_they_say(self):
        generator = np.random.default_rng(3)
        x = generator.integers(0, 20, 800)
        people = pd.DataFrame({"x": x, "g": pd.Categorical(np.where(x + generator.integers(0, 9, 800) > 14, "a", "b"))})
        schema = {"x": {"role": "quasi", "domain": [0, 19]}, "g": "quasi"}
        truths = {"mean(x)": x.mean(), "count(x < 5)": (x < 5).sum(), 'count(x < 5 and g = "b")': None}
        truths['count(x < 5 and g = "b")'] = ((x < 5) & (people.g == "b")).sum()
        hits, halves, runs = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0), 200
        for _ in range(runs):
            release = sf.PrivateSynthesis(epsilon=1.0).release(people, schema=schema)
            for question, truth in truths.items():
                one = release.estimate(question)
                hits[question] += one.low <= truth <= one.high
                narrow = 0.15 * (one.high - one.low)
                halves[question] += abs(one.value - truth) <= narrow
        least = 0.87 * runs  # 0.95 expected, and less than 0.87 by chance in fewer than 1 of 10,000 tests
        assert min(hits.values()) >= least
        assert halves["count(x < 5)"] < least  # control: intervals of a third of the width would be seen to fail

    def test_what_was_not_measured_has_no_interval(self, release):
        estimate = release.estimate('count(age > 30 and sex = "f" and retired = true)')
        assert estimate.low == -np.inf


class TestInput:
    def test_every_column_needs_a_role(self, people):
        with pytest.raises(sf.SfumatoError, match="role"):
            sf.PrivateSynthesis().release(people, schema={"age": AGES})

    def test_a_domain_that_is_not_declared_is_found_privately(self, people):
        schema = {**SCHEMA, "income": "quasi", "town": "quasi"}
        town = np.where(np.arange(len(people)) % 3 == 0, "Ulm", "Bern").astype(object)
        town[0] = "Rare-Canary"
        release = sf.PrivateSynthesis(epsilon=4.0).release(people.assign(town=town), schema=schema)
        frame = release.to_pandas(midpoints=True)
        assert set(frame.town.dropna()) == {"Ulm", "Bern"}
        assert abs(frame.income.median() - people.income.median()) < 600
        assert "Canary" not in json.dumps(json.loads(release.manifest.to_json()))

    @pytest.mark.parametrize("rows", [0, 1])
    def test_a_table_of_nobody_and_one_of_one_person_are_released_alike(self, people, rows):
        release = sf.PrivateSynthesis().release(people.iloc[:rows], schema=SCHEMA)
        assert release.table.rows >= 1
        assert release.manifest.rows_in is None

    def test_a_constant_column_is_released(self):
        people = pd.DataFrame({"x": np.full(500, 7), "g": pd.Categorical(["a"] * 500)})
        schema = {"x": {"role": "quasi", "domain": [7, 7]}, "g": "quasi"}
        frame = sf.PrivateSynthesis().release(people, schema=schema).to_pandas(midpoints=True)
        assert set(frame.x) == {7}
        assert set(frame.g) == {"a"}

    def test_missing_values_are_released_as_often(self, people):
        incomplete = people.assign(income=people.income.where(people.age % 3 > 0))
        frame = sf.PrivateSynthesis(epsilon=4.0).release(incomplete, schema=SCHEMA).to_pandas(midpoints=True)
        assert abs(frame.income.isna().mean() - incomplete.income.isna().mean()) < 0.05
        assert frame.age.notna().all()

    def test_dates_are_released_as_dates(self):
        days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.random.default_rng(0).integers(0, 365, 3000), unit="D")
        people = pd.DataFrame({"day": days.date, "sex": pd.Categorical(["f", "m"] * 1500)})
        schema = {"day": {"role": "quasi", "kind": "date", "domain": [18262, 18627]}, "sex": "quasi"}
        release = sf.PrivateSynthesis(epsilon=2.0).release(people, schema=schema)
        found = release.table.arrow.column("day").to_pylist()
        assert min(found) >= pd.Timestamp("2020-01-01").date()
        assert max(found) <= pd.Timestamp("2020-12-31").date()

    def test_rows_of_a_person_are_limited(self, people):
        doubled = pd.concat([people, people], ignore_index=True)
        doubled["id"] = np.tile(np.arange(len(people)), 2)
        schema = {**SCHEMA, "id": "person"}
        one, two = (sf.PrivateSynthesis(rows_per_person=most).release(doubled, schema=schema) for most in (1, 2))
        assert "one person with at most 2 rows" in two.manifest.guarantee
        assert one.table.rows == pytest.approx(len(people), rel=0.1)
        assert two.table.rows == pytest.approx(2 * len(people), rel=0.1)
        assert "id" not in one.table.names

    def test_keep_must_be_a_list_of_known_statistics(self, people):
        with pytest.raises(sf.SfumatoError, match="list"):
            sf.PrivateSynthesis(keep="mean(age)")
        with pytest.raises(sf.SfumatoError, match="bmi"):
            sf.PrivateSynthesis(keep=["mean(bmi)"]).release(people, schema=SCHEMA)

    def test_many_columns_take_little_memory(self):
        generator = np.random.default_rng(5)
        wide = pd.DataFrame({f"c{place}": generator.integers(0, 50, 400) for place in range(12)})
        schema = {name: {"role": "quasi", "domain": [0, 49]} for name in wide}
        release = sf.PrivateSynthesis(epsilon=8.0).release(wide, schema=schema)
        assert release.manifest.notes["model cells"] <= 500_000


def test_nothing_of_a_person_is_in_what_is_written(people, tmp_path):
    planted = people.assign(age=people.age.where(people.index > 0, 17))  # the only person below 18
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = sf.PrivateSynthesis(epsilon=0.5).release(planted, schema=SCHEMA)
    written = release.manifest.to_json()
    assert f'"rows_in": {len(people)}' not in written
