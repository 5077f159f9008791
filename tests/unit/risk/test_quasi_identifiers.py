"""The search for minimal quasi-identifiers, against trying every set."""

from __future__ import annotations

import inspect
from dataclasses import fields
from itertools import combinations, count
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import OptionError
from sfumato.job.inspect import quasi_identifiers
from sfumato.risk.quasi_identifiers import SetSearchOptions
from sfumato.risk.uniqueness import uniqueness


@st.composite
def tables(draw):
    rows = draw(st.integers(1, 25))
    names = "abcde"[: draw(st.integers(1, 5))]
    return pa.table(
        {name: draw(st.lists(st.integers(0, draw(st.integers(0, 6))), min_size=rows, max_size=rows)) for name in names}
    )


def every_set(table, most=None):
    for size in range(1, (most or table.num_columns) + 1):
        yield from combinations(table.column_names, size)


def slow_minimal(table, identifies, most):
    found = []
    for names in every_set(table, most):
        if identifies(names) and not any(set(one) <= set(names) for one in found):
            found.append(names)
    return set(found)


@given(tables(), st.floats(0.05, 0.95), st.integers(1, 5))
def test_by_rows_it_finds_exactly_the_minimal_sets(table, alpha, most):
    found = quasi_identifiers(table, alpha=alpha, max_size=most)
    most = min(most, table.num_columns)
    wanted = slow_minimal(table, lambda names: uniqueness(table, names).unique_fraction >= alpha, most)
    assert {one.columns for one in found} == wanted
    assert len(found) == len(wanted) == len(found.reasons)
    assert all(one == uniqueness(table, one.columns) for one in found)


@given(tables(), st.floats(0.05, 0.95), st.integers(1, 5))
def test_a_search_with_time_enough_is_complete_and_finds_the_same(table, alpha, most):
    whole, timed = (quasi_identifiers(table, alpha=alpha, max_size=most, seconds=one) for one in (None, 1e6))
    assert timed.found == whole.found
    for found in (whole, timed):
        assert found.complete and found.sets_left == 0 and found.covered_size == found.max_size
        assert found.coverage.startswith("All sets of up to")


def wide(columns=60, rows=2_000):
    draw = np.random.default_rng(3)
    return pa.table({f"c{n}": draw.integers(0, 3, rows) for n in range(columns)} | {"id": np.arange(rows)})


@pytest.fixture
def clock(monkeypatch):
    """A clock on which every look takes a millisecond, so that no machine is too slow for a test."""
    looks = count(1)
    ticking = SimpleNamespace(perf_counter=lambda: next(looks) / 1000)
    for module in ("quasi_identifiers", "set_search"):
        monkeypatch.setattr(f"sfumato.risk.{module}.time", ticking)


@pytest.mark.usefixtures("clock")
class TestTimeLimit:
    """Many columns of few values: no time is enough for all their sets."""

    table = wide()

    def test_a_search_ends_in_time_and_says_what_it_covered(self):
        found = quasi_identifiers(self.table, alpha=0.2, seconds=1.0)
        assert not found.complete and 1 <= found.seconds < 1.01
        assert 1 <= found.covered_size < found.max_size == 61
        assert found.sets_left > 10**12 and found.seconds_left > 10**6
        for said in ("ended after 1 s", f"all sets of up to {found.covered_size} of 61 columns", "sets are left"):
            assert said in found.coverage

    def test_all_sets_of_the_covered_sizes_are_in_the_answer(self):
        found = quasi_identifiers(self.table, alpha=0.2, seconds=5.0)
        assert found.covered_size == 2
        exact = quasi_identifiers(self.table, alpha=0.2, max_size=2)
        assert {one.columns for one in exact} <= {one.columns for one in found}
        assert found[0].columns == ("id",)

    def test_more_time_covers_more(self):
        little, more = (quasi_identifiers(self.table, alpha=0.2, max_size=4, seconds=one) for one in (0.5, 1.5))
        assert more.visited > little.visited
        assert more.sets_left < little.sets_left

    def test_more_columns_than_can_be_read_in_time_are_left_out_and_named(self, monkeypatch):
        monkeypatch.setattr("sfumato.risk.quasi_identifiers.CODING_SHARE", 1e-9)
        found = quasi_identifiers(self.table, seconds=1.0)
        assert found.columns == ("c0",) and len(found.left_out) == 60
        assert not found.complete and "60 columns were left out" in found.coverage

    def test_the_time_that_is_left_is_logged(self, monkeypatch, caplog):
        monkeypatch.setattr("sfumato.risk.set_search.LOG_SECONDS", 0.1)
        with caplog.at_level("INFO", logger="sfumato"):
            quasi_identifiers(self.table, alpha=0.2, seconds=0.5)
        assert "left (" in caplog.text and "at this pace" in caplog.text

    def test_sets_that_need_not_be_visited_count_as_covered(self):
        every_column_identifies = pa.table({f"c{n}": np.arange(50) for n in range(300)})
        found = quasi_identifiers(every_column_identifies, seconds=60)
        assert found.complete and len(found) == found.visited == 300


