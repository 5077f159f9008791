"""Files in: what is found out about a text file, what is refused, and what may be said otherwise."""

from __future__ import annotations

import gzip
import os
import warnings
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from sfumato.errors import OptionError, ReadError, SfumatoWarning, TableError
from sfumato.sources.files import read
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


@pytest.fixture
def file(tmp_path: Path):
    """Write bytes or text to a file and give its path."""

    def write(content: bytes | str, name: str = "people.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def cells(table: Table) -> dict[str, list[object]]:
    return table.arrow.to_pydict()


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_the_separator_is_found(file, separator):
    text = "name,age,city\nAna,3,Rome\nBo,4,Oslo\n".replace(",", separator)
    assert cells(read(file(text))) == {"name": ["Ana", "Bo"], "age": [3, 4], "city": ["Rome", "Oslo"]}


@pytest.mark.parametrize("amount", ["1234,56", "1.234,56", "12,5 %", "-0,5"])
@pytest.mark.parametrize("header", ["", "name;day;amount\n"])
def test_a_decimal_comma_is_no_separator(file, amount, header):
    lines = "".join(f"Ann{n};{n + 10}.03.1950;{amount}\n" for n in range(9))
    assert len(read(file(header + lines)).names) == 3


def test_the_separator_may_be_said(file):
    assert read(file("a:b\n1:2\n"), separator=":").names == ("a", "b")


def test_a_separator_of_two_characters_is_refused(file):
    with pytest.raises(OptionError, match="one character"):
        read(file("a,b\n1,2\n"), separator=", ")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8", "name,age\nJosé,3\n"),
        ("utf-8-sig", "name,age\nJosé,3\n"),
        ("utf-16", "name,age\nJosé,3\n"),
        ("utf-16-le", "name,age\nJosé,3\n"),
        ("utf-16-be", "name,age\nJosé,3\n"),
        ("latin-1", "name,age\nJosé,3\n"),
        ("cp1252", "name,age\nJosé €,3\n"),
    ],
)
def test_the_encoding_is_found(file, encoding, text):
    assert cells(read(file(text.encode(encoding)))) == {"name": [text.split("\n")[1].split(",")[0]], "age": [3]}


def test_the_encoding_may_be_said(file):
    assert cells(read(file("x,y\nж,1\n".encode("koi8-r")), encoding="koi8-r"))["x"] == ["ж"]


def test_an_unknown_encoding_is_refused(file):
    with pytest.raises(OptionError, match="no encoding"):
        read(file("a,b\n1,2\n"), encoding="morse")


def test_text_that_is_not_in_the_encoding_said_is_refused(file):
    with pytest.raises(ReadError, match="not text in the encoding ascii"):
        read(file("a,b\nJosé,2\n"), encoding="ascii")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_any_end_of_line_and_a_blank_last_line_are_read(file, end):
    assert cells(read(file(end.join(["a,b", "1,2", "3,4", "", ""])))) == {"a": [1, 3], "b": [2, 4]}


def test_a_quoted_cell_keeps_separators_lines_and_quotes(file):
    assert cells(read(file('a,b\n1,"x, ""y""\nz"\n2,w\n')))["b"] == ['x, "y"\nz', "w"]


def test_a_quote_is_known_however_late_it_comes(file):
    text = "a,b\n" + "1,x\n" * 40_000 + '2,"y, z"\n'
    assert cells(read(file(text)))["b"][-1] == "y, z"


def test_an_apostrophe_after_quoted_cells_is_one(file):
    assert cells(read(file("a;b\n'x';1\n'z';2\n" + "w;3\n" * 30_000 + "O'Neil;4\n")))["a"][-1] == "O'Neil"


def test_single_quotes_are_found(file):
    assert cells(read(file("a;b\n'x;y';1\n'z';2\n"))) == {"a": ["x;y", "z"], "b": [1, 2]}


def test_apostrophes_are_no_quotes(file):
    assert cells(read(file("a,b\n'tis,1\nO'Neil,2\n")))["a"] == ["'tis", "O'Neil"]


