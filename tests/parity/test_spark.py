"""The Spark engine against memory, the reference: the same answers and promises, also after tasks were repeated."""

from __future__ import annotations

import datetime
import html
import operator
import os
import pickle
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato import machine as progress
from sfumato.engines.base import engine_for
from sfumato.engines.memory.engine import Memory
from sfumato.engines.out_of_core.blocks import PartWriter
from sfumato.engines.spark import cluster as sessions
from sfumato.engines.spark import cluster as watch
from sfumato.engines.spark.blocks import SparkBlocks
from sfumato.engines.spark.cluster import Cluster
from sfumato.engines.spark.failures import translate_error, without_text
from sfumato.errors import CannotRelease, MissingExtra, OptionError, ReadError, SchemaError
from sfumato.plan.questions import GroupSizesOf, SpreadOf
from sfumato.randomness import Randomness
from sfumato.release.read import verify_bundle
from sfumato.release.rows import StoredTable
from tests.parity import test_duckdb
from tests.parity.test_duckdb import ROLES, people, released_types, typed_people
from tests.same_rows import canonical, same_rows


@pytest.fixture(scope="module")
def spark():
    """A session with two tasks at a time, each tried four times."""
    sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed: pip install 'sfumato[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed: apt-get install openjdk-17-jre-headless")
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": 3}
    session = sql.SparkSession.builder.master("local[2,4]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows") / "in [1]"  # a name that Spark would take for a pattern
    folder.mkdir()
    table = people(6000)
    for number in range(3):
        pq.write_table(table.slice(number * 2000, 2000), folder / f"part{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def frame(spark, files):
    return spark.createDataFrame(pa.concat_tables(pq.read_table(file) for file in sorted(files.iterdir())))


@pytest.fixture(scope="module")
def asked(spark, frame, files):
    """The answers of both engines to the questions that the tests for DuckDB ask."""
    memory = Memory()
    expected = memory.survey(memory.open(pq.read_table(files, partitioning=None), ROLES), Randomness(1))
    with sf.Spark(spark).session(None) as running:
        found = running.survey(running.open(frame, ROLES), Randomness(1))
        return [survey.ask(test_duckdb.TestSurvey.QUESTIONS) for survey in (expected, found)]


class TestSurvey(test_duckdb.TestSurvey):
    """The answers are those of memory, by the same tests as for DuckDB."""

    @pytest.fixture
    def answers(self, asked):
        return asked

    def test_a_sample_is_the_one_that_memory_draws(self, spark, frame):
        """The sample depends on the rows and the seed, not on how the cluster holds the rows."""
        drawn = []
        for parts in (1, 5):
            with sf.Spark(spark, block_rows=500).session(None) as running:
                opened = running.open(frame.repartition(parts), ROLES)
                survey = replace(running.survey(opened, Randomness(1)), sample_rows=700)
                drawn.append(survey.sample)
                rows = pa.concat_tables([table.arrow for _, table in opened.releasable.tables(1000)])
        assert drawn[0].table.arrow.equals(drawn[1].table.arrow)
        expected = Memory(sample_rows=700)
        kinds = {name: drawn[0].table.kinds[name] for name in rows.column_names}
        opened = expected.open(sf.Table.from_arrow(rows, kinds), {name: ROLES[name] for name in kinds})
        assert expected.survey(opened, Randomness(1)).sample.table.arrow.equals(drawn[0].table.arrow)


class TestRelease:
    def test_one_block_gives_the_boxes_of_memory(self, spark, tmp_path):
        table, roles = (
            people(2000).drop_columns(["name"]),
            {name: ROLES[name] for name in ("age", "income", "town", "ill")},
        )
        method = sf.Boxes(k=5, keep=["mean(income)"])
        expected = method.release(table, schema=roles, seed=1, engine="memory")
        found = method.release(table, schema=roles, seed=1, engine=sf.Spark(spark), into=tmp_path / "out")
        assert same_rows(found.table.arrow, expected.table.arrow)
        assert [one.claim for one in found.findings] == [one.claim for one in expected.findings]
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_one_block_of_a_frame_gives_the_boxes_of_memory(self, spark, tmp_path):
        """However Spark orders the rows: no two of them are equal in a column."""
        rng = np.random.default_rng(1)
        table = pa.table({"x": rng.normal(size=2000), "y": rng.lognormal(size=2000), "z": rng.random(2000)})
        roles = {"x": "quasi", "y": "quasi", "z": "other"}
        expected = sf.Boxes(k=5).release(table, schema=roles, engine="memory")
        frame = spark.createDataFrame(table).repartition(4)
        found = sf.Boxes(k=5).release(frame, schema=roles, engine=sf.Spark(spark), into=tmp_path / "out")
        assert same_rows(found.table.arrow, expected.table.arrow)
        assert found.findings == expected.findings

    def test_many_blocks_keep_the_promise_and_nearly_the_width(self, spark, files, tmp_path):
        source = str(files).replace("[", "[[]") + "/*.parquet"
        method = sf.Boxes(k=5, keep=["mean(age)"])
        memory = method.release(source, schema=ROLES, engine="memory").estimate("mean(age)")
        into = tmp_path / "out {1} %41 ü#"
        released = method.release(source, schema=ROLES, engine=sf.Spark(spark, block_rows=1000), into=into)
        found = released.estimate("mean(age)")
        assert len(released.table.files) > 3
        assert found.low <= memory.value <= found.high
        assert found.high - found.low <= 1.6 * (memory.high - memory.low)
        sizes = released.table.counted(released.manifest.claims[0].parameters["columns"]).count
        assert sizes.min() >= 5
        assert sizes.sum() == 6000
        assert verify_bundle(into).holds
        assert "name" not in released.table.names

    def test_killed_workers_and_other_partitions_change_nothing(self, spark, frame, tmp_path):
        method, engine = sf.Boxes(k=5, l=2), sf.Spark(spark, block_rows=1500)
        roles = ROLES | {"ill": "sensitive"}
        first = method.release(frame, schema=roles, seed=3, engine=engine, into=tmp_path / "one")
        killed = Killer(tmp_path)
        killed.start()
        again = method.release(frame.repartition(4), schema=roles, seed=3, engine=engine, into=tmp_path / "two")
        killed.join()
        assert killed.count
        assert canonical(again.table.arrow) == canonical(first.table.arrow)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]

    def test_a_frame_takes_the_engine_by_itself_and_is_returned(self, frame):
        released = sf.Boxes(k=5).release(frame, schema=ROLES)
        assert released.table.to_arrow().num_rows == 6000

    @pytest.mark.parametrize("name", ["people", "`people`", "global_temp.people"])
    def test_views_and_tables_of_a_catalog_are_read_by_name(self, name, spark, frame, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        view, engine = name.rpartition(".")[2].strip("`"), sf.Spark(spark)
        kind = "GlobalTemp" if "." in name else "Temp"
        getattr(frame, f"create{kind}View")(view)
        try:
            released = sf.Boxes(k=5).release(name, schema=ROLES, engine=engine, into="out")
            assert released.table.rows == 6000
            pq.write_table(people(400), name)  # a file with this name comes first
            assert sf.Boxes(k=5).release(name, schema=ROLES, engine=engine).table.rows == 400
        finally:
            getattr(spark.catalog, f"drop{kind}View")(view)
        with pytest.raises(ReadError, match="no file"):
            sf.Boxes(k=5).release("no_such_people", schema=ROLES, engine=engine)

    def test_an_assessment_counts_all_rows_and_is_in_the_report(self, spark, tmp_path, monkeypatch):
        monkeypatch.setattr("sfumato.job.assess.SAMPLED", 400)
        table, source = people(600), tmp_path / "in.parquet"
        pq.write_table(table, source)
        frame = spark.createDataFrame(table)
        made = sf.release_and_assess(
            sf.Noise(level=0.5), frame, schema=ROLES, engine=sf.Spark(spark, block_rows=200), into=tmp_path / "out"
        )
        report = html.unescape((tmp_path / "out" / "report.html").read_text()).replace("<wbr>", "")
        assert f"{made.assessment.verdict}." in report
        found = made.assessment
        assert found.sampled_groups == pytest.approx(400, abs=4)  # each block rounds its share up or down by chance
        assert f"a random sample of {found.sampled_rows} rows" in found.sample_note
        assert found.sample_note in report
        released = sf.read_release(tmp_path / "out")
        apart = [sf.assess(frame, released, engine=sf.Spark(spark)), sf.assess(source, released)]
        counted = ("copies, all columns", "smallest group", "unique people in the original")
        found = [{name: one[name].value for name in counted[:1]} for one in (made.assessment, *apart)]
        assert found[0] == found[1] == found[2]
        assert all(made.assessment[name].value == apart[0][name].value for name in counted)

    def test_on_the_command_line(self, spark, files, tmp_path, capsys):
        from sfumato.cli.commands import run

        options = ["--engine", "spark", "--master", "local[2,4]", "--k", "5", "--json"]
        other = ["--k", "5", "--master", "local[7]"]
        roles = [f"--role={name}={role}" for name, role in ROLES.items()]
        assert run(["release", str(files / "part0.parquet"), "-o", str(tmp_path / "out"), *options, *roles]) == 0
        assert sf.read_release(tmp_path / "out").table.rows == 2000
        assert spark.range(3).count() == 3  # a session that was there before is not stopped
        assert run(["release", str(files / "part0.parquet"), "-o", str(tmp_path / "2"), *other]) == 2
        assert "another master" in capsys.readouterr().err

    def test_types_of_spark(self, spark, tmp_path):
        """Decimals, dates, moments, NaN and names with points and quotes."""
        rng, count = np.random.default_rng(0), 400
        days = [datetime.date(1950, 1, 1) + datetime.timedelta(days=int(day)) for day in rng.integers(0, 9000, count)]
        numbers = rng.normal(size=count)
        numbers[:5] = np.nan
        table = pa.table(
            {
                "born.on": days,
                "at `home`": pa.array([datetime.datetime.combine(day, datetime.time(5)) for day in days]),
                "Größe": pa.array(rng.integers(1, 9, count, dtype=np.int32)).cast(pa.decimal128(12, 2)),
                "x": numbers,
                "code": rng.integers(0, 5, count),
                "grade": rng.choice(["low", "middle", "high"], count),
            }
        )
        frame = spark.createDataFrame(table)
        schema = dict.fromkeys(table.column_names, "quasi")
        schema["code"] = {"role": "quasi", "kind": "nominal"}
        schema["grade"] = {"role": "quasi", "kind": "ordered", "order": ["low", "middle", "high"]}
        expected = sf.Boxes(k=5).release(table, schema=schema, engine="memory")
        found = sf.Boxes(k=5).release(frame, schema=schema, engine=sf.Spark(spark), into=tmp_path / "out")
        assert found.manifest.columns == expected.manifest.columns
        mean = found.estimate("mean(x)")
        assert mean.low <= expected.estimate("mean(x)").value <= mean.high

    def test_types_are_those_of_memory(self, spark, tmp_path):
        table = typed_people(600)
        days = pa.array([datetime.date.fromisoformat(day) for day in table.column("day").to_pylist()])
        pq.write_table(table.set_column(3, "day", days), tmp_path / "in.parquet", row_group_size=100)
        expected, found = (
            released_types(tmp_path / "in.parquet", tmp_path / f"out{number}", engine)
            for number, engine in enumerate(("memory", sf.Spark(spark)))
        )
        assert found == expected

    @pytest.mark.parametrize("kind", ["frame", "table"])
    def test_moments_do_not_go_by_the_clock_of_the_session(self, kind, spark, tmp_path):
        """Clocks in Berlin leave out the hour from 2 to 3, which UTC has."""
        start = np.datetime64("2021-03-28T02:00:00", "us")
        moments = start + np.random.default_rng(1).integers(0, 3600, 200) * np.timedelta64(1, "s")
        typed = pa.array(moments).cast(pa.timestamp("us", tz="UTC"))
        table = pa.table({"at": typed, "age": np.arange(200)})
        before = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        try:
            source = spark.createDataFrame(table) if kind == "frame" else table
            schema = {"at": "other", "age": "quasi"}
            released = sf.Boxes(k=5).release(source, schema=schema, engine=sf.Spark(spark), into=tmp_path / "out")
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)
        found = released.to_arrow().column("at")
        assert sorted(found.cast(pa.int64()).to_pylist()) == sorted(typed.cast(pa.int64()).to_pylist())
        assert found.type == (pa.timestamp("us") if kind == "frame" else typed.type)

    @pytest.mark.parametrize(
        "method", [sf.Noise(level=0.1), sf.Quantiles(k=20), sf.SvdSwap()], ids=lambda one: one.name
    )
    def test_other_methods_work_in_blocks_or_say_that_they_cannot(self, method, spark, frame, tmp_path):
        engine, into = sf.Spark(spark, block_rows=1500), tmp_path / "out"
        try:
            released = method.release(frame, schema=ROLES, engine=engine, into=into)
        except (CannotRelease, OptionError) as refusal:
            assert "memory" in str(refusal) or "must" in str(refusal)
            assert not into.exists()
            return
        assert released.table.rows == 6000
        assert verify_bundle(into).holds


