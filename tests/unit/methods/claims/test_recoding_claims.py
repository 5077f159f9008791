"""Each promise of a recoding is found broken when it is."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.generalize.population import ProbabilisticAnonymity
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.plan import Evidence
from sfumato.sources.frames import as_table


def evidence(released, original=None):
    table = as_table(pa.table(released))
    return Evidence(table, as_table(pa.table(original or released)), np.arange(table.rows))


@pytest.mark.parametrize(("k", "held"), [(2, True), (3, False)])
def test_each_column_is_counted_by_itself(k, held):
    claim = EachColumnAnonymous(k=k, columns={"x": ("x_low", "x_high"), "y": ("y",)})
    found = claim.measure(evidence({"x_low": [1, 1, 1, 1], "x_high": [2, 2, 3, 3], "y": ["a"] * 4}))
    assert found.held is held


@pytest.mark.parametrize(("most", "held"), [(2, True), (1, False)])
def test_values_are_counted_and_a_missing_one_is_not(most, held):
    assert AtMostValues(most=most, columns={"x": ("x",)}).measure(evidence({"x": [1, 2, 2, None]})).held is held


def test_a_value_outside_its_range_or_word_is_found():
    original = {"age": [20, 30, None], "city": ["rome", "bonn", None]}
    covers = {"city": {"south": frozenset({"rome"}), "other": frozenset({"bonn", None})}}
    claim = Containment(columns=("age", "city"), covers=covers, empty_is_unknown=True)
    true = {"age_low": [18, 25, None], "age_high": [24, 31, None], "city": ["south", "other", "other"]}
    assert claim.measure(evidence(true, original)).held
    assert not claim.measure(evidence(true | {"age_high": [19, 31, None]}, original)).held
    assert not claim.measure(evidence(true | {"age_low": [18, 25, 20], "age_high": [24, 31, 40]}, original)).held
    assert not claim.measure(evidence(true | {"city": ["other", "other", "other"]}, original)).held
    shown = claim.measure(evidence(true | {"city": ["other", "other", "other"]}, original)).found
    assert "city" in shown and "rome" not in shown


def test_too_many_combinations_break_the_promise():
    rng = np.random.default_rng(1)
    rows = {"x": rng.integers(0, 10, 500), "y": rng.integers(0, 10, 500)}
    promise = {"k": 20, "population": 10_000, "beta": 0.1, "columns": {"x": ("x",), "y": ("y",)}}
    assert ProbabilisticAnonymity(**promise, most=100, any_distribution=False).measure(evidence(rows)).held
    assert not ProbabilisticAnonymity(**promise, most=99, any_distribution=False).measure(evidence(rows)).held


def test_rows_that_rarely_find_k_people_break_the_promise_even_within_the_budget():
    """Half of the rows are in one cell, the others spread over combinations that are far rarer than 1 in 100."""
    rng = np.random.default_rng(2)
    rare = rng.random(4_000) < 0.5
    rows = {name: np.where(rare, rng.integers(1, 10, 4_000), 0) for name in "xyz"}
    promise = {"k": 60, "population": 20_000, "beta": 0.1, "most": 1_000, "columns": {n: (n,) for n in "xyz"}}
    assert not ProbabilisticAnonymity(**promise, any_distribution=False).measure(evidence(rows)).held
    assert ProbabilisticAnonymity(**promise, any_distribution=True).measure(evidence(rows)).held