def test_quotes_inside_cells_are_ordinary_where_no_cell_is_quoted(file):
    assert cells(read(file('pipe,n\n5" wide,1\n3" wide,2\n6" long,3\n')))["pipe"] == ['5" wide', '3" wide', '6" long']


def test_a_padded_quoted_cell_keeps_its_separators(file):
    assert cells(read(file('a, b\n1, "u,v"\n2, w\n'))) == {"a": [1, 2], "b": ["u,v", "w"]}


def test_spaces_at_the_start_of_some_cells_stay(file):
    assert cells(read(file("a,b\nx, y\nz, w\n")))["b"] == [" y", " w"]


def test_spaces_after_separators_belong_to_no_cell(file):
    assert cells(read(file('a, b, c\nx, 1, "u, v"\ny, 2, w\n'))) == {"a": ["x", "y"], "b": [1, 2], "c": ["u, v", "w"]}


def test_one_column_is_a_table(file):
    assert cells(read(file("age\n3\n4\n"))) == {"age": [3, 4]}


def test_adult_is_read_as_it_is(data_folder):
    table = read(data_folder / "adult" / "adult.data")
    assert (table.rows, table.names) == (32561, tuple(f"column_{number}" for number in range(1, 16)))
    assert [name for name, kind in table.kinds.items() if kind is Kind.WHOLE] == [
        f"column_{number}" for number in (1, 3, 5, 11, 12, 13)
    ]
    assert set(table.kinds.values()) == {Kind.WHOLE, Kind.NOMINAL}
    missing = {name: table.arrow[name].null_count for name in table.names if table.arrow[name].null_count}
    assert missing == {"column_2": 1836, "column_7": 1843, "column_14": 583}


def test_gzipped_text_is_read(data_folder):
    table = read(data_folder / "nhanes" / "nhanes_complete.csv.gz")
    assert (table.rows, len(table.names), table.names[:3]) == (5993, 51, ("seqn", "cycle", "age"))


def test_every_cell_counts_when_a_column_is_typed(file):
    late = "\n".join(["x", *["1"] * 5000, "word", *["1"] * 5000])
    with pytest.warns(SfumatoWarning, match=r"'x' \(1 of 10,001\)"):
        assert read(file(late)).kinds["x"] is Kind.NOMINAL


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["1", "2", "x 3"] * 10, 10),
        (["2020-01-01", "2020-01-02", "soon"], 1),
        (["1,5", "2.5", "about 2"] * 4, 4),
        (["02139", "10001"], 0),  # codes are not numbers that failed
        (["J45", "K12", "3"], 0),
        (["yes", "no"], 0),
    ],
)
def test_a_column_that_a_few_cells_turn_to_text_says_so_with_their_count(file, words, count):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        read(file("\n".join(["a;x", *[f"w;{word}" for word in words]])))
    told = [str(warning.message) for warning in given]
    assert [f"({count} of {len(words)})" in text and "--missing" in text for text in told] == [True] * (count > 0)
    assert not any(word in text for word in words if len(word) > 3 for text in told)


def test_a_mark_that_is_named_makes_them_numbers_again(file):
    assert cells(read(file("a;x\nw;1\nw;soon\n"), missing="soon"))["x"] == [1, None]