class Killer(threading.Thread):
    """Kills the Python workers of this process's Spark once, while blocks are being written."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.count = folder, 0

    def run(self) -> None:
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            if list(self.folder.glob(".*/parts/*")):
                for worker in python_workers():
                    os.kill(worker, signal.SIGKILL)
                    self.count += 1
                return
            time.sleep(0.01)


def python_workers() -> list[int]:
    """Return the processes of PySpark that descend from this one."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listed.splitlines()[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in lines}

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [int(pid) for pid, _, command in lines if "pyspark.daemon" in command and is_ours(int(pid))]


class TestTasks:
    def test_a_task_that_dies_is_repeated(self, spark, tmp_path):
        def work(number: int) -> int:
            mark = tmp_path / f"{number}"
            if not mark.exists():
                mark.touch()
                os._exit(1)
            return number * number

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=sessions.PANDAS_WARNING)
            assert Cluster(spark, tmp_path).each(work, range(3), "squaring") == [0, 1, 4]

    def test_the_log_tells_the_share_and_the_time_to_go(self, spark, tmp_path, monkeypatch, caplog):
        for module, name in ((progress, "FIRST"), (progress, "NEXT"), (watch, "PAUSE")):
            monkeypatch.setattr(module, name, 0.1)
        with warnings.catch_warnings(), caplog.at_level("INFO", logger="sfumato"):
            warnings.filterwarnings("ignore", message=sessions.PANDAS_WARNING)
            # tasks end one by one: Spark notes events of a stage at most ten times a second, and leaves out others
            Cluster(spark, tmp_path).each(lambda number: time.sleep(0.8 + 0.5 * (number % 2)), range(6), "sleeping")
            spark.range(3).count()  # other work of the same session is not counted
        told = [record.message for record in caplog.records]
        assert any(re.fullmatch(r"sleeping: (17|33|50|67|83) %, about \d+ s to go", one) for one in told), told
        assert all(one.startswith("sleeping: ") for one in told)

    def test_an_error_of_a_task_quotes_no_cell(self, spark, tmp_path):
        def broken(number: int) -> int:
            raise ValueError(f"secret {number}")

        def refused(number: int) -> int:
            raise SchemaError("This must hold.", found="a count", fix="another")

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=sessions.PANDAS_WARNING)
            with pytest.raises(ReadError, match="ValueError") as error:
                Cluster(spark, tmp_path).each(broken, [7], "failing")
            assert "secret" not in str(error.value)
            assert error.value.__context__ is None
            with pytest.raises(SchemaError, match=r"Found: a count\. Try: another"):
                Cluster(spark, tmp_path).each(refused, [7], "failing")

    def test_a_block_that_is_written_twice_is_the_same(self, tmp_path):
        table = sf.Table.from_arrow(people(500).select(["age", "income"]))
        memory = Memory()
        opened = memory.open(table, {"age": "quasi", "income": "quasi"})
        plan = sf.Boxes(k=5).plan(memory.survey(opened, Randomness()), opened.schema, Randomness())

        class OneBlock:
            rows = np.array([500])

            def read(self, number: int) -> sf.Table:
                return table

        writer = PartWriter.of(plan, OneBlock(), tmp_path)
        contents = []
        for _ in range(2):
            writer.write(0)
            contents.append([path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()])
        assert len(contents[0]) == 2
        assert contents[0] == contents[1]


