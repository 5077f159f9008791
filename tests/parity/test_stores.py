"""Tables and releases in stores: an object store that the test starts, and a file system whose files can be renamed."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import sfumato as sf
from sfumato.cli.commands import run
from sfumato.errors import OptionError, ReadError
from sfumato.release.read import read_release, verify_bundle
from sfumato.sources import stores
from tests.parity.servers import object_store

ROLES = {"age": "quasi", "city": "quasi"}
SECRET = "never-shown-secret"


def people(rows: int = 400, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"age": rng.integers(18, 90, rows), "city": rng.choice(["a", "b", "c"], rows)})


@pytest.fixture(scope="module")
def server():
    """The address of an object store in memory."""
    with object_store() as address:
        yield address


@pytest.fixture(params=["s3", "hdfs"])
def folder(request, tmp_path, monkeypatch):
    """The URL of an empty folder in a store: by an object store, and by a file system whose files can be renamed."""
    if request.param == "s3":
        for name, value in {
            "AWS_ENDPOINT_URL": request.getfixturevalue("server"),
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        bucket = f"bucket-{abs(hash(str(tmp_path))) % 10**9}"
        made = fs.S3FileSystem(
            endpoint_override=request.getfixturevalue("server"), allow_bucket_creation=True, request_timeout=60.0
        )
        made.create_dir(bucket)
        return f"s3://{bucket}/ward"
    disk = tmp_path / "disk"
    disk.mkdir()
    local = fs.SubTreeFileSystem(str(disk), fs.LocalFileSystem())
    monkeypatch.setattr(stores, "_open", lambda scheme, text: (local, text.partition("/")[2]))
    return "hdfs://name/ward"


def put(table: pa.Table, url: str) -> None:
    store = stores.Store.of(url)
    store.system.create_dir(store.path.rpartition("/")[0], recursive=True)
    pq.write_table(table, store.path, filesystem=store.system)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_from_a_store_to_a_store_and_back(engine, folder, tmp_path):
    table = people()
    for number in range(2):
        put(table.slice(number * 200, 200), f"{folder}/rows/part{number}.parquet")
    made = sf.Boxes(k=5, l=1).release(f"{folder}/rows/*.parquet", schema=ROLES, engine=engine, into=f"{folder}/out")
    assert made.table.rows == 400 and made.estimate("mean(age)").low <= np.mean(table["age"])
    assert verify_bundle(f"{folder}/out").holds
    again = read_release(f"{folder}/out")
    mean = again.estimate("mean(age)")
    assert mean.low <= np.mean(table["age"].to_numpy()) <= mean.high
    local = sf.Boxes(k=5, l=1).release(table, schema=ROLES)
    assert again.manifest.guarantee == local.manifest.guarantee


def test_partitions_and_text_are_read_as_on_a_disk(folder):
    for year in (2020, 2021):
        put(people(30, year), f"{folder}/years/year={year}/rows.parquet")
    assert sf.read(f"{folder}/years").names == ("age", "city", "year")
    store = stores.Store.of(f"{folder}/people.csv")
    with store.system.open_output_stream(store.path) as file:
        file.write(b"age;city\n34;a\n51;b\n")
    assert sf.read(f"{folder}/people.csv").numbers("age").tolist() == [34.0, 51.0]
    with store.system.open_output_stream(store.path) as file:  # another content is read again
        file.write(b"age;city\n34;a\n51;b\n52;b\n")
    assert sf.read(f"{folder}/people.csv").rows == 3


def test_a_second_release_replaces_the_first_in_one_step(folder, monkeypatch):
    table, method = people(), sf.Boxes(k=5, l=1)
    method.release(table, schema=ROLES, into=f"{folder}/out")
    place = stores.Store.of(f"{folder}/out")
    first = stores.current_release(place)
    plain, seen = stores.Store.upload, []

    def upload(self, file, name):
        seen.append(read_release(f"{folder}/out").table.rows)  # a reader, while the new files are being written
        plain(self, file, name)

    monkeypatch.setattr(stores.Store, "upload", upload)
    method.release(people(100), schema=ROLES, into=f"{folder}/out")
    assert set(seen) == {400} and read_release(f"{folder}/out").table.rows == 100
    assert stores.current_release(place) != first
    assert place.below(first).read("manifest.json") is None  # the old files are gone


def test_a_writer_that_fails_half_way_leaves_the_old_release(folder, monkeypatch):
    sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into=f"{folder}/out")
    before = stores.current_release(stores.Store.of(f"{folder}/out"))

    def fail(self, name, content):
        raise ReadError("The store must answer.", found="no connection")

    monkeypatch.setattr(stores.Store, "replace", fail)
    with pytest.raises(ReadError, match="no connection"):
        sf.Boxes(k=5, l=1).release(people(100), schema=ROLES, into=f"{folder}/out")
    assert stores.current_release(stores.Store.of(f"{folder}/out")) == before
    assert read_release(f"{folder}/out").table.rows == 400
    assert versions_in(stores.Store.of(f"{folder}/out")) == {before.split("/")[1]}


KILLED = """
import os, signal, sys
from pyarrow import fs
import pyarrow.parquet as pq
import sfumato as sf
from sfumato.sources import stores

rows, url, disk, uploads = sys.argv[1:]
if disk:
    local = fs.SubTreeFileSystem(disk, fs.LocalFileSystem())
    stores._open = lambda scheme, text: (local, text.partition("/")[2])
upload, done = stores.Store.upload, []

def upload_or_die(self, file, name):
    if len(done) == int(uploads):
        os.kill(os.getpid(), signal.SIGKILL)
    done.append(name)
    upload(self, file, name)

def die(self, name, content):
    os.kill(os.getpid(), signal.SIGKILL)

