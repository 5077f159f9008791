"""The DuckDB engine: files larger than memory, answered by SQL, cut into blocks on disk, verified as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from sfumato.engines.base import Engine, RowKeys, Session
from sfumato.engines.duckdb.blocks import BlockFiles, route_rows
from sfumato.engines.duckdb.scan import Connection, DuckDBScan, compare_stored_keys, connect
from sfumato.engines.duckdb.source import relation_of, with_declared_kinds
from sfumato.engines.out_of_core.engine import OutOfCoreSession, workspace
from sfumato.engines.out_of_core.source import OutOfCoreTable, Relation, StoredRows
from sfumato.machine import LoggedProgress, MemoryBudget, available_memory, memory_from, processors
from sfumato.params import require_int
from sfumato.plan.answers import ComparedRows
from sfumato.plan.plan import Plan
from sfumato.schema.columns import Column
from sfumato.sources.base import Destination
from sfumato.table.table import Table

T = TypeVar("T")
Item = TypeVar("Item")
SHARE = 0.5  # share of the free memory that is used if no limit is given


@dataclass(frozen=True, kw_only=True)
class DuckDB(Engine):
    """The engine for tables larger than memory: Parquet, CSV and other files, without a server.

    Questions about the table are answered by SQL, rows are sorted into blocks in a private folder next to the target,
    and each block is anonymized by itself. Every promise is verified on the files that were written before they are put
    in place. The released rows are a folder ``released.parquet`` of several files; there is no ``released.csv``.

    Parameters
    ----------
    memory : str or int, optional
        Memory that the whole process should keep to, such as ``"4GB"``; a number is in bytes. Default: half of the
        memory that is free.
    block_rows : int, optional
        Rows of a block. Default: as many as the memory allows.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=500)}
    >>> release = sf.Boxes(k=5).release(people, schema={"x": "quasi"}, engine=sf.DuckDB(memory="1GB"), into="large")
    >>> sorted(path.name for path in __import__("pathlib").Path("large").iterdir())
    ['README.txt', 'codebook.csv', 'manifest.json', 'promises.sql', 'released.parquet', 'report.html', 'report.json']
    """

    name: ClassVar[str] = "duckdb"

    memory: str | int | None = None
    block_rows: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            memory_from(self.memory)
        if self.block_rows is not None:
            require_int(self.block_rows, name="block_rows", at_least=1)

    @contextmanager
    def session(self, into: Destination | None) -> Iterator[Session[Any, Any]]:
        total = int(available_memory() * SHARE) if self.memory is None else memory_from(self.memory)
        memory = MemoryBudget(total, 1, processors())
        with workspace(into) as folder, connect(folder, memory.database, memory.workers) as connection:
            yield _Session(folder, memory, self.block_rows, connection)


@dataclass(frozen=True, repr=False)
class _Session(OutOfCoreSession):
    """One run of the engine, with its private folder and its connection."""

    name: ClassVar[str] = "duckdb"

    connection: Connection

    def relation(self, source: Any) -> Relation:
        return relation_of(source, self.folder, self.connection, self.memory.rows_bytes)

    def scan(self, rows: StoredRows) -> DuckDBScan:
        return DuckDBScan(rows, self.connection, self.memory_for(rows).batch_rows)

    def with_declared_kinds(self, rows: StoredRows, columns: Sequence[Column]) -> StoredRows:
        return with_declared_kinds(rows, columns, self.folder, self.connection)

    def route(self, plan: Plan, rows: StoredRows) -> BlockFiles:
        progress = LoggedProgress("sorting rows into blocks", rows.rows)
        tables = rows.tables(self.memory_for(rows).batch_rows)
        return route_rows(tables, plan.route, plan.blocks, self.folder / "blocks", progress.add)

    def compare(self, source: OutOfCoreTable, released: Table, keys: RowKeys) -> ComparedRows:
        shown = map(keys.key_released, released.parts())
        return compare_stored_keys(self.keys_of(source, keys), shown, self.folder, self.connection)

    def each(self, work: Callable[[Item], T], items: Sequence[Item], what: str) -> list[T]:
        progress = LoggedProgress(what, len(items))
        done = []
        with ThreadPoolExecutor(self.memory.workers) as pool:
            try:
                for result in pool.map(work, items):
                    done.append(result)
                    progress.add()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return done
