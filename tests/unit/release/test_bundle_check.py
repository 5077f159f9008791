"""A bundle is bound together: an edited cell, a larger k in the manifest or a foreign report is refused."""

from __future__ import annotations

import ast
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import GuaranteeNotMet, ReadError
from sfumato.release.bundle import sha256, write
from sfumato.release.bundle_check import _same_cells
from sfumato.release.manifest import RECORDED, SEAL, ClaimRecord, seal
from sfumato.release.read import verify_bundle

SOURCE = Path(sf.__file__).parent


@pytest.fixture
def folder(people, roles, tmp_path) -> Path:
    """Boxes that promise 5-anonymity and two illnesses in each."""
    given = roles | {"illness": "sensitive", "income": "quasi"}
    return sf.Boxes(k=5, l=2).release(people, schema=given).write(tmp_path / "out")


def edit(folder: Path, change, *, sealed: bool) -> None:
    """Change the manifest as an attacker would who does not know, or does know, how it is sealed."""
    record = json.loads((folder / "manifest.json").read_text())
    change(record)
    if sealed:
        record.pop(SEAL)
        record[SEAL] = seal(record)
    (folder / "manifest.json").write_text(json.dumps(record))


def promise(record: dict, name: str) -> dict:
    return next(claim for claim in record["claims"] if claim["name"] == name)


class TestAForgedReport:
    """A report is written by whoever writes the bundle: what it says is not what was verified."""

    def test_is_not_said_to_be_unchanged(self, folder, capfd):
        page = folder / "report.html"
        page.write_text(page.read_text().replace("5-anonymous", "500-anonymous"))
        edit(folder, lambda record: record["files"].update({"report.html": sha256(page)}), sealed=True)
        checked = {file.name: file for file in verify_bundle(folder).files}
        assert not checked["report.html"].recounted and checked["released.csv"].recounted
        capfd.readouterr()
        assert run(["verify", str(folder)]) == 0
        lines = capfd.readouterr().out.splitlines()
        assert any(line.split() == ["as", "listed", "report.html"] for line in lines)
        assert any(line.split() == ["unchanged", "released.parquet"] for line in lines)  # control
        assert any("was not recounted" in line for line in lines)

    def test_is_found_by_its_checksum_unless_that_is_forged_too(self, folder):
        page = folder / "report.html"
        page.write_text(page.read_text().replace("5-anonymous", "500-anonymous"))
        assert not verify_bundle(folder).holds


class TestReadme:
    """The README says in a few lines what the manifest says, and nothing else."""

    def test_tells_what_the_columns_mean_and_how_to_estimate(self, folder):
        text = (folder / "README.txt").read_text()
        assert "5-anonymous in age, income" in text and "both ends included" in text
        assert 'sfumato estimate FOLDER "mean(age)"' in text and 'read.csv("released.csv")' in text
        assert len(text.splitlines()) <= 20

    def test_that_was_forged_with_its_checksum_is_refused(self, folder):
        page = folder / "README.txt"
        page.write_text(page.read_text().replace("5-anonymous", "500-anonymous"))
        edit(folder, lambda record: record["files"].update({"README.txt": sha256(page)}), sealed=True)
        with pytest.raises(ReadError, match=r"README\.txt says other things than manifest\.json"):
            sf.read_release(folder)

    def test_of_another_version_is_only_as_listed(self, folder):
        page = folder / "README.txt"
        page.write_text("other words")

        def change(record: dict) -> None:
            record["files"]["README.txt"] = sha256(page)
            record["version"] = "0.0.1"

        edit(folder, change, sealed=True)
        checked = {file.name: file for file in verify_bundle(folder).files}
        assert checked["README.txt"].state == "unchanged" and not checked["README.txt"].recounted

    def test_a_name_cannot_pass_for_a_line(self, tmp_path):
        table = {"age": [1, 2, 3, 4], "x\nPromised: 900-anonymous": [1, 2, 3, 4]}
        schema = {"age": "quasi", "x\nPromised: 900-anonymous": "other"}
        folder = sf.Boxes(k=2, l=1).release(table, schema=schema).write(tmp_path / "named")
        starts = [line for line in (folder / "README.txt").read_text().splitlines() if line.startswith("Promised")]
        assert len(starts) == 1 and verify_bundle(folder).holds

    def test_of_weighted_rows_gives_no_mean_without_weights(self, tmp_path):
        table = {"age": list(range(20)), "w": [1.0, 2.0] * 10}
        folder = sf.Boxes(k=4).release(table, schema={"age": "quasi", "w": "weight"}).write(tmp_path / "weighted")
        text = (folder / "README.txt").read_text()
        assert "colMeans" not in text and "sfumato estimate" in text


