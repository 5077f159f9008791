"""A removed identifier that repeats: promises count rows, so the release is refused until the user confirms it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run

ROLES = {"age": "quasi", "sex": "quasi", "diagnosis": "sensitive"}


def stays(identifier: str = "patient_id", people: int = 200, repeated: int = 1) -> pd.DataFrame:
    """Stays in a hospital: some people were there six times."""
    draw = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            identifier: [f"P{number:04d}" for number in range(people)],
            "age": draw.integers(20, 80, people),
            "sex": draw.choice(["f", "m"], people),
            "diagnosis": draw.choice(["flu", "cold", "asthma"], people),
        }
    )
    return pd.concat([frame, *([frame[:repeated].assign(age=97)] * 5)], ignore_index=True)


@pytest.mark.parametrize("method", [sf.Boxes(k=5), sf.Microaggregate(k=5), sf.Noise()])
@pytest.mark.parametrize("identifier", ["patient_id", "Versichertennummer", "Hospital-Nr", "internal_key"])
def test_a_repeated_identifier_is_refused(method, identifier):
    with pytest.raises(sf.SfumatoError, match=r"another person.*1 values of.*--person.*rows_not_people") as refused:
        method.release(stays(identifier), schema=ROLES | {identifier: "identifier"})
    assert "P0000" not in str(refused.value)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_every_engine_asks(engine, tmp_path):
    stays().to_parquet(tmp_path / "stays.parquet")
    with pytest.raises(sf.SfumatoError, match="'patient_id' in several rows"):
        sf.Boxes(k=5).release(tmp_path / "stays.parquet", schema=ROLES, engine=engine, into=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_user_may_confirm_it_and_everybody_is_told(tmp_path):
    release = sf.Boxes(k=5).release(stays(), schema=ROLES, rows_not_people=True, into=tmp_path / "out")
    assert release.manifest.repeated == ("patient_id",)
    assert "rows are counted, not people: patient_id repeats" in release.manifest.guarantee
    assert "rows are counted, not people" in (tmp_path / "out" / "report.html").read_text()
    assert "--rows-not-people" in (tmp_path / "out" / "report.html").read_text()
    assert sf.read_release(tmp_path / "out").manifest.repeated == ("patient_id",)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("patient_id", [f"P{number}" for number in range(200)]),  # each once
        ("last_name", ["Huber", "Maier"] * 100),  # namesakes
        ("address", [f"Street {number // 2}" for number in range(200)]),  # neighbours
        ("patient_id", [None, None, *(f"P{number}" for number in range(198))]),  # a missing number is nobody's
        ("hospital", ["Ulm", "Rom"] * 100),  # a few values
        ("stay_days", np.arange(200) % 15),  # not to be released, and the number of nobody
        ("zip", [f"{number % 50 + 10_000}" for number in range(200)]),  # a place that is not to be released
        ("weight", (np.arange(200) // 2).astype(float) + 0.5),  # measured
    ],
)
def test_what_several_people_share_is_no_reason(name, cells):
    table = stays("row", repeated=0).drop(columns="row").assign(**{name: cells})
    release = sf.Boxes(k=5).release(table, schema=ROLES | {name: "identifier"})
    assert not release.manifest.repeated


def test_a_number_of_one_person_that_does_not_repeat_settles_it():
    table = stays(repeated=0).assign(name="Ann")
    assert sf.Boxes(k=5).release(table, schema=ROLES | {"name": "identifier"}).table.rows == 200


def test_a_number_of_a_stay_does_not(tmp_path):
    table = stays().assign(stay_id=np.arange(205))
    with pytest.raises(sf.SfumatoError, match="'patient_id' in several rows"):
        sf.Boxes(k=5).release(table, schema=ROLES | {"stay_id": "identifier"})


def test_on_the_command_line_and_in_the_project_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stays().to_csv("stays.csv", index=False)
    command = ["release", "stays.csv", "-o", "out", "-k", "5", "--quasi", "age,sex", "--sensitive", "diagnosis"]
    assert run(command) == 1
    assert "--rows-not-people" in capsys.readouterr().err
    assert run([*command, "--rows-not-people"]) == 0
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["repeated"] == ["patient_id"]
    assert "rows_not_people = true" in (tmp_path / "out.toml").read_text()
    assert run(["run", "out.toml"]) == 0
