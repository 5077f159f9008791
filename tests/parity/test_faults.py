"""Faults while a table is read or a release is made: a clear error, the old target untouched, nothing left over."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.duckdb import blocks
from sfumato.engines.duckdb import scan as connection
from sfumato.engines.out_of_core import blocks as parts
from sfumato.engines.out_of_core import engine as workspace
from sfumato.engines.out_of_core import source as relation
from sfumato.errors import OptionError, ReadError, RequestError
from sfumato.release import bundle
from sfumato.release.read import verify_bundle
from sfumato.table.kinds import Kind
from tests.parity.servers import postgres

ROLES = {"age": "quasi", "income": "quasi"}
SMALL = sf.DuckDB(memory="1GB", block_rows=500)


def people(rows: int = 2000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"age": rng.integers(18, 90, rows), "income": rng.lognormal(10, 1, rows)})


@pytest.fixture
def source(tmp_path):
    pq.write_table(people(), tmp_path / "in.parquet")
    return tmp_path / "in.parquet"


@pytest.fixture
def old(source, tmp_path):
    """Return a folder with an older release."""
    sf.Boxes(k=20).release(source, schema=ROLES, into=tmp_path / "out")
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


END_OTHERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


def full(*arguments, **options):
    raise OSError(28, "No space left on device")


def full_for_duckdb(*arguments, **options):
    raise duckdb.IOException("Could not write file: No space left on device, 4711")


PHASES = {  # what writes in each phase of a release
    "reading": (pq.ParquetWriter, "write_table"),
    "survey": (connection.Connection, "_result"),
    "sorting": (blocks._BlockWriter, "_write"),
    "anonymizing": (parts, "write_parquet"),
    "putting in place": (bundle, "_seal"),
}


@pytest.mark.parametrize("phase", sorted(PHASES))
def test_a_full_disk_leaves_the_old_release(phase, old, tmp_path, monkeypatch):
    before = contents(old)
    monkeypatch.setattr(*PHASES[phase], full_for_duckdb if phase == "survey" else full)
    with pytest.raises(sf.SfumatoError, match="space") as error:
        sf.Boxes(k=5).release(people(), schema=ROLES, engine=SMALL, into=old)
    assert "4711" not in str(error.value)
    assert contents(old) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out"]


def test_a_kill_in_any_phase_leaves_the_old_release_and_nothing_to_read(source, old, tmp_path):
    before = contents(old)
    code = f"""
        import os, signal, sys, warnings
        warnings.simplefilter("ignore")
        import sfumato as sf
        from sfumato.engines.duckdb import blocks, engine
        from sfumato.engines.out_of_core import blocks as parts, engine as session

        def die(*arguments, **options):
            os.kill(os.getpid(), signal.SIGKILL)

        phases = [(session, "rows_of"), (engine.DuckDBScan, "take"), (blocks._BlockWriter, "close"),
            (parts, "write_parquet"), (session.TallyFiles, "create"), (session, "write_parts")]
        for owner, name in phases:
            child = os.fork()
            if not child:
                setattr(owner, name, die)
                sf.Boxes(k=5).release({str(source)!r}, schema={ROLES!r}, into={str(old)!r},
                    engine=sf.DuckDB(memory="1GB", block_rows=500))
                os._exit(0)
            print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            for folder in sorted(os.listdir({str(tmp_path)!r})):
                print(folder, oct(os.stat(os.path.join({str(tmp_path)!r}, folder)).st_mode & 0o777))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=os.environ, check=True
    )
    lines = run.stdout.splitlines()
    names = ("rows_of", "take", "close", "write_parquet", "create", "write_parts")
    assert [line for line in lines if line.startswith(names)] == [f"{name} -9" for name in names]
    left = [line for line in lines if line.startswith(".out")]
    assert len(left) >= len(names), "each killed run leaves its folder"
    assert all(line.endswith(" 0o700") for line in left)
    assert contents(old) == before
    sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL, into=old)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out"]
    assert verify_bundle(old).holds


@pytest.mark.parametrize("when", ["survey", "sorting"])
def test_a_file_that_changes_while_it_is_read(when, source, old, tmp_path, monkeypatch):
    before = contents(old)
    to_table, route_rows = relation.StoredRows.to_table, blocks.route_rows

    def change():
        pq.write_table(people(2000, seed=9), source.with_suffix(".new"))
        source.with_suffix(".new").replace(source)

    def read(*arguments):
        change()
        return to_table(*arguments)

    def route(tables, *arguments):
        def changing():
            for rows in tables:
                change()
                yield rows

        return route_rows(changing(), *arguments)

    if when == "survey":
        monkeypatch.setattr(relation.StoredRows, "to_table", read)
    else:
        monkeypatch.setattr("sfumato.engines.duckdb.engine.route_rows", route)
    with pytest.raises(ReadError, match="must not change"):
        sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL, into=old)
    assert contents(old) == before


