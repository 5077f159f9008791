"""Counts of the population that may be wrong: every result that uses them has an interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import OptionError


def people(rows: int = 600, seed: int = 1) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {"age": draw.integers(20, 80, rows), "town": draw.geometric(0.1, rows)}


@given(st.integers(0, 10**6), st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_the_true_share_of_unique_rows_is_in_the_interval_if_some_rows_are_wrong(seed, wrong):
    draw = np.random.default_rng(seed)
    true = {"a": draw.integers(0, 12, 40), "b": draw.integers(0, 4, 40)}
    chosen = draw.choice(40, wrong, replace=False)
    seen = {name: values.copy() for name, values in true.items()}
    seen["a"][chosen] = draw.integers(0, 12, wrong)
    low, high = sf.uniqueness(seen, ["a", "b"], count_error=wrong / 40).unique_interval
    assert low <= sf.uniqueness(true, ["a", "b"]).unique_fraction <= high


def test_two_per_wrong_row_is_not_too_many():
    """A row that was alone joins another that was alone: two fewer are unique. 1 per row would be too few."""
    true, seen = {"a": [1, 2, 3, 3]}, {"a": [1, 1, 3, 3]}
    assert sf.uniqueness(true, ["a"]).unique_fraction == 0.5
    found = sf.uniqueness(seen, ["a"], count_error=0.25)
    assert found.unique_fraction == 0.0
    assert found.unique_interval == (0.0, 0.5)


def test_bounds_are_those_of_the_smallest_and_the_largest_population():
    ends = [sf.uniqueness(people(), ["age", "town"], size).bound for size in (9_500, 10_500)]
    found = sf.uniqueness(people(), ["age", "town"], 10_000, count_error=0.05)
    assert found.bound_interval == pytest.approx((ends[1], ends[0]))
    assert found.share("population") == found.bound_interval[1]
    assert "may be wrong by 5.0%" in found.reason(0.2, by="population")
    exact = sf.uniqueness(people(), ["age", "town"], 10_000)
    assert exact.bound_interval == (exact.bound, exact.bound)


def test_the_population_has_at_least_the_people_of_the_table():
    found = sf.uniqueness(people(), ["age", "town"], 610, count_error=0.5)
    assert found.bound_interval[1] == sf.uniqueness(people(), ["age", "town"], 600).bound


def test_the_safe_budget_is_that_of_fewer_people():
    found = sf.anonymity_budget(1e6, 20, 0.05, count_error=0.1)
    assert found.exact_interval == tuple(sf.anonymity_budget(size, 20, 0.05).exact for size in (9e5, 1.1e6))
    assert found.exact_interval[0] < found.exact < found.exact_interval[1]
    assert found.any_distribution_interval[0] < found.any_distribution
    assert sf.anonymity_budget(1e6, 20, 0.05).exact_interval is None


def test_estimated_uniques_of_the_population():
    found = sf.population_uniqueness(people(), ["age", "town"], 10_000, count_error=0.1)
    ends = [sf.population_uniqueness(people(), ["age", "town"], size).pitman for size in (9_000, 11_000)]
    assert found.estimator == "pitman"
    assert found.unique_interval == pytest.approx((min(ends), max(ends)))
    exact = sf.population_uniqueness(people(), ["age", "town"], 10_000)
    assert exact.unique_interval == (exact.unique_people, exact.unique_people)


def test_individual_risks():
    found = sf.individual_risk(people(), ["age", "town"], population=10_000, count_error=0.1)
    ends = [sf.individual_risk(people(), ["age", "town"], population=size).expected for size in (11_000, 9_000)]
    assert found.expected_interval == pytest.approx(tuple(ends))
    assert found.expected_interval[0] < found.expected < found.expected_interval[1]


@pytest.mark.parametrize("wrong", [-0.1, 1.0, 2.0, float("nan"), "much"])
def test_an_error_is_a_share(wrong):
    for ask in (
        lambda: sf.uniqueness(people(), ["age"], count_error=wrong),
        lambda: sf.anonymity_budget(1e6, 5, 0.1, count_error=wrong),
        lambda: sf.population_uniqueness(people(), ["age"], 1e4, count_error=wrong),
        lambda: sf.individual_risk(people(), ["age"], count_error=wrong),
    ):
        with pytest.raises(OptionError, match="count_error"):
            ask()
