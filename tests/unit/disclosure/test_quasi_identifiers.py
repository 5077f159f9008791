"""The search for minimal quasi-identifiers, against trying every set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.disclosure.quasi_identifiers import quasi_identifiers, uniqueness_lattice
from sfumato.disclosure.uniqueness import uniqueness
from sfumato.errors import OptionError


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


@given(tables())
def test_the_lattice_has_the_uniqueness_of_every_set(table):
    assert uniqueness_lattice(table) == tuple(uniqueness(table, names) for names in every_set(table))


def test_a_sample_of_rows_is_compared_with_the_whole_table():
    rng = np.random.default_rng(5)
    table = pa.table({name: rng.integers(0, values, 20_000) for name, values in zip("abc", (50, 40, 30), strict=True)})
    exact = {one.columns: one for one in uniqueness_lattice(table)}
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
    monkeypatch.setattr("sfumato.disclosure.column_sets.MOST_SETS", 20)
    table = pa.table({f"c{number}": [0, 0] for number in range(6)})
    with pytest.raises(OptionError, match="max_size"):
        quasi_identifiers(table)
    assert len(quasi_identifiers(table, max_size=1)) == 0


@pytest.mark.parametrize("wrong", [{"alpha": 0}, {"alpha": 1.0}, {"by": "people"}, {"max_size": 0}, {"sample": 9}])
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(OptionError):
        quasi_identifiers(pa.table({"a": [1, 2, 3]}), **wrong)