def test_a_file_that_may_not_be_read(source, monkeypatch):
    def denied(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(pq, "read_metadata", denied)  # the tests may run as root, who may read everything
    with pytest.raises(ReadError, match="permission denied"):
        sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL)


def test_a_folder_that_may_not_be_written(source, tmp_path, monkeypatch):
    def denied(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(workspace.Path, "mkdir", denied)
    with pytest.raises(OptionError, match="Permission denied"):
        sf.Boxes(k=5).release(source, schema=ROLES, engine=SMALL, into=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]


def test_two_runs_into_one_folder_leave_a_whole_release(source, tmp_path, monkeypatch):
    write, into = parts.PartWriter.write, tmp_path / "out"

    def meanwhile(self, block):
        monkeypatch.setattr(parts.PartWriter, "write", write)
        sf.Boxes(k=20).release(source, schema=ROLES, engine=SMALL, into=into)
        return write(self, block)

    monkeypatch.setattr(parts.PartWriter, "write", meanwhile)
    one = sf.DuckDB(memory="1GB", block_rows=5000)
    sf.Boxes(k=5).release(source, schema=ROLES, engine=one, into=into)
    assert verify_bundle(into).holds
    assert sf.read_release(into).manifest.options["k"] == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out"]


def test_text_files_whose_columns_differ_in_type_are_read_as_text(tmp_path):
    (tmp_path / "a.csv").write_text("age,code\n" + "".join(f"{n},{n}\n" for n in range(20, 60)))
    (tmp_path / "b.csv").write_text("age,code\n" + "".join(f"{n},x{n % 3}\n" for n in range(20, 60)))
    release = sf.Boxes(k=5).release(str(tmp_path / "*.csv"), schema={"age": "quasi", "code": "other"}, engine=SMALL)
    assert release.table.kinds["code"] in (Kind.NOMINAL, Kind.TEXT)
    assert release.table.rows == 80


@pytest.fixture(scope="module")
def server():
    with postgres() as url:
        yield url


class TestDatabases:
    @pytest.fixture
    def accounts(self, server):
        _sql(
            server,
            "DROP TABLE IF EXISTS accounts, released",
            "CREATE TABLE accounts AS SELECT i % 70 AS age, i * 0.5 AS income FROM generate_series(1, 400000) i",
        )
        return sf.Database(server, table="accounts")

    def test_a_lost_connection_while_reading(self, server, accounts):
        batches = accounts.batches()
        next(batches)
        _sql(server, END_OTHERS)
        with pytest.raises(ReadError, match=r"ended the query|connection"):
            list(batches)

    def test_a_lost_connection_while_writing_leaves_no_table(self, server, accounts):
        released = sf.Boxes(k=5).release(people(), schema=ROLES)

        def lost():
            yield released.table
            _sql(server, END_OTHERS)

        target = sf.Database(server, table="released")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(released.table), "parts", lambda self: lost())
            with pytest.raises(ReadError, match=r"ended the query|connection"):
                target.write(released)
        target.require_free()

    def test_a_role_that_may_not_create_tables(self, server, accounts):
        _sql(
            server,
            "DROP ROLE IF EXISTS reader",
            "CREATE ROLE reader LOGIN",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        )
        released = sf.Boxes(k=5).release(people(), schema=ROLES)
        with pytest.raises(RequestError, match="permission denied"):
            sf.Database(server.replace("postgres@", "reader@"), table="released").write(released)

    def test_the_second_of_two_runs_into_one_table_is_refused(self, server, accounts):
        first, second = (sf.Boxes(k=k).release(people(), schema=ROLES) for k in (5, 20))
        target = sf.Database(server, table="released")
        target.write(first)
        with pytest.raises(RequestError, match="exists already"):
            target.write(second)
        assert sf.read_release(target).manifest.options["k"] == 5

    def test_a_database_file_that_another_process_writes(self, tmp_path):
        path = tmp_path / "clinic.duckdb"
        code = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
        other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert other.stdout.readline() == b"open\n"
        released = sf.Boxes(k=5).release(people(), schema=ROLES)
        with pytest.raises(ReadError, match="locked by another process"):
            sf.Database(f"duckdb:///{path}", table="released").write(released)
        other.communicate()


def _sql(url: str, *statements: str) -> None:
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(url, autocommit=True) as connected, connected.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            if statement.startswith("SELECT"):
                cursor.fetchall()


def test_temporary_rows_of_an_examination_are_private(source, monkeypatch):
    seen = []
    made = workspace._make_folder

    def watched(target):
        private = made(target)
        seen.append((private.path, stat.S_IMODE(private.path.stat().st_mode)))
        return private

    monkeypatch.setattr(workspace, "_make_folder", watched)
    sf.uniqueness(source, ["age"], engine=SMALL)
    assert [mode for _, mode in seen] == [0o700]
    assert not seen[0][0].exists()
