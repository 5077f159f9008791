"""Conditions on columns that are released as nodes: certain, possible or impossible by the leaves of a node."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf

ZIPS = ["10115", "10117", "10243", "20095", "20097", "80331"]
RARE = "99999"
ROLES = {"zip": {"role": "quasi", "tree": "prefix", "kind": "nominal"}, "age": "quasi", "income": "other"}
METHODS = {
    "boxes": sf.Boxes(k=5, categories="tree"),
    "generalize": sf.Generalize(k=5),
    "recode": sf.Recode(k=5, kind="local", search=1.0),
    "global": sf.Recode(k=5, kind="global", suppress=0.0),
}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    drawn = np.random.default_rng(0)
    rows = 120
    return pd.DataFrame(
        {
            "zip": [RARE, *drawn.choice(ZIPS, rows - 1, p=[0.3, 0.25, 0.15, 0.14, 0.12, 0.04])],
            "age": drawn.integers(18, 90, rows),
            "income": drawn.lognormal(10, 1, rows).round(2),
        }
    )


@pytest.fixture(scope="module", params=sorted(METHODS))
def released(request, people, tmp_path_factory) -> sf.Release:
    release = METHODS[request.param].release(people, schema=ROLES, seed=1)
    return sf.read_release(release.write(tmp_path_factory.mktemp("nodes") / "out"))


@pytest.mark.parametrize("value", [*ZIPS, RARE, "55555", "(missing)"])
@pytest.mark.parametrize("operator", ["=", "!="])
def test_every_count_lies_in_its_interval(people, released, value, operator):
    met = (people.zip == value) == (operator == "=")
    found = released.estimate(
        f'count(zip {operator} "{value}")' if value != "(missing)" else f"count(zip {operator} (missing))"
    )
    assert found.low <= met.sum() <= found.high <= len(people)
    if met.any() and not released.manifest.suppressed:
        mean = released.estimate(f'mean(income | zip {operator} "{value}")')
        assert mean.low <= people.income[met].mean() <= mean.high


def test_a_node_of_other_values_is_excluded(people):
    release = METHODS["boxes"].release(people, schema=ROLES, seed=1)
    cells = release.to_pandas().zip
    found = release.estimate('count(zip = "10115")')
    possible = cells.isin(["10115", "1011*", "101**", "10***", "1****", "*****", "*"])
    assert (found.low, found.high) == ((cells == "10115").sum(), possible.sum())
    assert found.high < len(people) / 2  # control: without the leaves, every node may hold the value


def test_a_rare_value_is_not_listed(people):
    manifest = METHODS["boxes"].release(people, schema=ROLES, seed=1).manifest
    assert "10115" in manifest.nodes["zip"]
    assert RARE not in json.dumps(json.loads(manifest.to_json()))


def test_a_value_that_is_also_the_name_of_a_node_counts_as_the_node(tmp_path):
    tree = tmp_path / "towns.csv"
    tree.write_text("Berlin;Berlin;*\nPotsdam;Berlin;*\nKöln;NRW;*\n")
    towns = ["Berlin"] * 6 + ["Potsdam"] * 6 + ["Köln"] * 6
    release = sf.Boxes(k=12, categories="tree").release(
        {"town": towns, "x": np.arange(18.0)},
        schema={"town": {"role": "quasi", "tree": str(tree)}, "x": "other"},
    )
    found = release.estimate("count(town = Berlin)")
    assert found.low <= 6 <= found.high


def test_a_boolean_beside_a_node_is_asked_for_in_any_spelling(people, tmp_path):
    smoker = np.random.default_rng(1).random(len(people)) < 0.3
    roles = ROLES | {"income": "quasi", "smoker": "quasi"}
    release = sf.Recode(k=5, kind="local", search=1.0).release(people.assign(smoker=smoker), schema=roles)
    assert set(release.to_pandas()["smoker"]) == {"true", "false", "*"}
    release.write(tmp_path / "out")
    for source in (tmp_path / "out", tmp_path / "out/released.parquet"):
        read = sf.read_release(source)
        for asked in ("True", "true", "TRUE", "1"):
            found = read.estimate(f"count(smoker = {asked})")
            assert found.low <= int(smoker.sum()) <= found.high
