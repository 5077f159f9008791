"""Spark sessions: the one that is given or active, or a new one for a master."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.machine import available_memory, memory_from, processors
from sfumato.engines.stored.memory import MemoryBudget
from sfumato.errors import MissingExtra, OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PANDAS_WARNING = "PySpark does not yet fully support pandas"  # which is not used here
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
        with warnings.catch_warnings():
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


def _start_session(master: str | None, folder: Path) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("sfumato")
    options = {"spark.ui.showConsoleProgress": "false", "spark.io.encryption.enabled": "true"}
    if master is not None:
        builder = builder.master(master)
    if (master or "local").startswith("local"):
        options |= {"spark.ui.enabled": "false", "spark.local.dir": str(folder), "spark.io.encryption.enabled": "false"}
        options |= {} if "PYSPARK_PYTHON" in os.environ else {"spark.pyspark.python": sys.executable}
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