stores.Store.upload, stores.Store.replace = upload_or_die, die
sf.Boxes(k=5, l=1).release(pq.read_table(rows), schema={"age": "quasi", "city": "quasi"}, into=url)
"""


@pytest.mark.parametrize("uploads", [0, 2, 99])  # 99: killed after all of them, when the new release should count
def test_a_killed_writer_leaves_the_old_release_and_the_next_one_removes_its_files(
    uploads, folder, tmp_path, monkeypatch
):
    sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into=f"{folder}/out")
    place = stores.Store.of(f"{folder}/out")
    before = stores.current_release(place)
    pq.write_table(people(100), tmp_path / "rows.parquet")
    disk = str(tmp_path / "disk") if folder.startswith("hdfs") else ""
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "rows.parquet"), f"{folder}/out", disk, str(uploads)], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert stores.current_release(place) == before
    assert read_release(f"{folder}/out").table.rows == 400 and verify_bundle(f"{folder}/out").holds
    left = versions_in(place)
    assert len(left) == (1 if uploads == 0 else 2)
    sf.Boxes(k=5, l=1).release(people(200), schema=ROLES, into=f"{folder}/out")
    assert versions_in(place) - left and len(versions_in(place)) == len(left)  # the writer might still be at work
    monkeypatch.setattr(stores, "ABANDONED", timedelta(0))
    sf.Boxes(k=5, l=1).release(people(300), schema=ROLES, into=f"{folder}/out")
    assert {f"versions/{one}" for one in versions_in(place)} == {stores.current_release(place)}
    assert read_release(f"{folder}/out").table.rows == 300


def versions_in(place: stores.Store) -> set[str]:
    return {one.path.split("/versions/")[1].split("/")[0] for one in place.below("versions").files()}


def test_on_the_command_line_and_without_credentials_anywhere(folder, tmp_path, capsys):
    put(people(), f"{folder}/rows.parquet")
    asked = ["release", f"{folder}/rows.parquet", "-o", f"{folder}/out", "--k", "5", "--l", "1", "--quasi", "age,city"]
    assert run(asked) == 0
    assert run(["verify", f"{folder}/out"]) == 0
    assert run(["estimate", f"{folder}/out", "mean(age)"]) == 0
    shown = "".join(capsys.readouterr())
    store = stores.Store.of(f"{folder}/out")
    for file in store.files():
        with store.system.open_input_stream(file.path) as content:
            shown += content.read().decode("utf-8", "replace")
    assert SECRET not in shown and "somebody" not in shown


class TestRefusals:
    def test_a_full_disk_of_this_machine_is_not_a_failure_of_the_store(self, folder, monkeypatch):
        put(people(), f"{folder}/rows.parquet")
        sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into=f"{folder}/out")

        def fill(self, *arguments, **options):
            raise OSError(errno.ENOSPC, "No space left on device: 4711")

        with monkeypatch.context() as disk:
            disk.setattr(Path, "open", fill)
            with pytest.raises(ReadError, match="no space left") as error:
                sf.read(f"{folder}/rows.parquet")
            assert "4711" not in str(error.value) and "must answer" not in str(error.value)
            with pytest.raises(sf.SfumatoError, match="space"):
                sf.Boxes(k=5, l=1).release(people(100), schema=ROLES, into=f"{folder}/out")
        assert len(versions_in(stores.Store.of(f"{folder}/out"))) == 1

    def test_what_is_not_there_is_said_and_nothing_of_the_store_is_quoted(self, folder):
        for url in (f"{folder}/nothing.parquet", f"{folder}/rows/*.parquet"):
            with pytest.raises(ReadError) as refusal:
                sf.read(url)
            assert SECRET not in str(refusal.value) and refusal.value.__cause__ is None
        with pytest.raises(ReadError, match=r"no current\.json"):
            read_release(f"{folder}/nothing")

    def test_credentials_in_a_url(self):
        for url in (f"s3://somebody:{SECRET}@bucket/x.csv", f"s3://{SECRET}@bucket/x.csv"):
            with pytest.raises(OptionError, match="credentials") as refusal:
                sf.read(url)
            assert SECRET not in str(refusal.value)

    def test_a_store_that_cannot_replace_a_file(self, folder, monkeypatch):
        def cannot(self, name, content):
            return self._do(lambda: (_ for _ in ()).throw(NotImplementedError(SECRET)))

        monkeypatch.setattr(stores.Store, "replace", cannot)
        with pytest.raises(OptionError, match="one step") as refusal:
            sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into=f"{folder}/out")
        assert SECRET not in str(refusal.value)
        assert stores.current_release(stores.Store.of(f"{folder}/out")) is None

    def test_a_commit_file_that_names_something_else(self, folder):
        sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into=f"{folder}/out")
        store = stores.Store.of(f"{folder}/out")
        for content in (b"{}", b"no json", json.dumps({"folder": "../../etc"}).encode()):
            store.replace(stores.CURRENT, content)
            with pytest.raises(ReadError, match="must name the folder"):
                read_release(f"{folder}/out")

    def test_schemes_that_are_no_stores(self, tmp_path):
        with pytest.raises(OptionError, match="scheme ftp"):
            sf.Boxes(k=5, l=1).release(people(), schema=ROLES, into="ftp://host/out")


def test_two_writers_at_once_leave_one_whole_release(folder):
    failures = []

    def write(rows: int) -> None:
        try:
            sf.Boxes(k=5, l=1).release(people(rows), schema=ROLES, into=f"{folder}/out")
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(rows,)) for rows in (100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert not failures
    assert read_release(f"{folder}/out").table.rows in (100, 200) and verify_bundle(f"{folder}/out").holds