@pytest.mark.parametrize(
    ("words", "kind", "found"),
    [
        (["1", "-2", "3"], Kind.WHOLE, [1, -2, 3]),
        (["1", "2.5", "1e3"], Kind.CONTINUOUS, [1.0, 2.5, 1000.0]),
        (["1.5", "inf", "-inf"], Kind.CONTINUOUS, [1.5, np.inf, -np.inf]),
        (["true", "False", "TRUE"], Kind.BOOLEAN, [True, False, True]),
        (["2020-02-01", "1999-12-31"], Kind.DATE, [date(2020, 2, 1), date(1999, 12, 31)]),
        (
            ["2020-02-01 10:00", "2020-02-01T11:30:00"],
            Kind.DATE,
            [datetime(2020, 2, 1, 10), datetime(2020, 2, 1, 11, 30)],
        ),
        (
            ["2020-02-01T10:00:00Z", "2020-02-01T10:00:00+02:00"],
            Kind.DATE,
            [datetime(2020, 2, 1, 10, tzinfo=UTC), datetime(2020, 2, 1, 8, tzinfo=UTC)],
        ),
        (["31/12/2020", "1/2/2020"], Kind.DATE, [date(2020, 12, 31), date(2020, 2, 1)]),
        (["12/31/2020", "1/2/2020"], Kind.DATE, [date(2020, 12, 31), date(2020, 1, 2)]),
        (["31.12.2020", "01.02.2020"], Kind.DATE, [date(2020, 12, 31), date(2020, 2, 1)]),
        (["03/04/2020", "05/06/2020"], Kind.NOMINAL, ["03/04/2020", "05/06/2020"]),  # two different days
        (["02139", "10001"], Kind.NOMINAL, ["02139", "10001"]),  # postal codes
        (["0x1A", "0x1B"], Kind.NOMINAL, ["0x1A", "0x1B"]),
        (
            ["12345678901234567890", "12345678901234567891"],
            Kind.NOMINAL,
            ["12345678901234567890", "12345678901234567891"],
        ),
        (["yes", "no"], Kind.NOMINAL, ["yes", "no"]),
        (["10:30", "11:45"], Kind.NOMINAL, ["10:30", "11:45"]),
        (["inf", "INF"], Kind.NOMINAL, ["inf", "INF"]),
        (["true", "1"], Kind.NOMINAL, ["true", "1"]),
        (["1999-2000", "2001-2002"], Kind.NOMINAL, ["1999-2000", "2001-2002"]),
    ],
)
def test_a_column_is_what_all_its_cells_are(file, words, kind, found):
    table = read(file("\n".join(["a;x", *[f"w;{word}" for word in words]])))
    assert (table.kinds["x"], cells(table)["x"]) == (kind, found)


@pytest.mark.parametrize("mark", ["", "NA", "N/A", "NaN", "null", "?", "."])
def test_the_usual_marks_are_missing_in_words_and_numbers(file, mark):
    assert cells(read(file(f"a,b\nx,1\n{mark},{mark}\ny,2\n"))) == {"a": ["x", None, "y"], "b": [1, None, 2]}


@pytest.mark.parametrize("mark", ["-", "None", "*"])
def test_a_faint_mark_is_missing_among_numbers_only(file, mark):
    assert cells(read(file(f"a,b\nx,1\n{mark},{mark}\ny,2\n"))) == {"a": ["x", mark, "y"], "b": [1, None, 2]}


def test_marks_of_missing_are_added_to_the_usual_ones(file):
    found = cells(read(file("a,b\nNA,1\nx,-9\n,-\n"), missing="-9"))
    assert found == {"a": [None, "x", None], "b": [1, None, None]}


def test_a_decimal_comma_is_found_where_commas_separate_nothing(file):
    assert cells(read(file("a;b\n1,5;1\n-0,25;2\n"))) == {"a": [1.5, -0.25], "b": [1, 2]}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["12,345.67", "-1,000", "999.5", "0"], [12345.67, -1000.0, 999.5, 0.0]),
        (["1,234,567", "12", "NA"], [1234567, 12, None]),
        (["12'345.67", "1'000"], [12345.67, 1000.0]),
        (["12.345,67", "1.000,5", "7"], [12345.67, 1000.5, 7.0]),
        (["1,5", "2,25"], [1.5, 2.25]),
        (["1,234", "2,345"], [1.234, 2.345]),  # a decimal comma, because commas separate nothing
        (["500"] * 150 + ["1,234.5"], [500.0] * 150 + [1234.5]),
    ],
)
def test_a_thousands_separator_is_found_where_the_whole_column_uses_it(file, words, found):
    assert cells(read(file("\n".join(["a;x", *[f"w;{word}" for word in words]]))))["x"] == found


def test_a_lone_comma_separates_thousands_where_commas_separate_cells(file):
    assert cells(read(file('a,b\n"1,234",1\n"2,345",2\n')))["a"] == [1234, 2345]


