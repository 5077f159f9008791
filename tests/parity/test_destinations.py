"""Engines into every destination, and what a killed writer or a full disk leaves there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sfumato as sf
from sfumato.release.read import verify_bundle
from sfumato.sources import stores
from tests.parity.servers import full_store, mariadb, object_store, postgres, small_disk
from tests.parity.test_spark_faults import disturbed, kill_executor, spark

__all__ = ["spark"]  # a fixture: two executors

ENGINES = ["memory", "duckdb", "spark"]
FILES, SERVERS = ["folder", "hdfs", "sqlite", "duckdb"], ["s3", "postgresql", "mysql"]
PLACES = [*FILES, *SERVERS]
ROLES = {"age": "quasi", "income": "quasi", "town": "other"}
ROWS, BLOCK = 1500, 500


def people(rows: int) -> pa.Table:
    rng = np.random.default_rng(rows)
    towns = rng.choice(["Arles", "Brig", "Cham"], rows)
    return pa.table({"age": rng.integers(18, 90, rows), "income": rng.lognormal(10, 1, rows), "town": towns})


@dataclass(frozen=True)
class Place:
    """A destination, how to give it again where a release is there, and what else is beside the release."""

    into: Any
    again: Any
    others: Callable[[], list[str]]

    @property
    def rows(self) -> int:
        """Rows of the release that is there, all of whose promises hold."""
        release = sf.read_release(self.into)
        assert isinstance(self.into, sf.Database) or verify_bundle(self.into).holds
        return release.table.rows


def table_at(url: str, others: Callable[[], list[str]]) -> Place:
    """Return the place that is a table of a database."""
    return Place(sf.Database(url, table="released"), sf.Database(url, table="released", replace=True), others)


def on_disk(kind: str, disk: Path) -> Place:
    """Return a place of this kind on a disk."""
    known = {"folder": "out", "hdfs": "ward", "sqlite": "ward.db", "duckdb": "ward.duckdb"}[kind]

    def others() -> list[str]:
        return sorted(path.name for path in disk.iterdir() if path.name != known)

    if kind in ("sqlite", "duckdb"):
        return table_at(f"{kind}:///{disk / known}", others)
    into = disk / known if kind == "folder" else f"hdfs://name/{known}"
    return Place(into, into, others)


def use_as_hdfs(disk: Path, patch: Callable[..., object]) -> None:
    """Let the scheme hdfs mean the files of a folder, which can be renamed as those of HDFS can."""
    local = fs.SubTreeFileSystem(str(disk), fs.LocalFileSystem())
    patch(stores, "_open", lambda scheme, text: (local, text.partition("/")[2]))


@pytest.fixture(scope="module")
def store():
    with object_store() as address:
        yield address


@pytest.fixture(scope="module")
def postgresql():
    pytest.importorskip("adbc_driver_postgresql", reason="its driver is not installed: make engines")
    with postgres() as url:
        yield url


def query(url: str, *statements: str) -> list[tuple[Any, ...]]:
    """Do statements on a server, and return the rows of the last one."""
    if url.startswith("mysql"):
        from tests.parity.test_mysql import run_sql as run_mysql

        return run_mysql(url, *statements, database="CREATE DATABASE" not in statements[0])
    from tests.parity.test_databases import run_sql

    found = run_sql(url, *statements)
    return [] if found is None else list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.fixture(scope="module")
def mysql():
    pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install 'sfumato[mysql]'")
    with mariadb() as url:
        query(url, "CREATE DATABASE test_rows")
        yield url


def on_server(kind: str, url: str, name: str) -> Place:
    """Return a place of this kind on a server, with nothing there."""
    if kind == "s3":
        made = fs.S3FileSystem(endpoint_override=url, allow_bucket_creation=True, request_timeout=60.0)
        made.create_dir(name)
        return Place(f"s3://{name}/out", f"s3://{name}/out", list)
    schema = "'public'" if kind == "postgresql" else "database()"
    query(url, "DROP TABLE IF EXISTS released", "DROP TABLE IF EXISTS released_manifest")

    def others() -> list[str]:
        tables = query(url, f"SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}")
        return sorted({str(one) for (one,) in tables} - {"released", "released_manifest"})

    return table_at(url, others)


@pytest.fixture
def place(request, tmp_path, monkeypatch) -> Place:
    """The destination of this kind, empty."""
    kind = request.param
    if kind in FILES:
        disk = tmp_path / "disk"
        disk.mkdir()
        use_as_hdfs(disk, monkeypatch.setattr)
        return on_disk(kind, disk)
    url = request.getfixturevalue({"s3": "store"}.get(kind, kind))
    given = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    for name, value in (given | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
        monkeypatch.setenv(name, value)
    return on_server(kind, url, f"bucket-{abs(hash(str(tmp_path))) % 10**9}")


def engine_of(name: str, request: pytest.FixtureRequest) -> Any:
    """Return an engine that works in blocks, or memory."""
    if name == "memory":
        return name
    return (
        sf.DuckDB(block_rows=BLOCK)
        if name == "duckdb"
        else sf.Spark(request.getfixturevalue("spark"), block_rows=BLOCK)
    )


def replace_blocks(engine: Any) -> Any:
    """Return an engine in blocks with larger ones."""
    return sf.Spark(engine.spark, block_rows=BLOCKS) if isinstance(engine, sf.Spark) else sf.DuckDB(block_rows=BLOCKS)


def release(rows: Path | pa.Table, engine: Any, into: Any) -> None:
    made = sf.Boxes(k=5).release(rows, schema=ROLES, engine=engine, into=into)
    assert made.manifest.rows_out == made.manifest.rows_in


@pytest.fixture
def source(tmp_path):
    pq.write_table(people(ROWS), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


KILLED = """
import os, signal, sys
import sfumato as sf
from sfumato.release import bundle
from sfumato.sources import database_files, mysql, postgres, stores
from tests.parity.test_destinations import BLOCK, ROLES, use_as_hdfs

