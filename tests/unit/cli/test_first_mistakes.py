"""The likeliest mistakes of a first-time user: each gets a message that says what to do, and nothing is written."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.messy_hospital import hospital_columns, write_hospital

from sfumato.cli.commands import run

ROLES = "--quasi age,zip,sex --sensitive diagnosis --other income"
MADE = "release people.csv -o new -k 5"

# the mistake, the command, what the message says, and what it tells to try
MISTAKES = [
    ("a misspelt file", "inspect peoples.csv", "There is no file 'peoples.csv'", "'people.csv'"),
    ("a folder that is not there", "inspect data/people.csv", "There is no file", "there is no 'data'"),
    ("a folder instead of a file", "inspect tables", "tables is a folder", "tables/visits.csv"),
    ("no k", "release people.csv -o new", "needs a value for 'k'", "--k 5"),
    ("k = 1", "release people.csv -o new -k 1", "k must be at least 2", "2 or more"),
    ("k above the number of rows", "release people.csv -o new -k 500", "at least k = 500 rows", "a smaller k"),
    ("no folder to write to", "release people.csv -k 5", "needs a folder", "-o out"),
    ("a folder with other files", "release people.csv -k 5 -o letters", "other files: 1", "-o letters/release"),
    ("a file to write to", "release people.csv -k 5 -o ids.csv", "must be a folder", "-o out"),
    ("a misspelt column", f"{MADE} --quasi aeg,zip", "Column 'aeg' has a role but is not in", "'age'"),
    ("blanks between columns", [*MADE.split(), "--quasi", "age zip"], "'age zip'", "age,zip"),
    ("a misspelt column in --keep", f"{MADE} --keep mean(incme)", "no column 'incme'", "'income'"),
    ("a condition in SQL", [*MADE.split(), "--keep", "mean(age where sex = f)"], "no column", "after a bar"),
    ("a misspelt statistic", f"{MADE} --keep men(income)", "nearest: mean", "for example mean(x)"),
    ("a column instead of a statistic", f"{MADE} --keep income", "the name of a statistic", "for example mean(x)"),
    ("the mean of a category", f"{MADE} --keep mean(sex)", "must be numeric", "count(sex = VALUE)"),
    ("a misspelt role", f"{MADE} --role age=identifer", "must be one of", "'identifier'"),
    ("a misspelt method", f"{MADE} --method boxs", "no method 'boxs'", "'boxes'; `sfumato methods`"),
    ("a misspelt option", f"{MADE} --option othrs=0.2", "no option 'othrs'", "'others'; `sfumato methods boxes`"),
    ("too few sensitive values", f"{MADE} --sensitive sex --l 3", "at least 3 different values of 'sex'", "--l 2"),
    ("identifiers only", "release ids.csv -o new -k 5", "'email' identifier", "--quasi NAME"),
    ("the wrong separator", f"{MADE} --separator ;", "At least one column", "check the separator"),
    ("the wrong encoding", "inspect patients.csv --encoding utf-8", "may be cp1252", "leave the encoding out"),
    ("a broken spreadsheet", "inspect sheet.xlsx", "not a valid .xlsx file", "write the file again"),
    ("the schema of another table", f"{MADE} --schema visits.toml", "that of this table", "sfumato schema FILE"),
    ("a table as a schema", f"{MADE} --schema people.csv", "must be TOML", "sfumato schema FILE"),
    ("a release to be released", "release out -o new -k 5", "a release already", "that it was made from"),
    ("its rows to be released", "release out/released.csv -o new -k 5", "a release already", "that it was made from"),
    ("a copy of its rows", "release copy.csv -o new -k 5", "'box' already in the table", "that it was made from"),
    ("the original to be verified", "verify people.csv", "must contain a release", "that `release` wrote"),
    ("a misspelt column of a release", "estimate out mean(agee)", "no column 'agee'", "'age'"),
    ("the mean of a released category", "estimate out mean(sex)", "must be numeric", "count(sex = VALUE)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of people, a release of it, and what a beginner may confuse with them."""
    here = tmp_path_factory.mktemp("first")
    numbers = np.random.default_rng(1)
    people = [
        f"{numbers.integers(18, 90)},{numbers.normal(3000, 500):.1f},0{numbers.integers(1000, 1020)},"
        f"{numbers.choice(['f', 'm'])},{numbers.choice(['flu', 'cold', 'none'])}"
        for _ in range(200)
    ]
    _write(here / "people.csv", "age,income,zip,sex,diagnosis", people)
    _write(here / "ids.csv", "id,name,email", [f"{row},Bob{row},b{row}@x.org" for row in range(30)])
    _write(here / "tables" / "visits.csv", "height,visits", [f"{150 + row},{row % 7}" for row in range(30)])
    _write(here / "letters" / "letter.txt", "Dear Sir", [])
    (here / "visits.toml").write_text('[columns]\nheight = "quasi"\nvisits = "quasi"\n')
    (here / "sheet.xlsx").write_bytes(b"PK\x03\x04 and the rest of a spreadsheet")
    write_hospital(here / "patients.csv", hospital_columns(rows=50))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        assert run(["release", "people.csv", "-o", "out", "-k", "5", *ROLES.split()]) == 0
    shutil.copy(here / "out" / "released.csv", here / "copy.csv")
    return here


def _write(file: Path, header: str, lines: list[str]) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n".join([header, *lines, ""]))


def _said(words: str | list[str], folder: Path, monkeypatch, capfd) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    capfd.readouterr()
    code = run(words.split() if isinstance(words, str) else words)
    return code, capfd.readouterr().err


@pytest.mark.parametrize(("command", "says", "tries"), [one[1:] for one in MISTAKES], ids=[one[0] for one in MISTAKES])
def test_the_message_says_what_to_do(command, says, tries, folder, monkeypatch, capfd):
    code, text = _said(command, folder, monkeypatch, capfd)
    problem, _, advice = text.partition("\ntry:   ")
    assert code in (1, 2, 3)
    assert says in problem
    assert tries in advice
    assert "unexpected" not in text
    assert len(advice) < 200
    assert not (folder / "new").exists()


def test_a_misspelt_command_or_flag_has_a_suggestion(folder, monkeypatch, capfd):
    assert "Did you mean 'release'" in _said("relase people.csv", folder, monkeypatch, capfd)[1]
    assert "--keep" in _said("release people.csv -o new --kep mean(age)", folder, monkeypatch, capfd)[1]


def test_statistics_of_the_original_are_no_estimates(folder, monkeypatch, capfd):
    code, text = _said("estimate people.csv mean(age)", folder, monkeypatch, capfd)
    assert code == 0
    assert "warning: people.csv has neither a manifest nor ranges" in text
    assert "warning" not in _said("estimate out mean(age)", folder, monkeypatch, capfd)[1]


def test_a_second_release_into_the_same_folder_is_announced(folder, monkeypatch, capfd):
    again = f"release people.csv -o out -k 5 {ROLES}"
    code, text = _said(again, folder, monkeypatch, capfd)
    assert code == 0
    assert "the older release in out will be replaced" in text
