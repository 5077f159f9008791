"""The assessment as a whole: every measure in the registry, as a record, a table and JSON."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import OptionError, RequestError, TableError
from sfumato.job.assess import assess
from sfumato.measures.assess import ComparisonOptions
from sfumato.measures.confidence import AttackRisk
from sfumato.measures.registry import MEASURES
from sfumato.methods.spectral.histograms import SpectralHistogram
from sfumato.release.assessment import Score
from sfumato.release.release import Release
from sfumato.table.table import Table


@pytest.fixture(scope="module")
def judged(original, reference):
    return assess(original, original, reference, origin=np.arange(original.rows), seed=1)


def test_every_measure_that_can_be_taken_is(judged):
    assert {one.name for one in judged.omitted} == {"boxes"}
    assert len({score.name for score in judged.scores}) == len(judged.scores)
    assert {score.family for score in judged.scores} == {"privacy", "utility"}


def test_every_score_says_what_it_is(judged):
    for score in judged.scores:
        assert np.isfinite(score.value)
        assert score.rows > 0
        assert score.note
        assert (score.low is None) == (score.high is None)
        if score.low is not None:
            assert score.low <= score.value <= score.high


def test_a_measure_that_cannot_be_taken_says_why(original):
    judged = assess(original, original, seed=1)
    assert {one.name for one in judged.omitted} == {
        "boxes",
        "linkage",
        "fellegi-sunter",
        "suppression",
        "downcoding",
        "imputation",
        "known-mechanism",
        "columnwise-groups",
        "isolation",
        "membership",
        "inference",
        "linkability",
        "singling-out",
        "noise-stripping",
    }
    assert all("need" in one.reason or "no boxes" in one.reason for one in judged.omitted)
    assert judged.reference_rows == 0


def test_single_measures_can_be_asked_for(original):
    judged = assess(original, original, measures=["moments"], seed=1)
    assert len(judged.scores) == 4
    assert judged["change in means"].value == 0.0
    with pytest.raises(RequestError, match="no score"):
        judged["beauty"]
    with pytest.raises(OptionError, match="no measure"):
        assess(original, original, measures=["beauty"])
    with pytest.raises(OptionError, match="metric"):
        assess(original, original, metric="taxi")


def test_the_same_seed_gives_the_same_scores(original, reference, independent):
    first, again = (assess(original, independent, reference, seed=3) for _ in range(2))
    assert first == again


def test_it_reads_as_a_table(judged):
    text = str(judged)
    assert "Privacy" in text
    assert "Utility" in text
    assert "Worst attack" in text
    for score in judged.scores:
        assert score.name in text


def test_it_is_written_as_json(judged):
    told = json.loads(judged.to_json())
    assert len(told["scores"]) == len(judged.scores)
    assert set(told["scores"][0]) == {field.name for field in fields(Score)}
    assert told["worst_attack"] == judged.worst_attack.name


def test_a_number_that_is_none_is_null_in_json():
    score = Score(name="x", family="privacy", value=float("nan"), better="lower", rows=1)
    assert score.to_plain()["value"] is None


def test_releases_are_read_with_their_manifest(original):
    release = SpectralHistogram(k=5).release(original, schema=dict.fromkeys(original.names, "quasi"), seed=1)
    judged = assess(original, release, measures=["prediction", "moments"], seed=1)
    assert judged.method == "spectral-rhs"
    assert judged["prediction ambiguity, median"].value == pytest.approx(1.0)


def test_boxes_are_judged_as_boxes(original):
    age = original.numbers("age")
    boxes = pa.table({"age_low": np.floor(age / 10) * 10, "age_high": np.floor(age / 10) * 10 + 10})
    judged = assess(original, Release(Table.from_arrow(boxes)), measures=["boxes", "prediction"], seed=1)
    assert judged["people who fit a box, fewest"].value >= 20
    assert judged.columns == 1


def test_an_intruder_may_know_some_columns_only(original, reference):
    knows_all, knows_two = (
        assess(original, original, reference, measures=["membership"], columns=columns, seed=1)
        for columns in (None, ["sex", "city"])
    )
    assert knows_two.columns == 2
    assert knows_all["membership by nearest row"].value == 1.0
    assert knows_two["membership by nearest row"].value < 0.6  # six combinations give nobody away
    with pytest.raises(TableError, match="no column"):
        assess(original, original, columns=["beauty"])


draw = np.random.default_rng(1)
ODD = {
    "three rows": pa.table({"x": [1.0, 2.0, 4.0]}),
    "more columns than rows": pa.table({f"x{i}": draw.normal(size=7) for i in range(20)}),
    "constant": pa.table({"x": [3.0] * 6, "c": ["a"] * 6}),
    "collinear": pa.table({"x": np.arange(60.0), "y": 2 * np.arange(60.0) + 1, "z": 5 - np.arange(60.0)}),
    "all categorical": pa.table({"c": list("abcab"), "d": list("xxyyx")}),
    "one rare person": pa.table({"x": draw.normal(size=80), "hiv": ["negative"] * 79 + ["positive"]}),
    "missing": pa.table({"x": pa.array([1.0, None, 2.0, None]), "n": [1, 2, 3, 4], "c": ["a", None, None, "b"]}),
    "all missing": pa.table({"x": pa.nulls(5, pa.float64()), "c": pa.nulls(5, pa.string()), "n": range(5)}),
    "days": pa.table(
        {
            "born": pa.array([None, 100, 200, 5, 7], pa.int32()).cast(pa.date32()),
            "seen": pa.array([1, 2, 3, 4, None]).cast(pa.timestamp("us")),
        }
    ),
    "one row": pa.table({"x": [1.0], "c": ["a"]}),
}


@pytest.mark.parametrize("metric", ["standardised", "mahalanobis", "mixed", "probability"])
@pytest.mark.parametrize("name", ODD)
def test_small_and_odd_tables_are_judged(name, metric):
    odd = ODD[name]
    for reference, origin in ((None, None), (odd, np.arange(odd.num_rows))):
        judged = assess(odd, odd, reference, origin=origin, metric=metric, seed=1)
        assert json.loads(judged.to_json())["scores"]
        assert judged["change in means"].value == 0.0
        assert judged["prediction distance, median"].value == 0.0


@pytest.mark.parametrize("side", ["original", "release", "reference"])
def test_infinities_are_refused_and_not_quoted(side):
    plain, infinite = pa.table({"x": [1.0, 2.0, 7777.25]}), pa.table({"x": [1.0, np.inf, 7777.25]})
    tables = {name: infinite if name == side else plain for name in ("original", "release", "reference")}
    with pytest.raises(TableError, match="finite") as refused:
        assess(*tables.values(), seed=1)
    assert "'x'" in str(refused.value)
    assert "7777" not in str(refused.value)


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (np.arange(399), "for each released row"),
        (np.arange(400.0), "for each released row"),
        (np.arange(400) + 1, "1 other numbers"),
        (np.arange(400) - 2, "1 other numbers"),
    ],
)
def test_an_origin_that_fits_no_rows_is_refused(original, origin, words):
    with pytest.raises(OptionError, match=words):
        assess(original, original, origin=origin)


def test_rows_that_are_nobodys_are_never_right(original):
    nobody = assess(original, original, origin=np.full(400, -1), measures=["linkage"], seed=1)
    assert nobody["correct one-to-one matches"].value == 0.0


def test_where_all_matches_are_right_there_is_nothing_to_tell_them_from(judged):
    assert judged["correct nearest matches"].value == 1.0
    assert not any("recognised by" in score.name for score in judged.scores)


class TestRisk:
    def test_is_what_is_gained_beyond_people_outside(self):
        assert AttackRisk.of(1000, 1000, 0, 1000).value > 0.99
        assert AttackRisk.of(300, 1000, 300, 1000).value == 0.0
        assert AttackRisk.of(650, 1000, 300, 1000).value == pytest.approx(0.5, abs=0.01)
        assert AttackRisk.of(100, 1000, 300, 1000).value == 0.0

    def test_is_caught_only_beyond_chance(self):
        assert not AttackRisk.of(310, 1000, 300, 1000).is_significant
        assert AttackRisk.of(400, 1000, 300, 1000).is_significant

    def test_without_attacks_nothing_is_known(self):
        assert not AttackRisk.of(0, 0, 0, 0).is_significant


def test_every_measure_can_be_imported_by_its_word():
    from importlib import import_module

    for measure in MEASURES.values():
        assert callable(getattr(import_module(f"sfumato.measures.{measure.module}"), measure.function))


@pytest.mark.parametrize("function", [sf.assess, sf.release_and_assess])
def test_every_option_of_a_comparison_is_an_argument_with_the_same_default(function):
    arguments = inspect.signature(function).parameters
    for field in fields(ComparisonOptions):
        assert arguments[field.name].default == field.default


class TestTiedRows:
    def test_a_table_of_equal_rows_is_assessed_and_reveals_nobody(self):
        table = {"a": [3.0] * 60, "b": ["x"] * 60}
        assert assess(table, table).passed is not False

    def test_equal_rows_do_not_fail_because_released_ones_come_first(self):
        # the search for the nearest rows of a pool stopped at 48, and found equal released rows before the others
        failed = 0
        for seed in range(4):
            draw = np.random.default_rng([seed, 17])
            amount, yes = draw.exponential(size=(2, 100)), draw.integers(0, 2, (2, 100)).astype(float)
            amount[draw.random((2, 100)) < 0.9] = 0.0
            people, others = ({"amount": amount[side], "yes": yes[side]} for side in (0, 1))
            failed += assess(people, others, measures=["reference"], seed=seed).passed is False
        assert failed <= 1


def test_the_schema_may_be_a_file(original, tmp_path):
    file = tmp_path / "schema.toml"
    schema = sf.Schema.of(dict.fromkeys(original.names, "quasi"))
    file.write_text(schema.to_toml(tmp_path))
    release = sf.Microaggregate(k=5).release(original, schema=file, seed=1)
    scores = [sf.assess(original, release, measures=["moments"], schema=given, seed=1) for given in (file, schema)]
    assert scores[0].to_json() == scores[1].to_json()
