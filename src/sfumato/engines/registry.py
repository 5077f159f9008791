"""All engines by name. To add an engine, add a file and one line here."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.machine import available_memory, memory_from
from sfumato.errors import OptionError, ReadError
from sfumato.table.read import FileSource
from sfumato.table.sources import TableSource

if TYPE_CHECKING:
    from sfumato.engines.base import Engine

# name → module and class, imported when used
ENGINES: dict[str, tuple[str, str]] = {
    "memory": ("sfumato.engines.memory", "Memory"),
    "duckdb": ("sfumato.engines.duckdb.engine", "DuckDB"),
    "spark": ("sfumato.engines.spark.engine", "Spark"),
}
AUTO = "auto"
LIMITED = ("duckdb",)  # engines that keep to a limit of memory
FREE_SHARE = 0.7  # share of the free memory that the memory engine may be expected to take

log = logging.getLogger("sfumato")


def engine_for(chosen: str | Engine, source: Any = None, *, memory: str | int | None = None) -> Engine:
    """Return the engine with this name, or the engine itself; "auto" takes one that fits the source.

    ``memory`` is the limit of the whole process. Only engines that can keep to one accept it.
    """
    if not isinstance(chosen, str):
        return chosen
    name = _fitting(source, memory) if chosen == AUTO else chosen
    if name not in ENGINES:
        raise OptionError(
            f"There is no engine {name!r}.", found=repr(name), fix=f"one of {', '.join([AUTO, *ENGINES])}"
        )
    if memory is not None and name not in LIMITED:
        raise OptionError(
            f"The engine {name!r} cannot keep to a limit of memory.", found=f"memory {memory}", fix="--engine duckdb"
        )
    module, found = ENGINES[name]
    made = getattr(import_module(module), found)
    engine: Engine = made(memory=memory) if memory is not None else made()
    return engine


def _fitting(source: Any, memory: str | int | None) -> str:
    """Choose the memory engine if the table fits into memory, otherwise DuckDB; the log says why."""
    if isinstance(source, str | Path):
        source = FileSource(source)
    if not isinstance(source, TableSource):
        if memory is not None:
            log.info("engine duckdb: a limit of memory is given")
        return "duckdb" if memory is not None else "memory"
    try:
        need = source.memory_needed()
    except ReadError:  # what is wrong is said when it is read, after the target was checked
        return "memory" if memory is None else "duckdb"
    there = available_memory() if memory is None else memory_from(memory)
    name = "memory" if memory is None and need <= FREE_SHARE * there else "duckdb"
    log.info("engine %s: the table needs about %s, and there are %s of memory", name, _amount(need), _amount(there))
    return name


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
