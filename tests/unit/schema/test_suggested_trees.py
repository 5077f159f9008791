"""Suggested trees: prefixes for codes, the calendar for dates, none for anything else."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sfumato.cli.commands import run
from sfumato.schema.schema import FittedTable
from sfumato.schema.suggested_hierarchies import add_suggested_trees, suggest_tree_kind, tree_for
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind

ZIPS = [f"{region}{place:03d}" for region in ("01", "04", "10") for place in (7, 19, 67, 99)]
ICD = ["E10.9", "E11.4", "E11.9", "I10.0", "I10.1", "I21.0", "I50.1", "J18.9", "J44.1", "S72.00XA"]


@pytest.mark.parametrize("values", [ZIPS, ICD, [code.replace(".", "") for code in ICD[:-1]]])
def test_codes_are_grouped_by_prefix(values):
    assert suggest_tree_kind(Kind.NOMINAL, pa.array(values)) == "prefix"


@pytest.mark.parametrize(
    "values",
    [
        ["Ulm", "Rom", "Oslo", "Wien", "Bern", "Graz", "Linz", "Genf", "Basel"],  # no digits
        ["01067", "04103"],  # too few
        [f"{digit}00" for digit in range(1, 10)],  # no prefix that two of them share
        [f"type {number}" for number in range(20)],  # words
    ],
)
def test_other_categories_are_not(values):
    assert suggest_tree_kind(Kind.NOMINAL, pa.array(values)) is None


def test_a_few_cells_that_are_no_codes_do_not_matter_and_the_tree_holds_them():
    values = [*(f"{number:05d}" for number in range(1000, 1060)), "foreign", None]
    table = as_table({"zip": values * 3, "sex": ["f", "m"] * 93})
    fitted = FittedTable.of(table, {"zip": "quasi", "sex": "quasi"})
    schema = add_suggested_trees(fitted.schema, fitted.table)
    assert [column.tree for column in schema.columns] == ["prefix", None]
    tree = tree_for(schema["zip"], table.coded("zip").values)
    assert tree.level(2)["01017"] == "01017*"


def test_the_schema_command_writes_them(tmp_path, capsys):
    file = tmp_path / "people.csv"
    lines = [f"{ZIPS[row % 12]},2023-01-{1 + row % 28:02d},{row % 70}" for row in range(60)]
    file.write_text("\n".join(["zip,admission,age", *lines, ""]))
    assert run(["schema", str(file), "--json"]) == 0
    found = {one["name"]: one["tree"] for one in json.loads(capsys.readouterr().out)}
    assert found == {"zip": "prefix", "admission": "calendar", "age": None}
    assert run(["schema", str(file)]) == 0
    (tmp_path / "schema.toml").write_text(capsys.readouterr().out)
    words = ["-o", str(tmp_path / "out"), "-k", "5", "--schema", str(tmp_path / "schema.toml")]
    assert run(["release", str(file), *words]) == 0


@pytest.mark.parametrize("column", ["zip", "admission", "age", "ward"])
def test_a_tree_is_the_same_whichever_engine_reads_the_table(column, tmp_path, capsys):
    wards = ["", "a", "bb", "b", "cc"]
    file = tmp_path / "people.csv"
    wards = ["", "a", "bb", "b", "cc"]
    lines = [f"{ZIPS[row % 12]},2023-01-{1 + row % 28:02d},{row % 70},{wards[row % 7 % 5]}" for row in range(90)]
    file.write_text("\n".join(["zip,admission,age,ward", *lines, ""]))
    trees = []
    for engine in ("memory", "duckdb"):
        assert run(["tree", str(file), column, "--engine", engine]) == 0
        trees.append(capsys.readouterr().out)
    assert trees[0] == trees[1]
    assert len(trees[0].splitlines()) > 2


def test_a_tree_of_no_column_names_the_nearest(tmp_path, capsys):
    (tmp_path / "people.csv").write_text("zip,age\n" + "01067,3\n04103,4\n" * 5)
    assert run(["tree", str(tmp_path / "people.csv"), "zipp"]) == 2
    assert "the nearest 'zip'" in capsys.readouterr().err
