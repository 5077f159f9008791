"""Work on a cluster: sessions, queries and functions on the executors, progress, and errors that quote no cell."""

from __future__ import annotations

import contextlib
import os
import pickle
import secrets
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.out_of_core.source import Footer, footers_of
from sfumato.engines.spark.failures import Refusal, guard, translate_error
from sfumato.errors import MissingExtra, OptionError, without_cause
from sfumato.formats.raw_files import read_frame, write_frames, write_whole
from sfumato.machine import LoggedProgress, MemoryBudget, available_memory, memory_from, processors
from sfumato.release.rows import file_url

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


PAUSE = 1.0  # seconds between looks


@contextlib.contextmanager
def stage_progress(spark: SparkSession, what: str, stages: int) -> Iterator[None]:
    """Tell the share that is done and the time to go while work of so many stages runs; Connect sessions tell nothing.

    The jobs of the work are found by a tag: other threads may use the same session.
    """
    context = _context(spark)
    if context is None:
        yield
        return
    watch = _Watch(context, LoggedProgress(what, stages))
    context.addJobTag(watch.tag)
    watch.start()
    try:
        yield
    finally:
        watch.ended.set()
        watch.join()
        with contextlib.suppress(Exception):  # the session may be gone, which the work itself tells
            context.removeJobTag(watch.tag)


def _context(spark: SparkSession) -> Any:
    with contextlib.suppress(Exception):  # a session of Spark Connect has none
        return spark.sparkContext
    return None


class _Watch(threading.Thread):
    """Looks at the jobs with its tag now and then."""

    def __init__(self, context: Any, progress: LoggedProgress) -> None:
        super().__init__(daemon=True)
        self.context, self.progress = context, progress
        self.tag = f"sfumato-{secrets.token_hex(8)}"
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(PAUSE):
            with contextlib.suppress(Exception):  # progress is only told, and Spark may forget old jobs
                self.progress.reach(self._stages_done())

    def _stages_done(self) -> float:
        """Return how many stages are done; of those in work, the share of their tasks."""
        tracker = self.context.statusTracker()
        jobs = self.context._jsc.sc().statusTracker().getJobIdsForTag(self.tag)
        infos = [info for job in jobs if (info := tracker.getJobInfo(job)) is not None]
        stages = [tracker.getStageInfo(number) for number in {stage for info in infos for stage in info.stageIds}]
        shares = [one.numCompletedTasks / one.numTasks for one in stages if one is not None and one.numTasks]
        return float(sum(shares))


T = TypeVar("T")
Item = TypeVar("Item")

RESULT = "number long, result binary"
PROBES = 8  # tasks that look for the workspace
FEW_FILES, MOST_LOOKS = 32, 256  # footers that are read by one process, and tasks that read more of them
FEW_ITEMS = 64  # that are sent to every task; a task of more reads its own from a file
SMALL_RESULT = 1 << 15  # bytes that a task returns through Spark; more is left in a file
MERGED_AT_ONCE = 16  # results that one task merges


