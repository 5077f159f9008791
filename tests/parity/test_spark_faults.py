"""Faults on a cluster with two executors: the same rows, or a clear error, the old release and nothing left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.engines.out_of_core.blocks import PartWriter
from sfumato.engines.spark.cluster import Cluster
from sfumato.errors import OptionError, ReadError, RequestError, SchemaError, TableError
from sfumato.plan.plan import Plan
from sfumato.release.read import verify_bundle
from tests.parity.test_duckdb import ROLES, people
from tests.same_rows import canonical

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")

Disturbance = Callable[[int], None]  # called on an executor with the number of a block


@pytest.fixture(scope="module")
def spark():
    """Two executor processes."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'sfumato[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed: apt-get install openjdk-17-jre-headless")
    settings = {
        "spark.executor.memory": "1g",
        "spark.sql.shuffle.partitions": 3,
        "spark.task.maxFailures": 2,  # as often as a task is tried, so that what always fails ends soon
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    session = sql.SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "in.parquet"
    pq.write_table(people(3000), file)
    return spark.read.parquet(f"file://{file}")


@pytest.fixture(scope="module")
def undisturbed(spark, frame, tmp_path_factory):
    """The rows that every run with this seed must release."""
    return canonical(released(spark, frame, tmp_path_factory.mktemp("first") / "out").table.arrow)


def released(spark, source, into, method=None, seed=3):
    method = method or sf.Boxes(k=5)
    return method.release(source, schema=ROLES, seed=seed, engine=sf.Spark(spark, block_rows=1000), into=into)


def disturbed(disturbance: Disturbance) -> sf.Boxes:
    """Return a method whose plan calls the disturbance before it transforms a block, on the executor."""

    class DisturbedBoxes(sf.Boxes):
        def plan(self, survey, schema, randomness) -> Plan:
            plan = super().plan(survey, schema, randomness)
            base = type(plan)

            class DisturbedPlan(base):
                def transform(self, block, number):
                    disturbance(number)
                    return base.transform(self, block, number)

            found = object.__new__(DisturbedPlan)
            found.__dict__.update(plan.__dict__)
            return found

    return DisturbedBoxes(k=5)


def kill_executor(mark: Path, *, always: bool = False) -> Disturbance:
    """Return a disturbance that ends the executor it is called on, only once or always; the mark tells that it did."""

    def kill(number: int) -> None:
        executor = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")")[1].split()[1])
        assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
        if always or not mark.exists():
            mark.touch()
            os.kill(executor, signal.SIGKILL)

    return kill


def release_in_memory(into: Path) -> dict[str, bytes]:
    """Make a small release that a failure must leave as it is, and return its files."""
    sf.Boxes(k=5).release({"x": np.arange(20.0)}, schema={"x": "quasi"}, into=into)
    return contents(into)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class TestRepeatedTasks:
    def test_a_killed_executor_changes_nothing(self, spark, frame, undisturbed, tmp_path):
        (tmp_path / "marks").mkdir()
        mark = tmp_path / "marks" / "killed"
        found = released(spark, frame, tmp_path / "out", disturbed(kill_executor(mark)))
        assert mark.exists()
        assert canonical(found.table.arrow) == undisturbed
        assert sorted(path.name for path in tmp_path.iterdir()) == ["marks", "out"]

    def test_tasks_that_run_twice_at_the_same_time_change_nothing(
        self, spark, frame, undisturbed, tmp_path, monkeypatch
    ):
        """Spark starts slow tasks again, but only on another machine; here every block is given to both executors."""
        blocks, parts = PartWriter.blocks_in_random_order.fget, PartWriter.parts
        twice = property(lambda writer: [block for block in blocks(writer) for _ in range(2)])
        monkeypatch.setattr(PartWriter, "blocks_in_random_order", twice)
        monkeypatch.setattr(PartWriter, "parts", lambda writer, written: parts(writer, list(written)[1::2]))
        found = released(spark, frame, tmp_path / "out")
        assert canonical(found.table.arrow) == undisturbed
        assert verify_bundle(tmp_path / "out").holds
        assert [path.name for path in tmp_path.iterdir()] == ["out"]