def start_alone(files, into, **environment):
    """Start a release on the command line, in a process of its own without a session."""
    code = "import sys; from sfumato.cli import main; sys.argv[0] = 'sfumato'; main()"
    options = [f"--role={name}={role}" for name, role in ROLES.items()]
    options += ["--k", "5", "--engine", "spark", "--master", "local[1]", "-o", str(into)]
    command = [sys.executable, "-c", code, "release", str(files / "part0.parquet"), *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    given = {name: value for name, value in (os.environ | environment).items() if value is not None}
    return subprocess.Popen(command, env=given, start_new_session=True, **pipes)


def release_alone(files, into, **environment):
    run = start_alone(files, into, **environment)
    output, errors = run.communicate()
    return subprocess.CompletedProcess(run.args, run.returncode, output, errors)


@pytest.fixture(scope="module")
def alone(spark, files, tmp_path_factory):
    """A release in an environment that is not activated: the first python3 of the path has none of the packages."""
    folder, python = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("bin") / "python3"
    python.write_text("#!/bin/sh\nexit 9\n")
    python.chmod(0o755)
    environment = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "PYSPARK_PYTHON": None}
    return folder, release_alone(files, folder / "out", **environment)


class TestOwnSession:
    def test_the_environment_need_not_be_activated(self, alone):
        assert alone[1].returncode == 0, alone[1].stderr

    def test_a_session_is_started_for_a_master_and_stopped(self, alone):
        folder, _ = alone
        assert verify_bundle(folder / "out").holds
        assert sorted(path.name for path in folder.iterdir()) == ["out", "out.toml"]  # with its project file

    def test_a_killed_driver_leaves_nothing_that_others_can_read(self, spark, files, tmp_path):
        """Spark's own folders of sorted rows can be read by all users, so they are in the private one."""
        (tmp_path / "java").mkdir()
        options = f"{os.environ['JAVA_TOOL_OPTIONS']} -Djava.io.tmpdir={tmp_path / 'java'}"
        run = start_alone(files, tmp_path / "out", JAVA_TOOL_OPTIONS=options)
        while run.poll() is None and not (left := list(tmp_path.glob(".out.*.work/blocks"))):
            time.sleep(0.01)
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        assert left, "the run ended before it could be killed"
        assert stat.S_IMODE(left[0].parent.stat().st_mode) == 0o700
        assert list(left[0].parent.rglob("shuffle_*"))
        assert not list((tmp_path / "java").rglob("shuffle_*"))
        assert not (tmp_path / "out").exists()
        sf.Boxes(k=5).release(people(600), schema=ROLES, engine=sf.Spark(spark), into=tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["java", "out"]

    def test_spark_that_does_not_start_is_said_plainly(self, spark, files, tmp_path):
        done = release_alone(files, tmp_path / "out", JAVA_HOME=str(tmp_path / "no java"))
        assert done.returncode == 2
        assert "install Java 17" in done.stderr
        assert "Traceback" not in done.stderr
        assert not list(tmp_path.iterdir())


class TestOptions:
    def test_what_contradicts_itself(self):
        with pytest.raises(OptionError, match="not both"):
            sf.Spark(object(), master="local[2]")
        with pytest.raises(OptionError, match="block_rows"):
            sf.Spark(block_rows=0)
        with pytest.raises(OptionError, match="has no master"):
            engine_for("duckdb", "table.csv", master="local[2]")
        assert engine_for("auto", "table.csv", master="local[2]") == sf.Spark(master="local[2]")

    def test_a_missing_package_is_named_before_any_work(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sessions, "find_spec", lambda name: None)
        with pytest.raises(MissingExtra, match=r"sfumato\[spark\]"):
            sf.Boxes(k=2).release({"x": [1.0, 2.0]}, schema={"x": "quasi"}, engine="spark", into=tmp_path / "out")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("ModuleNotFoundError: No module named 'pyarrow'", "no package pyarrow"),
            ("ModuleNotFoundError: No module named 'sfumato.engines'", "no package sfumato"),
            ("ModuleNotFoundError: No module named 'Theresa'", "another Python"),
            ("[PYTHON_VERSION_MISMATCH] Python in worker has different version", "another Python"),
            ('java.io.IOException: Cannot run program "python3"', "another Python"),
            (str(without_text(ModuleNotFoundError("No", name="numba"))), "no package numba"),
        ],
    )
    def test_a_package_that_executors_lack_is_named(self, text, found):
        error = translate_error(Exception(f"[PYTHON_EXCEPTION] An exception was thrown: {text}\n at x"))
        assert isinstance(error, MissingExtra)
        assert found in str(error)
        assert "Theresa" not in str(error)

    @pytest.mark.parametrize(("amount", "expected"), [("1536m", 1536 * 2**20), ("2g", 2**31), ("2GB", 2**31), ("7", 7)])
    def test_amounts_of_memory(self, amount, expected):
        assert sessions._bytes(amount) == expected

    def test_blocks_are_read_in_the_order_of_their_rows(self, tmp_path):
        """Whatever files a block is in."""
        from sfumato.engines.out_of_core.source import Relation, StoredRows

        folder = tmp_path / "sfumato_block=0"
        folder.mkdir()
        for name, keys in (("a", [5, 1]), ("b", [3, 0])):
            pq.write_table(
                pa.table({"x": [float(key) for key in keys], "sfumato_key": keys}), folder / f"{name}.parquet"
            )
        kinds = sf.Table.from_arrow(pa.table({"x": [0.5]})).kinds
        blocks = SparkBlocks(tmp_path, StoredRows(Relation((), {"x": pa.float64()}), kinds, 4), np.array([4]))
        assert blocks.read(0).numbers("x").tolist() == [0.0, 1.0, 3.0, 5.0]


