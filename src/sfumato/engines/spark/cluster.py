"""Work on a cluster: queries, and Python functions that run on the executors, with errors that quote no cell."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from sfumato.engines.spark.watch import stage_progress
from sfumato.errors import OptionError, OutOfMemory, ReadError, SfumatoError, translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
Item = TypeVar("Item")

RESULT = "number long, result binary"
PROBES = 8  # tasks that look for the workspace
GLOB = re.compile(r"([\\{}\[\]*?])")  # characters that Spark takes for a pattern
LOST = "ExecutorLostFailure"  # mostly because a system ends processes that take too much memory
FAILURE = re.compile(r"TaskFailure: (\w+)")
NAMED = re.compile(  # Spark's names of errors that it wraps in others
    r"\[((?:FAILED_READ_FILE|TASK_WRITE_FAILED|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND)[A-Z_.]*)\]"
)
REASONS = {  # what the system says within errors of Spark, and what to try
    "No space left on device": "free space on the disks of the target and of the executors, or into= another folder",
    "Permission denied": "executors that run as the same user as the driver, and a source that this user may read",
}


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

    def read(self, files: Sequence[Path]) -> DataFrame:
        """Return the rows of Parquet files."""
        return self.run(lambda: self.spark.read.parquet(*map(escape_path, files)))

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

    def run_stages(self, work: Callable[[], T], what: str, stages: int = 1) -> T:
        """Do work of Spark that takes long; the log tells how far it is."""
        with stage_progress(self.spark, what, stages):
            return self.run(work)

    def run(self, work: Callable[[], T]) -> T:
        """Do work of Spark, with its errors translated."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        return translated(work, (PySparkException, Py4JError), _named)


def escape_path(file: Path) -> str:
    """Return the path of a local file for Spark, which would take some characters for a pattern."""
    return "file://" + GLOB.sub(r"\\\1", str(file.absolute()))


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
        return translated(work, Exception, without_text)
    except SfumatoError as error:
        return Refusal(error)


def without_text(error: Exception) -> Exception:
    """Return the error to raise on an executor: one of this package as it is, another one without its text."""
    if isinstance(error, SfumatoError):
        return error
    reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
    return TaskFailure(f"{type(error).__name__} {reason}".strip())


def _named(error: Exception) -> SfumatoError:
    text = str(error)
    for reason, fix in REASONS.items():
        if reason in text:
            return OptionError("The cluster must be able to do the work.", found=reason.lower(), fix=fix)
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