@given(tables(), st.floats(0.05, 0.95), st.integers(1, 4))
def test_by_population_it_finds_exactly_the_minimal_sets(table, alpha, times):
    population = times * table.num_rows
    found = quasi_identifiers(table, population, alpha=alpha, by="population")
    bounds = {names: uniqueness(table, names, population).bound for names in every_set(table)}
    if any(abs(bound - alpha) < 1e-9 for bound in bounds.values()):
        return  # a tie that rounding decides
    assert {one.columns for one in found} == slow_minimal(
        table, lambda names: bounds[names] >= alpha, table.num_columns
    )


def test_a_sample_of_rows_is_compared_with_the_whole_table():
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.integers(0, values, 20_000) for name, values in zip("abc", (50, 40, 30), strict=True)})
    exact = {names: uniqueness(table, names) for names in every_set(table)}
    sampled = quasi_identifiers(table, alpha=0.2, sample=4_000, seed=1)
    assert {one.columns for one in sampled} == {("a", "b", "c")}
    one = sampled[0]
    assert 0 < one.error < 0.03
    assert abs(one.unique_fraction - exact[one.columns].unique_fraction) < one.error
    assert one.distinct == pytest.approx(exact[one.columns].distinct, rel=0.03)
    # a control: asked among themselves only, the sampled rows would look far more alone
    alone_in_sample = uniqueness(table.slice(0, 4_000), ["a", "b", "c"]).unique_fraction
    assert alone_in_sample - exact[one.columns].unique_fraction > 3 * one.error


def test_identifying_columns_are_those_in_a_found_set():
    table = pa.table({"id": list(range(10)), "sex": [0, 1] * 5})
    found = quasi_identifiers(table, alpha=0.5)
    assert found.identifying_columns == ("id",)
    assert found.visited == 2


def test_progress_is_told_after_each_set():
    told = []
    quasi_identifiers(pa.table({"a": [0, 0], "b": [0, 0]}), progress=lambda done, most: told.append((done, most)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_more_columns_than_can_be_searched_are_refused_with_advice(monkeypatch):
    monkeypatch.setattr("sfumato.risk.set_search.MOST_SETS", 20)
    table = pa.table({f"c{number}": [0, 0] for number in range(6)})
    with pytest.raises(OptionError, match="max_size"):
        quasi_identifiers(table)
    assert len(quasi_identifiers(table, max_size=1)) == 0


@pytest.mark.parametrize(
    "wrong", [{"alpha": 0}, {"alpha": 1.0}, {"by": "people"}, {"max_size": 0}, {"sample": 9}, {"seconds": 0}]
)
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(OptionError):
        quasi_identifiers(pa.table({"a": [1, 2, 3]}), **wrong)


def test_every_option_of_a_search_is_an_argument_with_the_same_default():
    arguments = inspect.signature(sf.quasi_identifiers).parameters
    for field in fields(SetSearchOptions):
        assert arguments[field.name].default == field.default
    assert set(arguments) - {field.name for field in fields(SetSearchOptions)} == {"table", "schema", "engine"}
