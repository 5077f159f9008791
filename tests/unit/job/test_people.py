"""The role person: what is refused, what is told, and what pseudonyms that link rows add."""

from __future__ import annotations

import functools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import CannotRelease, GuaranteeNotMet, SchemaError
from sfumato.plan.claims.risk import HouseholdRisk
from sfumato.plan.plan import Evidence
from sfumato.release.bundle_check import check_bundle
from sfumato.release.read import read_release

SCHEMA: dict[str, Any] = {"who": "person", "x": "quasi", "s": "sensitive"}


def stays(people: int = 40, rows: int = 3) -> dict[str, Any]:
    """People with a few rows each; x is that of the person, so her rows are in one group."""
    who = np.repeat(np.arange(people), rows)
    return {
        "who": [f"name {one}" for one in who],
        "x": who // 10 * 1.0,
        "s": np.array(["a", "b"])[np.arange(len(who)) % 2],
    }


def test_people_are_told_wherever_rows_are(tmp_path: Path) -> None:
    release = sf.Boxes(k=5).release(stays(), schema=SCHEMA, into=tmp_path / "out")
    assert release.manifest is not None
    assert (release.manifest.people_in, release.manifest.rows_in) == (40, 120)
    assert "40 people in 120 rows" in (tmp_path / "out" / "report.html").read_text()
    assert "counted in people" in release.manifest.guarantee
    assert sf.group_models(stays(), ["x"], ["s"], schema=SCHEMA).k == 10


def test_a_bundle_recounts_rows_and_states_people(tmp_path: Path) -> None:
    release = sf.Boxes(k=5).release(stays(), schema=SCHEMA, into=tmp_path / "out")
    assert release.manifest is not None
    checked = check_bundle(tmp_path / "out", read_release(tmp_path / "out").manifest, release.table)
    assert checked.holds
    assert checked.by_rows[0].claim == "5-anonymous in x"
    assert "counted in people" in checked.not_recounted[0].claim


def test_too_few_people_are_refused() -> None:
    with pytest.raises(CannotRelease, match="at least k = 5 people"):
        sf.Boxes(k=5).release(stays(people=4, rows=9), schema=SCHEMA)


def test_a_row_without_its_person_is_refused() -> None:
    table = stays()
    table["who"][3] = None
    with pytest.raises(SchemaError, match="Every row must have its person"):
        sf.Boxes(k=5).release(table, schema=SCHEMA)


def test_repeated_identifiers_are_advised_to_be_people() -> None:
    with pytest.raises(CannotRelease, match="--person who"):
        sf.Boxes(k=5).release(stays(), schema={**SCHEMA, "who": "identifier"})


def test_a_promise_that_counts_rows_is_refused() -> None:
    with pytest.raises(CannotRelease, match="must count people"):
        sf.Generalize(k=5, beta=0.1, population=1e6).release(stays(), schema=SCHEMA)


def test_two_columns_of_people_are_refused() -> None:
    with pytest.raises(SchemaError, match="At most one column"):
        sf.Schema.of({"a": "person", "b": "person"})


