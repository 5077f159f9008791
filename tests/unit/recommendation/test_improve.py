"""From failed privacy tests to a release that passes them, or to the sentence that there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import RequestError
from sfumato.recommendation.improve import (
    AS_RELEASED,
    PRIVACY_TESTS,
    Improvement,
    ImprovementStep,
    _Candidate,
    _changes,
    _method_of,
    _search,
    _stronger,
)
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
def start(release) -> _Candidate:
    schema = Schema(tuple(one.to_column() for one in release.manifest.columns))
    return _Candidate(method=_method_of(release.manifest), schema=schema, change=AS_RELEASED, reason="")


def test_the_method_is_that_of_the_manifest(start):
    assert start.method == sf.Boxes(k=5, keep=["mean(age)"])


def test_changes_go_from_mild_to_strong(start, release):
    protected, without, drawn, tables = _changes(start, release, 160)
    assert protected[0].schema["weight"].role is Role.QUASI and protected[0].method == start.method
    assert [one.method.k for one in protected] == [5, 10, 20]  # 50 would leave three groups
    assert {one.left_out for one in without} == {("weight",)}
    assert [(one.method.name, one.method.k) for one in drawn] == [("synthesize", k) for k in (5, 10, 20)]
    assert [one.method.order for one in tables] == [2, 1]
    assert all(one.schema["weight"].role is Role.QUASI for one in (*drawn, *tables))


def test_a_kept_column_is_never_left_out(start, release):
    kept = replace(start, method=sf.Boxes(k=5, keep=["mean(weight)"]))
    assert not any(one.left_out for group in _changes(kept, release, 160) for one in group)


def test_options_get_stronger_by_their_declared_values(start):
    noise = replace(start, method=sf.Noise())
    values = [one.method.level for one in _stronger(noise, 160)]
    assert values and values == sorted(values) and values[0] > sf.Noise().level


class _Judged:
    """Trials whose results are known: which changes pass, and how often each was tried."""

    def __init__(self, table, passing) -> None:
        self.table, self.passing, self.tried = table, passing, []

    def judge(self, one):
        self.tried.append(one.change)
        failed = () if self.passing(one) else ("singling out",)
        return ImprovementStep(change=one.change, reason=one.reason, tests=3, failed=failed), object()

    def release(self, one, found):
        return one


class TestTheSearch:
    @pytest.fixture
    def table(self, people):
        return sf.Table.from_arrow(pa.Table.from_pandas(people))

    def test_the_mildest_that_passes_is_taken(self, start, release, table):
        trials = _Judged(table, lambda one: one.schema["weight"].role is Role.QUASI and one.method.k >= 10)
        found = _search(trials, start, release, None)
        assert found.release.method.k == 10 and found.steps[-1].passed
        assert "protect weight too, and k = 10" in found.verdict

    def test_milder_options_are_not_tried_where_the_strongest_fails(self, start, release, table):
        trials = _Judged(table, lambda one: one.method.name == "synthesize")
        found = _search(trials, start, release, None)
        assert found.release.method.name == "synthesize"
        assert not any("k = 10" in change for change in trials.tried if "synthesize" not in change)

    def test_the_strongest_is_taken_if_only_it_passes(self, start, release, table):
        trials = _Judged(table, lambda one: one.method.k == 20)
        found = _search(trials, start, release, None)
        assert found.release.method.k == 20 and found.steps[-1].passed

    def test_what_passes_is_tested_again(self, start, release, table):
        passed: list[str] = []

        def once(one):  # by luck: the first time only
            passed.append(one.change)
            return passed.count(one.change) == 1

        found = _search(_Judged(table, once), start, release, None)
        assert found.release is None and "No change was found" in found.verdict

    def test_none_is_said_with_the_reason(self, start, release, table):
        found = _search(_Judged(table, lambda one: False), start, release, None)
        assert found.release is None and "singling out" in found.verdict and len(str(found).splitlines()) == 6


def test_a_real_table_ends_in_a_passed_release_or_in_a_sentence(release, people):
    found = sf.improve(release, people, seconds=0.1, seed=1)
    assert isinstance(found, Improvement) and found.steps[0].change == AS_RELEASED
    assert found.steps[0].tests >= len(PRIVACY_TESTS) - 1 and found.steps[0].failed


def test_a_private_release_is_refused(people):
    made = sf.PrivateSample(epsilon=1.0, delta=0.01).release(people[["sex"]], schema={"sex": "quasi"})
    with pytest.raises(RequestError, match="differentially private"):
        sf.improve(made, people[["sex"]])
