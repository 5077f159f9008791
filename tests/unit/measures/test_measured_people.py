"""An assessment of people who have several rows counts people, and a person is one target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.measures.registry import MEASURES

ROLES = {"who": "person", "home": "household", "x": "quasi", "y": "quasi"}


def stays(people: int = 150, rows: int = 3, seed: int = 0, *, equal: bool = True) -> pd.DataFrame:
    """People with several rows, equal or near each other; two of them live together."""
    draw = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rows)
    cells = draw.normal(size=(people, 2))[who] + (0.0 if equal else 0.05) * draw.normal(size=(len(who), 2))
    names = {"who": [f"P{seed}-{one:04d}" for one in who], "home": [f"H{one // 2}" for one in who]}
    return pd.DataFrame(names | {"x": cells[:, 0], "y": cells[:, 1]})


def test_rows_of_one_person_do_not_hide_each_other() -> None:
    table, told = stays(), ["copies", "prediction"]
    released = table[["x", "y"]].sample(frac=1.0, random_state=1)
    people, rows = (sf.assess(table, released, measures=told, person=name, seed=1) for name in ("who", None))
    assert people["copies, all columns"].value == 150.0
    assert "of 150 unique ones" in people["copies, all columns"].note
    assert people["copies, all columns"].passed is False
    assert rows["copies, all columns"].value == 0.0  # the control: each row has two others that are equal
    assert people["prediction distance, median"].counted == "people"
    assert people["prediction distance, median"].rows == 150
    assert "150 people in 450 rows" in str(people)
    assert "450 rows" in str(rows)
    assert json.loads(people.to_json())["people"] == 150


def test_people_who_fit_a_box_are_counted_and_households_add_up() -> None:
    table = stays(people=6, rows=4)
    box = {"x_low": [-9.0] * 4 + [table.x[4]] * 20, "x_high": [9.0] * 4 + [table.x[4]] * 20}
    released = pd.DataFrame(box | {"y_low": -9.0, "y_high": 9.0})
    found = sf.assess(table, released, measures=["boxes"], person="who", household="home")
    assert found["people who fit a box, fewest"].value == 1.0
    assert sf.assess(table, released, measures=["boxes"])["people who fit a box, fewest"].value == 4.0  # the control
    alone = np.array([1 / 6, 1.0, 1 / 6, 1 / 6, 1 / 6, 1 / 6])
    assert found["risk of a person by herself, mean"].value == pytest.approx(alone.mean())
    together = np.array([1.0, 1.0, *[1 - (5 / 6) ** 2] * 4])
    assert found["risk of a person with her household, mean"].value == pytest.approx(together.mean())


@pytest.mark.parametrize("hidden", [False, True])
def test_a_person_is_found_by_any_of_her_rows(hidden: bool) -> None:
    table = stays(people=120, rows=2, equal=False)
    source = stays(people=120, rows=2, seed=1, equal=False) if hidden else table
    order = np.random.default_rng(2).permutation(240)
    given: dict[str, Any] = {"measures": ["linkage", "reference"], "origin": order, "person": "who", "seed": 1}
    found = sf.assess(table, source[["x", "y"]].iloc[order] + 1e-4, **given)
    assert found["correct nearest matches"].counted == "people"
    assert found["correct nearest matches"].rows == 120
    assert (found["correct nearest matches"].value < 0.1) is hidden
    assert found.passed is hidden


def test_a_release_of_people_is_assessed_by_people(tmp_path: Path) -> None:
    table = stays(people=100, rows=2, equal=False)
    made = sf.release_and_assess(sf.Boxes(k=5), table, holdout=0.5, schema=ROLES, into=tmp_path / "out", seed=1)
    of_people = {name for name, one in MEASURES.items() if one.of_people}
    assert not of_people & {one.name for one in made.assessment.omitted}
    assert made.assessment.people == 50
    assert made.assessment["members detected by nearest row"].rows == 100
    assert {one.counted for one in made.assessment.scores if "membership by nearest" in one.name} == {"people"}
    report = (tmp_path / "out" / "report.html").read_text()
    assert "50 people" in report
    assert "P0-0" not in report


def test_the_table_without_a_person_is_without_all_her_rows() -> None:
    table = stays(people=120, rows=2)
    near = table[["x", "y"]] + 0.01 * np.random.default_rng(1).normal(size=(240, 2))
    given: dict[str, Any] = {"measures": ["reference"], "origin": np.arange(240), "seed": 1}
    assert sf.assess(table, near, person="who", **given)["distance below the reference"].passed is False
    assert sf.assess(table, near, **given)["distance below the reference"].passed is True  # the control
    given["origin"] = None
    assert [one.name for one in sf.assess(table, near, person="who", **given).omitted] == ["reference"]


def test_the_command_line_names_people_and_the_manifest_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = stays(people=60, rows=2)
    table.to_csv(tmp_path / "stays.csv", index=False)
    sf.Boxes(k=5).release(table, schema=ROLES, into=tmp_path / "out")
    plain = tmp_path / "plain.csv"
    sf.read_release(tmp_path / "out").to_pandas().to_csv(plain, index=False)
    command = ["assess", str(tmp_path / "stays.csv"), "--seed", "1"]
    assert run([*command, str(tmp_path / "out")]) == 0
    assert "60 people in 120 rows" in capsys.readouterr().out
    assert run([*command, str(plain), "--person", "who", "--household", "home"]) == 0
    told = capsys.readouterr().out
    assert "60 people in 120 rows" in told
    assert "with her household" in told
    assert run([*command, str(plain)]) == 0
    assert "people in 120 rows" not in capsys.readouterr().out
    assert run([*command, str(plain), "--person", "nobody"]) != 0
    table.drop(columns="who").to_csv(tmp_path / "stays.csv", index=False)
    assert run([*command, str(tmp_path / "out")]) == 0
    assert "rows are counted" in capsys.readouterr().err


def test_a_row_without_its_person_is_refused() -> None:
    table = stays(people=20)
    table.loc[3, "who"] = None
    with pytest.raises(sf.SfumatoError, match="1 rows without one"):
        sf.assess(table, table[["x", "y"]], person="who", measures=["copies"])


def test_every_engine_counts_the_same_people(tmp_path: Path) -> None:
    table = stays(people=100, rows=3)
    table.loc[:20, ["x", "y"]] = 0.5  # seven people are alike
    table.to_parquet(tmp_path / "stays.parquet")
    released = table[["x", "y"]].iloc[:150].sample(frac=1.0, random_state=1)
    given: dict[str, Any] = {"person": "who", "measures": ["copies"], "seed": 1}
    here = sf.assess(table, released, engine="memory", **given)["copies, all columns"]
    duckdb = sf.assess(tmp_path / "stays.parquet", released, engine="duckdb", **given)
    assert (here.value, duckdb["copies, all columns"].value) == (43.0, 43.0)
    assert duckdb["unique people in the original"].value == 0.93
    assert duckdb["unique people in the original"].counted == "people"
    assert duckdb.people == 100
