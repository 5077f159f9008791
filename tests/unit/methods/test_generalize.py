"""Probabilistic anonymity from a table to its verified release."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.generalize.method import Generalize
from sfumato.risk.anonymity_budget import anonymity_budget


def people(rows, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": pa.array(rng.integers(18, 90, rows), mask=rng.random(rows) < 0.02),
            "weight": rng.normal(75, 12, rows),
            "city": rng.choice(["rome", "bonn", "oslo", "lyon", "graz"], rows, p=[0.4, 0.35, 0.15, 0.09, 0.01]),
            "sex": rng.choice(["f", "m"], rows),
            "diagnosis": rng.choice(["a", "b", "c"], rows),
        }
    )


ROLES = {"age": "quasi", "weight": "quasi", "city": "quasi", "sex": "quasi", "diagnosis": "sensitive"}


def combinations_shown(table, columns):
    return math.prod(
        len(set(zip(*(table.arrow.column(n).to_pylist() for n in names), strict=True))) for names in columns
    )


@pytest.mark.parametrize("budget", ["exact", "chernoff", "any"])
def test_the_combinations_shown_stay_within_the_budget(budget):
    release = Generalize(k=20, population=100_000, beta=0.1, budget=budget).release(people(2_000), schema=ROLES, seed=1)
    found = anonymity_budget(100_000, 20, 0.1)
    most = {"exact": found.exact, "chernoff": found.chernoff, "any": found.any_distribution}[budget]
    shown = combinations_shown(
        release.table, [("age_low", "age_high"), ("weight_low", "weight_high"), ("city",), ("sex",)]
    )
    assert shown <= most
    assert release.manifest.notes["combinations allowed"] == most
    assert release.manifest.notes["combinations after"] >= shown
    assert release.manifest.notes["combinations before"] > most


def test_small_columns_stay_and_others_are_not_touched():
    table = people(500)
    release = Generalize(k=20, population=10**6, l=1).release(table, schema=ROLES, seed=1)
    assert Counter(release.table.arrow.column("sex").to_pylist()) == Counter(table["sex"].to_pylist())
    assert Counter(release.table.arrow.column("diagnosis").to_pylist()) == Counter(table["diagnosis"].to_pylist())
    assert release.manifest.notes["columns"]["sex"] == {"how": "kept as it is"}
    assert release.manifest.notes["columns"]["weight"]["rank difference"] > 0


def test_a_column_that_matters_more_keeps_more_values():
    plain = Generalize(k=20, population=200_000).release(people(500), schema=ROLES, seed=1)
    favours_age = Generalize(k=20, population=200_000, importance={"age": 5.0})
    favoured = favours_age.release(people(500), schema=ROLES, seed=1)
    assert favoured.manifest.notes["values after"]["age"] > plain.manifest.notes["values after"]["age"]
    assert favoured.manifest.notes["values after"]["weight"] < plain.manifest.notes["values after"]["weight"]
    assert favoured.manifest.options["importance"] == {"age": 5.0}


@given(st.integers(2, 12), st.integers(0, 50))
def test_a_table_that_is_its_own_population_leaves_k_anonymous(k, seed):
    release = Generalize(k=k, beta=0.2).release(people(300, seed), schema=ROLES, seed=1)
    quasi = [name for name in release.table.names if name != "diagnosis"]
    rows = Counter(zip(*(release.table.arrow.column(name).to_pylist() for name in quasi), strict=True))
    assert min(rows.values()) >= k
    assert release.table.rows >= 0.8 * 300


def test_rows_of_the_table_look_alike_too_when_asked(tmp_path):
    release = Generalize(k=5, population=10**6, within=4).release(people(500), schema=ROLES, seed=1)
    release.write(tmp_path / "out")  # 4-anonymous is a second promise, not a weaker form of the first
    assert all(finding.held for finding in sf.read_release(tmp_path / "out").findings)
    quasi = [name for name in release.table.names if name != "diagnosis"]
    rows = Counter(zip(*(release.table.arrow.column(name).to_pylist() for name in quasi), strict=True))
    assert min(rows.values()) >= 4
    assert 450 <= release.table.rows < 500


def test_columns_that_depend_on_each_other_get_a_smaller_budget_unless_it_holds_for_any_distribution():
    rng = np.random.default_rng(3)
    one = rng.normal(size=20_000)
    table = pa.table({"x": one, "y": 0.6 * one + 0.8 * rng.normal(size=20_000), "z": rng.normal(size=20_000)})
    schema = dict.fromkeys("xyz", "quasi")
    notes = Generalize(k=50, population=200_000).release(table, schema=schema, seed=1).manifest.notes
    assert notes["combinations after"] < 0.7 * notes["combinations allowed"]
    assert notes["share of rows that match k people, at least"] >= 0.9
    notes = Generalize(k=50, population=200_000, budget="any").release(table, schema=schema, seed=1).manifest.notes
    assert notes["combinations after"] > 0.7 * notes["combinations allowed"]


def test_declared_domains_are_the_outer_ends_of_ranges():
    roles = ROLES | {"age": {"role": "quasi", "domain": [0, 120]}}
    release = Generalize(k=20, population=100_000).release(people(500), schema=roles, seed=1)
    assert min(release.table.arrow.column("age_low").drop_null().to_pylist()) == 0
    assert max(release.table.arrow.column("age_high").drop_null().to_pylist()) == 120


def test_one_combination_only_still_leaves():
    """So few people that nothing may be told apart."""
    release = Generalize(k=10, population=10, represent="range").release(people(10), schema=ROLES, seed=1)
    quasi = [name for name in release.table.names if name != "diagnosis"]
    assert len(set(zip(*(release.table.arrow.column(name).to_pylist() for name in quasi), strict=True))) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Generalize(k=0),
        lambda: Generalize(k=5, beta=0.0),
        lambda: Generalize(k=5, population=4),
        lambda: Generalize(k=5, population=2.5),
        lambda: Generalize(k=5, importance={"age": -1}),
        lambda: Generalize(k=5, budget="guess"),
        lambda: Generalize(k=5, within=0),
        lambda: Generalize(k=5, represent="mode"),
    ],
)
def test_a_wrong_option_is_refused(make):
    with pytest.raises(OptionError):
        make()


def test_a_population_smaller_than_the_table_is_refused():
    with pytest.raises(OptionError, match="people of the table"):
        Generalize(k=5, population=50).release(people(100), schema=ROLES)


def test_the_importance_of_columns_that_are_not_protected_is_refused():
    with pytest.raises(OptionError, match="diagnosis"):
        Generalize(k=5, importance={"diagnosis": 1.0}).release(people(100), schema=ROLES)


def test_fewer_rows_than_k_cannot_be_released():
    with pytest.raises(CannotRelease):
        Generalize(k=200).release(people(100), schema=ROLES)
