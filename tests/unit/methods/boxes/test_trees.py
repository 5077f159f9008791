"""Columns with generalization trees are cut by their trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.engines.memory.engine import Memory, MemorySurvey
from sfumato.methods.boxes.partition import partition, problem_of
from sfumato.methods.boxes.search_branch_kernels import box_costs
from sfumato.methods.boxes.search_objective import linear_fitness
from sfumato.randomness import Randomness
from sfumato.schema.hierarchies import Tree
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.SfumatoWarning")


def written_tree(folder, name, values, generator):
    """Write a random tree of three levels over some values; return its path."""
    middle = generator.integers(0, max(len(values) // 3, 1), len(values))
    top = generator.integers(0, 3, middle.max() + 1)
    path = folder / f"{name}.csv"
    path.write_text("".join(f"{v};{name}m{m};{name}t{top[m]};*\n" for v, m in zip(values, middle, strict=True)))
    return path


def table_with_trees(folder, seed, rows=400):
    generator = np.random.default_rng(seed)
    frame, schema = {}, {}
    for number in range(3):
        values = [f"c{number}v{value:02d}" for value in range(int(generator.integers(4, 25)))]
        frame[f"c{number}"] = np.array(values)[np.floor(len(values) * generator.random(rows) ** 2).astype(int)]
        path = written_tree(folder, f"c{number}", values, generator)
        schema[f"c{number}"] = {"role": "quasi", "kind": "nominal", "tree": str(path)}
    frame["age"] = generator.integers(18, 90, rows)
    schema["age"] = {"role": "quasi", "tree": "steps:5,10,20"}
    return pd.DataFrame(frame), schema


def costs(frame, schema, **options):
    """Return the cost as nodes of the boxes that are cut by the tree, and of those that are cut as sets."""
    table = as_table(frame)
    plan = sf.Boxes(k=5, categories="tree", **options).plan(MemorySurvey(table), Schema.of(schema), Randomness(1))
    values, weights, protected = (
        plan.axes.coordinates(table), plan.sensitivities.of(table), plan.diversity.protect(table, plan.axes)
    )  # fmt: skip
    as_sets = replace(
        plan.axes,
        numbers=tuple(replace(axis, nodes=None) for axis in plan.axes.numbers),
        sets=tuple(replace(axis, steps=None) for axis in plan.axes.sets),
    )
    problem = problem_of(values, weights, plan.axes, k=5, protected=protected)
    found = []
    for axes in (plan.axes, as_sets):
        places = axes.coordinates(table)
        leaves = partition(places, weights, axes, k=5, protected=protected, median=False, note_cuts=False)
        found.append(box_costs(problem, linear_fitness(weights), leaves.order, leaves.starts).sum())
    return found


def test_boxes_that_are_cut_by_the_tree_have_narrower_nodes_than_sets_that_are_fitted_afterwards(tmp_path):
    ratios = [tree / sets for tree, sets in (costs(*table_with_trees(tmp_path, seed)) for seed in range(6))]
    assert np.mean(ratios) < 0.9
    assert max(ratios) < 1.0


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000),
    k=st.integers(2, 8),
    edges=st.sampled_from(["hull", "cells"]),
    with_missing=st.booleans(),
    block_rows=st.sampled_from([None, 120]),
)
def test_every_value_is_below_its_node_and_k_holds(tmp_path_factory, seed, k, edges, with_missing, block_rows):
    frame, schema = table_with_trees(tmp_path_factory.mktemp("trees"), seed, rows=300)
    if with_missing:
        frame.loc[::17, "c0"] = None
        frame["age"] = frame["age"].astype("Int64")
        frame.loc[::13, "age"] = pd.NA
    method = sf.Boxes(k=k, categories="tree", edges=edges)
    release = method.release(frame, schema=schema, engine=Memory(block_rows=block_rows))
    assert all(finding.held for finding in release.findings)  # recounted on the released rows: k, and every value
    columns = [name for name in release.table.names if name != "box"]
    shown = release.table.to_pandas()
    assert shown.groupby(columns, dropna=False).size().min() >= k
    nodes = {node for level in Tree.read(schema["c1"]["tree"]).names for node in level}
    assert set(shown["c1"]) <= nodes
    estimate = release.estimate("mean(age)")
    assert estimate.low <= frame["age"].mean() <= estimate.high


def test_numbers_and_dates_are_released_as_the_intervals_of_their_nodes():
    generator = np.random.default_rng(1)
    days = pd.Timestamp("2015-01-01") + pd.to_timedelta(generator.integers(0, 3000, 300), "D")
    frame = pd.DataFrame({"age": generator.integers(18, 90, 300), "day": days.date})
    schema = {"age": {"role": "quasi", "tree": "steps:10,20"}, "day": {"role": "quasi", "tree": "calendar"}}
    shown = sf.Boxes(k=5, categories="tree").release(frame, schema=schema).table.to_pandas()
    widths = (shown["age_high"] - shown["age_low"] + 1).to_numpy()
    several = widths > 1
    assert set(widths) <= {1, 10, 20, 100}
    assert (shown["age_low"].to_numpy()[several] % 10 == 0).all()
    low, high = pd.to_datetime(shown["day_low"]), pd.to_datetime(shown["day_high"])
    assert ((low == high) | ((low.dt.day == 1) & ((high + pd.Timedelta(days=1)).dt.day == 1))).all()


@pytest.mark.parametrize("overlap", ["none", "allowed"])
def test_a_search_minimises_the_widths_of_nodes(tmp_path, overlap):
    frame, schema = table_with_trees(tmp_path, 3, rows=200)
    method = sf.Boxes(k=5, categories="tree", search=sf.SearchBudget(rounds=4), overlap=overlap)
    trace = method.release(frame, schema=schema, seed=1).diagnostics.searches[0]
    assert trace.after < trace.before


def test_sets_do_not_depend_on_how_wide_the_nodes_are(tmp_path):
    """The tree gives the order of the values only, so two trees with the same order give the same sets."""
    frame, schema = table_with_trees(tmp_path, 5)
    flat = tmp_path / "flat.csv"
    flat.write_text("".join(f"{leaf};*\n" for leaf in Tree.read(schema["c0"]["tree"]).leaves))
    shown = []
    for tree in (schema["c0"]["tree"], str(flat)):
        schema["c0"]["tree"] = tree
        released = sf.Boxes(k=5).release(frame, schema=schema, seed=1).table.to_pandas().drop(columns="box")
        shown.append(released.sort_values(list(released)).reset_index(drop=True))
    pd.testing.assert_frame_equal(*shown)


def test_missing_values_of_one_column_leave_the_nodes_of_another_as_they_are():
    """The first value of a tree is no missing value, where another column has some."""
    frame = pd.DataFrame({"height": [None, None, 150.0, 160.0, 170.0, 180.0], "income": [-3, 95, 20, 30, 40, 50]})
    schema = {"height": "quasi", "income": {"role": "quasi", "tree": "steps:5,10,50"}}
    shown = sf.Boxes(k=2, categories="tree").release(frame, schema=schema).table.to_pandas()
    assert shown["income_low"].min() == -50


@pytest.mark.parametrize("number", [1.3e149, -1.3e149, 4.2e17, 5.0])
def test_missing_values_differ_from_a_constant_of_any_size(number):
    frame = pd.DataFrame({"x": [number, None] * 5, "y": range(10)})
    release = sf.Boxes(k=2).release(frame, schema={"x": "quasi", "y": "quasi"})
    shown = release.table.to_pandas()
    assert int(shown.groupby("box")["x_missing"].first().sum()) == 5
    assert set(shown["x_low"].dropna()) == {number}


def test_columns_of_tiny_numbers_are_released():
    """Their sensitivities are too large for single precision."""
    frame = pd.DataFrame({"x": [2.6e-101, 3.1e-139, 5.5e-142]})
    assert sf.Boxes(k=2).release(frame, schema={"x": "quasi"}).table.rows == 3
