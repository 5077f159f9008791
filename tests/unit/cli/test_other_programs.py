"""The command line with files of other programs, pseudonyms and shifted dates."""

from __future__ import annotations

import datetime
import stat

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.commands import run

pyreadstat = pytest.importorskip("pyreadstat", reason="sfumato[stats] is not installed")
pandas = pytest.importorskip("pandas", reason="sfumato[stats] is not installed")
pytest.importorskip("xlsxwriter", reason="sfumato[excel] is not installed")


@pytest.fixture
def patients(tmp_path) -> str:
    draw = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "record": np.arange(770_000.0, 770_080.0),
            "age": draw.integers(18, 90, 80).astype(float),
            "sex": draw.choice([1.0, 2.0], 80),
            "admitted": [datetime.date(2015, 1, 1) + datetime.timedelta(int(day)) for day in draw.integers(0, 900, 80)],
        }
    )
    labels = {"sex": {1: "male", 2: "female"}}
    pyreadstat.write_sav(frame, tmp_path / "p.sav", column_labels={"age": "Age"}, variable_value_labels=labels)
    return str(tmp_path / "p.sav")


def test_from_spss_to_spss_with_pseudonyms_and_shifted_dates(patients, tmp_path, capfd):
    out, key = tmp_path / "out", tmp_path / "study.key"
    roles = ["-k", "5", "--quasi", "age,sex", "--other", "admitted", "--format", "sav", "--format", "csv"]
    prepared = [
        "--pseudonyms",
        "record",
        "--key",
        str(key),
        "--shift-dates",
        "admitted",
        "--by",
        "record",
        "--days",
        "9",
    ]
    assert run(["release", patients, "-o", str(out), *roles, *prepared]) == 0
    shown = capfd.readouterr()
    assert "replaced by pseudonyms" in shown.out and "new secret key" in shown.err
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = key.read_text().split()[-1]
    files = [*out.iterdir(), tmp_path / "out.toml"]
    assert not [file.name for file in files if secret.encode() in file.read_bytes()]
    assert secret not in shown.out + shown.err
    assert not [file.name for file in files if b"77000" in file.read_bytes()]
    table = sf.read(out / "released.sav")
    assert table.labels["age_low"].startswith("Age: lower end")
    first = set(table.arrow.column("record").to_pylist())
    assert run(["run", str(tmp_path / "out.toml")]) == 0
    assert set(sf.read(out / "released.sav").arrow.column("record").to_pylist()) == first
    assert run(["verify", str(out)]) == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--pseudonyms", "record"], "need a secret key"),
        (["--pseudonyms", "recrod", "--key", "KEY"], "no column 'recrod'"),
        (["--pseudonyms", "record", "--key", "OUT/k"], "must not be in the folder"),
        (["--shift-dates", "admitted"], "--by COLUMN"),
        (["--days", "9"], "--shift-dates COLUMNS"),
        (["--format", "doc"], "'csv', 'parquet', 'sav'"),
        (["--pseudonyms", "record", "--key", "KEY", "--engine", "duckdb"], "--engine memory"),
        (["--format", "sav", "--engine", "duckdb"], "--engine memory"),
    ],
)
def test_mistakes_are_said_before_the_work(words, says, patients, tmp_path, capfd):
    named = [word.replace("KEY", str(tmp_path / "k")).replace("OUT", str(tmp_path / "out")) for word in words]
    assert run(["release", patients, "-o", str(tmp_path / "out"), "-k", "5", "--quasi", "age,sex", *named]) == 2
    assert says in capfd.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_sheet_is_chosen_and_kept_in_the_project_file(tmp_path, capfd):
    import xlsxwriter

    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        book.add_worksheet("notes").write_row(0, 0, ["x", "y"])
        sheet = book.add_worksheet("people")
        for row, age in enumerate(["age", *range(20, 60)]):
            sheet.write(row, 0, age)
    words = ["release", str(tmp_path / "p.xlsx"), "-o", str(tmp_path / "out"), "-k", "5", "--quasi", "age"]
    assert run([*words, "--sheet", "people"]) == 0
    assert 'sheet = "people"' in (tmp_path / "out.toml").read_text()
    assert run(["inspect", str(tmp_path / "p.xlsx"), "--sheet", "people", "--json"]) == 0
    assert run([*words, "--sheet", "nobody"]) == 3
    assert "'people'" in capfd.readouterr().err