@pytest.mark.parametrize("words", [["12,345.67", "12345.67"], ["1,23.4", "1,234.5"], ["1,234.5", "0,123.5"]])
def test_an_inconsistent_thousands_separator_makes_no_numbers(file, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        assert cells(read(file("\n".join(["a;x", *[f"w;{word}" for word in words]]))))["x"] == words


class TestJsonLines:
    TEXT = '{"name": "Ana", "age": 3, "born": "2020-01-31"}\n{"age": 4.5, "name": "NA", "x": true}\n'

    @pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json", "t.txt", "t.jsonl.gz"])
    def test_is_known_by_its_extension_or_content(self, file, name):
        raw = self.TEXT.encode()
        table = read(file(gzip.compress(raw) if name.endswith("gz") else raw, name))
        assert cells(table) == {
            "name": ["Ana", None],
            "age": [3.0, 4.5],
            "born": [date(2020, 1, 31), None],
            "x": [None, True],
        }

    @pytest.mark.parametrize(
        "text",
        [
            '[{"a": 1}]',
            '{"a": 1}\n{"a": "Canary77"}\n',
            '{"a": 1}\nCanary77\n',
            '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n",
            '{"a": "\\ud800"}\n',
        ],
    )
    def test_what_is_none_is_refused_and_not_shown(self, file, text):
        with pytest.raises(ReadError) as refusal:
            read(file(text, "t.jsonl"))
        assert "Canary77" not in str(refusal.value)
        assert refusal.value.__context__ is None

    def test_nested_values_are_refused_by_column(self, file):
        with pytest.raises(TableError, match="Column 'a'"):
            read(file('{"a": {"b": 1}}\n', "t.jsonl"))


def test_the_decimal_mark_may_be_said(file):
    assert cells(read(file('a,b\n"1,5",1\n2,3\n'), decimal=","))["a"] == [1.5, 2.0]
    with pytest.raises(OptionError, match="decimal"):
        read(file("a,b\n1,2\n"), decimal="'")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,2\n", ("a", "b")),
        ("1,2\n3,4\n", ("column_1", "column_2")),
        ("name,city\nAna,Rome\n", ("name", "city")),  # words over words that never recur
        ("yes,no\nno,no\nyes,yes\n", ("column_1", "column_2")),  # words that recur
        ("x,?\ny,1\n", ("column_1", "column_2")),  # a mark of missing is a value
        (",name\n0,Ana\n1,Bo\n", ("column_1", "name")),  # a frame's index, written without a name
        ("born,n\n2020-01-01,1\n", ("born", "n")),
        ("2019-12-31,1\n2020-01-01,1\n", ("column_1", "column_2")),
    ],
)
def test_a_header_is_found(file, text, names):
    assert read(file(text)).names == names


def test_the_header_may_be_said(file):
    assert cells(read(file("x,y\nu,v\n"), header=False)) == {"column_1": ["x", "u"], "column_2": ["y", "v"]}
    assert cells(read(file("x,2019\nu,1\n"), header=True)) == {"x": ["u"], "2019": [1]}


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.feather", "t.arrows", "t.data"])
def test_columnar_files_are_known_by_their_bytes(tmp_path, name):
    arrow = pa.table({"a": [1, None, 3], "b": ["x", "y", None]})
    path = tmp_path / name
    if name == "t.arrows":
        with pa.ipc.new_stream(path, arrow.schema) as stream:
            stream.write_table(arrow)
    elif name in ("t.arrow", "t.feather"):
        feather.write_feather(arrow, str(path))
    else:
        pq.write_table(arrow, path)
    assert read(path).arrow.equals(arrow)


def test_the_index_of_a_frame_that_slipped_into_a_file_is_left_out(tmp_path):
    pd.DataFrame({"a": [1, 2]}, index=["Ana", "Bo"]).to_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").names == ("a",)