class TestResults:
    """What the driver gets does not grow with rows or groups."""

    @pytest.fixture
    def received(self, monkeypatch):
        """Sizes of all results that tasks have sent."""
        sizes: list[int] = []
        plain = watch.pickle.loads

        def load(result):
            sizes.append(len(result))
            return plain(result)

        monkeypatch.setattr(watch, "pickle", SimpleNamespace(loads=load, dumps=pickle.dumps))
        return sizes

    def test_verification_sends_extremes_and_not_groups(self, spark, received, tmp_path):
        rng = np.random.default_rng(3)
        sent = {}
        for rows in (4_000, 40_000):
            received.clear()
            table = pa.table({"x": rng.normal(size=rows), "y": rng.normal(size=rows)})
            with sf.Spark(spark, block_rows=rows // 4).session(None) as running:
                source = running.open(spark.createDataFrame(table), {"x": "quasi", "y": "quasi"})
                plan = sf.Boxes(k=2, l=1).plan(running.survey(source, Randomness(1)), source.schema, Randomness(1))
                work = running.run(plan, source)
                received.clear()
                verified = running.verify(plan.claims, work)
                answers = running.ask(work, [SpreadOf("x"), GroupSizesOf(("box",))])
                sent[rows] = sum(received)
            told = verified.findings[0].found
            assert told.startswith("smallest group 2") and answers[GroupSizesOf(("box",))].count > rows // 4
        assert sent[40_000] <= 1.2 * sent[4_000] + 2_000  # ten times as many groups
        assert sent[40_000] < 24 * 10_000  # the control: keys and counts alone would take more

    def test_without_a_target_nothing_is_collected(self, spark, tmp_path, monkeypatch):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        table = pa.table({"x": np.random.default_rng(0).normal(size=3000)})
        engine = sf.Spark(spark, block_rows=1000)
        released = sf.Boxes(k=5).release(spark.createDataFrame(table), schema={"x": "quasi"}, engine=engine)
        assert isinstance(released.table, StoredTable) and "arrow" not in released.table.__dict__
        assert released.to_spark().count() == released.to_spark(spark).count() == 3000
        assert released.to_spark().columns == list(released.table.names)
        assert len(list(tmp_path.iterdir())) == 1  # the rows, and nothing of the run
        assert stat.S_IMODE(next(tmp_path.iterdir()).stat().st_mode) == 0o700
        assert released.estimate("mean(x)").low <= table.column("x").to_numpy().mean()

    def test_many_results_are_merged_by_tasks_in_their_order(self, spark, received, tmp_path):
        cluster = Cluster(spark, tmp_path)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=sessions.PANDAS_WARNING)
            whole = cluster.merge_each(lambda item: [item] * 500, list(range(70)), operator.add, "testing")
            large = cluster.each(bytes, [100, 100_000], "testing")
        assert whole == [item for item in range(70) for _ in range(500)]
        assert list(map(len, large)) == [100, 100_000]
        assert list(tmp_path.iterdir()) == []

    def test_blocks_go_to_tasks_of_their_own(self, spark):
        """The number of a partition is that of its key, so that no two blocks share a task."""
        from pyspark.sql import functions

        for count in (2, 3, 40):
            keys = sessions.partition_keys(count)
            rows = spark.createDataFrame(pa.table({"key": keys, "block": np.arange(count)}))
            placed = rows.repartition(count, "key").withColumn("place", functions.spark_partition_id())
            assert all(row["place"] == row["block"] for row in placed.collect())
        plain = spark.range(40).repartition(40, "id").withColumn("place", functions.spark_partition_id())
        assert len({row["place"] for row in plain.collect()}) < 40  # the control

    def test_rows_in_memory_and_in_a_bundle_become_frames(self, spark, tmp_path):
        made = sf.Boxes(k=2).release({"age": [20, 21, 40, 41]}, schema={"age": "quasi"}, into=tmp_path / "out")
        for release in (made, sf.read_release(tmp_path / "out")):
            ends = release.to_spark(spark).select("age_low", "age_high").distinct().collect()
            assert sorted(map(tuple, ends)) == [(20, 21), (40, 41)]

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("Total size of serialized results is bigger than spark.driver.maxResultSize (8.0 MiB)", "maxResultSize"),
            ("java.lang.OutOfMemoryError: Java heap space at secret", "heap"),
            ('org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "s3"', "scheme"),
            ("com.amazonaws.AmazonServiceException: Status Code: 403 secret", "access denied"),
            ("[TABLE_OR_VIEW_NOT_FOUND] The table or view `secret` cannot be found", "no such path, table or view"),
            ("Python worker exited unexpectedly (crashed)", "worker"),
            ("Job 3 cancelled because SparkContext was shut down", "session that ended"),
        ],
    )
    def test_common_failures_are_told_in_a_few_words(self, text, says):
        told = str(translate_error(Exception(text)))
        assert says in told and "secret" not in told and "Try:" in told


def test_there_is_no_frame_without_a_session(monkeypatch):
    monkeypatch.delitem(sys.modules, "pyspark.sql", raising=False)
    with pytest.raises(OptionError, match="session"):
        sf.read_release({"age_low": [20, 40], "age_high": [30, 51]}).to_spark()