engine, rows, disk = sys.argv[1:4]
into = sf.Database(*sys.argv[4:6], replace=True) if len(sys.argv) > 5 else sys.argv[4]
use_as_hdfs(disk, setattr) if sys.argv[4].startswith("hdfs") else None
upload, seal = stores.Store.upload, bundle._seal

def die(*given, **more):
    os.kill(os.getpid(), signal.SIGKILL)

def upload_one(self, file, name):
    stores.Store.upload = die
    upload(self, file, name)

def half(write):
    def write_half(self, new, batches):
        def until_killed():
            yield next(batches)
            die()
        write(self, new, until_killed())
    return write_half

for driver in (database_files.SQLiteFile, database_files.DuckDBFile, postgres.Postgres, mysql.MySQL):
    driver.write = half(driver.write)
stores.Store.upload = upload_one
if "://" not in sys.argv[4]:
    bundle._seal = die
engines = {"memory": lambda: "memory", "duckdb": lambda: sf.DuckDB(block_rows=BLOCK)}
sf.Boxes(k=5).release(rows, schema=ROLES, engine=engines[engine](), into=into)
"""


def kill_a_writer(engine: str, source: Path, place: Place, tmp_path: Path) -> None:
    """Let a process of its own write there, and kill it when a part of its rows is written."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    given = [place.into.url, place.into.table] if isinstance(place.into, sf.Database) else [str(place.into)]
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={temporary}"
    killed = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KILLED, engine, str(source), str(tmp_path / "disk"), *given],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary), "JAVA_TOOL_OPTIONS": java},
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]


def readable(folder: Path) -> list[str]:
    """Return the files of a folder that other users of the machine can read."""
    found = []
    for path, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if stat.S_IMODE(Path(path, one).stat().st_mode) & 0o077]
        found += [file for file in files if stat.S_IMODE(Path(path, file).stat().st_mode) & 0o077]
    return found


@pytest.mark.parametrize("place", PLACES, indirect=True)
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
class TestEveryDestination:
    def test_a_killed_writer_leaves_the_old_release_and_nothing_that_others_can_read(
        self, engine, place, source, tmp_path, request
    ):
        known = engine_of(engine, request)
        release(people(90), known, place.into)
        kill_a_writer(engine, source, place, tmp_path)
        assert place.rows == 90
        assert not readable(tmp_path / "temporary")
        release(source, known, place.again)
        assert place.rows == ROWS and place.others() == []

    def test_a_killed_writer_of_the_first_release_leaves_none(self, engine, place, source, tmp_path, request):
        known = engine_of(engine, request)
        kill_a_writer(engine, source, place, tmp_path)
        with pytest.raises(sf.SfumatoError):
            sf.read_release(place.into)
        release(source, known, place.into)
        assert place.rows == ROWS and place.others() == []


FILLED = ["folder", "sqlite", "duckdb"]  # the rows of the others are written to the disk of temporary files first


@pytest.mark.parametrize("kind", FILLED)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_a_full_disk_leaves_what_was_there(kind, engine, is_first, source, tmp_path, request):
    known = engine_of(engine, request)
    with small_disk(tmp_path / "disk", 1600) as disk:
        place = on_disk(kind, disk)
        if not is_first:
            release(people(90), known, place.into)
        (disk / "filler").write_bytes(bytes(8192))
        with (disk / "filler").open("ab") as filler, contextlib.suppress(OSError):
            while os.statvfs(disk).f_bavail > 2:
                filler.write(bytes(4096))
                filler.flush()
        with pytest.raises(sf.SfumatoError, match=r"space|disk is full"):
            release(source, known, place.again)
        assert {"filler"} <= set(place.others()) <= {"filler", "ward.duckdb.wal"}  # which DuckDB reads next time
        if not is_first:
            assert place.rows == 90
        (disk / "filler").unlink()
        release(source, known, place.again)
        assert place.rows == ROWS and place.others() == []


