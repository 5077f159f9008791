"""Title lines before a table are skipped, and several lines of names are joined, by every reader."""

from __future__ import annotations

import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, ReadError

MESSY = "Export of ward 3\nMaster data;;Lab;\nage;sex;crea;urea\n34;f;0,9;31\n51;m;1,2;44\n47;f;1,1;28\n"


@pytest.fixture
def messy(tmp_path):
    file = tmp_path / "messy.csv"
    file.write_text(MESSY)
    return file


class TestRead:
    def test_titles_are_skipped(self, messy):
        assert sf.read(messy, skip=2).names == ("age", "sex", "crea", "urea")
        assert sf.read(messy, skip=2).numbers("crea").tolist() == [0.9, 1.2, 1.1]

    @pytest.mark.parametrize(
        ("head", "told"),
        [
            ("Export of ward 3\nMaster data;;Lab;\nage;sex;crea;urea\n", "--skip 1 --header-rows 2"),
            ("Master data;;Lab;\nage;sex;crea;urea\n", "--header-rows 2"),
            ("Export;;;\nof May;by A. B.;;\nage;sex;crea;urea\n", "--skip 2"),
            ("Export, of ward 3\n\nage;sex;crea;urea\n", "--skip 2"),
            ("age;sex;crea;urea\nyears;;mg/dl;mg/dl\n", "--header-rows 2"),
        ],
    )
    def test_a_title_that_was_not_skipped_is_told(self, tmp_path, head, told):
        file = tmp_path / "t.csv"
        file.write_text(head + "".join(f"{20 + n};f;0,{n};3{n}\n" for n in range(9)))
        with pytest.raises(ReadError) as refused:
            sf.read(file)
        assert (refused.value.fix or "").startswith(f"{told}; in Python ")
        given = dict(one.split() for one in told.removeprefix("--").split(" --"))
        assert sf.read(file, **{name.replace("-", "_"): int(number) for name, number in given.items()}).rows == 9

    def test_names_with_a_gap_are_no_title(self, tmp_path):
        (tmp_path / "t.csv").write_text("id;;x\n" + "".join(f"{n};f;{n}\n" for n in range(9)))
        assert sf.read(tmp_path / "t.csv").names == ("id", "column_2", "x")

    def test_two_lines_of_names_are_joined(self, messy):
        table = sf.read(messy, skip=1, header_rows=2)
        assert table.names == ("Master data_age", "Master data_sex", "Lab_crea", "Lab_urea")
        assert table.rows == 3

    @pytest.mark.parametrize("end", ["\r\n", "\r", "\n"])
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
    def test_line_ends_and_encodings(self, tmp_path, end, encoding):
        file = tmp_path / "t.csv"
        file.write_bytes(f"Größe;x{end}{end}age;size{end}1;2{end}3;4{end}".encode(encoding))
        assert sf.read(file, skip=2, encoding=encoding).names == ("age", "size")

    def test_names_replace_skipped_lines(self, messy):
        table = sf.read(messy, skip=3, names=["a", "b", "c", "d"])
        assert table.names == ("a", "b", "c", "d") and table.rows == 3

    def test_workbooks(self, tmp_path):
        pytest.importorskip("xlsxwriter")
        file = tmp_path / "t.xlsx"
        rows = [["Export of ward 3", None, None, "page 1"], ["age", "sex", None, None], [34, "f", None, None]]
        pd.DataFrame([*rows, [51, "m", None, None]]).to_excel(file, header=False, index=False, engine="xlsxwriter")
        assert sf.read(file, skip=1).names == ("age", "sex")

    def test_files_of_a_pattern_skip_in_each(self, tmp_path):
        for number in (1, 2):
            (tmp_path / f"p{number}.csv").write_text(f"title {number}\nage,sex\n{number},f\n3,m\n")
        assert sf.read(str(tmp_path / "p*.csv"), skip=1).rows == 4

    @pytest.mark.parametrize(("options", "words"), [({"skip": 99}, "more lines"), ({"header_rows": 9}, "of names")])
    def test_too_many_lines(self, messy, options, words):
        with pytest.raises(ReadError, match=words):
            sf.read(messy, separator=";", **({"skip": 2} | options))

    @pytest.mark.parametrize("options", [{"skip": -1}, {"skip": 1.5}, {"header_rows": 0}, {"skip": True}])
    def test_wrong_numbers(self, messy, options):
        with pytest.raises(OptionError, match="whole number of lines"):
            sf.read(messy, **options)

    def test_header_rows_need_a_header(self, messy):
        with pytest.raises(OptionError, match="header_rows needs a header"):
            sf.read(messy, header=False, header_rows=2)

    def test_files_with_names_of_their_own_refuse_them(self, tmp_path):
        pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(OptionError, match="skip"):
            sf.read(tmp_path / "t.parquet", skip=1)


def test_engines_and_project_files_skip_alike(tmp_path):
    rows = "".join(f"{20 + number % 40};{'fm'[number % 2]};{number},5\n" for number in range(90))
    (tmp_path / "t.csv").write_text(f"Title; with text\nMaster;;Lab\nage;sex;crea\n{rows}")
    roles = ["--quasi", "Master_age,Master_sex", "--role", "Lab_crea=other"]
    found = []
    for engine in ("memory", "duckdb"):
        source = ["release", str(tmp_path / "t.csv"), "--skip", "1", "--header-rows", "2", "--engine", engine]
        assert run([*source, *roles, "-k", "5", "-o", str(tmp_path / engine)]) == 0
        found.append(sf.read_release(tmp_path / engine).table)
    assert [one.rows for one in found] == [90, 90]
    assert sorted(found[0].numbers("Lab_crea")) == sorted(found[1].numbers("Lab_crea"))
    assert "skip = 1" in (tmp_path / "memory.toml").read_text()
    assert run(["run", str(tmp_path / "memory.toml")]) == 0


def test_the_command_line_skips(messy, capfd):
    assert run(["inspect", str(messy), "--skip", "2", "--json"]) == 0
    assert '"age"' in capfd.readouterr().out
    assert run(["inspect", str(messy), "--skip", "99"]) == 3


@pytest.mark.parametrize("below", ["# made by A. B.\n", "\nTotal 234\nprinted in May\n"])
def test_lines_below_a_table_are_to_be_removed(tmp_path, below):
    file = tmp_path / "t.csv"
    file.write_text("age;sex\n" + "31;f\n42;m\n" * 9 + below)
    with pytest.raises(ReadError, match="remove what stands below the table, such as totals") as refused:
        sf.read(file)
    assert "A. B." not in str(refused.value) and "234" not in str(refused.value)


def test_a_line_of_totals_is_told(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("age;sex\n" + "31;f\n42;m\n" * 9 + "Total;18\n")
    with pytest.warns(sf.SfumatoWarning, match="line of totals, remove this line"):
        assert sf.read(file).rows == 19
