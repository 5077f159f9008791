"""The parts of the report: verdicts, distributions after the release, gauges, widths, and the command."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.release.assessment import Assessment, Score
from sfumato.report import html
from sfumato.report.contents import contents, decisions, verdict
from sfumato.report.distributions import distributions, gauges, groups
from sfumato.report.html import Report
from sfumato.report.reproduction import describe_value, reproduction
from sfumato.report.summary import quantity_text
from sfumato.report.usefulness import measure_widths
from sfumato.schema.schema import Schema

ROWS = 400


def people() -> pa.Table:
    numbers = np.random.default_rng(3)
    age = numbers.integers(18, 90, ROWS)
    return pa.table(
        {
            "age": age,
            "income": (age * 50 + numbers.normal(0, 400, ROWS)).round(2),
            "sex": numbers.choice(["f", "m"], ROWS),
            "health": numbers.choice(["well", "fair", "ill"], ROWS, p=[0.5, 0.3, 0.2]),
        }
    )


ROLES = {"age": "quasi", "income": "quasi", "sex": "quasi", "health": "sensitive"}


@pytest.fixture(scope="module")
def release():
    return sf.Boxes(k=5, keep=["mean(age)", "corr(age, income)"]).release(people(), schema=ROLES, seed=1)


def assessment(*scores: Score) -> Assessment:
    return Assessment(
        method="boxes", original_rows=9, released_rows=9, reference_rows=9, columns=2, scores=scores, omitted=()
    )


def score(name: str, *, passed: bool | None, family: str = "privacy", value: float = 0.6) -> Score:
    return Score(name=name, family=family, value=value, better="lower", rows=200, low=0.5, high=0.7, passed=passed)


class TestVerdict:
    def test_promises_that_hold_are_good_and_say_among_how_many_people_one_hides(self, release):
        found = verdict(release)
        assert found.tone == "good"
        assert any("looks exactly like at least 4 others" in sentence for sentence in found.sentences)
        assert any("no assessment" in sentence for sentence in found.sentences)

    def test_failed_privacy_tests_come_before_good_news(self, release):
        failed = assessment(score("linkability", passed=False), score("singling out", passed=True))
        found = verdict(replace(release, assessment=failed))
        assert (found.tone, found.headline) == ("caution", "The privacy promises are kept, but 1 privacy test failed.")

    def test_plain_questions_come_first_and_names_of_tests_last(self, release):
        failed = assessment(score("linkability", passed=False), score("isolation", passed=False))
        found = verdict(replace(release, assessment=failed)).sentences
        asked = next(one for one in found if one.startswith("2 of 2 privacy tests failed. They ask:"))
        assert "two halves of a person" in asked and "linkability" not in " ".join(found[:-1])
        assert found[-1] == "The failed tests: “linkability” and “isolation”."

    def test_a_failed_test_of_utility_alone_is_said_but_no_danger(self, release):
        found = verdict(replace(release, assessment=assessment(score("x", passed=False, family="utility"))))
        assert found.tone == "good"
        assert any("1 of 1 utility test failed" in sentence for sentence in found.sentences)

    def test_one_test_is_not_all_of_them(self, release):
        passed = assessment(score("x", passed=True, family="utility"), score("linkability", passed=True))
        found = " ".join(verdict(replace(release, assessment=passed)).sentences)
        assert "The utility test passed: it differs" in found and "All 1" not in found

    def test_a_broken_promise_forbids_publication(self, release):
        broken = replace(release.manifest.findings[0], held=False)
        manifest = replace(release.manifest, findings=(broken, *release.manifest.findings[1:]))
        assert verdict(replace(release, manifest=manifest)).headline.startswith("Do not publish")

    def test_people_are_asked_about_roles_exact_columns_and_recipients(self, release):
        asked = " ".join(decisions(release, (), contents(release).usefulness))
        assert "age, income and sex" in asked
        assert "May health be published exactly" in asked
        assert "legal basis" in asked
        assert "hiding among 5" in asked

    def test_nothing_that_is_signed_is_left_out(self):
        names = [f"column_{number}" for number in range(30)]
        table = {name: np.random.default_rng(number).normal(size=40) for number, name in enumerate(names)}
        made = sf.Boxes(k=5).release(table, schema=dict.fromkeys(names[1:], "other") | {names[0]: "quasi"}, seed=1)
        asked = " ".join(decisions(made, (), contents(made).usefulness))
        assert all(name in asked for name in names)
        assert " more" not in asked


class TestDistributions:
    def test_yes_and_no_are_compared_with_the_original_also_where_they_are_sets(self):
        numbers = np.random.default_rng(1)
        table = {f"x{n}": numbers.normal(size=ROWS) for n in range(5)} | {"smoker": numbers.random(ROWS) < 0.4}
        made = sf.Boxes(k=5, keep=["mean(x0)"]).release(table, schema=dict.fromkeys(table, "quasi"), seed=1)
        assert "smoker" in made.manifest.sets
        assert all(one.before is not None for one in distributions(made)["smoker"].bins)

    def test_both_distributions_of_a_column_are_near_each_other_and_rounded(self, release):
        found = distributions(release)
        assert set(found) == {"age", "income", "sex", "health"}
        for one in found.values():
            for share in (*(b.before for b in one.bins), *(b.after for b in one.bins)):
                assert share / one.step == pytest.approx(round(share / one.step))
            assert sum(b.after for b in one.bins) == pytest.approx(1.0, abs=0.05)
            assert sum(b.before for b in one.bins) == pytest.approx(1.0, abs=0.05)
        health = {b.label: (b.before, b.after) for b in found["health"].bins}
        assert all(before == after for before, after in health.values()), "it is released as it is"

    def test_a_release_that_was_read_shows_itself_only(self, release, tmp_path):
        read = sf.read_release(release.write(tmp_path / "out"))
        found = distributions(read)
        assert found
        assert not any(one.has_before for one in found.values())

    def test_the_page_of_a_release_that_was_read_says_that_the_original_is_missing(self, release, tmp_path):
        again = sf.read_release(release.write(tmp_path / "out"))
        assert "The original is not shown" in html.Report.of(again).page
        assert "The original is not shown" not in html.Report.of(release).page

    def test_a_category_of_the_original_that_is_not_released_is_not_named(self, release):
        planted = tuple(
            replace(one, labels=("secret", *one.labels[1:])) if one.column == "health" else one
            for one in release.before
        )
        shown = distributions(replace(release, before=planted))["health"]
        assert [one.label for one in shown.bins] == ["1st", "2nd", "other values"]
        assert shown.bins[-1].before > 0.4, "it is one of the others"

    def test_no_category_is_named(self, release):
        made = html.Report.of(release)
        assert not [word for word in ("well", "fair", "ill") if f">{word}<" in made.page or f'"{word}"' in made.numbers]

    def test_nothing_of_the_original_is_shown_under_differential_privacy(self):
        made = sf.PrivateSample(epsilon=2.0, delta=1e-2, levels={"sex": 0, "health": 0}).release(
            people().select(["sex", "health"]), schema={"sex": "quasi", "health": "quasi"}, seed=1
        )
        assert made.before == ()


class TestRisk:
    def test_groups_are_counted_by_size(self, release):
        found = groups(release)
        assert found.smallest >= 5
        assert found.alone == 0
        assert sum(one.people for one in found.classes) == found.rows == ROWS
        assert sum(one.groups for one in found.classes) == found.groups

    def test_rows_that_are_alone_are_counted(self):
        noisy = sf.Noise(level=0.1).release(people(), schema=ROLES, seed=1)
        assert groups(noisy).alone > 300

    def test_gauges_have_their_reference_and_failed_tests_come_first(self):
        found = gauges(
            assessment(
                score("correct nearest matches", passed=None),
                score("membership by nearest row", passed=True),
                score("linkability", passed=False),
                score("change in means", passed=None, family="utility"),
            )
        )
        assert [one.name for one in found] == ["linkability", "membership by nearest row", "correct nearest matches"]
        assert [one.reference for one in found] == [0.0, 0.5, 1 / 200]


class TestWidths:
    def test_the_width_is_measured_against_the_spread_of_the_column(self, release):
        mean, correlation = measure_widths(release, [release.estimate(s) for s in ("mean(age)", "corr(age, income)")])
        spread = np.std(release.to_pandas(midpoints=True)["age"])
        assert mean.spread == pytest.approx(spread, rel=0.1)
        assert mean.width == pytest.approx((mean.estimate.high - mean.estimate.low) / 2 / mean.spread)
        assert correlation.spread == 1.0
        assert mean.words in ("narrow", "usable")

    def test_a_useless_interval_looks_useless(self):
        wide = sf.read_release({"x_low": [0.0, 0.0, 1.0], "x_high": [90.0, 91.0, 95.0]})
        (shown,) = measure_widths(wide, [wide.estimate("mean(x)")])
        assert shown.words == "useless"
        assert (shown.band.low, shown.band.high) == (0.0, 1.0)

    def test_a_few_very_wide_boxes_are_no_spread(self):
        low = [*np.linspace(0.0, 10.0, 97), 0.0, 0.0, 0.0]
        wide = sf.read_release({"x_low": low, "x_high": [*(end + 1.0 for end in low[:97]), *[9000.0] * 3]})
        (shown,) = measure_widths(wide, [wide.estimate("mean(x)")])
        assert shown.spread < 5.0
        assert shown.words == "useless", "the interval is 270 long"

    def test_coefficients_of_a_regression_have_their_own_spread(self, release):
        shown = measure_widths(release, release.estimates("regress(income ~ age)"))
        assert all(one.spread is not None for one in shown)
        assert shown[1].spread == pytest.approx(50.0, rel=0.3)


class TestRecovered:
    def test_estimates_from_noise_are_shown_with_their_error_and_named_so(self):
        released = sf.Noise(level=0.4).release(people(), schema={"age": "quasi", "income": "quasi"})
        report = Report.of(released)
        expected = released.estimate("sd(income)")
        shown = {one["name"]: one for one in json.loads(report.numbers)["recovered"]}
        assert shown["sd(income)"]["value"] == pytest.approx(expected.value)
        assert shown["sd(income)"]["guarantee"] == "an estimate, no guarantee"
        text = " ".join(re.sub("<[^>]*>", " ", report.page).split())
        assert f"{quantity_text(expected.value, '')} ± {quantity_text(expected.standard_error, '')}" in text
        assert "without a guarantee" in text

    def test_a_release_without_noise_has_none(self, release):
        assert json.loads(Report.of(release).numbers)["recovered"] == []
        assert "estimated from the noise" not in html.Report.of(release).page


class TestReproduction:
    def test_the_command_makes_the_same_options_again(self, release, tmp_path):
        from sfumato.cli.commands import run
        from sfumato.formats.exports import write

        made = reproduction(release.manifest)
        words = shlex.split(made.command.replace("\\\n", ""))
        (tmp_path / "schema.toml").write_text(made.schema)
        write(people(), tmp_path / "people.csv")
        names = {
            "FILE": str(tmp_path / "people.csv"),
            "DIR": str(tmp_path / "out"),
            "schema.toml": str(tmp_path / "schema.toml"),
        }
        assert run([names.get(word, word) for word in words[1:]]) == 0
        again = sf.read_release(tmp_path / "out").manifest
        assert again.options == release.manifest.options
        assert again.columns == release.manifest.columns

    def test_options_are_text_and_no_lists_of_a_program(self, release):
        shown = {option.name: option for option in reproduction(release.manifest).options}
        assert shown["keep"].value == "mean(age), corr(age, income)"
        assert not shown["k"].is_default
        assert shown["edges"].is_default
        assert not any(sign in option.value for option in shown.values() for sign in "[]{}")

    def test_the_schema_is_one_that_can_be_read(self, release, tmp_path):
        (tmp_path / "schema.toml").write_text(reproduction(release.manifest).schema)
        read = Schema.of(str(tmp_path / "schema.toml"))
        assert {column.name: str(column.role) for column in read.columns} == ROLES

    def test_notes_are_shown_without_the_signs_of_a_program(self):
        assert describe_value({"columns": ["age", "sex"], "kept": [], "x": {"how": None}, "y": True}) == (
            "columns: age, sex; kept: none; x: how: none; y: yes"
        )


def test_a_spread_below_the_precision_of_the_numbers_has_a_place():
    low, high = [2**53 - 40] * 200 + [2**53 - 38] * 12, [2**53 - 37] * 200 + [2**53 - 35] * 12
    boxes = sf.read_release({"x_low": low, "x_high": high})
    (shown,) = measure_widths(boxes, boxes.estimates("mean(x)"))
    assert shown.spread is not None
    assert 0.0 < shown.spread < 0.5
    assert shown.band is not None
    assert 0.0 <= shown.band.low <= shown.band.high <= 1.0
