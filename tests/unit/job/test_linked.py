"""Linked tables: what is refused, how people are divided, dates, and the folder of several tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import CannotRelease, GuaranteeNotMet, OptionError, ReadError, SchemaError, TableError
from sfumato.job.linked_groups import choose_group_size, divide_people
from sfumato.release import bundle
from sfumato.release.target import sweep

SCHEMA = {"patients": {"birth": "quasi", "status": "sensitive"}, "visits": {"year": "quasi", "ward": "quasi"}}


def hospital(count: int = 40) -> dict[str, dict[str, Any]]:
    generator = np.random.default_rng(0)
    visits = np.repeat(np.arange(count), generator.integers(1, 4, count))
    return {
        "patients": {
            "id": [f"P{one}" for one in range(count)],
            "birth": generator.integers(1930, 2005, count),
            "status": generator.choice(["a", "b"], count),
        },
        "visits": {
            "id": [f"P{one}" for one in visits],
            "year": generator.integers(2015, 2025, len(visits)),
            "ward": generator.choice(["A", "B"], len(visits)),
        },
    }


def release(tables: Any = None, method: Any = None, schema: Any = SCHEMA, **given: Any) -> Any:
    options = {name: given.pop(name) for name in ("facts", "group_size", "index_date", "shift_days") if name in given}
    chosen = sf.LinkedTables(hospital() if tables is None else tables, person="id", **options)
    return (method or sf.Boxes(k=3)).release(chosen, schema=schema, **given)


def change(name: str, **columns: Any) -> dict[str, dict[str, Any]]:
    tables = hospital()
    tables[name] = tables[name] | columns
    return tables


STRANGER = {"id": ["X9", *hospital()["visits"]["id"][1:]]}
TWICE = {"id": ["P1", *hospital()["patients"]["id"][1:]]}
MISSING = {"id": [None, *hospital()["visits"]["id"][1:]]}


@pytest.mark.parametrize(
    ("tables", "error", "said"),
    [
        (change("visits", **STRANGER), TableError, "1 person of 'visits' without one"),
        (change("patients", **TWICE), TableError, "1 more rows than people in 'patients'"),
        (change("visits", **MISSING), SchemaError, "Table 'visits': Every row must have its person"),
        (hospital() | {"visits": {"year": [2020], "ward": ["A"]}}, SchemaError, "must have the column 'id'"),
        ({"patients": hospital()["patients"]}, OptionError, "at least two tables"),
        (hospital() | {"Visits": hospital()["visits"]}, OptionError, "different names"),
        (hospital() | {"../out": hospital()["visits"]}, OptionError, "folder"),
    ],
)
def test_tables_that_do_not_fit_are_refused_and_nothing_is_written(
    tables: Any, error: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as refused:
        release(tables, into=tmp_path / "out")
    assert said in str(refused.value)
    assert "P1" not in str(refused.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"engine": "duckdb"}, "in memory"),
        ({"ledger": "ward.ledger"}, "ledger"),
        ({"schema": {"visit": {"year": "quasi"}}}, "no table 'visit'"),
        ({"schema": {"visits": {"id": "quasi"}}}, "tells people apart"),
        ({"method": sf.Noise()}, "groups of k"),
        ({"method": sf.Recode(k=3, kind="global")}, "kind='local'"),
        ({"group_size": 2}, "at least k = 3"),
        ({"index_date": "birth"}, "index date"),
        ({"method": sf.Boxes(k=41)}, "k = 41"),
    ],
)
def test_what_linked_tables_cannot_do_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(sf.SfumatoError, match=said):
        release(**given)


def test_keys_become_the_same_pseudonyms_in_all_tables_and_new_ones_in_every_release(tmp_path: Path) -> None:
    first, second = (release() for _ in range(2))
    people, visits = (set(first.tables[name].to_arrow().column("id").to_pylist()) for name in ("patients", "visits"))
    assert people == visits
    assert not people & set(hospital()["patients"]["id"])
    assert not people & set(second.tables["patients"].to_arrow().column("id").to_pylist())
    keyed = [release(key=tmp_path / "key") for _ in range(2)]
    one, other = (set(each.tables["patients"].to_arrow().column("id").to_pylist()) for each in keyed)
    assert one == other


def test_the_sentence_says_what_is_promised_and_what_is_not() -> None:
    found = release()
    assert "any 1 row of hers in visits" in found.manifest.guarantee
    assert "at least 3 people" in found.manifest.guarantee
    assert "not against who knows more than 1 row, how many rows she has" in found.manifest.guarantee
    assert "'patients: status'" in found.tables["visits"].manifest.guarantee
    assert not [one for one in found.tables["visits"].manifest.columns if one.name == "patients: status"]


def test_rare_numbers_of_rows_are_pooled_with_people_who_have_as_many() -> None:
    counts = np.array([[1, 0]] * 10 + [[1, 1]] * 2 + [[0, 1]] * 9)
    parts, pool = divide_people(counts, ("a", "b"), k=3, facts=1, generator=np.random.default_rng(0))
    assert {10, 11} <= set(pool.tolist())
    assert sorted(np.concatenate([*parts, pool]).tolist()) == list(range(21))
    assert all(len(part) >= 3 for part in parts)
    for table in (0, 1):
        assert (counts[pool, table] > 0).sum() >= 3
    with pytest.raises(CannotRelease, match="1 row in 'b'"):
        divide_people(
            np.array([[1, 0]] * 10 + [[1, 1]] * 2), ("a", "b"), k=3, facts=1, generator=np.random.default_rng(0)
        )


def test_groups_of_people_leave_room_for_the_rows_of_other_tables() -> None:
    assert choose_group_size(1200, 5, 2, [2]) == pytest.approx(np.sqrt(1200 * 5), abs=3)
    assert choose_group_size(1200, 5, 2, []) == 5
    assert choose_group_size(4, 4, 2, [2]) == 4


def dated() -> dict[str, dict[str, Any]]:
    tables = hospital()
    start = np.datetime64("2020-01-01")
    admitted = start + np.arange(40).astype("timedelta64[D]")
    owners = [int(one[1:]) for one in tables["visits"]["id"]]
    tables["patients"]["admitted"] = admitted
    tables["visits"]["seen"] = admitted[owners] + np.arange(len(owners)).astype("timedelta64[D]")
    return tables


DATED = {"patients": SCHEMA["patients"] | {"admitted": "identifier"}, "visits": SCHEMA["visits"] | {"seen": "other"}}


def test_dates_are_counted_from_the_index_date_of_each_person() -> None:
    found = release(dated(), schema=DATED, index_date="admitted")
    assert sorted(found.tables["visits"].to_arrow().column("seen").to_pylist()) == list(
        range(len(dated()["visits"]["id"]))
    )


def test_all_dates_of_a_person_are_shifted_by_the_same_days_in_all_tables() -> None:
    schema = DATED | {"patients": SCHEMA["patients"] | {"admitted": "other"}}
    found = release(dated(), schema=schema, shift_days=50)
    admitted = dict(
        zip(*(found.tables["patients"].to_arrow().column(name).to_pylist() for name in ("id", "admitted")), strict=True)
    )
    visits = zip(*(found.tables["visits"].to_arrow().column(name).to_pylist() for name in ("id", "seen")), strict=True)
    assert sorted((seen - admitted[who]).days for who, seen in visits) == list(range(len(dated()["visits"]["id"])))
    assert sorted(admitted.values()) != sorted(dated()["patients"]["admitted"].tolist())
    assert any("guarantees no privacy" in one.claim for one in found.tables["visits"].findings)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release; copy it to change it."""
    folder = tmp_path_factory.mktemp("linked") / "out"
    release(into=folder)
    return folder