@pytest.mark.parametrize("place", [one for one in PLACES if one != "folder"], indirect=True)
def test_a_lost_executor_changes_nothing(place, source, tmp_path, spark):
    """What another executor does again is written once, wherever it goes."""
    release(people(90), "memory", place.into)
    mark = tmp_path / "killed"
    engine = sf.Spark(spark, block_rows=BLOCK)
    disturbed(kill_executor(mark)).release(source, schema=ROLES, engine=engine, into=place.again)
    assert mark.exists()
    assert place.rows == ROWS and place.others() == []


@pytest.mark.parametrize("place", ["s3", "postgresql"], indirect=True)
def test_executors_that_are_lost_again_and_again_leave_the_old_release(place, source, tmp_path, spark):
    release(people(90), "memory", place.into)
    always, engine = kill_executor(tmp_path / "killed", always=True), sf.Spark(spark, block_rows=BLOCK)
    with pytest.raises(sf.SfumatoError, match="executor") as error:
        disturbed(always).release(source, schema=ROLES, engine=engine, into=place.again)
    assert not any(town in str(error.value) for town in ("Arles", "Brig", "Cham"))
    assert place.rows == 90 and place.others() == []


MANY = 20_000  # rows of a release that does not fit
BLOCKS = 5000


@contextlib.contextmanager
def full_server(kind: str, url: str) -> Iterator[Place]:
    """Yield a place on a server whose disk has space for a small release only."""
    if kind == "mysql":
        ((data,),) = query(url, "SELECT @@datadir")
        name = f"small_{len(list(Path(data).glob('small_*')))}"
        with small_disk(Path(data) / name, 1000):  # a folder there is a database
            yield on_server(kind, url.replace("test_rows", name), "")
        return
    folder = Path(tempfile.mkdtemp(prefix="small"))
    folder.chmod(0o755)  # the server runs as another user
    with small_disk(folder / "disk", 1000) as disk:
        if os.geteuid() == 0:
            shutil.chown(disk, "postgres")
        query(url, f"CREATE TABLESPACE small LOCATION '{disk}'")
        query(url, "ALTER DATABASE postgres SET default_tablespace = small")
        try:
            yield on_server(kind, url, "")
        finally:
            query(url, "ALTER DATABASE postgres RESET default_tablespace")
            query(url, "DROP TABLE IF EXISTS released")
            query(url, "DROP TABLESPACE small")
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_full_disk_of_a_server_leaves_the_old_release(kind, engine, source, tmp_path, request):
    url, many = request.getfixturevalue(kind), tmp_path / "many.parquet"
    pq.write_table(people(MANY), many)
    known = engine_of(engine, request)
    with full_server(kind, url) as place:
        release(people(90), known, place.into)
        with pytest.raises(sf.SfumatoError, match="no space") as error:
            release(many, known if engine == "memory" else replace_blocks(known), place.again)
        assert not any(town in str(error.value) for town in ("Arles", "Brig", "Cham"))
        assert place.rows == 90 and place.others() == []
        release(source, known, place.again)
        assert place.rows == ROWS and place.others() == []


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("status", "code"), [(507, "XMinioStorageFull"), (500, "InternalError")])
def test_a_store_that_fails_in_the_middle_of_an_upload_leaves_the_old_release(
    status, code, engine, source, tmp_path, store, request, monkeypatch
):
    known, limit = engine_of(engine, request), tmp_path / "limit"
    with full_store(store, status, code, limit) as address:
        given = {"AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
        for name, value in (given | {"AWS_DEFAULT_REGION": "us-east-1"}).items():
            monkeypatch.setenv(name, value)
        place = on_server("s3", address, f"full-{engine}-{status}")
        release(people(90), known, place.into)
        limit.write_text("4")  # requests, of which a file takes one or more
        with pytest.raises(sf.SfumatoError, match="no space" if status == 507 else "error of the store") as error:
            release(source, known, place.again)
        assert "4711" not in str(error.value)
        assert place.rows == 90
        limit.unlink()
        there = stores.Store.of(f"{place.into}/versions").files()
        kept = stores.current_release(stores.Store.of(place.into))
        assert all(f"/{kept}/" in one.path for one in there)
        release(source, known, place.again)
        assert place.rows == ROWS