class TestAGoodBundle:
    def test_holds_and_says_what_was_recounted_and_what_was_not(self, folder):
        checked = verify_bundle(folder)
        assert checked.holds
        assert [finding.claim for finding in checked.recounted] == [
            "5-anonymous in age, income",
            "at least 2 different values of 'illness' in each group",
            "only these columns are released: age, income, box, illness",
        ]
        assert {finding.claim.split(",")[0] for finding in checked.not_recounted} == {
            "every original value lies inside its released range",
            "no row lost or duplicated; none suppressed",
        }
        assert {file.name for file in checked.files} == {
            "released.parquet",
            "released.csv",
            "codebook.csv",
            "README.txt",
            "promises.sql",
            "report.html",
            "report.json",
        }

    def test_may_be_written_again_by_whoever_received_it(self, folder, tmp_path):
        again = sf.read_release(folder).write(tmp_path / "again")
        assert verify_bundle(again).holds

    def test_pictures_are_bound_too(self, released, tmp_path):
        files = {**released.report_files(), "boxes.png": b"picture"}
        folder = write(released.table, released.manifest, files, tmp_path / "out")
        assert verify_bundle(folder).holds
        (folder / "boxes.png").write_bytes(b"another picture")
        with pytest.raises(ReadError, match=r"boxes\.png changed"):
            sf.read_release(folder)

    def test_may_be_read_without_its_report_but_is_not_whole(self, folder):
        (folder / "report.html").unlink()
        assert sf.read_release(folder).table.rows == 60
        assert not verify_bundle(folder).holds

    def test_spaces_in_the_manifest_do_not_count(self, folder):
        edit(folder, lambda record: None, sealed=False)
        assert verify_bundle(folder).holds


