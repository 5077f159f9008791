"""Indicators of the branches of a tree: encoding, the nearest valid row, and methods that use them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.components.restore import with_shares
from sfumato.table.encoder import Encoder
from sfumato.table.table import Table

TOWNS = ("Bern", "Genf", "Rom", "Turin", "Ulm")
BRANCHES = {"town": np.array([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]], dtype=bool)}  # Switzerland, Italy


@pytest.fixture
def table():
    draw = np.random.default_rng(4)
    return Table.from_arrow(pa.table({"x": draw.normal(size=200), "town": draw.choice(TOWNS, 200)}))


@pytest.fixture
def encoder(table):
    return Encoder.fit(table, categories={"town": pa.array(TOWNS)}, branches=BRANCHES)


def test_a_row_has_its_value_and_its_branch(encoder, table):
    matrix = encoder.encode(table)
    assert matrix.shape == (200, 8) and encoder.width == 8
    towns = table.arrow.column("town").to_pylist()
    for row, town in zip(matrix, towns, strict=True):
        assert row[1:6].tolist() == [1.0 if town == one else -1.0 for one in TOWNS]
        assert row[6:].tolist() == [1.0 if town in of else -1.0 for of in (("Bern", "Genf"), ("Rom", "Turin"))]
    assert encoder.decode(matrix).arrow.column("town").to_pylist() == towns


def test_the_nearest_valid_row_is_chosen(encoder):
    draw = np.random.default_rng(5)
    mixed = draw.normal(size=(300, 8))
    valid = encoder.encode(Table.from_arrow(pa.table({"x": np.zeros(5), "town": TOWNS})))[:, 1:]
    slow = [TOWNS[int(((row[1:] - valid) ** 2).sum(axis=1).argmin())] for row in mixed]
    assert encoder.decode(mixed).arrow.column("town").to_pylist() == slow
    by_values = Encoder.fit(Table.from_arrow(pa.table({"x": [0.0, 1.0], "town": ["Bern", "Rom"]})))
    assert by_values.width == 3  # without branches as before


def test_a_branch_outweighs_a_value_that_stands_alone(encoder):
    row = np.array([[0.0, 0.2, 0.1, -1.0, -1.0, 0.3, 0.9, -1.0]])
    assert encoder.decode(row).arrow.column("town").to_pylist() == ["Bern"]  # and not Ulm, the largest indicator


def test_parts_and_shares_know_the_branches(encoder, table):
    part = encoder.part(["town"])
    assert part.width == 7 and part.columns("town").tolist() == list(range(7))
    matrix = encoder.encode(table)
    changed = matrix + np.random.default_rng(1).normal(size=matrix.shape)
    shared = encoder.decode(with_shares(changed, matrix, encoder)).arrow.column("town").to_pylist()
    assert sorted(shared) == sorted(table.arrow.column("town").to_pylist())


@pytest.mark.parametrize("method", [sf.SvdSwap, sf.PartitionedIca])
def test_a_swapped_town_stays_in_its_country_more_often(method, tmp_path):
    draw = np.random.default_rng(6)
    nations, each = 8, 6
    lines = [(f"{n}{t}", f"nation {n}", "*") for n in range(nations) for t in range(each)]
    tree = tmp_path / "towns.csv"
    tree.write_text("\n".join(";".join(line) for line in lines))
    town = draw.integers(nations * each, size=1500)
    people = {"income": town // each + 0.1 * draw.normal(size=1500), "town": [lines[one][0] for one in town]}
    schema = {"income": "quasi", "town": {"role": "quasi", "tree": str(tree)}}

    def fitting(trees):
        release = method(trees=trees).release(people, schema=schema, seed=3)
        rows = release.to_pandas(midpoints=True)
        return float(np.mean(np.abs(rows["town"].str[0].astype(int) - rows["income"].round()) < 0.5))

    assert fitting("branches") > fitting("ignored")


def test_a_value_that_the_tree_lacks_is_refused(tmp_path):
    (tmp_path / "towns.csv").write_text("Bern;Switzerland;*\nGenf;Switzerland;*\n")
    people = {"town": ["Bern", "Genf", "Rom"] * 20, "x": np.arange(60.0)}
    schema = {"x": "quasi", "town": {"role": "quasi", "tree": str(tmp_path / "towns.csv")}}
    with pytest.raises(sf.SfumatoError, match="must contain every value"):
        sf.SvdSwap(trees="branches").release(people, schema=schema)
    assert sf.SvdSwap().release(people, schema=schema).table.rows == 60