def test_the_folder_is_read_and_each_table_alone(written: Path) -> None:
    read = sf.read_release(written)
    assert read.tables["visits"].estimate("mean(year)").low > 2000
    assert "any 1 row of hers in visits" in read.manifest.guarantee
    assert sf.read_release(written / "visits").manifest.rows_out == read.tables["visits"].table.rows


def test_the_folder_is_replaced_as_a_whole(written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "out")
    sf.read_release(written).write(folder)
    sf.Boxes(k=3).release(hospital()["patients"], schema={"id": "identifier", **SCHEMA["patients"]}, into=folder)
    assert not (folder / "visits").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_foreign_file_in_the_folder_of_a_table_is_never_deleted(written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "out")
    (folder / "visits" / "mine.txt").write_text("mine")
    with pytest.raises(sf.SfumatoError, match="other files"):
        release(into=folder)
    assert (folder / "visits" / "mine.txt").read_text() == "mine"


def test_a_failed_or_killed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = release()
    seals = []

    def fail(*given: Any) -> None:
        seals.append(given)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, "_seal", fail)
    with pytest.raises(OptionError, match="No space"):
        made.write(tmp_path / "out")
    assert seals
    assert not list(tmp_path.iterdir())
    killed = tmp_path / f".out.{'0' * 16}"
    (killed / "visits").mkdir(parents=True)
    (killed / "manifest.json").write_text(made.manifest.to_json())
    (killed / "visits" / "released.csv").write_text("")
    sweep(tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "name", ["visits/released.parquet", "visits/manifest.json", "manifest.json", "report.html", "report.json"]
)
def test_a_changed_file_is_found(name: str, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "out")
    if name.startswith("report"):
        (folder / name).write_text("forged")
    elif name.endswith(".json"):
        changed = json.loads((folder / name).read_text()) | ({"k": 2} if name == "manifest.json" else {"edges": None})
        (folder / name).write_text(json.dumps(changed))
    else:
        shutil.copyfile(folder / "patients" / "released.parquet", folder / name)
    with pytest.raises((ReadError, GuaranteeNotMet)):
        sf.read_release(folder)
    assert run(["verify", str(folder)]) in (1, 3)


def status_in_visits(wrong: int) -> dict[str, dict[str, Any]]:
    """Visits that repeat the status of their patient, some of them wrongly."""
    tables = hospital()
    status = dict(zip(tables["patients"]["id"], tables["patients"]["status"], strict=True))
    own = [status[one] for one in tables["visits"]["id"]]
    return change("visits", status=[*("b" if one == "a" else "a" for one in own[:wrong]), *own[wrong:]])


