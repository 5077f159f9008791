"""The intervals of the nodes of trees over numbers and dates."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.schema.columns import Column, Role
from sfumato.schema.hierarchies import node_ends
from sfumato.schema.suggested_hierarchies import tree_for


def ends_of(values, tree, **declared):
    column = Column(name="x", role=Role.QUASI, tree=tree, **declared)
    built = tree_for(column, values)
    return built, node_ends(column, built, values)


def by_name(values, tree, level, **declared):
    built, ends = ends_of(values, tree, **declared)
    return {name: (low, high) for name, low, high in zip(built.names[level], *ends[level], strict=True)}


def test_a_step_has_the_ends_of_its_definition():
    ages = pa.array([21, 24, 37, None])
    assert by_name(ages, "steps:5,20", 1) == {"20–24": (20, 24), "35–39": (35, 39)}
    assert by_name(ages, "steps:5,20", 3) == {"*": (20, 39)}
    assert by_name(pa.array([0.5, 1.25]), "steps:1", 1) == {"[0, 1)": (0, 1), "[1, 2)": (1, 2)}


def test_a_declared_domain_ends_the_outer_nodes():
    assert by_name(pa.array([21, 37]), "steps:20", 2, domain=(18, 38)) == {"*": (20, 38)}


def test_a_calendar_period_begins_and_ends_with_its_days():
    days = pa.array([date(2020, 2, 5), date(2024, 12, 31), date(1969, 7, 20)])
    since = {day: (day - date(1970, 1, 1)).days for day in (date(2020, 2, 1), date(2020, 2, 29), date(1960, 1, 1))}
    assert by_name(days, "calendar", 1)["2020-02"] == (since[date(2020, 2, 1)], since[date(2020, 2, 29)])
    assert by_name(days, "calendar", 5)["1960s"] == (since[date(1960, 1, 1)], -1)
    moments = pa.array([datetime(1970, 1, 1, 5), datetime(1970, 3, 1)], pa.timestamp("us"))
    assert by_name(moments, "calendar", 1)["1970-01-01"] == (0, 86_400_000_000 - 1)
    assert by_name(moments, "calendar", 3)["1970 Q1"] == (0, 90 * 86_400_000_000 - 1)


def test_the_numbers_of_a_file_count_even_if_they_do_not_occur(tmp_path):
    (tmp_path / "x.csv").write_text("1;low\n2;low\n3;low\n7;high\n9;high\nunknown;high\n")
    found = by_name(pa.array([2, 7]), str(tmp_path / "x.csv"), 1)
    assert found == {"low": (1, 3), "high": (7, 9)}


@given(numbers=st.lists(st.integers(-500, 500) | st.floats(-50, 50, width=16), min_size=1, max_size=20, unique=True))
def test_every_node_contains_the_numbers_below_it_and_the_nodes_below_it(numbers):
    values = pa.array(sorted(map(float, set(numbers))))
    tree, ends = ends_of(values, "steps:0.5,5,50")
    numbers = np.array([float(leaf) for leaf in tree.leaves])
    for level in range(tree.levels):
        for node in range(len(tree.names[level])):
            first, last = tree.starts[level][node : node + 2]
            low, high = ends[level][0][node], ends[level][1][node]
            assert low <= numbers[first:last].min() <= numbers[first:last].max() <= high
            if level:
                inside = [side[np.searchsorted(tree.starts[level - 1], [first])] for side in ends[level - 1]]
                assert low <= inside[0] and inside[1] <= high


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_moments_lie_in_their_nodes_in_any_time_zone(zone):
    moments = pa.array([datetime(2020, 12, 31, 23, 30), datetime(2021, 1, 1, 0, 30)], pa.timestamp("us", tz=zone))
    tree, ends = ends_of(moments, "calendar")
    micros = moments.cast(pa.int64()).to_numpy()
    for level in range(1, tree.levels):
        for position, leaf in enumerate(moments.cast(pa.string()).to_pylist()):
            node = tree.names[level].index(tree.level(level)[leaf])
            assert ends[level][0][node] <= micros[position] <= ends[level][1][node]
