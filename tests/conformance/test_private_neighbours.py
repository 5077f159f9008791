"""Nothing beside noisy numbers tells of a person: planted neighbours, with every noisy number replaced by a fixed one.

If what passes through the noise is the same, then all files, all output and the exit code must be the same, whatever
one line of the table has. The control is the way that other methods read a file: it lets one cell change all others.
"""

from __future__ import annotations

import functools
import re

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.formats.text import TextOptions
from sfumato.job import release as job_release
from sfumato.methods import discrete_noise, private_columns
from sfumato.methods.base import make_method
from sfumato.methods.private_boxes import cells
from sfumato.methods.private_synthesis import budget_spending
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.sources.files import FileSource
from tests.conformance.control import PRIVATE

SCHEMA = """
[columns.id]
role = "identifier"

[columns.age]
role = "quasi"
domain = [0, 100]

[columns.zip]
role = "quasi"
order = ["01", "02", "Zürich"]

[columns.born]
role = "quasi"
kind = "date"
domain = [-20000, 20000]

[columns.member]
role = "sensitive"
kind = "boolean"

[columns.note]
role = "other"
kind = "nominal"
"""
CHECKSUM = re.compile(r"[0-9a-f]{64}")
NAMES = "id,age,zip,born,member,note"
LINES = [
    f"{i},{20 + i % 50},0{1 + i % 2},19{50 + i % 40}-0{1 + i % 9}-11,{str(i % 3 == 0).lower()},n" for i in range(80)
]
PLANTED = {
    "a word among numbers": "7,old,01,1960-01-01,true,n",
    "a fraction among whole numbers": "7,33.5,01,1960-01-01,true,n",
    "a code without its zero": "A7,33,1,1960-01-01,1,n",
    "a number outside its domain": "7,98765,03,1860-01-01,true,n",
    "an odd date": "7,33,01,31.12.1960,true,n",
    "another encoding": b"7,33,Z\xfcrich,1960-01-01,true,caf\xe9",
    "too many cells": "7,33,01,1960-01-01,true,n,more,and more",
    "too few cells": "7,33",
    "a quote that is not closed": '7,33,01,1960-01-01,true,"never ends',
    "quotes": '7,33,01,1960-01-01,true,"a ""b"", c"',
    "another separator": "7;33;01;1960-01-01;true;n;n;n;n;n;n;n",
    "a very long cell": "7,33,01,1960-01-01,true," + "x" * 300_000,
    "a mark of missing values": "NA,NA,NA,NA,NA,NA",
    "a formula": "7,33,01,1960-01-01,true,=1+1",
    "infinite": "7,inf,01,1960-01-01,true,n",
    "nothing": "",
    "a null character": "7,33\x00,01,1960-01-01,true,n",
    "a first line that looks like names": NAMES,
}


@pytest.fixture
def fixed_noise(monkeypatch):
    """Every noisy number is fixed, whatever it is of; a found category would be one of the table, so there is none."""

    def forget(numbers, sigma):
        return int(6 * sigma) + np.arange(len(numbers)) % 11

    monkeypatch.setattr(discrete_noise, "add_noise", forget)
    monkeypatch.setattr(cells, "add_noise", forget)
    monkeypatch.setattr(private_columns, "add_noise", lambda numbers, sigma: np.zeros(len(numbers), dtype=np.int64))
    monkeypatch.setattr(budget_spending, "choose_exponentially", lambda scores, **_: 0)
    monkeypatch.setattr(job_release, "Randomness", functools.partial(lambda seed: Randomness(5)))


