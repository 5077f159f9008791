"""All engines by name. To add an engine, add a file and one line here."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.machine import available_memory, memory_from
from sfumato.errors import OptionError, ReadError
from sfumato.sources.base import TableSource
from sfumato.sources.files import FileSource

if TYPE_CHECKING:
    from sfumato.engines.base import Engine


# Recognize frames of Spark without importing it.


def is_spark_frame(source: Any) -> bool:
    """Return whether this is a frame of Spark, classic or Connect."""
    return type(source).__module__.startswith("pyspark.sql.") and hasattr(source, "mapInArrow")


# name → module and class, imported when used
ENGINES: dict[str, tuple[str, str]] = {
    "memory": ("sfumato.engines.memory.engine", "Memory"),
    "duckdb": ("sfumato.engines.duckdb.engine", "DuckDB"),
    "spark": ("sfumato.engines.spark.engine", "Spark"),
}
AUTO = "auto"
TAKEN_BY = {"memory": "duckdb", "master": "spark"}  # options, and the engine that takes each
REFUSALS = {"memory": "cannot keep to a limit of memory", "master": "has no master"}
FREE_SHARE = 0.7  # share of the free memory that the memory engine may be expected to take

log = logging.getLogger("sfumato")


def engine_for(
    chosen: str | Engine, source: Any = None, *, memory: str | int | None = None, master: str | None = None
) -> Engine:
    """Return the engine with this name, or the engine itself; "auto" takes one that fits the source.

    ``memory`` is the limit of the whole process, for the engine duckdb. ``master`` is the URL of a cluster, for the
    engine spark.
    """
    if not isinstance(chosen, str):
        return chosen
    name = _fitting(source, memory, master) if chosen == AUTO else chosen
    if name not in ENGINES:
        raise OptionError(
            f"There is no engine {name!r}.", found=repr(name), fix=f"one of {', '.join([AUTO, *ENGINES])}"
        )
    options = {key: value for key, value in (("memory", memory), ("master", master)) if value is not None}
    for option, value in options.items():
        if TAKEN_BY[option] != name:
            raise OptionError(
                f"The engine {name!r} {REFUSALS[option]}.",
                found=f"{option} {value}",
                fix=f"--engine {TAKEN_BY[option]}",
            )
    module, class_name = ENGINES[name]
    engine: Engine = getattr(import_module(module), class_name)(**options)
    return engine


def _fitting(source: Any, memory: str | int | None, master: str | None) -> str:
    """Choose Spark for what is on a cluster, memory if the table fits into it, otherwise DuckDB; the log says why."""
    if master is not None or is_spark_frame(source):
        log.info("engine spark: %s", "a frame of Spark" if master is None else "a master is given")
        return "spark"
    if isinstance(source, str | Path):
        source = FileSource(source)
    if not isinstance(source, TableSource):
        if memory is not None:
            log.info("engine duckdb: a limit of memory is given")
        return "duckdb" if memory is not None else "memory"
    try:
        need = source.memory_needed()
    except ReadError:  # the reader reports the error later, after the target was checked
        return "memory" if memory is None else "duckdb"
    there = available_memory() if memory is None else memory_from(memory)
    name = "memory" if memory is None and need <= FREE_SHARE * there else "duckdb"
    log.info("engine %s: the table needs about %s, and there are %s of memory", name, _amount(need), _amount(there))
    return name


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
