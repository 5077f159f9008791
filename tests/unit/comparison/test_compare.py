"""A comparison goes on where it stopped, survives methods that fail and workers that die, and shows no cell."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.comparison import attempts as attempting
from sfumato.comparison import attempts as workers
from sfumato.comparison.attempts import Attempt, Split, draw_split, trials_of
from sfumato.comparison.records import ComparedMethod
from sfumato.errors import OptionError, RequestError, SfumatoError
from sfumato.schema.schema import FittedTable
from sfumato.sources.frames import as_table

CANARY, NUMBER = "CANARY31", 771177.25
ROLES = {"name": "identifier", "age": "quasi", "income": "quasi", "city": "quasi"}


def people(rows=80):
    numbers = np.random.default_rng(3)
    incomes = numbers.normal(100.0, 10.0, rows)
    incomes[5] = NUMBER
    return {
        "name": [f"{CANARY} {row}" for row in range(rows)],
        "age": numbers.integers(18, 80, rows),
        "income": incomes,
        "city": numbers.choice(["Ulm", "Rom"], rows).tolist(),
    }


class Counted:
    """Attempts that cost nothing; the table is never looked at."""

    def __init__(self, *, dies_after=1000, is_final=True):
        self.made, self.dies_after, self.is_final = [], dies_after, is_final

    def __call__(self, trial, split):
        if len(self.made) >= self.dies_after:
            raise KeyboardInterrupt
        self.made.append((trial.name, tuple(split.others.arrow.column("age").to_pylist())))
        row = ComparedMethod(method=trial.method.name, strength=trial.strength, options=trial.options, reason="A test.")
        return Attempt(row=row, is_final=self.is_final)


def compared(monkeypatch, counted, folder, table=None, **options):
    monkeypatch.setattr(workers, "attempt", counted)
    options = {"strengths": 2, "schema": ROLES, "jobs": 1, "into": folder} | options
    return sf.compare(people() if table is None else table, ["noise", "swap"], **options)


class TestGoesOn:
    def test_where_it_was_interrupted_with_the_same_people_held_out(self, monkeypatch, tmp_path):
        first, second, third = Counted(dies_after=3), Counted(), Counted()
        with pytest.raises(KeyboardInterrupt):
            compared(monkeypatch, first, tmp_path / "map")
        assert len(list((tmp_path / "map" / "trials").iterdir())) == 3
        found = compared(monkeypatch, second, tmp_path / "map")
        assert [name for name, _ in first.made + second.made] == [row.name for row in found.rows]
        assert len({others for _, others in first.made + second.made}) == 1
        assert compared(monkeypatch, third, tmp_path / "map") == found
        assert third.made == []

    def test_but_not_after_the_table_the_roles_or_the_split_changed(self, monkeypatch, tmp_path):
        compared(monkeypatch, Counted(), tmp_path)
        changed = people()
        changed["age"][0] += 1
        for options in (
            {"table": changed},
            {"schema": ROLES | {"city": "sensitive"}},
            {"holdout": 0.4},
            {"seed": 1},
        ):
            again = Counted()
            compared(monkeypatch, again, tmp_path, **options)
            assert len(again.made) == 4, options

    def test_after_it_was_killed_while_it_wrote_a_file(self, monkeypatch, tmp_path):
        compared(monkeypatch, Counted(), tmp_path)
        left = [tmp_path / ".comparison.json.0123456789abcdef", tmp_path / "trials" / ".noise-0a.json.0123456789abcdef"]
        for one in left:
            one.write_bytes(b"{")
        again = Counted()
        compared(monkeypatch, again, tmp_path)
        assert not again.made
        assert not any(one.exists() for one in left)

    def test_an_unexpected_error_is_tried_again(self, monkeypatch, tmp_path):
        compared(monkeypatch, Counted(is_final=False), tmp_path)
        again = Counted()
        compared(monkeypatch, again, tmp_path)
        assert len(again.made) == 4

    def test_a_broken_file_is_made_again(self, monkeypatch, tmp_path):
        compared(monkeypatch, Counted(), tmp_path)
        next((tmp_path / "trials").iterdir()).write_text('{"method": ')
        again = Counted()
        compared(monkeypatch, again, tmp_path)
        assert len(again.made) == 1


class TestRefusals:
    def test_a_folder_with_other_files(self, monkeypatch, tmp_path):
        (tmp_path / "letter.txt").write_text("dear")
        with pytest.raises(RequestError, match="empty or hold a comparison"):
            compared(monkeypatch, Counted(), tmp_path)

    def test_the_folder_of_a_release(self, monkeypatch, tmp_path):
        sf.Noise().release(people(), schema=ROLES, into=tmp_path / "out")
        with pytest.raises(RequestError, match="empty or hold a comparison"):
            compared(monkeypatch, Counted(), tmp_path / "out")

    def test_too_few_people(self):
        with pytest.raises(OptionError, match="20 rows to release"):
            sf.compare(people(30), ["noise"], schema=ROLES)


class TestAttempt:
    def split(self):
        fitted = FittedTable.of(as_table(people()), ROLES)
        return Split(fitted, fitted.table)

    @pytest.mark.parametrize("method", ["noise", "boxes"])
    def test_tests_alone_have_the_same_results(self, method):
        trial, whole = trials_of([method], 1)[0], draw_split(self.split().kept)
        told, tests = (attempting.attempt(trial, replace(whole, tests_only=alone)).row for alone in (False, True))
        judged = [score for score in told.assessment.scores if score.passed is not None]
        assert len(judged) > 5
        assert judged == [score for score in tests.assessment.scores if score.passed is not None]

    def test_an_error_of_the_package_is_the_reason(self, monkeypatch):
        def refuse(*arguments, **options):
            raise SfumatoError("Groups must have rows.", found="none", fix="a smaller k")

        monkeypatch.setattr(attempting, "make_release", refuse)
        made = attempting.attempt(trials_of(["noise"], 1)[0], self.split())
        assert made.is_final
        assert made.row.reason == "Groups must have rows. Found: none. Try: a smaller k."

    def test_an_error_of_a_library_is_not_quoted(self, monkeypatch):
        def fail(*arguments, **options):
            raise ValueError(f"could not convert {CANARY}")

        monkeypatch.setattr(attempting, "make_release", fail)
        made = attempting.attempt(trials_of(["noise"], 1)[0], self.split())
        assert not made.is_final
        assert "ValueError in fail" in made.row.reason
        assert CANARY not in made.row.reason


def test_processes_survive_a_death_and_no_cell_is_written(tmp_path, monkeypatch, caplog):
    killed = []
    start_child = workers._WorkerPool._start_child

    def watched(pool):
        child = start_child(pool)
        if not killed:
            killed.append(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        return child

    monkeypatch.setattr(workers._WorkerPool, "_start_child", watched)
    with caplog.at_level("INFO", logger="sfumato.comparison"):
        found = sf.compare(
            people(), ["noise", "shuffle", sf.Boxes(k=60)], strengths=1, schema=ROLES, jobs=2, into=tmp_path
        )
    reasons = [row.reason for row in found.rows if row.reason]
    assert len([reason for reason in reasons if "process ended" in reason]) == 1
    measured = [row for row in found.rows if row.utility is not None]
    assert measured
    assert all(0.0 <= risk <= 1.0 for row in measured for risk in (row.reference_risk, row.attack_risk))
    texts = [file.read_text() for file in tmp_path.rglob("*") if file.is_file()]
    texts += [caplog.text, str(found), repr(found), found._repr_html_()]
    assert not [text for text in texts if CANARY in text or "771177" in text]
    kept = len(list((tmp_path / "trials").iterdir()))
    assert kept == len(found.rows) - 1, "what died is not kept"
    assert json.loads((tmp_path / "comparison.json").read_text())["reference_rows"] == 40
    assert "prefers-color-scheme" in (tmp_path / "report.html").read_text()


def test_who_interrupts_it_is_told_that_it_goes_on(tmp_path, monkeypatch, capsys):
    (tmp_path / "t.csv").write_text("age,city\n" + "\n".join(f"{20 + row % 50},Ulm" for row in range(80)))
    monkeypatch.setattr(workers, "attempt", Counted(dies_after=0))
    words = ["--quasi", "age", "--other", "*", "--methods", "noise", "--jobs", "1"]
    assert run(["compare", str(tmp_path / "t.csv"), "-o", str(tmp_path / "map"), *words]) == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err


def test_a_table_that_an_engine_reads_in_parts_is_compared_by_the_same_random_rows_each_time(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "t.csv").write_text("age,city\n" + "\n".join(f"{20 + row % 50},Ulm" for row in range(80)))
    monkeypatch.setattr("sfumato.job.inspect.SAMPLED", 60)
    words = ["--quasi", "age", "--other", "*", "--methods", "noise", "--strengths", "1", "--jobs", "1", "--json"]
    command = ["compare", str(tmp_path / "t.csv"), "-o", str(tmp_path / "map"), *words, "--engine", "duckdb"]
    assert run(command) == 0
    first = capsys.readouterr()
    assert "60 random rows of 80 are compared" in first.err
    assert json.loads(first.out)["original_rows"] == 30
    assert run(command) == 0
    assert "found in the folder" in capsys.readouterr().err, "other rows would be another comparison"
