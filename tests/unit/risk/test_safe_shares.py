"""Distributions that may be shown: no bin of a few people, no end that is a cell, no share that shows one person."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.risk.safe_shares import OTHERS, bins_of, least_people, round_shares, safe_shares, step_for
from sfumato.table.table import Table

columns = st.one_of(
    st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=20, max_size=300),
    st.lists(st.integers(-3, 40).map(float), min_size=20, max_size=300),
)


@given(numbers=columns, least=st.integers(5, 12))
@settings(max_examples=150, deadline=None)
def test_every_bin_holds_enough_numbers(numbers, least):
    present = np.sort(numbers)
    bins = bins_of(present, least, whole=False, per_day=None)
    if bins is None:
        return
    counts = np.bincount(np.searchsorted(bins.edges, present, side="right"), minlength=len(bins.labels))
    assert len(counts) == len(bins.labels) == len(bins.edges) + 1
    assert counts.min() >= least
    assert list(bins.edges) == sorted(set(bins.edges))


@given(numbers=columns)
@settings(max_examples=60, deadline=None)
def test_ends_are_round_numbers_and_not_cells(numbers):
    cells = np.sort(numbers) + 0.12345678
    bins = bins_of(cells, 5, whole=False, per_day=None)
    if bins is None or len(bins.edges) < 2:
        return
    unit = 10.0 ** (np.floor(np.log10(np.diff(bins.edges).min())) - 2.0)  # bins may be several steps wide
    assert np.allclose(np.array(bins.edges) / unit, np.rint(np.array(bins.edges) / unit), atol=1e-6)
    assert not np.isin(cells, bins.edges).any()


def table(**given) -> Table:
    return Table.from_arrow(pa.table(given))


def test_one_person_more_or_less_is_seen_only_at_a_boundary_of_rounding():
    shown = []
    for rows in range(400, 440):
        shown.append(safe_shares(table(x=["a"] * rows + ["b"] * 200), ["x"], 5)[0].shares)
    assert len(set(shown)) <= 4, "a control with exact shares shows every person"
    assert len({rows / (rows + 200) for rows in range(400, 440)}) == 40


def test_shares_are_multiples_of_a_step_that_stands_for_enough_people():
    for rows in (60, 442, 3000, 100_000):
        step = step_for(rows, 5)
        assert step is not None
        assert step * rows >= 5
    assert step_for(40, 5) is None
    assert round_shares(np.array([0.129, 0.131]), 0.02) == (0.12, 0.14)


def test_rare_categories_are_counted_together_and_never_named():
    cells = ["flu"] * 60 + ["cold"] * 38 + ["rare 1", "rare 2"]
    (found,) = safe_shares(table(x=cells), ["x"], 5)
    assert found.labels == ("flu", OTHERS)  # two rare people are hidden among the 38
    assert found.shares == (0.6, 0.4)
    (found,) = safe_shares(table(x=["flu"] * 60 + ["cold"] * 34 + ["x1", "x2", "x3", "x4", "x5", "x6"]), ["x"], 5)
    assert found.labels == ("flu", "cold", OTHERS)


def test_a_few_missing_values_are_not_shown_and_many_are():
    few, many = ([1.0, 2.0] * 48 + [None] * n for n in (4, 24))
    assert safe_shares(table(x=few), ["x"], 5)[0].missing == 0.0
    assert safe_shares(table(x=many), ["x"], 5)[0].missing == 0.2


def test_bins_of_whole_numbers_and_dates_are_named_as_people_do():
    (found,) = safe_shares(table(age=list(range(100))), ["age"], 5)
    assert found.labels == ("under 20", "20 – 39", "40 – 59", "60 – 79", "80 or more")
    days = [datetime.date(1950, 1, 1) + datetime.timedelta(days=97 * number) for number in range(200)]
    (found,) = safe_shares(table(born=days), ["born"], 5)
    assert found.labels[0] == "before 1960"
    assert found.labels[-1] == "from 2000"


def test_text_and_constant_columns_are_left_out():
    assert safe_shares(table(x=[f"person {n}" for n in range(100)], y=[1.0] * 100), ["x", "y"], 5) == ()


def test_the_least_number_of_people_follows_k():
    assert [least_people(k) for k in (None, 2, 50)] == [10, 5, 50]


@pytest.mark.parametrize(("first", "width"), [(20_240_101, 900), (100_000, 1.0), (1.6e9, 1e6), (-5e6, 40.0)])
def test_narrow_bins_of_large_numbers_have_different_labels(first, width):
    numbers = first + width * np.random.default_rng(2).random(2000)
    shown = safe_shares(table(x=np.floor(numbers) if width > 800 else numbers), ["x"], 10)[0]
    assert len(set(shown.labels)) == len(shown.labels)
    assert shown.labels[0].startswith("under ")
    first_edge = float(shown.labels[0].removeprefix("under ").replace(",", "").replace("−", "-"))
    assert first_edge == pytest.approx(shown.bins.edges[0], rel=1e-12)


def test_bins_of_numbers_as_far_apart_as_can_be():
    present = np.sort(np.linspace(-1.0, 1.0, 200) * np.finfo(float).max)
    bins = bins_of(present, 5, whole=False, per_day=None)
    assert bins is not None and np.isfinite(bins.edges).all()