def test_a_pattern_reads_all_files_and_types_them_together(file, tmp_path):
    file("a,b\n1,x\n", "part-1.csv")
    file("a,b\n2.5,y\n", "part-2.csv")
    table = read(tmp_path / "part-*.csv")
    assert cells(table) == {"a": [1.0, 2.5], "b": ["x", "y"]}


def test_a_pattern_of_files_with_other_columns_is_refused(file, tmp_path):
    file("a,b\n1,x\n", "part-1.csv")
    file("a,c\n2,y\n", "part-2.csv")
    with pytest.raises(TableError, match="same columns"):
        read(tmp_path / "part-*.csv")


def test_parquet_parts_must_have_the_same_types(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(TableError, match="differences in 'a'"):
        read(tmp_path / "*.parquet")


@pytest.mark.parametrize(
    ("content", "name", "error", "words"),
    [
        ("", "t.csv", ReadError, "is empty"),
        ("  \n\n", "t.csv", ReadError, "is empty"),
        ("a,b\n", "t.csv", TableError, "must have rows"),
        ('a,b\n1,x\n2,"open\n', "t.csv", ReadError, "at or before line 3"),
        ('a,b\n1,"open\n2,y\n3,"z\n4,w\n', "t.csv", ReadError, "Every quote"),  # two that seem to close each other
        ('a,b\n1,"x"y\n', "t.csv", ReadError, "Every quote"),
        ("a,b\n1,2\n3\n4,5\n", "t.csv", ReadError, "1 line with 1, the first at line 3"),
        ("a,b\n1,2\n3,4,5\n", "t.csv", ReadError, "1 line with 3, the first at line 3"),
        ("a,a\n1,2\n3,4\n", "t.csv", TableError, "'a' more than once"),
        (bytes(range(256)) * 12, "t.parquet", ReadError, "not a valid .parquet file"),
        (bytes(range(256)) * 12, "t.csv", ReadError, "not text"),
        (b"PAR1" + bytes(100) + b"PAR1", "t.parquet", ReadError, "broken Parquet"),
        (b"ARROW1" + bytes(100), "t.arrow", ReadError, "broken Arrow"),
        (b"PK\x03\x04" + bytes(100), "t.xlsx", ReadError, "not a valid .xlsx"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], "t.csv.gz", ReadError, "complete gzip"),
        (gzip.compress(b"", mtime=0), "t.csv.gz", ReadError, "is empty"),
    ],
)
def test_what_is_no_table_is_refused(file, content, name, error, words):
    with pytest.raises(error, match=words) as refusal:
        read(file(content, name))
    assert refusal.value.exit_code == 3


