"""Excel workbooks: sheets, types, header, archives that are too large, and what is written comes back."""

from __future__ import annotations

import datetime
import gzip
import io
import warnings
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import ReadError, SfumatoWarning
from sfumato.formats.exports import export
from sfumato.formats.workbooks import read_workbook
from sfumato.sources import files
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

xlsxwriter = pytest.importorskip("xlsxwriter", reason="sfumato[excel] is not installed")
pytest.importorskip("python_calamine", reason="sfumato[excel] is not installed")

PLANTED = "PLANTED7731"


def workbook(path: Path, sheets: dict[str, list[list[object]]], merged: str | None = None) -> Path:
    with xlsxwriter.Workbook(path, {"default_date_format": "yyyy-mm-dd", "strings_to_formulas": False}) as book:
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
            if merged:
                sheet.merge_range(merged, "both")
    return path


ROWS = [
    ["age", "seen", "zip", "visits", "smokes"],
    [34, datetime.date(2020, 1, 31), "02139", 1, True],
    [51.5, datetime.date(1999, 5, 1), "10001", "2", False],
    ["n/a", None, "90210", 3, True],
]


class TestReading:
    def test_types_are_those_of_the_cells(self, tmp_path):
        with pytest.warns(SfumatoWarning, match=r"stored as text.*D \(1\)"):
            table = sf.read(workbook(tmp_path / "t.xlsx", {"people": ROWS}))
        assert table.arrow.to_pydict() == {
            "age": [34.0, 51.5, None],
            "seen": [datetime.date(2020, 1, 31), datetime.date(1999, 5, 1), None],
            "zip": ["02139", "10001", "90210"],
            "visits": [1, 2, 3],
            "smokes": [True, False, True],
        }

    def test_a_sheet_is_chosen_by_name_or_number(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"empty": [], "a": [["x"], [1], [2]], "b": [["y"], [3], [4]]})
        with pytest.warns(SfumatoWarning, match="'a' was read; there are also 'b'"):
            assert sf.read(path).names == ("x",)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert sf.read(path, sheet="b").names == ("y",)
            assert sf.read(path, sheet=3).names == ("y",)
        with pytest.raises(ReadError, match=r"no sheet 'c'.*'a', 'b'"):
            sf.read(path, sheet="c")

    def test_a_merged_header_gives_a_warning(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [["", "", "z"], [1, 2, 3], [4, 5, 6]]}, merged="A1:B1")
        with pytest.warns(SfumatoWarning, match="merged"):
            assert sf.read(path, header=True).names == ("both", "column_2", "z")

    def test_a_first_line_of_data_is_not_taken_for_names(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [[34, PLANTED], [51, "b"], [47, "c"]]})
        assert sf.read(path).names == ("column_1", "column_2")
        assert sf.read(path, names=["age", "word"]).rows == 3

    def test_sheets_are_a_source_for_the_disk_engine(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [["age"], *([age] for age in range(20, 60))]})
        release = sf.Boxes(k=4).release(path, schema={"age": "quasi"}, engine="duckdb", into=tmp_path / "out")
        assert release.table.rows == 40


