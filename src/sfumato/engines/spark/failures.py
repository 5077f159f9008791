"""Failures on a cluster: without the text of errors on executors, which may quote cells, and in a few words here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.errors import MissingExtra, OptionError, OutOfMemory, ReadError, SfumatoError, without_cause

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


def translate_error(error: Exception) -> SfumatoError:
    """Return the error to raise on the driver for one of Spark or Java."""
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
