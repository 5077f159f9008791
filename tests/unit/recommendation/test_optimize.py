"""A race of methods on held-out people: the limit is held on people whom the search never saw, or it is refused."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.comparison.records import ComparedMethod, layers_of
from sfumato.errors import CannotRelease, OptionError, RequestError
from sfumato.job import inspect
from sfumato.recommendation.optimize import _candidates, front_of
from sfumato.recommendation.records import RiskLimit
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema

ROLES = {"age": "quasi", "sex": "quasi", "weight": "quasi"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(7)
    age = draw.integers(18, 90, 480)
    return pd.DataFrame(
        {"age": age, "sex": draw.choice(["f", "m"], 480), "weight": (60 + age / 5 + draw.normal(0, 12, 480)).round(1)}
    )


class TestTheLimit:
    @pytest.mark.parametrize("text", ["at most", "at most 2", "at most 0", "at least 0.1", "PASSES", 0.09])
    def test_other_words_are_refused(self, text):
        with pytest.raises(OptionError):
            RiskLimit.parse(text)

    def test_groups_of_a_promise_count(self):
        row = ComparedMethod(method="boxes", strength="k = 5", options={}, group_risk=0.2)
        assert row.largest_risk is None  # nothing was measured
        assert not RiskLimit.parse("at most 0.3").holds(row)


def test_layers_of_points_that_no_other_beats():
    assert layers_of(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 2.0]])).tolist() == [0, 0, 1, 2]


def test_exact_columns_race_protected_too():
    schema = Schema.of({"age": "quasi", "weight": "other", "ill": "sensitive"})
    trials = list(_candidates(schema, ["boxes", "noise"], 2, ("mean(age)",)))
    assert [set(trial.roles) for trial in trials[::4]] == [set(), {"weight"}, {"weight", "ill"}]
    assert all(role is Role.QUASI for trial in trials for role in trial.roles.values())
    assert {trial.method.name for trial in trials if getattr(trial.method, "keep", None)} == {"boxes"}


@pytest.fixture(scope="module")
def found(people):
    """A search in which one method gives everybody away."""
    seen = []
    leaky = sf.Noise(level=0.001)
    methods = [leaky, "boxes", sf.Synthesize(kind="tables", order=1, k=20)]
    result = sf.optimize(
        people, schema=ROLES, methods=methods, strengths=2, seconds=3000, release=True, progress=seen.append, jobs=1
    )
    return result, seen


def test_a_leak_is_never_chosen(found):
    result, _ = found
    leaks = [row for one in result.rounds for row in one.rows if row.method == "noise"]
    assert leaks and any(row.passed is False for row in leaks)  # it was seen
    assert result.method is None or result.method.name != "noise"
    assert all(row.passed is True for row in result.judged[-1:]) or result.method is None


def test_the_winner_held_on_people_whom_the_search_never_saw(found, people):
    result, _ = found
    assert result.method is not None, result.verdict
    assert result.judged[-1].passed is True
    assert result.release.manifest.method == result.method.name
    assert result.release.manifest.rows_in == len(people)
    assert result.release.assessment == result.judged[-1].assessment
    assert "never saw" in result.verdict


def test_the_front_is_not_dominated(found):
    result, _ = found
    places = [(row.largest_risk, row.loss) for row in result.front]
    assert places == sorted(places, key=lambda place: place[1])
    assert not any(a != b and a[0] <= b[0] and a[1] <= b[1] for a in places for b in places)
    assert front_of(()) == ()


def test_progress_tells_what_a_page_shows(found):
    result, seen = found
    assert [one.round for one in seen] == sorted(one.round for one in seen)
    assert seen[0].done == 1 and seen[0].trials == len(result.rounds[0].rows)
    assert len(seen[-1].comparison.rows) == seen[-1].done
    assert json.loads(json.dumps(result.to_plain()))["verdict"] == result.verdict


def test_it_is_repeatable(people):
    small = people[:240]
    given = {"schema": ROLES, "methods": ["boxes"], "strengths": 2, "seconds": 3000, "jobs": 1}
    one, other = (sf.optimize(small, **given) for _ in range(2))
    assert [[row.assessment for row in of.rows] for of in one.rounds] == [
        [row.assessment for row in of.rows] for of in other.rounds
    ]
    assert one.method == other.method and one.verdict == other.verdict


def test_what_no_method_reaches_is_refused_with_the_reason(people):
    leaks = [sf.Noise(level=0.001), sf.Noise(level=0.002)]
    found = sf.optimize(people, schema=ROLES, methods=leaks, seconds=3000, release=True, jobs=1)
    assert found.method is None and found.release is None
    assert found.verdict.startswith("No release was found with which all privacy tests pass: the safest, noise")


def test_time_is_respected(people):
    start = time.monotonic()
    found = sf.optimize(people, schema=ROLES, seconds=0.01, jobs=1)
    assert found.method is None and not found.rounds
    assert time.monotonic() - start < 20.0
    assert "none was made" in found.verdict


def test_what_cannot_be_searched_is_refused(people):
    with pytest.raises(OptionError, match="private"):
        sf.optimize(people, schema=ROLES, methods=["private-boxes"])
    with pytest.raises(RequestError, match="linked"):
        sf.optimize(sf.LinkedTables({name: people.assign(id=range(480)) for name in "ab"}, person="id"))
    with pytest.raises(OptionError, match="rows to release"):
        sf.optimize(people[:40], schema=ROLES)


def test_the_command_writes_the_release(people, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people.to_csv("people.csv", index=False)
    words = ["--quasi", "age,sex,weight", "--methods", "boxes", "--jobs", "1", "--seconds", "3000", "--json"]
    code = run(["optimize", "people.csv", "-o", "out", *words, "--strengths", "2"])
    shown = capsys.readouterr()
    assert (code == 0) == Path("out/manifest.json").exists()
    assert "round 1 of 3" in shown.err
    if code == 0:
        assert json.loads(shown.out)["method"] == "boxes"
    else:
        assert code == 1 and "No release was found" in shown.err


class TestATableThatIsNotInMemory:
    """A random part of it is searched, and its engine releases all rows."""

    SAFE = sf.Synthesize(kind="tables", order=1, k=20)

    @pytest.fixture
    def file(self, people, tmp_path, monkeypatch):
        monkeypatch.setattr(inspect, "SAMPLED", 320)
        people.to_parquet(tmp_path / "in.parquet")
        return tmp_path / "in.parquet"

    def test_all_rows_are_released_by_its_engine(self, file, tmp_path):
        found = sf.optimize(
            file,
            schema=ROLES,
            methods=[self.SAFE, sf.Recode(k=5, kind="local")],  # the second needs the whole table
            risk="at most 0.99",
            seconds=3000,
            release=True,
            jobs=1,
            engine=sf.DuckDB(memory="1GB", block_rows=200),
            into=tmp_path / "out",
        )
        assert found.searched_rows == 320 and found.to_plain()["searched_rows"] == 320
        assert [row.method for row in found.rounds[0].rows] == ["synthesize"]
        assert found.release.manifest.rows_in == 480 and found.release.assessment == found.judged[-1].assessment
        assert sf.read_release(tmp_path / "out").manifest.rows_in == 480
        assert (tmp_path / "out" / "released.parquet").is_dir()

    def test_the_command_takes_an_engine(self, file, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        words = ["--quasi", "age,sex,weight", "--methods", "synthesize", "--strengths", "1", "--jobs", "1"]
        asked = ["optimize", "in.parquet", "-o", "out", *words, "--risk", "at most 0.99", "--seconds", "3000"]
        code = run([*asked, "--engine", "duckdb", "--memory", "1GB"])
        shown = capsys.readouterr()
        assert code == 0 and "320 random rows of the table were searched" in shown.out, shown.err
        assert sf.read_release("out").manifest.rows_in == 480

    def test_methods_of_which_none_works_in_blocks_are_refused(self, file):
        with pytest.raises(CannotRelease, match="whole table"):
            sf.optimize(file, schema=ROLES, methods=[sf.Recode(k=5, kind="local")], engine="duckdb")

    def test_what_is_written_is_a_release(self, people, tmp_path):
        with pytest.raises(OptionError, match="release of all people"):
            sf.optimize(people, schema=ROLES, into=tmp_path / "out")


def test_an_unmade_release_has_no_loss():
    row = ComparedMethod(method="noise", strength="", options={}, reason="no rows")
    assert row.loss is None and replace(row).largest_risk is None
