"""Work on a cluster: sessions, queries and functions on the executors, progress, and errors that quote no cell."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import secrets
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sfumato.engines.out_of_core.source import Footer, footers_of
from sfumato.errors import MissingExtra, OptionError, OutOfMemory, ReadError, SfumatoError, without_cause
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
LOST = "ExecutorLostFailure"  # mostly because a system ends processes that take too much memory
FAILURE = re.compile(r"TaskFailure: (\w+)")
NAMED = re.compile(  # Spark's names of errors that it wraps in others
    r"\[((?:FAILED_READ_FILE|TASK_WRITE_FAILED|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND)[A-Z_.]*)\]"
)
PACKAGES = ("sfumato", "pyarrow", "pandas", "numpy", "numba", "scipy", "duckdb", "pyspark")
ABSENT = re.compile(  # what workers of Spark say that run another Python, or one without the packages
    r"No module named '(\w+)|PYTHON_VERSION_MISMATCH|Cannot run program \"|(PyArrow|Pandas) >= [\d.]+ must be installed"
)


@dataclass(frozen=True)
class KnownFailure:
    """A failure that Spark tells at length, in a few words: how it is recognised, and what to try."""

    text: str  # pattern of what Spark, Java or the system says
    must: str
    found: str
    fix: str
    error: type[SfumatoError] = OptionError


KNOWN_FAILURES = (
    KnownFailure(
        r"No space left on device",
        "The cluster must be able to do the work.",
        "no space left on device",
        "free space on the disks of the target and of the executors, or into= another folder",
    ),
    KnownFailure(
        r"Permission denied",
        "The cluster must be able to do the work.",
        "permission denied",
        "executors that run as the same user as the driver, and a source that this user may read",
    ),
    KnownFailure(
        r"spark\.driver\.maxResultSize",
        "The driver must hold the results of all tasks.",
        "results larger than spark.driver.maxResultSize",
        "a larger spark.driver.maxResultSize, fewer and larger blocks (block_rows), or fewer columns",
        OutOfMemory,
    ),
    KnownFailure(
        r"OutOfMemoryError|GC overhead limit exceeded",
        "The processes of Java must have enough memory.",
        "a full heap",
        "a larger spark.executor.memory and spark.driver.memory",
        OutOfMemory,
    ),
    KnownFailure(
        r"Python worker exited unexpectedly|Python worker failed to connect back",
        "The Python workers of the executors must live.",
        "a worker that was ended, mostly because it took too much memory",
        "a larger spark.executor.memoryOverhead or spark.executor.pyspark.memory, or a smaller block_rows",
        OutOfMemory,
    ),
    KnownFailure(
        r"No FileSystem for scheme|UNSUPPORTED_FILE_SYSTEM|Class \S*FileSystem not found",
        "Spark must have the file system of the URL.",
        "no library for this scheme",
        "the package of the store, such as --packages org.apache.hadoop:hadoop-aws for s3a://",
    ),
    KnownFailure(
        r"AccessDenied|Forbidden|Status Code: 403|NoAuthWithAWSException|No AWS Credentials",
        "The store must accept the credentials of the cluster.",
        "access denied",
        "a role or a key that may read the source, set for the executors as well",
    ),
    KnownFailure(
        r"PATH_NOT_FOUND|TABLE_OR_VIEW_NOT_FOUND",
        "The source must exist.",
        "no such path, table or view",
        "check its name, and the catalog or the temporary views of this session",
        ReadError,
    ),
    KnownFailure(
        r"CANNOT_MERGE_SCHEMAS|Failed merging schema",
        "Files that are read together must have the same columns with the same types.",
        "files with other types",
        "read them one by one",
        ReadError,
    ),
    KnownFailure(
        r"SparkContext was shut ?down|Cannot call methods on a stopped SparkContext|Connection refused",
        "The session of Spark must live until the release is made.",
        "a session that ended",
        "a new session; the log of the driver says why it ended",
    ),
)


class TaskFailure(Exception):
    """A failed task, which Spark may try again. It tells only the type of the error: the text may quote cells."""


@dataclass(frozen=True)
class Refusal:
    """An error of this package on an executor: trying again would not help, so it is a result of the task."""

    error: SfumatoError


@dataclass(frozen=True, repr=False)
class Cluster:
    """A Spark session, and the folder that driver and executors share."""

    spark: SparkSession
    folder: Path

    def require_shared(self) -> None:
        """Raise unless the executors find the folder of the driver."""
        if not all(self.each(Path.is_dir, [self.folder] * PROBES, "looking for the folder")):
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
        """Return a small frame."""
        return self.run(frame.toArrow)

    def each(self, work: Callable[[Item], T], items: Sequence[Item], what: str) -> list[T]:
        """Do the work for every item, one task each, and return the results in the order of the items.

        ``work`` must be picklable. A task may run twice, also at the same time. ``what`` names the work in the log.
        """
        if not items:
            return []
        count = len(items)
        numbers = self.spark.range(0, count, 1, count)
        replies = self.run_stages(numbers.mapInArrow(_task(work, tuple(items)), RESULT).toArrow, what)
        results = dict(zip(*(replies.column(name).to_pylist() for name in ("number", "result")), strict=True))
        outcomes = [pickle.loads(results[number]) for number in range(count)]
        for outcome in outcomes:
            if isinstance(outcome, Refusal):
                raise outcome.error
        return outcomes

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

        return without_cause(work, (PySparkException, Py4JError), _translate_error)


def _task(work: Callable[[Item], T], items: tuple[Item, ...]) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    def results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                result = pickle.dumps(guard(partial(work, items[number])))
                yield pa.record_batch({"number": pa.array([number]), "result": pa.array([result], pa.binary())})

    return results


def guard(work: Callable[[], Any]) -> Any:
    """Do work on an executor; its errors become results, or failures without text."""
    try:
        return without_cause(work, Exception, without_text)
    except SfumatoError as error:
        return Refusal(error)


def without_text(error: Exception) -> Exception:
    """Return the error to raise on an executor: one of this package as it is, another one without its text."""
    if isinstance(error, SfumatoError):
        return error
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
    if isinstance(error, ModuleNotFoundError) and error.name:
        reason = f"No module named '{error.name}'"
    return TaskFailure(f"{type(error).__name__} {reason}".strip())


def _translate_error(error: Exception) -> SfumatoError:
    text = str(error)
    known = next((one for one in KNOWN_FAILURES if re.search(one.text, text)), None)
    if known is not None:
        return known.error(known.must, found=known.found, fix=known.fix)
    if absent := ABSENT.search(text):
        package = next((name for name in absent.groups() if name in PACKAGES), "")
        return MissingExtra(
            "The Python of the executors must be that of the driver, with the same packages.",
            found=f"no package {package}" if package else "another Python, or a package that is missing",
            fix="pip install 'sfumato[spark]' on every executor, and PYSPARK_PYTHON with the path of that Python",
        )
    failed = FAILURE.search(text)
    if LOST in text or (failed and "Memory" in failed[1]):
        return OutOfMemory(
            "The executors must have enough memory for a block.",
            found=failed[1] if failed else "executors that were lost again and again",
            fix="a smaller block_rows, or a larger spark.executor.memory",
        )
    if failed:
        return ReadError("A task on the cluster failed.", found=failed[1], fix="the logs of the executors")
    condition = getattr(error, "getCondition", lambda: None)()
    named = NAMED.findall(text)  # the cause comes last
    return ReadError(
        "Spark could not carry out the work.",
        found=named[-1] if named else condition or type(error).__name__,
        fix="check the source and the space on the disks; the logs of Spark say more",
    )


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
