"""Connections to DuckDB with bounded memory, and queries whose errors quote no cell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import OutOfMemory, ReadError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@contextlib.contextmanager
def connect(folder: Path, memory: int, threads: int) -> Iterator[Connection]:
    """Yield a connection that keeps to this memory and writes what does not fit into a private folder."""
    import duckdb

    spill = folder / "duckdb"
    spill.mkdir(mode=0o700, exist_ok=True)
    settings: dict[str, Any] = {
        "memory_limit": f"{memory // 10**6}MB",
        "temp_directory": str(spill),
        "threads": threads,
        "preserve_insertion_order": False,
    }
    with contextlib.closing(duckdb.connect(":memory:", config=settings)) as database:
        yield Connection(database)


class Connection:
    """A connection to DuckDB."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self._database = database

    def table(self, query: str) -> pa.Table:
        """Return the result of a query."""
        import duckdb

        failure: type[Exception] | None = None
        try:
            return self._result(query)
        except duckdb.OutOfMemoryException:
            failure = OutOfMemory
        except duckdb.Error:  # its text may quote cells
            failure = ReadError
        if failure is OutOfMemory:
            raise OutOfMemory("The memory does not suffice for this table.", fix="a larger --memory")
        raise ReadError("The rows cannot be read.", found="a broken file, or a disk without space")

    def _result(self, query: str) -> pa.Table:
        return self._database.cursor().sql(query).to_arrow_table()

    def row(self, query: str) -> dict[str, Any]:
        """Return the only row of the result of a query."""
        row: dict[str, Any] = self.table(query).to_pylist()[0]
        return row