class TestSources:
    @pytest.fixture
    def source(self, tmp_path):
        folder = tmp_path / "in"
        folder.mkdir()
        for number in range(2):
            pq.write_table(people(500, number), folder / f"part{number}.parquet")
        return folder

    @pytest.mark.parametrize("is_folder", [True, False])
    @pytest.mark.parametrize("content", [b"", b"PAR1 secret 4711 PAR1"])
    def test_an_empty_or_broken_file_is_named(self, content, is_folder, spark, source, tmp_path):
        (source / "part9.parquet").write_bytes(content)
        with pytest.raises(ReadError, match=r"part9\.parquet"):
            released(spark, source if is_folder else f"{source}/*.parquet", tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    @pytest.mark.parametrize("is_folder", [True, False])
    @pytest.mark.parametrize("column", [pa.array(["secret 4711"]), None], ids=["other type", "missing column"])
    def test_columns_that_differ_between_files_are_named(self, column, is_folder, spark, source, tmp_path):
        """Spark alone takes the columns of one file, and reads a column that another file lacks as missing."""
        other = people(1).drop_columns(["age"])
        pq.write_table(other if column is None else other.add_column(0, "age", column), source / "part9.parquet")
        with pytest.raises(TableError, match=r"same columns.*part9\.parquet.*'age'"):
            released(spark, source if is_folder else f"{source}/*.parquet", tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    def test_a_page_that_is_broken(self, spark, source, tmp_path):
        """The columns of the file can still be read, so only a task finds it."""
        file = source / "part1.parquet"
        file.write_bytes(b"".join((file.read_bytes()[:40], b"\xff" * 2000, file.read_bytes()[2040:])))
        with pytest.raises(ReadError, match="FAILED_READ_FILE"):
            released(spark, source, tmp_path / "out")
        assert [path.name for path in tmp_path.iterdir()] == ["in"]

    def test_a_folder_of_delta_is_not_read_as_plain_files(self, spark, source, tmp_path):
        """It also holds rows that were deleted."""
        (source / "_delta_log").mkdir()
        with pytest.raises(TableError, match="Delta"):
            released(spark, source, tmp_path / "out")

    def test_an_error_half_way_through_the_source_quotes_no_cell(self, spark, tmp_path):
        failing = spark.range(3000).selectExpr(
            "cast(id AS double) AS age", "if(id = 2999, raise_error(concat('secret ', 4711 + id)), 'x') AS town"
        )
        roles = {"age": "quasi", "town": "other"}
        with pytest.raises(ReadError) as error:
            sf.Boxes(k=5).release(failing, schema=roles, engine=sf.Spark(spark), into=tmp_path / "out")
        assert "secret" not in str(error.value)
        assert error.value.__context__ is None
        assert not list(tmp_path.iterdir())

    def test_sources_that_cannot_be_used(self, spark, tmp_path):
        engine = sf.Spark(spark)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "broken.parquet").write_bytes(b"PAR1 and then nothing")
        with pytest.raises(ReadError, match=r"broken\.parquet"):
            sf.Boxes(k=2).release(tmp_path / "in" / "broken.parquet", schema={"x": "quasi"}, engine=engine)
        with pytest.raises(ReadError, match="no such path"):
            sf.Boxes(k=2).release(f"file://{tmp_path}/none", schema={"x": "quasi"}, engine=engine)
        nested = spark.sql("SELECT array(1, 2) AS a, 1 AS x")
        with pytest.raises(TableError, match="'a' must hold"):
            sf.Boxes(k=2).release(nested, schema={"x": "quasi"}, engine=engine)
        with pytest.raises(TableError, match="sfumato_key"):
            reserved = spark.sql("SELECT 1 AS x, 2 AS sfumato_key")
            sf.Boxes(k=2).release(reserved, schema={"x": "quasi"}, engine=engine)
        with pytest.raises(TableError, match="unique"):
            sf.Boxes(k=2).release(spark.sql("SELECT 1 AS x, 2 AS X"), schema={"x": "quasi"}, engine=engine)
        with pytest.raises(TableError, match="finite"):
            infinite = spark.sql("SELECT double('infinity') AS x")
            sf.Boxes(k=2).release(infinite, schema={"x": "quasi"}, engine=engine, into=tmp_path / "out")
        with pytest.raises(TableError, match="rows"):
            none = spark.sql("SELECT 1 AS x WHERE false")
            sf.Boxes(k=2).release(none, schema={"x": "quasi"}, engine=engine, into=tmp_path / "out")
        with pytest.raises(SchemaError, match="to_date"):
            text = spark.sql("SELECT '1/2/1990' AS x")
            sf.Boxes(k=2).release(text, schema={"x": {"role": "quasi", "kind": "date"}}, engine=engine)
        assert [path.name for path in tmp_path.iterdir()] == ["in"]


class TestTargets:
    def test_a_broken_promise_leaves_the_old_release(self, spark, frame, tmp_path, monkeypatch):
        into, engine = tmp_path / "out", sf.Spark(spark)
        small = frame.limit(600)
        before = release_in_memory(into)
        written = PartWriter.parts

        def tampered(self, parts):
            file = next(self.folder.glob("*.parquet"))
            pq.write_table(pq.read_table(file).slice(1), file)  # one row less than promised
            return written(self, parts)

        monkeypatch.setattr(PartWriter, "parts", tampered)
        with pytest.raises(sf.SfumatoError, match="as it was written"):
            sf.Boxes(k=5).release(small, schema=ROLES, engine=engine, into=into)
        assert contents(into) == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_rows_that_get_lost_between_blocks_are_noticed(self, spark, frame, tmp_path, monkeypatch):
        look = Cluster.look

        def lose_a_row(self, files):
            footers = look(self, files)
            return [replace(one, rows=one.rows - 1) for one in footers] if "blocks" in str(files[0]) else footers

        monkeypatch.setattr(Cluster, "look", lose_a_row)
        with pytest.raises(sf.SfumatoError, match="Every row must be in one block"):
            sf.Boxes(k=5).release(frame.limit(600), schema=ROLES, engine=sf.Spark(spark), into=tmp_path / "out")
        assert not list(tmp_path.iterdir())

    def test_another_file_in_the_target(self, spark, frame, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "letter.txt").write_text("mine")
        with pytest.raises(RequestError, match="other files"):
            released(spark, frame, tmp_path / "out")
        assert (tmp_path / "out" / "letter.txt").read_text() == "mine"

    def test_two_runs_into_one_target(self, spark, frame, tmp_path):
        """The last one counts, as a whole."""
        errors = []

        def run(seed: int) -> None:
            try:
                released(spark, frame, tmp_path / "out", seed=seed)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in (3, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert verify_bundle(tmp_path / "out").holds
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_a_target_that_must_not_be_written(self, spark, frame):
        """Nobody may write there, not even a superuser."""
        with pytest.raises(OptionError, match="No folder for temporary rows can be made"):
            released(spark, frame, "/proc/out")

    def test_executors_that_must_not_write(self, spark, frame, tmp_path):
        before = release_in_memory(tmp_path / "out")

        def refused(number: int) -> None:
            raise PermissionError(13, "secret 4711")

        with pytest.raises(OptionError, match="permission denied") as error:
            released(spark, frame, tmp_path / "out", disturbed(refused))
        assert "secret" not in str(error.value)
        assert contents(tmp_path / "out") == before
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_work_that_is_cancelled_on_the_cluster(self, spark, frame, tmp_path):
        before = release_in_memory(tmp_path / "out")
        (tmp_path / "marks").mkdir()
        mark = tmp_path / "marks" / "started"

        def wait(number: int) -> None:
            mark.touch()
            time.sleep(30)

        def cancel() -> None:
            while not mark.exists():
                time.sleep(0.05)
            spark.sparkContext.cancelAllJobs()

        thread = threading.Thread(target=cancel, daemon=True)
        thread.start()
        with pytest.raises(ReadError, match="Spark could not carry out the work"):
            released(spark, frame, tmp_path / "out", disturbed(wait))
        thread.join()
        assert contents(tmp_path / "out") == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["marks", "out"]


class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path):
        """A function that makes a small disk, and the folder of the disk."""
        folder = tmp_path / "disk"
        folder.mkdir()

        def made(kilobytes: int) -> Path:
            command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
            mounted = subprocess.run(command, capture_output=True, check=False)
            if mounted.returncode:
                pytest.skip("a small disk can only be mounted by the superuser")
            return folder

        yield made
        # Java may still hold files of failed writes open, so the disk goes as soon as they are closed
        subprocess.run(["umount", "--lazy", str(folder)], capture_output=True, check=False)

    @pytest.mark.parametrize("kilobytes", [110, 135, 170])
    def test_in_any_phase(self, kilobytes, spark, frame, disk):
        folder = disk(kilobytes)
        before = release_in_memory(folder / "out")
        with pytest.raises(OptionError, match="space"):
            released(spark, frame, folder / "out")
        assert contents(folder / "out") == before
        assert [path.name for path in folder.iterdir()] == ["out"]
