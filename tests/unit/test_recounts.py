"""What benchmarks count again is right on tables that are small enough to count by hand."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def recount(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("harness.recount")


def test_a_recount_uses_neither_ours_nor_a_rival():
    code = "import sys, harness.recount; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"sfumato", "pandas", "polars", "duckdb", "sklearn", "scipy"}


def test_loss_of_cells_is_the_mean_share_of_the_domain(recount):
    original = {"age": ["20", "30", "40"], "sex": ["f", "m", "f"]}
    cells = {"age": [(20.0, 30.0), (20.0, 30.0)], "sex": [frozenset("fm"), frozenset("f")]}
    # ages cover 10 of 20 years, twice; a set of both values leaves all open; a suppressed row counts 1 in both columns
    assert recount.loss_of_cells(cells, original, 0) == pytest.approx((0.5 + 0.5) / 2)
    assert recount.loss_of_cells(cells, original, 1) == pytest.approx(((0.5 + 0.5 + 1) / 3 + (1 + 0 + 1) / 3) / 2)


def test_granularity_is_one_for_leaves_and_zero_for_roots(recount):
    assert recount.granularity({"a": [1, 1], "b": [1, 1]}, {"a": 4, "b": 2}, 0) == 1.0
    assert recount.granularity({"a": [4, 4], "b": [2, 2]}, {"a": 4, "b": 2}, 0) == pytest.approx(0.0)
    assert recount.granularity({"a": [1]}, {"a": 4}, 1) == pytest.approx(0.5)  # one of two rows is suppressed


def test_variance_lost_is_that_within_groups(recount):
    original = np.array([[0.0], [2.0], [10.0], [12.0]])
    released = np.array([[1.0], [1.0], [11.0], [11.0]])
    assert recount.variance_lost(original, released) == pytest.approx(100.0 * 1.0 / 26.0)


def test_k_marginal_is_1000_for_the_same_shares_and_0_for_disjoint_ones(recount):
    table = {"a": np.array(["x", "y"]), "b": np.array(["u", "v"])}
    assert recount.k_marginal(table, table) == 1000.0
    assert recount.k_marginal(table, {"a": np.array(["z"]), "b": np.array(["w"])}) == 0.0
    half = {"a": np.array(["x", "x"]), "b": np.array(["u", "u"])}  # |0.5 − 1| + |0.5 − 0| = 1
    assert recount.k_marginal(table, half) == 500.0


def test_numbers_are_binned_by_quantiles_of_the_original(recount):
    numbers = np.arange(100.0)
    table = {"a": numbers, "b": np.array(["x"] * 100)}
    assert recount.k_marginal(table, {"a": numbers + 0.04, "b": table["b"]}) == pytest.approx(1000.0)
    assert recount.k_marginal(table, {"a": np.full(100, 99.0), "b": table["b"]}) == pytest.approx((2 - 1.9) * 500)


def test_unique_rows_are_matched_and_absence_is_told(recount):
    people = [("a",), ("b",), ("c",), ("c",)]
    assert recount.unique_matched(people, [("a",), ("c",)]) == 0.5
    members, others = [("a",), ("b",)], [("d",), ("e",)]
    assert recount.absence(members, others, [("a",), ("b",)]) == 1.0  # copies
    assert recount.absence(members, others, [("d",), ("e",)]) == 0.0  # members are avoided
    assert recount.absence(members, others, [("a",), ("d",)]) == 0.5


def test_propensity_is_small_for_the_same_distribution_and_large_for_another(recount):
    draw = np.random.default_rng(1)
    same, other = draw.normal(size=(2, 2000, 2))
    assert recount.propensity(same, other) < 0.01
    assert recount.propensity(same, other + 5.0) > 0.9


def test_area_counts_pairs_and_half_of_ties(recount):
    assert recount.area([3.0, 2.0], [1.0, 0.0]) == 1.0
    assert recount.area([1.0], [1.0]) == 0.5
    assert recount.area([0.0, 2.0], [1.0]) == 0.5


def test_no_grouping_loses_less_than_the_bound_of_neighbours(recount):
    numbers = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    grouped = np.array([[0.5], [0.5], [10.5], [10.5], [20.5], [20.5]])
    assert recount.neighbour_bound(numbers, 2) == pytest.approx(recount.variance_lost(numbers, grouped))
    draw = np.random.default_rng(2).normal(size=(12, 2))
    chunks = np.repeat(draw.reshape(4, 3, 2).mean(axis=1), 3, axis=0)
    assert 0.0 < recount.neighbour_bound(draw, 3) < recount.variance_lost(draw, chunks)


def test_correlation_error_is_the_mean_difference(recount):
    x = np.array([0.0, 1.0, 2.0, 3.0])
    assert recount.correlation_error({"x": x, "y": x}, {"x": x, "y": -x}) == pytest.approx(2.0)
    assert recount.correlation_error({"x": x, "y": x}, {"x": x, "y": x}) == 0.0
