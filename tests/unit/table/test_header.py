"""Headers of text files: a first line that may be a person is never used as column names without being asked."""

from __future__ import annotations

import warnings

import pytest

from sfumato.errors import OptionError, ReadError, SfumatoWarning
from sfumato.sources.files import read


@pytest.fixture
def file(tmp_path):
    def write(text: str, name: str = "people.csv"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


ROWS = "".join(f"Bob {number},{number % 7},cold\n" for number in range(60))
NUMBERED = "".join(f"patient_{number:03d},Person {number} Huber,flu\n" for number in range(2, 40))
CODES = "".join(f"AB-{number + 1000},{number},{number}.5,flu\n" for number in range(40))
WORDS = "".join(f"Bob Smith{number},Rome{number},mild\n" for number in range(30))


@pytest.mark.parametrize(
    "text",
    [
        "Alice CANARY77,unknown,flu\n" + ROWS,
        "Alice CANARY77,forty,flu\n" + ROWS,
        "Alice CANARY77,not known,flu\n" + ROWS,
        "Alice CANARY77,old,flu\n" + ROWS,
        "Alice Canary77,Oslo,severe\n" + WORDS,
        "Alice Price,Oslo,severe\n" + WORDS,
        "CANARY77\n" + "".join(f"PERSON{number}\n" for number in range(30)),
        "patient A,Theresa Canary77,Huntington\n" + NUMBERED,  # a word of names in one cell
        "Theresa Canary77,n.b.,Huntington\n" + ROWS,  # one text above numbers
        "XY-4711,n.b.,k.u.,Canary77\n" + CODES,  # texts above numbers, but a code of a person
        "Canary77 Type,Huntington,Oslo Road\n" + WORDS,
    ],
)
def test_a_first_line_that_looks_like_data_is_refused(file, text):
    with pytest.raises(ReadError, match="looks like a row of data") as refusal:
        read(file(text))
    assert "no-header" in str(refusal.value)
    assert "anary77" not in str(refusal.value).lower()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)  # the second column is text because of one cell
        assert read(file(text), header=False).names[0] == "column_1"
    assert read(file(text), header=True).names[0] == text.partition("\n")[0].split(",")[0]


@pytest.mark.parametrize(
    "text",
    [
        "Alice CANARY77,12,flu\n" + ROWS,
        "Alice CANARY77,>90,flu\n" + ROWS,
        'Alice CANARY77,"12,345.67",flu\n' + ROWS,
        "alice@canary77.org,x,flu\n" + ROWS,
        "Alice CANARY77,unknown,cold\n" + ROWS,  # "cold" recurs
        "patient_001,Theresa Canary77,Huntington\n" + NUMBERED,  # the pattern of the cells below
        "Case 1,Theresa Canary77,Huntington\n" + NUMBERED.replace("patient_", "Case "),
    ],
)
def test_a_first_line_with_a_value_is_data_and_a_warning_says_so(file, text):
    with pytest.warns(SfumatoWarning, match="was read as a row of data") as told:
        assert read(file(text)).names == ("column_1", "column_2", "column_3")
    assert not any("anary77" in str(warning.message).lower() for warning in told)


@pytest.mark.parametrize(
    "text",
    [
        "name,age,illness\n" + ROWS,
        "Name,Age,Diagnosis\n" + ROWS,
        "patient_name,ageYears,dx\n" + ROWS,
        "Full Name,City,Status\n" + WORDS,
        "foo,bar,baz\n" + "".join(f"{number},{number}.5,x\n" for number in range(30)),
        "Q1,Q2,wave1\n" + "".join(f"A{number % 5},B{number % 3},{number}\n" for number in range(30)),
        "id,B12,ICD10,alt\n" + "".join(f"P{number:03d},{number}.5,E1{number % 9},{number}\n" for number in range(30)),
    ],
)
def test_a_clear_header_is_read_without_a_word(file, text):
    assert read(file(text)).names == tuple(text.partition("\n")[0].split(","))


def test_a_guessed_header_gives_a_warning_that_shows_no_cell(file):
    with pytest.warns(SfumatoWarning, match=r"people\.csv was read as column names.*--no-header") as given:
        table = read(file("blorb\n" + "".join(f"{number}\n" for number in range(30))))
    assert table.names == ("blorb",)
    assert "blorb" not in str(given[0].message)


class TestNames:
    def test_the_file_then_has_no_header(self, file):
        table = read(file("Ana,3\nBo,4\n"), names=["name", "age"])
        assert table.arrow.to_pydict() == {"name": ["Ana", "Bo"], "age": [3, 4]}

    def test_replace_a_header_if_there_is_one(self, file):
        assert read(file("a,b\nBo,4\n"), names=["name", "age"], header=True).names == ("name", "age")
        assert read(file("name,age\nBo,4\n"), names=["name", "age"]).rows == 1

    def test_must_be_as_many_as_the_columns(self, file):
        with pytest.raises(OptionError, match="2 names for 3 columns"):
            read(file(ROWS), names=["name", "age"])

    def test_are_only_for_text_files(self, file):
        with pytest.raises(OptionError, match="names of its columns"):
            read(file('{"a": 1}\n', "t.jsonl"), names=["b"])

    def test_must_be_text(self, file):
        for wrong in ([1, 2], ["a", "b\ud800"]):
            with pytest.raises(OptionError, match="names must be texts"):
                read(file("Ana,3\n"), names=wrong)
