"""Columns that are computed from another one while a table is read, and where a table in a file probably begins."""

from __future__ import annotations

import datetime

import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import SfumatoError
from sfumato.formats.first_lines import read_first_lines
from sfumato.formats.table_start import TableStart, suggest_start
from sfumato.sources.derived_columns import DerivedColumn


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "t.csv"
    made.write_text("born;weight;zip code;sex\n1990-05-03;70,5;04109;f\n2001-12-31;83,9;10115;m\n;60,0;80331;f\n")
    return made


class TestRules:
    def test_an_age_is_whole_years_at_a_day(self, file):
        at = {"2026-05-02": [35, 24, None], "2026-05-03": [36, 24, None], "2026-12-31": [36, 25, None]}
        for day, ages in at.items():
            table = sf.read(file, derive=f"age = years(born, {day})")
            assert table.arrow.column("age").to_pylist() == ages
            assert str(table.kinds["age"]) == "whole"

    def test_a_birthday_on_a_leap_day(self, tmp_path):
        (tmp_path / "t.csv").write_text("born,x\n2000-02-29,1\n2000-02-29,2\n")
        table = sf.read(tmp_path / "t.csv", derive="age = years(born, 2001-02-28)")
        assert table.arrow.column("age").to_pylist() == [0, 0]

    def test_steps_years_and_prefixes_replace_their_column(self, file):
        rules = ["weight = steps(weight, 2.5)", "`zip code` = prefix(`zip code`, 2)", "born = year(born)"]
        rows = sf.read(file, derive=rules).arrow.to_pylist()
        assert rows[0] == {"born": 1990, "weight": 70.0, "zip code": "04", "sex": "f"}
        assert rows[1]["weight"] == 82.5

    @pytest.mark.parametrize(
        "rule",
        ["age", "age = years(born)", "age = years(born, today)", "age = years(sex, 2026-01-01)", "a = steps(weight, 0)",
         "a = steps(weight, nan)", "a = steps(sex, 5)", "a = prefix(weight, 2)", "a = prefix(sex, 1.5)",
         "a = exec(sex)",
         "a = year(born, 5)", "a = year(nothing)", "age = years(born, 1995-01-01)"],
    )  # fmt: skip
    def test_mistakes_quote_no_cell(self, file, rule):
        with pytest.raises(SfumatoError) as caught:
            sf.read(file, derive=rule)
        assert "04109" not in str(caught.value)
        assert "2001" not in str(caught.value)

    @pytest.mark.parametrize("name", ["age", "a b", "größe", "a=b", "x(y)"])
    def test_a_rule_is_written_as_it_is_read(self, name):
        rule = DerivedColumn(name=name, function="years", column="b c", argument="2026-01-01")
        assert DerivedColumn.of(str(rule)) == rule

    def test_on_the_command_line_and_in_the_project_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        born = [datetime.date(1950 + n % 40, 1 + n % 12, 1) for n in range(60)]
        (tmp_path / "t.csv").write_text("born,sex\n" + "".join(f"{day},{'fm'[n % 2]}\n" for n, day in enumerate(born)))
        given = ["--derive", "age = years(born, 2026-01-01)", "--role", "born=identifier", "--quasi", "age,sex"]
        assert run(["release", "t.csv", "-o", "out", "--method", "mdav", "-k", "3", *given]) == 0
        assert "age = years(born, 2026-01-01)" in (tmp_path / "out.toml").read_text()
        assert run(["run", "out.toml"]) == 0
        assert "born" not in sf.read_release(tmp_path / "out").table.names


class TestFirstLines:
    def test_titles_headings_and_comments(self, tmp_path):
        body = "".join(f"{20 + n};f;7{n % 9},5;I10\n" for n in range(40))
        cases = {
            "age;sex;w;d\n": (0, 1),
            ";sex;w;d\n": (0, None),
            "Ward 3\n\nage;sex;w;d\n": (2, 1),
            "Ward 3;;;\nage;sex;w;d\n": (1, 1),
            'Ward 3;;;\nof May;by A. B.;;\nage;sex;"w; kg";d\n': (2, 1),
            "Ward 3;;;\nof May;by A. B.;;\nMaster;;Lab;\nage;sex;w;d\n": (2, 2),
            "Master;;Lab;\nage;sex;w;d\n": (0, 2),
            "Blood;;Urine;\nvalue;date;value;date\n": (0, 2),
            "# made: 2024; by x\n# y\nage;sex;w;d\n": (2, 1),
        }
        for head, expected in cases.items():
            (tmp_path / "t.csv").write_text(head + body)
            found = read_first_lines(tmp_path / "t.csv")
            assert (found.start.skip, found.start.header_rows) == expected, head
            assert found.lines[0] == head.splitlines()[0]

    def test_a_table_of_one_column_and_an_empty_one_have_no_suggestion(self, tmp_path):
        for text in ("name\nAnna\nBert\n", "\n", "x"):
            (tmp_path / "t.csv").write_text(text)
            assert read_first_lines(tmp_path / "t.csv").start == TableStart()
        assert suggest_start([]) == TableStart()

    def test_formats_with_names_need_no_look(self, tmp_path):
        sf.read(_people(tmp_path)).to_pandas().to_parquet(tmp_path / "t.parquet")
        assert read_first_lines(tmp_path / "t.parquet").lines == ()

    def test_sheets(self, tmp_path):
        xlsxwriter = pytest.importorskip("xlsxwriter")
        with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
            book.add_worksheet("Cover").write(0, 0, "Report")
            sheet = book.add_worksheet("Data")
            for row in range(30):
                sheet.write_row(row, 0, ["Export"] if row == 0 else ["age", "sex"] if row == 1 else [row, "f"])
        first = read_first_lines(tmp_path / "t.xlsx")
        assert first.sheets == ("Cover", "Data")
        assert first.largest_sheet == "Data"
        assert read_first_lines(tmp_path / "t.xlsx", sheet="Data").start.skip == 1
        assert read_first_lines(tmp_path / "t.xlsx", sheet="none").sheet == "Cover"


def _people(folder):
    (folder / "p.csv").write_text("age,sex\n34,f\n51,m\n47,f\n")
    return folder / "p.csv"