class TestDamagedFiles:
    def test_a_cut_workbook_is_an_error(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [["age", "word"], [1, PLANTED], [2, "b"]]})
        whole = path.read_bytes()
        for cut in (whole[: len(whole) // 2], whole[:-30], whole.replace(b"sheet1", b"sheet9")):
            path.write_bytes(cut)
            with pytest.raises(ReadError) as caught:
                sf.read(path)
            assert PLANTED not in str(caught.value)

    def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_read(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [["age"], [1]]})
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("xl/media/image1.bin", bytes(120_000_000))
        with pytest.raises(ReadError, match="unpack"):
            sf.read(path)

    def test_a_size_that_is_not_true_is_refused(self, tmp_path):
        path = workbook(tmp_path / "t.xlsx", {"a": [["age"], *([number] for number in range(2000))]})
        with zipfile.ZipFile(path) as archive:
            size = archive.getinfo("xl/worksheets/sheet1.xml").file_size
        path.write_bytes(path.read_bytes().replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little")))
        with pytest.raises(ReadError):
            sf.read(path)

    def test_two_far_cells_do_not_take_the_memory(self, tmp_path):
        with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
            sheet = book.add_worksheet()
            sheet.write(0, 0, "age")
            sheet.write(1_048_575, 16_383, 1)
        with pytest.raises(ReadError, match="broken Excel"):
            sf.read(tmp_path / "t.xlsx")

    def test_an_old_workbook_that_is_none_is_an_error(self, tmp_path):
        path = tmp_path / "t.xls"
        path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x7f" * 4096)
        with pytest.raises(ReadError, match="broken Excel"):
            sf.read(path)

    def test_another_archive_is_no_workbook(self, tmp_path):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("a.txt", "hello")
        (tmp_path / "t.zip").write_bytes(content.getvalue())
        with pytest.raises(ReadError, match="ZIP archive"):
            sf.read(tmp_path / "t.zip")


CELLS = st.text(st.characters(codec="utf-8", categories=("L", "P", "S")), min_size=1, max_size=8)


class TestWriting:
    @given(words=st.lists(CELLS, min_size=2, max_size=2), whole=st.lists(st.integers(-(10**14), 10**14), min_size=2))
    @settings(max_examples=20, deadline=None)
    def test_cells_come_back_as_they_were(self, tmp_path_factory, words, whole):
        rows = pa.table({"word": pa.array((words * len(whole))[: len(whole)]), "whole": pa.array(whole, pa.int64())})
        path = tmp_path_factory.mktemp("x") / "t.xlsx"
        export(Table(rows, {"word": Kind.NOMINAL, "whole": Kind.WHOLE}), path, {})
        read = read_workbook(path.read_bytes())
        assert read.column(0).to_pylist() == ["word", *rows.column("word").to_pylist()]
        assert read.column(1).to_pylist() == ["whole", *map(str, whole)]

    def test_no_text_becomes_a_formula_and_early_dates_are_text(self, tmp_path):
        rows = {"word": ["=1+1", "@sum"], "day": [datetime.date(1850, 1, 1), datetime.date(2020, 1, 2)]}
        kinds = {"word": Kind.NOMINAL, "day": Kind.DATE}
        made = export(Table(pa.table(rows), kinds), tmp_path / "t.xlsx", {"word": "A word"})
        assert "no dates before 1900" in " ".join(made.notes)
        with zipfile.ZipFile(tmp_path / "t.xlsx") as archive:
            assert b"<f>" not in archive.read("xl/worksheets/sheet1.xml")
        with pytest.warns(SfumatoWarning, match="labels"):
            assert sf.read(tmp_path / "t.xlsx").arrow.to_pydict() == rows


def test_two_cells_in_opposite_corners_do_not_take_all_memory(tmp_path):
    file = tmp_path / "corners.xlsx"
    with xlsxwriter.Workbook(file) as book:
        sheet = book.add_worksheet()
        sheet.write(0, 0, "a")
        sheet.write(1_048_575, 16_383, 1.0)
    with pytest.raises(ReadError, match="more memory than its size"):
        sf.read(file)
    with xlsxwriter.Workbook(file) as book:  # the control: many cells in a small file
        sheet = book.add_worksheet()
        for row in range(5000):
            sheet.write_row(row, 0, ["a", "b"] if row == 0 else [row, 1.5])
    assert sf.read(file).rows == 4999


def test_compressed_text_is_judged_by_what_it_unpacks_to(tmp_path):
    text = "a,b\n" + "1,2\n" * 200_000
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    needed = [files.FileSource(tmp_path / name).memory_needed() for name in ("plain.csv", "packed.csv.gz")]
    assert needed[0] == needed[1]


def test_compressed_text_larger_than_the_memory_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 50_000))
    monkeypatch.setattr(files, "available_memory", lambda: 10_000)
    with pytest.raises(ReadError, match="not enough memory"):
        sf.read(tmp_path / "bomb.csv.gz")


def test_a_cover_sheet_is_told_with_the_sheet_to_choose(tmp_path):
    path = workbook(
        tmp_path / "t.xlsx",
        {"Cover": [["Report"], ["by A. B."]], "Few": [["x"], [1]], "All data": [["age"], *([n] for n in range(30))]},
    )
    with pytest.warns(sf.SfumatoWarning), pytest.raises(ReadError, match=r"--sheet 'All data'; in Python sheet="):
        sf.read(path)
    assert sf.read(path, sheet="All data").rows == 30