def test_a_missing_file_a_folder_and_a_pattern_without_files_are_refused(tmp_path):
    for path, words in [("no.csv", "no file"), ("", "folder"), ("*.csv", "No file matches")]:
        with pytest.raises(ReadError, match=words):
            read(tmp_path / path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(file):
    path = file("a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(ReadError, match="permissions"):
        read(path)


def test_infinite_numbers_are_kept_and_told_when_asked(file):
    table = read(file("a,b\n1,inf\n2,-inf\n3,nan\n4,1\n"))
    assert table.arrow["b"].null_count == 1
    table.require_finite(["a"])
    with pytest.raises(TableError, match="2 in 'b'"):
        table.require_finite(["a", "b"])


@pytest.mark.parametrize("given", [{"a": [1]}, pa.table({"a": [1]}), None, 3])
def test_what_is_no_path_is_an_error_of_ours(given):
    with pytest.raises(OptionError, match="path must be text"):
        read(given)


class TestMarksAndSpellings:
    @pytest.mark.parametrize("mark", ["unbekannt", "Unknown", "k.A.", "K.A.", "keine Angabe", "n.d.", "MISSING"])
    def test_words_for_missing_values_among_numbers(self, tmp_path, mark):
        (tmp_path / "t.csv").write_text("x;y\n" + "\n".join(f"{row},5;a" for row in range(20)) + f"\n{mark};b\n")
        table = read(tmp_path / "t.csv")
        assert table.kinds["x"] is Kind.CONTINUOUS
        assert table.arrow.column("x").null_count == 1

    def test_the_same_words_among_words_are_words(self, tmp_path):
        (tmp_path / "t.csv").write_text("x,y\n" + "smoker,1\nunknown,2\nnever,3\n" * 10)
        assert read(tmp_path / "t.csv").arrow.column("x").null_count == 0

    @pytest.mark.parametrize("cells", [[*range(18, 80), -99, -99], [*range(18, 80), 999, 999], [0, 1, 1, 0, 9, 9]])
    def test_codes_of_missing_values_are_told_but_kept(self, tmp_path, cells):
        (tmp_path / "codes.csv").write_text("age,x\n" + "".join(f"{cell},{cell % 7}.5\n" for cell in cells))
        with pytest.warns(SfumatoWarning, match=r"often stand for a missing value, in 'age' \(2 cells\)") as told:
            table = read(tmp_path / "codes.csv")
        assert len(told) == 1
        assert table.arrow["age"].to_pylist() == cells

    @pytest.mark.parametrize(
        "cells", [[*range(18, 100), 99], [*range(5), 9], [-30, -99, 20, -99], [*range(80), 99] * 2]
    )
    @pytest.mark.filterwarnings("error")
    def test_ordinary_numbers_of_nines_are_not(self, tmp_path, cells):
        (tmp_path / "codes.csv").write_text("age,x\n" + "".join(f"{cell},{cell % 7}.5\n" for cell in cells))
        assert read(tmp_path / "codes.csv").rows == len(cells)

    def test_spellings_that_differ_in_case_are_told_but_not_merged(self, tmp_path):
        (tmp_path / "t.csv").write_text("sex,age\n" + "m,30\nM,40\nf,50\n" * 10)
        with pytest.warns(SfumatoWarning, match=r"in .sex. \(3 values, 2 if they are merged\)"):
            table = read(tmp_path / "t.csv")
        assert table.coded("sex").size == 3

    def test_an_encoding_that_does_not_fit_is_said(self, tmp_path):
        (tmp_path / "t.csv").write_bytes("x,y\nä,1\nö,2\n".encode("cp1252"))
        with pytest.raises(ReadError, match=r"not text in the encoding utf-8\..*cp1252"):
            read(tmp_path / "t.csv", encoding="utf-8")


class TestEuropeanNumbers:
    @pytest.mark.parametrize(
        ("cells", "numbers"),
        [
            (["12,5", "7,25", "80"], [12.5, 7.25, 80.0]),
            (["0,125", "0,250", "0,5"], [0.125, 0.25, 0.5]),
            (["1,234", "2,345", "999"], [1234, 2345, 999]),  # thousands: no comma shows otherwise
            (["1,3", "2", "3,4"], ["1,3", "2", "3,4"]),  # may be lists of answers
            (["1,2,3", "12,5", "1"], ["1,2,3", "12,5", "1"]),
        ],
    )
    def test_quoted_decimal_commas_are_read_where_commas_separate(self, tmp_path, cells, numbers):
        (tmp_path / "t.csv").write_text("x,y\n" + "".join(f'"{cell}",{n}\n' for n, cell in enumerate(cells)))
        assert read(tmp_path / "t.csv").arrow["x"].to_pylist() == numbers

    @pytest.mark.parametrize(
        ("cells", "numbers"),
        [
            (["12 345,67", "1 234 567,5", "89,5"], [12345.67, 1234567.5, 89.5]),
            (["12\u202f345,67", "89,5", "-1\u202f000"], [12345.67, 89.5, -1000.0]),
            (["12\u00a0345", "1\u00a0234", "99"], [12345, 1234, 99]),
            (["612 345 678", "698 765 432"], ["612 345 678", "698 765 432"]),  # may be telephones
            (["0123 45678", "0456 12345", "0789 99999"], ["0123 45678", "0456 12345", "0789 99999"]),
        ],
    )
    def test_spaces_between_thousands(self, tmp_path, cells, numbers):
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{cell};{n}\n" for n, cell in enumerate(cells)), "utf-8")
        assert read(tmp_path / "t.csv").arrow["x"].to_pylist() == numbers
