"""From failed privacy tests to a release that passes them, or to the sentence that there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.conformance.test_methods import options_of

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.comparison import attempts
from sfumato.comparison.attempts import SearchedTable, Trial
from sfumato.errors import CannotRelease, OptionError, RequestError
from sfumato.job import inspect
from sfumato.job.job import Job
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.recommendation import changes as found_changes
from sfumato.recommendation.changes import Change, ImprovementStep, changes, find_passing, stronger
from sfumato.recommendation.improve import AS_RELEASED, Improvement, _method_of
from sfumato.report.distributions import blamed_columns
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema

SCHEMA = {"age": "quasi", "sex": "quasi", "weight": "other"}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    draw = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": draw.integers(18, 90, 160),
            "sex": draw.choice(["f", "m"], 160),
            "weight": draw.normal(70, 12, 160).round(2),
        }
    )


@pytest.fixture(scope="module")
def release(people):
    return sf.Boxes(k=5, keep=["mean(age)"]).release(people, schema=SCHEMA)


@pytest.fixture
def schema(release) -> Schema:
    return Schema(tuple(one.to_column() for one in release.manifest.columns))


@pytest.fixture
def start(release) -> Change:
    return Change(trial=Trial(method=_method_of(release.manifest)), change=AS_RELEASED, is_first=True)


@pytest.fixture
def groups(start, schema, release):
    return lambda: changes(start, schema, blamed_columns(release), 160)


def test_the_method_is_that_of_the_manifest(start):
    assert start.trial.method == sf.Boxes(k=5, keep=["mean(age)"])


def test_changes_go_from_mild_to_strong(start, groups):
    protected, without, drawn, tables = groups()
    assert protected[0].trial.roles == {"weight": Role.QUASI} and protected[0].trial.method == start.trial.method
    assert [one.trial.method.k for one in protected] == [5, 10, 20]  # 50 would leave three groups
    assert {one.trial.left_out for one in without} == {("weight",)}
    assert [(one.trial.method.name, one.trial.method.k) for one in drawn] == [("synthesize", k) for k in (5, 10, 20)]
    assert [one.trial.method.order for one in tables] == [2, 1]
    assert all(one.trial.roles["weight"] is Role.QUASI for one in (*drawn, *tables))


@pytest.mark.parametrize(
    ("method", "orders"),
    [
        (sf.Synthesize(k=50), [2, 1]),
        (sf.Synthesize(kind="tables", k=20, order=3), [2, 1]),
        (sf.Synthesize(kind="tables", k=20, order=2), [1]),
        (sf.Synthesize(kind="tables", k=20, order=1), []),
    ],
)
def test_rows_that_are_drawn_already_may_be_drawn_from_simpler_counts(method, orders, start, schema):
    drawn = replace(start, trial=Trial(method=method))
    tried = [one for group in changes(drawn, schema, (), 160) for one in group if "counts" in one.change]
    assert [one.trial.method.order for one in tried] == orders
    assert all("in place of" not in one.change for one in tried)


@pytest.mark.parametrize(("keep", "orders"), [(["mean(age)"], [2, 1]), (["mean(age)", "corr(age, weight)"], [2])])
def test_a_relation_that_is_to_be_kept_is_never_given_up(keep, orders, start, schema):
    kept = replace(start, trial=Trial(method=sf.Boxes(k=5, keep=keep)))
    tried = [one for group in changes(kept, schema, (), 160) for one in group if "counts" in one.change]
    assert [one.trial.method.order for one in tried] == orders


def test_every_method_has_changes(schema, release):
    for word in (one for one in METHODS if not method_class(one).is_private):
        start = Change(trial=Trial(method=make_method(word, **options_of(word))), change=AS_RELEASED, is_first=True)
        assert list(changes(start, schema, blamed_columns(release), 160)), word


def test_a_kept_column_is_never_left_out(start, schema, release):
    kept = replace(start, trial=Trial(method=sf.Boxes(k=5, keep=["mean(weight)"])))
    found = changes(kept, schema, blamed_columns(release), 160)
    assert not any(one.trial.left_out for group in found for one in group)


def test_options_get_stronger_by_their_declared_values(start):
    noise = replace(start, trial=Trial(method=sf.Noise()))
    values = [one.trial.method.level for one in stronger(noise, 160)]
    assert values and values == sorted(values) and values[0] > sf.Noise().level


class _Judged:
    """Trials whose results are known: which changes pass, and how often each was tried."""

    def __init__(self, passing) -> None:
        self.passing, self.tried = passing, []

    def judge(self, one, part=""):
        self.tried.append(one.change)
        failed = () if self.passing(one) else ("singling out",)
        return ImprovementStep(change=one.change, reason=one.reason, tests=3, failed=failed)


class TestTheSearch:
    def test_the_mildest_that_passes_is_taken(self, start, groups):
        trials = _Judged(lambda one: "weight" in one.trial.roles and one.trial.method.k >= 10)
        found = find_passing(trials, start, groups)
        assert found.candidate.trial.method.k == 10 and found.steps[-1].passed
        assert "protect weight too, and k = 10" in found.steps[-1].change

    def test_milder_options_are_not_tried_where_the_strongest_fails(self, start, groups):
        trials = _Judged(lambda one: one.trial.method.name == "synthesize")
        found = find_passing(trials, start, groups)
        assert found.candidate.trial.method.name == "synthesize"
        assert not any("k = 10" in change for change in trials.tried if "synthesize" not in change)

    def test_the_strongest_is_taken_if_only_it_passes(self, start, groups):
        found = find_passing(_Judged(lambda one: one.trial.method.k == 20), start, groups)
        assert found.candidate.trial.method.k == 20 and found.steps[-1].passed
        assert not any(step.passed for step in found.steps[:-1])

    def test_what_passes_is_tested_again(self, start, groups):
        passed: list[str] = []

        def once(one):  # by luck: the first time only
            passed.append(one.change)
            return not one.is_first and passed.count(one.change) == 1

        found = find_passing(_Judged(once), start, groups)
        assert found.candidate is None and "No change was found" in found.refusal

    def test_none_is_said_with_the_reason(self, start, groups):
        found = find_passing(_Judged(lambda one: False), start, groups)
        assert found.candidate is None and "singling out" in found.refusal and len(found.steps) == 5

    def test_what_its_report_says_is_not_tried_again(self, start, groups):
        told = ImprovementStep(change=AS_RELEASED, reason="", tests=3, failed=("singling out",))
        trials = _Judged(lambda one: "weight" in one.trial.roles)
        found = find_passing(trials, start, groups, told=told)
        assert found.steps[0] is told and AS_RELEASED not in trials.tried


def test_a_real_table_ends_in_a_passed_release_or_in_a_sentence(release, people):
    found = sf.improve(release, people, seconds=0.1, seed=1)
    assert isinstance(found, Improvement) and found.steps[0].change == AS_RELEASED
    assert found.steps[0].tests >= 6 and found.steps[0].failed
    if found.release is None:
        assert "No change was found" in found.verdict


def test_a_private_release_is_refused(people):
    made = sf.PrivateSample(epsilon=1.0, delta=0.01).release(people[["sex"]], schema={"sex": "quasi"})
    with pytest.raises(RequestError, match="differentially private"):
        sf.improve(made, people[["sex"]])


def test_linked_tables_are_refused(people):
    tables = {"people": people.assign(id=range(160)), "visits": people[["age"]].assign(id=range(160))}
    linked = sf.LinkedTables(tables, person="id")
    roles = {"people": {"age": "quasi", "sex": "quasi", "weight": "quasi"}, "visits": {"age": "quasi"}}
    made = sf.Boxes(k=5).release(linked, schema=roles)
    for release, table in ((made, people), (made, linked), (made.tables["people"], linked)):
        with pytest.raises(RequestError, match="one table"):
            sf.improve(release, table)


def test_people_with_several_rows_stay_on_one_side(people):
    visits = pd.concat([people.assign(who=range(160)), people.assign(who=range(160), age=people["age"] + 1)])
    made = sf.Boxes(k=5).release(visits, schema={**SCHEMA, "who": "person"})
    found = sf.improve(made, visits, seconds=0.1, seed=1)
    assert found.steps[0].tests and not found.steps[0].problem
    assert found.release is None or found.release.manifest.people_in == 160


class TestATableThatIsNotInMemory:
    """Changes are tried on a random part of it, and its engine releases all rows."""

    @pytest.fixture
    def file(self, people, tmp_path, monkeypatch):
        monkeypatch.setattr(inspect, "SAMPLED", 160)
        pd.concat([people, people.assign(weight=people["weight"] + 1.0)] * 4).to_parquet(tmp_path / "in.parquet")
        return tmp_path / "in.parquet"

    @pytest.fixture
    def passing(self, monkeypatch):
        """Tests that every release passes."""
        plain = attempts.attempt

        def attempt(trial, split):
            row = plain(trial, split).row
            passed = replace(row.assessment, scores=tuple(replace(one, passed=True) for one in row.assessment.scores))
            return attempts.Attempt(row=replace(row, assessment=passed), is_final=True)

        monkeypatch.setattr(found_changes, "attempt", attempt)

    def test_all_rows_are_released_by_its_engine(self, release, file, passing, tmp_path):
        engine = sf.DuckDB(memory="1GB", block_rows=400)
        found = sf.improve(release, file, engine=engine, into=tmp_path / "out")
        assert found.searched_rows == 160 and "160 random rows" in str(found)
        assert found.release.manifest.rows_in == 1280 and found.release.assessment is not None
        written = sf.read_release(tmp_path / "out")
        assert written.table.rows == 1280 and (tmp_path / "out" / "released.parquet").is_dir()
        assert "assessment" in (tmp_path / "out" / "report.json").read_text()

    def test_nothing_is_written_if_no_change_passes(self, release, file, tmp_path):
        found = sf.improve(release, file, engine=sf.DuckDB(memory="1GB"), into=tmp_path / "out", seconds=0.01)
        assert found.release is None
        assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]

    def test_a_column_that_is_left_out_is_not_released(self, file, schema):
        searched = SearchedTable.open(Job.of(file, schema=schema, engine=sf.DuckDB(memory="1GB")))
        assert searched.searched_rows == 160 and searched.rows == 1280
        made = searched.release(Trial(method=sf.Boxes(k=5), left_out=("weight",)), None)
        assert made.manifest.rows_in == 1280 and not [name for name in made.table.names if "weight" in name]

    def test_what_the_engine_cannot_do_is_said_before_the_search(self, release, file, schema, tmp_path):
        searched = SearchedTable.open(Job.of(file, schema=schema, engine=sf.DuckDB(memory="1GB")))
        assert searched.can_release(sf.Boxes(k=5)) and not searched.can_release(sf.Recode(k=5, kind="local"))
        with pytest.raises(CannotRelease, match="whole table"):
            sf.improve(release, file, method=sf.Recode(k=5, kind="local"), engine=sf.DuckDB(memory="1GB"))
        named = {**SCHEMA, "sex": {"role": "identifier", "pseudonym": True}}
        with pytest.raises(OptionError, match="only in memory"):
            sf.improve(release, file, schema=named, engine=sf.DuckDB(memory="1GB"))
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter.txt").write_text("mine")
        with pytest.raises(RequestError, match="other files"):
            sf.improve(release, file, into=tmp_path / "mine")

    def test_the_command_takes_an_engine(self, release, file, passing, tmp_path, capsys):
        release.write(tmp_path / "old")
        asked = ["improve", str(tmp_path / "old"), "--table", str(file), "-o", str(tmp_path / "out")]
        assert run([*asked, "--memory", "1GB", "--language", "de"]) == 0
        assert "160 zufällige Zeilen" in capsys.readouterr().out
        assert sf.read_release(tmp_path / "out").table.rows == 1280
        assert run([*asked, "--engine", "memory", "--memory", "1GB"]) == 2
        assert "cannot keep to a limit of memory" in capsys.readouterr().err