def release_by_command(folder, lines, method, capsys, monkeypatch):
    """Run the command line in a folder; return the exit code, its output and all files."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    body = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in [NAMES, *lines]) + b"\n"
    (folder / "people.csv").write_bytes(body)
    (folder / "schema.toml").write_text(SCHEMA, encoding="utf-8")
    code = run(["release", "people.csv", "-o", "out", "--method", method, "--schema", "schema.toml"])
    said = capsys.readouterr()
    files = {file.name: readable(file) for file in sorted((folder / "out").rglob("*")) if file.is_file()}
    return code, said.out, said.err, files


def readable(file):
    """Return the content of a file without the random order of its rows, and without the checksums of such files."""
    if file.suffix == ".parquet":
        schema = pq.read_schema(file)
        told = [CHECKSUM.sub("checksum", f"{key}: {value.decode()}") for key, value in (schema.metadata or {}).items()]
        return sorted(map(str, pq.read_table(file).to_pylist())), str(schema.remove_metadata()), told
    text = CHECKSUM.sub("checksum", file.read_text(encoding="utf-8"))
    return sorted(text.splitlines()) if file.suffix == ".csv" else text


@pytest.mark.parametrize("method", PRIVATE)
def test_one_line_changes_nothing_but_noisy_numbers(method, tmp_path, capsys, monkeypatch, fixed_noise):
    release_by_command(tmp_path / "first", LINES, method, capsys, monkeypatch)  # it says that kernels are compiled
    whole = release_by_command(tmp_path / "base", LINES, method, capsys, monkeypatch)
    assert whole[0] == 0, whole[2]
    assert "manifest.json" in whole[3]
    for number, (name, line) in enumerate(PLANTED.items()):
        place = len(LINES) // 2
        lines = [*LINES[:place], line, *LINES[place:]]
        other = release_by_command(tmp_path / str(number), lines, method, capsys, monkeypatch)
        assert other[:3] == whole[:3], name
        assert sorted(other[3]) == sorted(whole[3]), name
        for file, content in whole[3].items():
            assert other[3][file] == content, f"{name}: {file}"


@pytest.mark.parametrize("method", PRIVATE)
@pytest.mark.parametrize("people", [0, 1])
def test_a_table_of_nobody_is_released_like_any_other(method, people, tmp_path, capsys, monkeypatch, fixed_noise):
    release_by_command(tmp_path / "first", LINES, method, capsys, monkeypatch)
    whole = release_by_command(tmp_path / "base", LINES, method, capsys, monkeypatch)
    few = release_by_command(tmp_path / "few", LINES[:people], method, capsys, monkeypatch)
    assert few[:3] == whole[:3]
    assert few[3] == whole[3]


def test_the_control_the_usual_reader_lets_one_cell_change_the_others(tmp_path):
    """Codes with a zero are text; if all look like whole numbers but one, the type of the column tells of that one."""
    kinds = set()
    for number, last in enumerate(["33", "old"]):
        file = tmp_path / f"{number}.csv"
        file.write_text("age\n" + "\n".join(["20", "30"] * 20 + [last]) + "\n")
        kinds.add(sf.read(file).kinds["age"])
    assert len(kinds) == 2


@pytest.mark.parametrize("method", PRIVATE)
def test_an_odd_object_in_a_frame_is_missing_and_not_refused(method):
    """Columns of objects have no type of their own: it would be inferred from all cells."""
    schema = {"age": {"role": "quasi", "domain": [0, 100]}, "city": {"role": "quasi", "order": ["Oslo", "Rom"]}}
    ages = pd.Series([20, 30, 40] * 40, dtype=object)
    for odd in ("old", b"\xff", (1, 2), {"a": 1}, object(), 10**400):
        ages[7] = odd
        table = pd.DataFrame({"age": ages, "city": ["Oslo", "Rom"] * 60})
        release = make_method(method).release(table, schema=schema)
        assert {column.kind for column in release.manifest.columns if column.name == "age"} == {"continuous"}


def test_formats_in_which_each_cell_has_a_type_are_refused(tmp_path):
    (tmp_path / "people.jsonl").write_text('{"age": 3}\n{"age": 4}\n')
    with pytest.raises(sf.SfumatoError, match="columns have types"):
        sf.PrivateBoxes().release(tmp_path / "people.jsonl", schema={"age": {"role": "quasi", "domain": [0, 9]}})


def test_what_is_declared_about_a_text_file_is_used(tmp_path):
    (tmp_path / "people.csv").write_bytes("äge;zip\n12,5;01\n99,5;02\n".encode("cp1252"))
    table, is_typed = FileSource(tmp_path / "people.csv", TextOptions(encoding="cp1252", decimal=",")).read_declared()
    assert not is_typed
    assert table.arrow.to_pydict() == {"äge": ["12,5", "99,5"], "zip": ["01", "02"]}
    schema = Schema.of({"äge": {"role": "quasi", "domain": [0, 100]}, "zip": {"role": "quasi", "order": ["01", "02"]}})
    fitted = private_columns.read_as_declared(table, schema, is_typed=False, decimal=",")
    assert fitted.table.numbers("äge").tolist() == [12.5, 99.5]


@pytest.mark.parametrize("encoding", ["utf-8", "gbk", "shift_jis", "utf-7", "iso2022_jp", "hz"])
def test_no_bytes_of_a_line_reach_into_the_next_one(tmp_path, encoding):
    for odd in (b"\xe5", b"\xff\xfe", b"\x1b$B", b"~{", b"+AB", b'"'):
        (tmp_path / "people.csv").write_bytes(b"name,zip\n%s?,03\nAnna,01\nBert,02\n" % odd)
        table, _ = FileSource(tmp_path / "people.csv", TextOptions(encoding=encoding)).read_declared()
        assert table.arrow.slice(1).to_pydict() == {"name": ["Anna", "Bert"], "zip": ["01", "02"]}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "cp037", "no such"])
def test_an_encoding_without_bytes_that_end_lines_is_refused(tmp_path, encoding):
    (tmp_path / "people.csv").write_bytes(b"name,zip\nAnna,01\n")
    with pytest.raises(sf.SfumatoError, match="encoding"):
        FileSource(tmp_path / "people.csv", TextOptions(encoding=encoding)).read_declared()
