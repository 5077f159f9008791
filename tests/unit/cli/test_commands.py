"""The commands: results on standard output, everything else on standard error, and exit codes to rely on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sfumato.cli.commands import run
from sfumato.version import __version__

ROWS = 80


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Path:
    numbers = np.random.default_rng(6)
    path = tmp_path_factory.mktemp("data") / "people.csv"
    rows = [
        f"{row},{numbers.integers(18, 80)},{numbers.normal(100, 15):.2f},{numbers.choice(['Ulm', 'Rom', ''])}"
        for row in range(ROWS)
    ]
    path.write_text("\n".join(["person_id,age,income,city", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("release") / "out"
    assert run(["release", str(people), "--k", "4", "--keep", "corr(age, income)", "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.csv"
    cells = np.random.default_rng(1).integers(0, 9, (400, 250))
    names = ",".join(f"v{number}" for number in range(250))
    np.savetxt(path, cells, fmt="%d", delimiter=",", header=names, comments="")
    return path


@pytest.fixture
def ends_with(people, tmp_path, capfd):
    """Release the people with these arguments, expect this code, and return what was shown."""

    def release(code: int, arguments: list[str]):
        assert run(["release", str(people), "-o", str(tmp_path / "out"), *arguments]) == code
        return capfd.readouterr()

    return release


class TestInspect:
    def test_shows_kinds_roles_reasons_and_unique_rows(self, people, capfd):
        assert run(["inspect", str(people), "--role", "income=sensitive"]) == 0
        shown = capfd.readouterr().out
        for word in ("person_id", "identifier", "whole", "quasi", "sensitive", "nominal", "are unique"):
            assert word in shown

    def test_shows_the_privacy_models(self, people, capfd):
        assert run(["inspect", str(people), "--quasi", "city", "--sensitive", "age", "--population", "1e6"]) == 0
        shown = capfd.readouterr().out
        for word in ("k-anonymous up to", "distinct ℓ-diverse up to", "t-close from", "ordered", "people are unique"):
            assert word in shown
        assert run(["inspect", str(people), "--models", "--role", "city=other"]) == 0
        assert "No sensitive column" in capfd.readouterr().out

    def test_prints_the_privacy_models_as_json(self, people, capfd):
        assert run(["inspect", str(people), "--models", "--sensitive", "income", "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert shown["quasi"] == ["age", "city"]
        assert shown["columns"][0]["column"] == "income"
        assert shown["k"] >= 1
        assert "labels" not in shown
        assert run(["inspect", str(people), "--models", "--quasi", "nothing"]) == 2
        roles = [part for name in ("age", "income", "city") for part in ("--role", f"{name}=other")]
        assert run(["inspect", str(people), "--models", *roles]) == 2

    def test_prints_json(self, people, capfd):
        assert run(["inspect", str(people), "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert shown["rows"] == ROWS
        assert [column["name"] for column in shown["columns"]] == ["person_id", "age", "income", "city"]
        assert shown["identifying"]["alpha"] == 0.2

    def test_names_the_sets_of_columns_that_identify_people_and_says_why(self, people, capfd):
        assert run(["inspect", str(people), "--alpha", "0.5"]) == 0
        assert "single out 50% of people" in capfd.readouterr().out
        assert run(["inspect", str(people), "--population", "1e9", "--max-size", "2"]) == 0
        assert "No set of up to 2" in capfd.readouterr().out

    def test_a_wide_table_is_answered_in_time_and_what_was_left_out_is_said(self, wide, capfd):
        assert run(["inspect", str(wide), "--seconds", "2"]) == 0
        shown = capfd.readouterr().out
        assert (
            shown.index("v0 ") < shown.index("250 quasi-identifiers together") < shown.index("The search ended after")
        )
        assert "… and 50 more columns" in shown and "sets are left" in shown

    def test_json_says_whether_the_search_was_complete(self, wide, people, capfd):
        assert run(["inspect", str(wide), "--seconds", "2", "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert len(shown["columns"]) == 250 and shown["not_counted"] == []
        identifying = shown["identifying"]
        assert identifying["complete"] is False and identifying["sets_left"] > 1_000_000
        assert identifying["covered_size"] >= 1 and "sets are left" in identifying["coverage"]
        assert run(["inspect", str(people), "--seconds", "0", "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["identifying"]["complete"] is True

    def test_a_time_limit_below_zero_is_refused(self, people, capfd):
        assert run(["inspect", str(people), "--seconds", "-1"]) == 2
        assert "--seconds" in capfd.readouterr().err

    def test_a_share_that_is_none_is_refused(self, people, capfd):
        assert run(["inspect", str(people), "--alpha", "7"]) == 2
        assert "alpha" in capfd.readouterr().err


class TestAnswers:
    @pytest.fixture
    def patients(self, tmp_path):
        path = tmp_path / "patients.csv"
        lines = [f"{1 + row % 12},{'fm'[row % 2]},{60 + row % 40}" for row in range(ROWS)]
        path.write_text("seen_month,sex,age\n" + "\n".join(lines) + "\n")
        return path

    def test_an_open_question_refuses_the_release_and_an_answer_opens_it(self, patients, tmp_path, capfd):
        command = ["release", str(patients), "--method", "safe-harbor", "-o", str(tmp_path / "out")]
        assert run(command) == 1
        shown = capfd.readouterr().err
        assert "'seen_month'" in shown and "--answer seen_month=" in shown and not (tmp_path / "out").exists()
        assert run([*command, "--answer", "seen_month=remove"]) == 0
        assert "seen_month" not in (tmp_path / "out" / "released.csv").read_text()

    def test_a_wrong_answer_is_refused(self, patients, tmp_path, capfd):
        command = ["release", str(patients), "--method", "safe-harbor", "-o", str(tmp_path / "out")]
        assert run([*command, "--answer", "seen_month=perhaps"]) == 2
        assert run([*command, "--answer", "seen_month"]) == 2
        assert "--answer needs" in capfd.readouterr().err


class TestAssess:
    def test_measures_a_release_against_its_original(self, people, tmp_path, capfd):
        out = tmp_path / "out"
        assert run(["release", str(people), "--k", "4", "-o", str(out)]) == 0
        capfd.readouterr()
        assert run(["assess", str(people), str(out), "--seed", "1"]) == 0
        shown = capfd.readouterr().out
        assert "people who fit a box" in shown
        assert "change in means" in shown
        assert run(["assess", str(people), str(out), "--json", "--seed", "1"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert shown["original_rows"] == ROWS
        assert "membership" in {one["name"] for one in shown["omitted"]}, "attacks need a reference"

    def test_names_the_most_exposed_rows_if_asked_for(self, people, folder, capfd):
        assert run(["assess", str(people), str(folder), "--worst", "3", "--seed", "1"]) == 0
        assert "row of the original" in capfd.readouterr().out
        assert run(["assess", str(people), str(folder), "--worst", "3", "--seed", "1", "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)["most_exposed"]
        assert len({one["row"] for one in shown}) == 3
        assert shown[0]["ratio"] <= shown[2]["ratio"]
        assert run(["assess", str(people), str(folder), "--worst", "-1"]) == 2

    def test_a_release_that_is_not_there_is_refused(self, people, tmp_path, capfd):
        assert run(["assess", str(people), str(tmp_path / "absent")]) == 3
        assert "Traceback" not in capfd.readouterr().err


class TestRelease:
    def test_writes_a_bundle_and_shows_what_was_found(self, people, tmp_path, capfd):
        out = tmp_path / "out"
        assert run(["release", str(people), "--k", "4", "-o", str(out)]) == 0
        shown = capfd.readouterr()
        assert {path.name for path in out.iterdir()} == {
            "released.parquet",
            "released.csv",
            "manifest.json",
            "codebook.csv",
            "README.txt",
            "promises.sql",
            "report.html",
            "report.json",
        }
        assert "4-anonymous" in shown.out
        assert "person_id" in shown.err, "what was removed is said"

    def test_prints_json_and_nothing_else(self, people, tmp_path, capfd):
        command = ["release", str(people), "--k", "4", "--keep", "mean(age)", "--json", "-o", str(tmp_path / "out")]
        assert run(command) == 0
        shown = json.loads(capfd.readouterr().out)
        assert shown["manifest"]["options"]["k"] == 4
        assert shown["estimates"][0]["name"] == "mean(age)"

    def test_is_measured_where_it_is_made_if_asked_for(self, people, tmp_path, capfd):
        command = ["release", str(people), "--k", "4", "--seed", "1", "-o", str(tmp_path / "out")]
        assert run([*command, "--assess"]) == 0
        assert "correct nearest matches" in capfd.readouterr().out
        assert run([*command, "--holdout", "0.5", "--json"]) == 0
        printed = capfd.readouterr()
        assert f"{ROWS // 2} rows held out" in printed.err
        shown = json.loads(printed.out)
        assert shown["manifest"]["rows_in"] == shown["assessment"]["reference_rows"] == ROWS // 2
        assert "membership by nearest row" in {score["name"] for score in shown["assessment"]["scores"]}
        assert run([*command, "--reference", str(people), "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["assessment"]["reference_rows"] == ROWS
        assert run([*command, "--reference", str(people), "--holdout", "0.5"]) == 2
        assert "not both" in capfd.readouterr().err

    def test_a_schema_file_and_roles_go_together(self, people, tmp_path, capfd):
        (tmp_path / "schema.toml").write_text('[columns.age]\nrole = "quasi"\n[columns.city]\nrole = "other"\n')
        further = ["--schema", str(tmp_path / "schema.toml"), "--role", "income=other", "--json"]
        assert run(["release", str(people), "--k", "4", "-o", str(tmp_path / "out"), *further]) == 0
        shown = json.loads(capfd.readouterr().out)["manifest"]["columns"]
        assert [column["role"] for column in shown] == ["identifier", "quasi", "other", "other"]

    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["--k", "0"], 2, "k must be at least"),
            (["--k", "two"], 2, "--k"),
            ([], 2, "needs a value for 'k'"),
            (["--k", "3", "--method", "nosuch"], 2, "There is no method 'nosuch'"),
            (["--k", "3", "--keep", "corr(age, incme)"], 2, "income"),
            (["--k", "3", "--keep", "corr(age"], 2, "corr(age"),
            (["--k", "3", "--engine", "abacus"], 2, "engine"),
            (["--k", "3", "--role", "agee=quasi"], 2, "'age'"),
            (["--k", "3", "--role", "age"], 2, "--role"),
            (["--k", "3", "--role", "age=secret"], 2, "secret"),
            (["--k", "3", "--option", "nosuch=1"], 2, "nosuch"),
            (["--k", "3", "--option", "seed=1"], 2, "--seed"),
            (["--k", "3", "--no-such-flag"], 2, "--no-such-flag"),
            (["--k", str(ROWS + 1)], 1, str(ROWS)),
            (["--k", "3", "--schema", "nosuch.toml"], 2, "nosuch.toml"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_a_wrong_request_ends_with_a_sentence_and_writes_nothing(self, ends_with, tmp_path, arguments, code, words):
        shown = ends_with(code, arguments)
        assert shown.out == ""
        assert words in shown.err
        assert "Traceback" not in shown.err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(("name", "text"), [("absent.csv", None), ("empty.csv", ""), ("norows.csv", "a,b\n")])
    def test_an_input_that_cannot_be_read_ends_with_three(self, tmp_path, capfd, name, text):
        if text is not None:
            (tmp_path / name).write_text(text)
        assert run(["release", str(tmp_path / name), "--k", "2", "-o", str(tmp_path / "out")]) == 3
        assert name in capfd.readouterr().err
        assert not (tmp_path / "out").exists()

    def test_a_folder_with_other_files_is_left_alone(self, people, tmp_path, capfd):
        (tmp_path / "mine.txt").write_text("mine")
        assert run(["release", str(people), "--k", "4", "-o", str(tmp_path)]) == 2
        assert "must be empty" in capfd.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


class TestEstimate:
    def test_shows_an_interval_for_each_statistic(self, folder, capfd):
        assert run(["estimate", str(folder), "mean(age)", "regress(income ~ age)"]) == 0
        shown = capfd.readouterr().out
        for name in ("mean(age)", "regress(income ~ age): intercept", "regress(income ~ age): age"):
            assert name in shown

    def test_prints_json(self, folder, capfd):
        assert run(["estimate", str(folder), "corr(age, income)", "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)[0]
        assert shown["low"] <= shown["value"] <= shown["high"]
        assert 0.0 <= shown["gap"] <= 1.0

    def test_wide_boxes_shows_the_shift_beside_the_guarantee_of_the_whole_table(self, folder, capfd):
        shown = []
        for further in ([], ["--wide-boxes", "dismiss"]):
            assert run(["estimate", str(folder), "mean(age)", "--json", *further]) == 0
            shown += json.loads(capfd.readouterr().out)
        plain, reweighted = shown
        assert plain["reweighting"] is None
        assert plain["shift"] == 0.0
        assert (plain["low"], plain["high"]) == (reweighted["low"], reweighted["high"])
        assert reweighted["reweighting"]["error"] <= reweighted["reweighting"]["whole_error"]
        assert reweighted["shift"] == pytest.approx(reweighted["value"] - plain["value"])
        assert run(["estimate", str(folder), "mean(age)", "--wide-boxes", "fuzzy"]) == 0
        assert "shift" in capfd.readouterr().out
        assert run(["estimate", str(folder), "mean(age)", "--wide-boxes", "some"]) == 2
        assert "--wide-boxes must be one of" in capfd.readouterr().err

    def test_reads_a_plain_file_too_and_says_what_it_does_not_know(self, folder, capfd):
        alone = shutil.copy(folder / "released.csv", folder.parent / "alone.csv")
        assert run(["estimate", str(alone), "mean(age)"]) == 0
        shown = capfd.readouterr().out
        assert "mean(age)" in shown
        assert "read without a manifest: sampling weights" in shown

    def test_says_whose_statistic_it_is_and_whether_it_is_weighted(self, folder, capfd):
        assert run(["estimate", str(folder), "mean(age)", "count()", "--unweighted"]) == 0
        shown = capfd.readouterr().out
        assert "original" in shown
        assert "Unweighted." in shown

    def test_one_set_of_weights_for_several_statistics(self, folder, capfd):
        together = ["--joint", "--wide-boxes", "fuzzy", "--importance", "2,1", "--accuracy", "1,0.1", "--json"]
        assert run(["estimate", str(folder), "mean(age)", "corr(age, income)", *together]) == 0
        mean, correlation = json.loads(capfd.readouterr().out)
        assert mean["reweighting"]["records"] == correlation["reweighting"]["records"]
        assert mean["reweighting"]["statistics"] == ["mean(age)", "corr(age, income)"]
        first = ["--wide-boxes", "dismiss", "--objective", "first", "--domain", "age=0..120"]
        assert run(["estimate", str(folder), "mean(age)", *first]) == 0
        assert "of the records with these weights" in capfd.readouterr().out.replace("\n", " ")

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--importance", "1"], "need --joint"),
            (["--joint"], "--wide-boxes dismiss"),
            (["--joint", "--wide-boxes", "fuzzy", "--importance", "a"], "must be numbers"),
            (["--objective", "second"], "--objective must be one of"),
            (["--domain", "age"], "COLUMN=LOW..HIGH"),
            (["--domain", "age=1..x"], "two finite numbers"),
        ],
    )
    def test_options_that_do_not_fit_are_refused(self, folder, capfd, options, says):
        assert run(["estimate", str(folder), "mean(age)", *options]) == 2
        assert says in capfd.readouterr().err

    def test_a_folder_that_is_no_release_ends_with_three(self, tmp_path, capfd):
        assert run(["estimate", str(tmp_path), "mean(age)"]) == 3
        assert "must contain a release" in capfd.readouterr().err

    def test_a_statistic_is_needed(self, folder, capfd):
        assert run(["estimate", str(folder)]) == 2
        assert "STATISTIC" in capfd.readouterr().err


class TestDemo:
    def test_runs_the_full_workflow_and_every_true_value_lies_in_its_interval(self, tmp_path, capfd):
        assert run(["demo", "-o", str(tmp_path / "out"), "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        assert shown["manifest"]["rows_in"] == shown["manifest"]["rows_out"] == 442
        assert all(finding["held"] for finding in shown["manifest"]["findings"])
        assert len(shown["statistics"]) >= 5
        for compared in shown["statistics"]:
            low, high = compared["estimate"]["low"], compared["estimate"]["high"]
            assert low is None or low <= compared["truth"]
            assert high is None or compared["truth"] <= high

    def test_no_true_value_is_written_next_to_the_release(self, tmp_path, capfd):
        assert run(["demo", "-o", str(tmp_path / "out"), "--json"]) == 0
        shown = json.loads(capfd.readouterr().out)
        files = {path.name: path.read_bytes().decode(errors="replace") for path in (tmp_path / "out").iterdir()}
        written = {
            "released.parquet",
            "released.csv",
            "manifest.json",
            "codebook.csv",
            "README.txt",
            "promises.sql",
            "report.html",
            "report.json",
        }
        assert set(files) == written
        text = "".join(files[name] for name in written if not name.startswith("released"))
        for compared in shown["statistics"]:
            assert f"{compared['truth']:.5g}" not in text
            assert f"{compared['truth']:.8g}" not in text

    def test_can_be_run_twice(self, tmp_path, capfd):
        for _ in range(2):
            assert run(["demo", "-o", str(tmp_path / "out")]) == 0
        assert "true value" in capfd.readouterr().out


class TestProgram:
    def test_the_version_and_help_are_shown(self, capfd):
        assert run(["--version"]) == 0
        assert capfd.readouterr().out == f"sfumato {__version__}\n"
        assert run(["--help"]) == 0
        shown = capfd.readouterr().out
        for command in ("inspect", "release", "estimate", "assess", "demo"):
            assert command in shown
            assert run([command, "--help"]) == 0

    def test_an_unknown_command_ends_with_two(self, capfd):
        assert run(["conceal"]) == 2
        assert "conceal" in capfd.readouterr().err

    def test_what_is_missing_is_named_as_it_is_given(self, people, tmp_path, capfd):
        assert run(["inspect", str(tmp_path / "*.parquet")]) == 3
        assert "No file matches the pattern '*.parquet'" in capfd.readouterr().err
        assert run(["release", str(people), "-o", "postgresql://me@host/clinic", "--k", "5"]) == 2
        assert "try:   --into TABLE" in capfd.readouterr().err
        assert run(["estimate", "postgresql://me@host/clinic", "mean(age)"]) == 3
        assert "sf.read_release(sf.Database(" in capfd.readouterr().err

    def test_the_installed_program_ends_with_the_same_codes(self, tmp_path):
        program = Path(sys.executable).parent / "sfumato"
        absent = [program, "inspect", tmp_path / "absent.csv"]
        ended = subprocess.run(absent, check=False, capture_output=True, text=True)
        assert ended.returncode == 3
        assert ended.stderr.startswith("error: There is no file")