class TestAnEditedBundle:
    @pytest.mark.parametrize("name", ["released.csv", "report.html", "report.json"])
    def test_a_changed_file_is_refused_and_named(self, folder, name):
        with (folder / name).open("ab") as file:
            file.write(b"\n")
        with pytest.raises(ReadError, match=f"{name} changed"):
            sf.read_release(folder)

    @pytest.mark.parametrize("knows", [False, True], ids=["naive", "with new checksums"])
    def test_an_edited_cell_is_refused(self, folder, knows):
        path = folder / "released.parquet"
        rows = pq.read_table(path)
        cells = rows["age_low"].to_pylist()
        cells[0] -= 1
        place = rows.column_names.index("age_low")
        field = rows.schema.field(place)
        pq.write_table(rows.set_column(place, field, pa.array(cells, field.type)), path)
        if knows:
            edit(folder, lambda record: record["files"].update({path.name: sha256(path)}), sealed=True)
        with pytest.raises((ReadError, GuaranteeNotMet)):
            sf.read_release(folder)
        assert sf.read_release(folder, verify=False).table.rows == 60

    @pytest.mark.parametrize("sealed", [False, True], ids=["naive", "with a new checksum"])
    @pytest.mark.parametrize(
        "change",
        [
            lambda record: promise(record, "KAnonymity")["parameters"].update(k=100),
            lambda record: promise(record, "Diversity")["parameters"].update(l=3, column="age"),
            lambda record: record["options"].update(k=100),
            lambda record: record["findings"][0].update(claim="100-anonymous in age, income"),
            lambda record: record["findings"][0].update(found="smallest group 100, 1 group"),
            lambda record: record["findings"].insert(0, record["findings"][0] | {"claim": "100-anonymous"}),
            lambda record: promise(record, "KAnonymity").update(parameters=None),
            lambda record: promise(record, "KAnonymity").update(parameters={"k": "100", "columns": ["age_low"]}),
            lambda record: promise(record, "KAnonymity").update(parameters={"k": 1, "columns": ["nosuch"]}),
            lambda record: record.update(files={}),
            lambda record: record["files"].pop("released.csv"),
            lambda record: record.update(claims=[]),
        ],
    )
    def test_a_manifest_that_says_more_is_refused(self, folder, change, sealed):
        edit(folder, change, sealed=sealed)
        with pytest.raises((ReadError, GuaranteeNotMet)) as refused:
            sf.read_release(folder)
        assert "100-anonymous, " not in str(refused.value)

    def test_people_who_have_too_few_rows_are_a_broken_promise_too(self, tmp_path, capfd):
        people = {"person": np.repeat(np.arange(40), 2), "age": np.arange(80) // 8}
        release = sf.Boxes(k=5, l=1).release(people, schema={"person": "person", "age": "quasi"})
        release.write(tmp_path / "out")
        rows = pq.read_table(tmp_path / "out" / "released.parquet")
        alone = pa.array([99, *rows["age_high"].to_pylist()[1:]], rows["age_high"].type)
        place = rows.column_names.index("age_high")
        pq.write_table(rows.set_column(place, "age_high", alone), tmp_path / "out" / "released.parquet")
        with pytest.raises(GuaranteeNotMet, match="must hold"):
            sf.read_release(tmp_path / "out")
        assert run(["verify", str(tmp_path / "out")]) == 1
        assert "not even by rows 5-anonymous in age" in capfd.readouterr().err

    def test_a_manifest_that_hides_what_was_altered_is_refused(self, tmp_path):
        people = {"x": np.random.default_rng(0).normal(size=60)}
        folder = sf.Noise().release(people, schema={"x": "quasi"}).write(tmp_path / "out")
        edit(folder, lambda record: record.update(altered=[]), sealed=False)
        with pytest.raises(ReadError, match=r"manifest\.json changed"):
            sf.read_release(folder)

    def test_a_manifest_of_an_older_version_is_read_only_unverified(self, folder):
        def older(record):
            for name in ("claims", "files", SEAL):
                record.pop(name)
            record["format"] = 1

        edit(folder, older, sealed=False)
        with pytest.raises(ReadError, match="no checksums"):
            sf.read_release(folder)
        assert sf.read_release(folder, verify=False).table.rows == 60

    def test_deep_nesting_is_no_manifest(self, folder):
        (folder / "manifest.json").write_text("[" * 100_000)
        with pytest.raises(ReadError, match="manifest"):
            sf.read_release(folder)


def test_every_claim_that_can_be_recounted_without_the_original_is_recorded():
    """A claim that says whether it is recounted must be listed in RECORDED, so that readers recount it."""
    declared = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(
                (isinstance(item, ast.AnnAssign) and ast.unparse(item).startswith("recountable: ClassVar[bool] = True"))
                or (isinstance(item, ast.FunctionDef) and item.name == "needs_original")
                for item in node.body
            ):
                declared.add(node.name)
    inherited = {"EachColumnAnonymous", "AtMostValues", "EntropyDiversity", "RecursiveDiversity", "TCloseness"}
    inherited |= {"KAnonymity", "RiskAtMost"}
    assert declared - {"Claim", "EachColumnClaim", "GroupClaim"} | inherited == set(RECORDED)


def test_a_claim_that_names_cells_is_recorded_by_its_name_alone():
    from sfumato.plan.claims.containment import Containment

    claim = Containment(columns=("city",), covers={"city": {"CANARY": frozenset({"CANARY"})}})
    assert ClaimRecord.of(claim) == ClaimRecord(name="Containment", parameters=None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize("name", ["report.html", "codebook.csv", "README.txt", "promises.sql"])
def test_a_pipe_or_a_device_in_a_bundle_is_not_read(folder, name):
    for put in (os.mkfifo, lambda file: file.symlink_to("/dev/zero")):
        (folder / name).unlink(missing_ok=True)
        put(folder / name)
        states = {file.name: file.state for file in verify_bundle(folder).files}
        assert states[name] == "absent"


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("value", [None, -1, "x", [], {}, True, 1e308])
def test_a_wrong_type_anywhere_in_a_manifest_is_no_foreign_exception(folder, value, sealed):
    places = [("options",), ("released", 0, "name"), ("rows_out",), ("findings", 0, "claim")]
    places += [("claims", 0, "name"), ("claims", 4, "parameters", "names", 0), ("columns", 0, "name"), ("notes",)]
    original = (folder / "manifest.json").read_text()
    for place in places:

        def change(record: dict, place: tuple = place) -> None:
            for step in place[:-1]:
                record = record[step]
            record[place[-1]] = value

        (folder / "manifest.json").write_text(original)
        edit(folder, change, sealed=sealed)
        with suppress(ReadError, GuaranteeNotMet):
            sf.read_release(folder)


class TestAPromiseThatNobodyCanRecount:
    """A manifest may state anything; only what was recounted is shown as a guarantee."""

    @pytest.mark.parametrize("name", ["Unknown", "KMap", "Containment"])
    def test_is_never_shown_as_a_guarantee(self, folder, name, capfd):
        def rename(record):
            position = next(number for number, one in enumerate(record["claims"]) if one["name"] == "KAnonymity")
            record["claims"][position]["name"] = name
            record["findings"][position]["claim"] = "100-anonymous in age, income"
            for file in ("README.txt", "promises.sql"):  # they tell what the manifest told before
                del record["files"][file]
                (folder / file).unlink()

        edit(folder, rename, sealed=True)
        release = sf.read_release(folder)  # releases of other versions and of users' own methods stay readable
        stated = "100-anonymous in age, income (stated: the released rows alone do not show it)"
        assert release.manifest.guarantee.split("; ") == [
            stated,
            "at least 2 different values of 'illness' in each group",
        ]
        assert run(["verify", str(folder)]) == 0
        shown = capfd.readouterr().out
        assert "stated     privacy" in shown
        assert "no guarantee here" in shown

    def test_another_version_cannot_word_a_recounted_one_stronger(self, folder):
        def word(record):
            record["version"] = "0.0.1"
            del record["options"]["k"]
            record["findings"][0]["claim"] = "100-anonymous in age, income"

        edit(folder, word, sealed=True)
        assert sf.read_release(folder).manifest.guarantee.startswith("5-anonymous in age, income; ")

    def test_a_manifest_that_was_not_verified_can_be_shown(self, folder):
        edit(folder, lambda record: promise(record, "KAnonymity")["parameters"].pop("k"), sealed=True)
        assert "stated" in repr(sf.read_release(folder, verify=False))


@pytest.mark.parametrize("formulas", ["escape", "keep"])
def test_text_with_other_cells_than_the_rows_is_refused(people, roles, tmp_path, formulas):
    released = sf.Boxes(k=5).release(people, schema=roles)
    folder = released.write(tmp_path / formulas, csv_formulas=formulas)
    assert verify_bundle(folder).holds
    file = folder / "released.csv"
    names, first, rest = file.read_text().split("\n", 2)
    cells = first.split(",")
    file.write_text("\n".join([names, ",".join([*cells[:-1], "9"]), rest]))
    edit(folder, lambda record: record["files"].update({file.name: sha256(file)}), sealed=True)
    assert "released.csv holds other cells" in " ".join(verify_bundle(folder).faults)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_of_every_unit_are_the_same_in_text_and_rows(tmp_path, unit, zone):
    seconds = np.random.default_rng(1).integers(0, 10**9, 40)
    seen = pa.array(seconds, pa.timestamp("s")).cast(pa.timestamp(unit, zone))
    table = pa.table({"age": np.arange(40), "seen": seen})
    released = sf.Boxes(k=5).release(table, schema={"age": "quasi", "seen": "other"}, seed=1)
    assert verify_bundle(released.write(tmp_path / "out")).holds


def test_another_second_is_another_cell():
    assert _same_cells(b"a\n10:00:01.000\n", b"a\n10:00:01\n")
    assert not _same_cells(b"a\n10:00:01.000\n", b"a\n10:00:02\n")
    assert not _same_cells(b"a\n10:00:01.001\n", b"a\n10:00:01\n")


def test_a_number_that_is_written_otherwise_is_the_same():
    assert _same_cells(b"a,b\n100000,x\n", b"a,b\n1e+05,x\n")
    assert not _same_cells(b"a,b\n100000,x\n", b"a,b\n100001,x\n")
    assert not _same_cells(b"a,b\n1,x\n", b"a,c\n1,x\n")
    assert _same_cells(b"a,b\n-0,x\n,y\n", b"a,b\n0,x\n,y\n")
    assert not _same_cells(b"a,b\n0,x\n,y\n", b"a,b\n,x\n0,y\n")


def test_a_release_with_a_negative_zero_and_a_missing_cell_is_as_it_was_written(tmp_path):
    people = {"x": [*np.linspace(-9.0, -0.01, 25), *[None] * 5]}
    release = sf.Boxes(k=5, snap=0.1).release(people, schema={"x": "quasi"}, seed=1)
    assert np.nanmax(release.table.numbers("x_high")) == 0.0
    assert sf.read_release(release.write(tmp_path / "out")).table.rows == 30


@pytest.mark.parametrize("columns", [["age_low"] * 100_000, [f"c{number}" for number in range(100_000)]])
def test_a_promise_about_very_many_columns_is_refused_at_once(folder, columns):
    edit(folder, lambda record: promise(record, "KAnonymity")["parameters"].update(columns=columns), sealed=True)
    with pytest.raises(ReadError, match="100,000 columns"):
        verify_bundle(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_among_the_parts_is_not_read(folder):
    rows = (folder / "released.parquet").read_bytes()
    (folder / "released.parquet").unlink()
    (folder / "released.parquet").mkdir()
    (folder / "released.parquet" / "part-00000.parquet").write_bytes(rows)
    os.mkfifo(folder / "released.parquet" / "part-00001.parquet")
    with pytest.raises(ReadError, match="must be files"):
        verify_bundle(folder)