@pytest.mark.parametrize(("facts", "is_kept"), [(None, False), (2, False), (1, True)])
def test_linked_rows_are_counted_together(facts: int | None, is_kept: bool, tmp_path: Path) -> None:
    """Everybody has one row in each of two cells of their own pair: each cell is that of ten people, most pairs not."""
    who = np.arange(40)
    table = {"who": [f"n{one}" for one in np.tile(who, 2)], "x": np.append(who % 4, 10 + who // 10).astype(float)}
    person = {"role": "person", "pseudonym": True} | ({} if facts is None else {"facts": facts})
    asked: dict[str, Any] = {"schema": {"who": person, "x": "quasi"}, "key": tmp_path / "key"}
    if not is_kept:
        with pytest.raises(GuaranteeNotMet, match="linked by pseudonyms"):
            sf.Boxes(k=10).release(table, **asked)
        return
    release = sf.Boxes(k=10).release(table, **asked)
    assert release.manifest is not None
    assert "any 1 row of a person" in release.manifest.guarantee
    assert "who" in release.to_arrow().column_names


def test_a_holdout_keeps_the_rows_of_a_person_together() -> None:
    kept, other = sf.split_holdout(stays(), 0.5, person="who")
    assert not set(kept.arrow.column("who").to_pylist()) & set(other.arrow.column("who").to_pylist())
    assert (kept.rows, other.rows) == (60, 60)


def household_tables() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "home": [None, None, *(np.arange(58) // 3)],
        "age": generator.integers(0, 90, 60),
        "sex": generator.choice(["f", "m"], 60),
    }


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_risk_of_households_is_told_and_the_household_is_not_released(engine: str, tmp_path: Path) -> None:
    table = household_tables() | {"row": np.arange(60) + 0.5}
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    schema = {"home": "household", "age": "quasi", "sex": "quasi", "row": "other"}
    release = sf.Boxes(k=5).release(tmp_path / "table.parquet", schema=schema, engine=engine, into=tmp_path / "out")
    cells = release.to_arrow().to_pydict()
    assert "home" not in cells
    sizes = Counter(cells["box"])
    risk = {int(row - 0.5): 1 / sizes[box] for row, box in zip(cells["row"], cells["box"], strict=True)}
    homes = [f"alone {row}" if home is None else home for row, home in enumerate(table["home"])]
    members = [[other for other in range(60) if homes[other] == homes[row]] for row in range(60)]
    together = [1 - math.prod(1 - risk[other] for other in own) for own in members]
    told = next(one for one in release.findings if "household" in one.claim)
    assert f"mean risk of a person {np.mean(list(risk.values())):.2%} by herself" in told.found
    assert f"{np.mean(together):.2%} with her household, the largest {max(together):.2%}" in told.found
    assert "told, not promised" in told.claim
    assert "household" not in release.manifest.guarantee


def test_households_of_people_with_several_rows_count_each_person_once() -> None:
    table = pa.table({"person": [1, 2, 1, 3, 4], "home": [7, 7, 7, 8, None], "group": [0, 0, 1, 1, 1]})
    rows = sf.Table.from_arrow(table)
    claim = HouseholdRisk(columns=("group",), household="home", person="person")
    told = claim.tally(Evidence(rows, rows, np.arange(5))).settled()
    assert sorted(told.alone) == pytest.approx([1 / 3, 1 / 3, 1 / 2, 1 / 2])
    assert sorted(told.together) == pytest.approx([1 / 3, 1 / 3, 3 / 4, 3 / 4])


def test_of_very_many_households_a_sample_is_told_however_the_rows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    rows = sf.Table.from_arrow(
        pa.table({"person": np.arange(900) % 450, "home": np.arange(900) % 150, "group": rng.integers(0, 60, 900)})
    )
    claim = HouseholdRisk(columns=("group",), household="home", person="person")
    whole = claim.tally(Evidence(rows, rows, np.arange(900)))
    all_homes = claim.finding(whole).found
    monkeypatch.setattr("sfumato.plan.claims.risk.MOST_MEMBERS", 150)
    parts = [rows.take(own) for own in np.array_split(rng.permutation(900), 7)]
    tallies = [claim.tally(Evidence(part, part, np.arange(part.rows))) for part in parts]
    merged = functools.reduce(claim.merge, tallies)
    told = functools.reduce(claim.merge, [claim.settle(one, None) for one in claim.split(merged, 3)])
    assert claim.finding(told) == claim.finding(merged)
    assert claim.finding(merged) == claim.finding(claim.tally(Evidence(rows, rows, np.arange(900))))
    assert 20 < len(told.alone) < 150 and f"in a sample of {len(told.alone)} people" in claim.finding(told).found
    assert "sample" not in all_homes and claim.finding(told).found != all_homes


def test_inspect_tells_the_risk_of_households(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = household_tables() | {"home": np.arange(60) // 3}
    pq.write_table(pa.table(table), tmp_path / "table.parquet")
    assert run(["inspect", str(tmp_path / "table.parquet"), "--role", "home=household"]) == 0
    risk = sf.individual_risk(table, ["age", "sex"], household="home")
    said = f"{risk.global_risk:.2%} by herself and {risk.household_global_risk:.2%} with her household"
    assert said in " ".join(capsys.readouterr().out.split())