@dataclass(frozen=True, repr=False)
class Cluster:
    """A Spark session, and the folder that driver and executors share."""

    spark: SparkSession
    folder: Path

    def is_shared(self, path: Path) -> bool:
        """Return whether executors find a path of the driver."""
        return all(self.each(Path.exists, [path] * PROBES, "looking for files"))

    def require_shared(self) -> None:
        """Raise unless the executors find the folder of the driver."""
        if not self.is_shared(self.folder):
            raise OptionError(
                "The folder of the release must be on a file system that the driver and all executors share.",
                found="executors that do not see it",
                fix="into= a folder on a shared file system",
            )

    def read(self, files: Sequence[Path], above: Path | None = None) -> DataFrame:
        """Return the rows of Parquet files, with columns from the names of folders that are ``above`` them."""
        reader = self.spark.read if above is None else self.spark.read.option("basePath", f"file://{above}")
        return self.run(lambda: reader.parquet(*map(file_url, files)))

    def table(self, frame: DataFrame) -> pa.Table:
        """Return a frame of a few rows."""
        return self.run(frame.toArrow)

    def query(self, sql: str) -> pa.Table:
        """Return the few rows that answer a query."""
        return self.run(lambda: self.spark.sql(sql).toArrow())

    def spooled(self, frame: DataFrame, what: str) -> pa.Table:
        """Return a frame of more rows, which the executors write and the driver reads: Java's driver never holds it.

        The rows have no order.
        """
        import pyarrow.parquet as pq

        folder = self.folder / f"frame-{secrets.token_hex(8)}"
        self.run_stages(lambda: frame.write.parquet(f"file://{folder}"), what)
        table = pq.read_table(folder, partitioning=None, coerce_int96_timestamp_unit="us")
        shutil.rmtree(folder, ignore_errors=True)
        return table

    def each(self, work: Callable[[Item], T], items: Sequence[Item], what: str) -> list[T]:
        """Do the work for every item, one task each, and return the results in the order of the items.

        ``work`` must be picklable. A task may run twice, also at the same time. ``what`` names the work in the log.
        """
        if not items:
            return []
        count, name = len(items), secrets.token_hex(8)
        given = items if count <= FEW_ITEMS else StoredItems.write(self.folder / f"items-{name}", items)
        numbers = self.spark.range(0, count, 1, count)
        task = _task(work, given, self.folder / f"result-{name}")
        replies = self.run_stages(numbers.mapInArrow(task, RESULT).toArrow, what)
        results = dict(zip(*(replies.column(name).to_pylist() for name in ("number", "result")), strict=True))
        outcomes = [pickle.loads(results[number]) for number in range(count)]
        outcomes = [one.take() if isinstance(one, StoredResult) else one for one in outcomes]
        if isinstance(given, StoredItems):
            given.file.unlink(missing_ok=True)
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                raise outcome.error
        return outcomes

    def merge_each(self, work: Callable[[Item], T], items: Sequence[Item], merge: Callable[[T, T], T], what: str) -> T:
        """Do the work for every item, and merge all results in their order, a few at a time, on the executors."""
        if len(items) <= MERGED_AT_ONCE:
            return reduce(merge, self.each(work, items, what))
        left = self.each(partial(_leave_result, work, self.folder / f"merge-{secrets.token_hex(8)}"), items, what)
        while len(left) > 1:
            several = [left[start : start + MERGED_AT_ONCE] for start in range(0, len(left), MERGED_AT_ONCE)]
            name = self.folder / f"merge-{secrets.token_hex(8)}"
            merged = self.each(partial(_leave_result, partial(_merge_results, merge), name), several, what)
            for file in left:
                file.unlink(missing_ok=True)
            left = merged
        whole: T = StoredResult(left[0]).take()
        return whole

    def look(self, files: Sequence[Path]) -> list[Footer]:
        """Read the footers of files: a few here, and many on the executors."""
        if len(files) <= FEW_FILES:
            return footers_of(files)
        tasks = min(len(files) // FEW_FILES, MOST_LOOKS)
        parts = [list(files[start::tasks]) for start in range(tasks)]
        looked: list[Footer | None] = [None] * len(files)
        for start, footers in enumerate(self.each(footers_of, parts, "reading footers")):
            looked[start::tasks] = footers
        return [footer for footer in looked if footer is not None]

    def run_stages(self, work: Callable[[], T], what: str, stages: int = 1) -> T:
        """Do work of Spark that takes long; the log tells how far it is."""
        with stage_progress(self.spark, what, stages):
            return self.run(work)

    def run(self, work: Callable[[], T]) -> T:
        """Do work of Spark, with its errors translated."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        return without_cause(work, (PySparkException, Py4JError), translate_error)


@dataclass(frozen=True, repr=False)
class StoredItems(Generic[Item]):
    """Items of work in one file, of which a task reads its own: what tasks are sent does not grow with the tasks."""

    file: Path

    @classmethod
    def write(cls, file: Path, items: Sequence[Item]) -> StoredItems[Item]:
        """Write all items."""
        write_frames(file, [pickle.dumps(item) for item in items])
        return cls(file)

    def __getitem__(self, number: int) -> Item:
        item: Item = pickle.loads(read_frame(self.file, number))
        return item


@dataclass(frozen=True, repr=False)
class StoredResult:
    """The result of a task in a file, because Spark limits what all tasks together send to the driver."""

    file: Path

    def take(self) -> Any:
        """Return the result, and remove the file."""
        result = pickle.loads(self.file.read_bytes())
        self.file.unlink(missing_ok=True)
        return result


def _task(
    work: Callable[[Item], T], items: Sequence[Item] | StoredItems[Item], results: Path
) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    def replies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(guard(partial(_work_on, work, items, number)))
                if len(result) > SMALL_RESULT:
                    stored = guard(partial(_store, results.with_name(f"{results.name}-{number}"), result))
                    result = pickle.dumps(stored)
                yield pa.record_batch({"number": pa.array([number]), "result": pa.array([result], pa.binary())})

    return replies


def _work_on(work: Callable[[Item], T], items: Sequence[Item] | StoredItems[Item], number: int) -> T:
    return work(items[number])


def _store(file: Path, content: bytes) -> StoredResult:
    """Leave a result in a file; a task that is repeated writes it again."""
    write_whole(file, lambda opened: opened.write(content))
    return StoredResult(file)


def _leave_result(work: Callable[[Item], T], name: Path, item: Item) -> Path:
    """Do work whose result only other tasks need, and return its file; attempts of a task have files of their own."""
    return _store(name.with_name(f"{name.name}-{secrets.token_hex(8)}"), pickle.dumps(work(item))).file


def _merge_results(merge: Callable[[T, T], T], files: Sequence[Path]) -> T:
    merged: T = reduce(merge, (pickle.loads(file.read_bytes()) for file in files))
    return merged


@cache
def partition_keys(count: int) -> NDArray[np.int32]:
    """Return a number for each of ``count`` partitions that Spark, which partitions rows by a hash, puts there.

    Numbers of blocks themselves would be spread at random: of two blocks, both would often go to one task.
    """
    keys, found = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=bool)
    for start in range(0, 1 << 31, 1 << 20):
        tried = np.arange(start, start + (1 << 20), dtype=np.int32)[: 64 * count if start == 0 else None]
        places, first = np.unique(_spark_hash(tried) % count, return_index=True)
        new = ~found[places]
        keys[places[new]], found[places[new]] = tried[first[new]], True
        if found.all():
            break
    return keys


def _spark_hash(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return Spark's hash of integers: MurmurHash3 (Appleby 2011) with 32 bits and the seed 42."""
    with np.errstate(over="ignore"):
        mixed = numbers.view(np.uint32) * np.uint32(0xCC9E2D51)
        mixed = _rotate(mixed, 15) * np.uint32(0x1B873593)
        state = _rotate(np.uint32(42) ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
        state ^= np.uint32(4)  # bytes
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
        return (state ^ (state >> np.uint32(16))).view(np.int32)


def _rotate(bits: NDArray[np.uint32], places: int) -> NDArray[np.uint32]:
    return (bits << np.uint32(places)) | (bits >> np.uint32(32 - places))


PANDAS_WARNING = "PySpark does not yet fully support pandas"  # which is not used here
ANY_PYTHON = "python3"  # what PySpark runs unless it is told otherwise
SHARE = 0.5  # share of the free memory that blocks may take if the master is this machine
EXECUTOR_MEMORY = "1g"  # Spark's own default


def require_spark() -> None:
    """Raise unless PySpark is installed, with pandas, without which it does not pass on Arrow batches."""
    absent = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if absent:
        raise MissingExtra(f"The engine spark needs {' and '.join(absent)}.", fix="pip install 'sfumato[spark]'")


@contextlib.contextmanager
def spark_session(given: SparkSession | None, master: str | None, folder: Path) -> Iterator[SparkSession]:
    """Yield the session to use; one that is started here is stopped at the end.

    Such a session keeps the rows that it sorts in the private ``folder`` if its master is this machine, and encrypted
    elsewhere: Spark's own folders can be read by all users, and stay behind after a kill.

    What still runs on the cluster after a failure is cancelled, because its rows are about to be removed.
    """
    require_spark()
    from pyspark.sql import SparkSession

    active = given or SparkSession.getActiveSession()
    if active is not None and master is not None and _setting(active, "spark.master", "") != master:
        raise OptionError(
            "There can be one Spark session in a process.",
            found="a session with another master",
            fix="stop it, or leave out the master",
        )
    spark = active or _start_session(master, folder)
    tag = f"sfumato-{secrets.token_hex(8)}"
    spark.addTag(tag)
    try:
        with warnings.catch_warnings(), _python_of_driver(spark):
            warnings.filterwarnings("ignore", message=PANDAS_WARNING)
            yield spark
    except BaseException:
        with contextlib.suppress(Exception):  # the session may be gone, and the first error counts
            spark.interruptTag(tag)
        raise
    finally:
        with contextlib.suppress(Exception):
            spark.removeTag(tag)
        if active is None:
            spark.stop()


@contextlib.contextmanager
def _python_of_driver(spark: SparkSession) -> Iterator[None]:
    """Let workers on this machine run the Python of the driver, whose environment may not be activated.

    PySpark takes the first python3 of the path unless PYSPARK_PYTHON is set, whatever its configuration says.
    """
    context = _context(spark)
    is_here = context is not None and _setting(spark, "spark.master", "").startswith("local")
    if not is_here or context.pythonExec != ANY_PYTHON or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = ANY_PYTHON


def _start_session(master: str | None, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sfumato")
    options = {"spark.ui.showConsoleProgress": "false", "spark.io.encryption.enabled": "true"}
    if master is not None:
        builder = builder.master(master)
    if (master or "local").startswith("local"):
        options |= {"spark.ui.enabled": "false", "spark.local.dir": str(folder), "spark.io.encryption.enabled": "false"}
    failed = False
    try:
        session: SparkSession = builder.config(map=options).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
    except Exception:  # of Java, of the network, of the cluster
        failed = True
    if failed:
        raise OptionError(
            "Spark must start.",
            found=f"no session for the master {master or 'of the configuration'}",
            fix="install Java 17 or later, and check the URL of the master",
        )
    return session


def memory_budget(spark: SparkSession) -> MemoryBudget:
    """Return how the memory that Python may use in one executor is divided between the tasks that share it."""
    if _setting(spark, "spark.master", "").split("[")[0] == "local":
        return MemoryBudget(int(available_memory() * SHARE), 1, processors())
    cores = _setting(spark, "spark.executor.cores", "1")
    given = _setting(spark, "spark.executor.pyspark.memory", "") or _setting(
        spark, "spark.executor.memory", EXECUTOR_MEMORY
    )
    return MemoryBudget(_bytes(given), 1, max(int(cores) if cores.isdigit() else 1, 1))


def tasks_at_once(spark: SparkSession) -> int:
    """Return how many tasks the cluster runs at the same time; 1 if a Connect session does not tell."""
    with contextlib.suppress(Exception):
        return max(int(spark.sparkContext.defaultParallelism), 1)
    return 1


def _setting(spark: SparkSession, name: str, default: str) -> str:
    value: Any = spark.conf.get(name, default)
    return str(value or default)


def _bytes(amount: str) -> int:
    """Return an amount as Spark writes it, such as 1536m, in bytes."""
    text = amount.strip().lower()
    unit = {"k": "KiB", "m": "MiB", "g": "GiB"}.get(text.rstrip("b")[-1:])
    return memory_from(text.rstrip("b")[:-1] + unit) if unit else memory_from(text)
