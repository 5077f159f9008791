"""Files out: whole or not at all."""

from __future__ import annotations

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import OptionError
from sfumato.formats.exports import write
from sfumato.formats.raw_files import write_whole
from sfumato.sources.files import read
from sfumato.sources.frames import as_table


@pytest.fixture
def table():
    return as_table({"n": [1, None, 3], "w": ["x", 'a "b", c', None]})


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.arrow", "t.feather", "T.CSV"])
def test_the_extension_says_the_form(tmp_path, table, name):
    write(table.arrow, tmp_path / name)
    assert read(tmp_path / name).arrow.equals(table.arrow)
    assert [file.name for file in tmp_path.iterdir()] == [name]


class TestFormulas:
    """Text that a spreadsheet would run."""

    ARROW = pa.table(
        {
            "word": ["=1+1", "+x", "-x", "@x", "\tx", "x=1", None],
            "group": pa.array(["=1", "y", "-2", "y", "y", "y", "y"]).dictionary_encode(),
            "number": [-1.5, 2.0, 3.0, 4.0, 5.0, 6.0, -7.0],
            "=name": [-1, 2, 3, 4, 5, 6, 7],
        }
    )

    def test_is_escaped_by_default_and_numbers_are_not(self, tmp_path):
        write(self.ARROW, tmp_path / "t.csv")
        found = list(csv.reader((tmp_path / "t.csv").read_text().splitlines()))
        assert [row[0] for row in found] == ["word", "'=1+1", "'+x", "'-x", "'@x", "'\tx", "x=1", ""]
        assert [row[1] for row in found[:4]] == ["group", "'=1", "y", "'-2"]
        assert [row[2] for row in found[:2]] == ["number", "-1.5"]
        assert [row[3] for row in found[:2]] == ["'=name", "-1"]

    def test_is_kept_if_asked_for_and_in_parquet_always(self, tmp_path):
        write(self.ARROW, tmp_path / "t.csv", formulas="keep")
        assert next(csv.reader((tmp_path / "t.csv").read_text().splitlines()[1:]))[0] == "=1+1"
        write(self.ARROW, tmp_path / "t.parquet")
        assert pq.read_table(tmp_path / "t.parquet").equals(self.ARROW)
        with pytest.raises(OptionError, match="formulas"):
            write(self.ARROW, tmp_path / "t.csv", formulas="run")


def test_another_extension_is_refused(tmp_path, table):
    with pytest.raises(OptionError, match=r"\.csv, \.tsv, \.parquet"):
        write(table.arrow, tmp_path / "t.xlsx")


def test_a_missing_cell_of_a_single_column_comes_back(tmp_path):
    table = as_table({"n": [None, 1, None]})
    write(table.arrow, tmp_path / "t.csv")
    assert read(tmp_path / "t.csv").arrow.equals(table.arrow)


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("old")

    def half(file):
        file.write(b"half of it")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, half)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")

    def overflow(_):
        with full.open("wb") as device:
            device.write(b"x")

    with pytest.raises(OptionError, match="cannot be written: No space left"):
        write_whole(tmp_path / "t.csv", overflow)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told(tmp_path, table):
    with pytest.raises(OptionError, match="cannot be written: No such file"):
        write(table.arrow, tmp_path / "none" / "t.csv")


def test_a_file_gets_the_usual_permissions(tmp_path, table):
    usual = tmp_path / "usual"
    usual.touch()
    write(table.arrow, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").stat().st_mode == usual.stat().st_mode