def test_tables_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"both say about a person must be the same.*2 rows with another 'status'"):
        release(status_in_visits(2), into=tmp_path / "out")
    with pytest.raises(OptionError, match="the same rows in 'patients' and 'again'"):
        patients = hospital()["patients"]
        again = {name: list(reversed(column)) for name, column in patients.items()}
        roles = {"patients": SCHEMA["patients"], "again": SCHEMA["patients"]}
        release({"patients": patients, "again": again}, schema=roles, into=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    for count in (0, len(hospital()["visits"]["id"])):  # the same, or another column of that name
        assert release(status_in_visits(count)).findings[0].held


def test_the_common_report_tells_the_attack_and_its_control(written: Path, tmp_path: Path) -> None:
    page = (written / "report.html").read_text()
    assert "is left with at least 3 people" in page
    assert 'href="visits/report.html"' in page
    assert "as they were" not in page  # nothing about the original unless it is asked for
    made = sf.release_and_assess(
        sf.Boxes(k=3), sf.LinkedTables(hospital(), person="id"), schema=SCHEMA, into=tmp_path / "out"
    )
    page, numbers = ((tmp_path / "out" / name).read_text() for name in ("report.html", "report.json"))
    one = made.assessment["people whom fewer than k fit, known: any 1 row"]
    assert one.value == 0.0
    assert one.passed is True
    control = float(one.note.split("as they were ")[1].split("%")[0])
    assert control > 90.0  # the attack finds almost everybody in the tables as they were
    assert made.assessment["people whom fewer than k fit, known: all her rows"].passed is None
    assert one.note in page.replace("<wbr>", "")
    cells = {str(cell) for table in hospital().values() for name in ("id", "birth") for cell in table.get(name, [])}
    assert not [cell for cell in cells if f"{cell}<" in page or f'"{cell}"' in numbers]
    assert json.loads(numbers)["assessment"]["passed"] is True
    again = sf.read_release(tmp_path / "out")
    again.write(tmp_path / "copy")
    assert (tmp_path / "copy" / "report.html").read_bytes() == (tmp_path / "out" / "report.html").read_bytes()
    with pytest.raises(OptionError, match="assessed by joining"):
        sf.release_and_assess(sf.Boxes(k=3), sf.LinkedTables(hospital(), person="id"), holdout=0.5, schema=SCHEMA)


def test_tables_of_another_release_are_found_by_their_keys(tmp_path: Path) -> None:
    one, other = release(), release()
    mixed = sf.LinkedRelease({"patients": one.tables["patients"], "visits": other.tables["visits"]}, one.manifest)
    with pytest.raises(ReadError, match="must have one row in 'patients'"):
        sf.joining_attack(mixed)


def write_tables(folder: Path) -> None:
    for name, table in hospital().items():
        rows = zip(*table.values(), strict=True)
        lines = [",".join(table), *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def test_the_command_line_releases_several_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    roles = ["--quasi", "birth,visits.year", "--role", "ward=other", "--sensitive", "status"]
    assert (
        run(["release", "patients.csv", "visits.csv", "--person", "id", "-o", "out", "-k", "3", *roles, "--assess"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "any 1 row of hers in visits" in " ".join(shown.split())
    assert "any 2 rows: fewest people" in shown
    assert "in the tables as they were" in Path("out/report.html").read_text()
    assert run(["verify", "out"]) == 0
    assert run(["estimate", "out/visits", "mean(year)"]) == 0
    assert run(["estimate", "out", "mean(year)"]) == 3


def test_a_schema_file_has_the_roles_of_all_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    text = '[tables.patients.columns]\nbirth = "quasi"\nstatus = "sensitive"\n'
    Path("schema.toml").write_text(f'{text}[tables.visits.columns]\nyear = "quasi"\nward = "quasi"\n')
    given = ["--schema", "schema.toml", "--key", "key", "--json"]
    assert run(["release", "patients.csv", "visits.csv", "--person", "id", "-o", "out", "-k", "3", *given]) == 0
    columns = sf.read_release("out").tables["visits"].manifest.columns
    assert [one.name for one in columns if one.role == "quasi"] == ["year", "ward"]


@pytest.mark.parametrize(
    "given",
    [
        ["patients.csv", "visits.csv", "-o", "out"],
        ["patients.csv", "visits.csv", "--person", "id"],
        ["patients.csv", "patients.csv", "--person", "id", "-o", "out"],
        ["patients.csv", "visits.csv", "--person", "id", "-o", "out", "--holdout", "0.2"],
        ["patients.csv", "visits.csv", "--person", "id", "-o", "out", "--quasi", "nowhere"],
        ["patients.csv", "visits.csv", "--person", "id", "-o", "out", "--engine", "duckdb"],
    ],
)
def test_a_wrong_command_about_several_files_writes_nothing(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    assert run(["release", *given, "-k", "3"]) == 2
    assert not Path("out").exists()
