"""Tables in a SQLite file."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.database.database_file import DatabaseFile
from sfumato.engines.database.driver import BATCH_ROWS, ColumnTypes, NewTable, quoted_column
from sfumato.errors import ReadError, RequestError, SfumatoError

COMMENTS = "sfumato_comments"  # SQLite has no comments on tables, so they are in a table of their own


@dataclass(frozen=True, repr=False)
class SQLiteFile(DatabaseFile):
    """A SQLite database in a file. A column has the type that all its cells share; mixed cells become text."""

    product: ClassVar[str] = "SQLite"

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with self._connected() as connection:
            connection.execute("BEGIN")  # types and rows are of one state, whatever others write meanwhile
            types = self._types(connection, query)
            cursor = connection.execute(query)
            names = [one[0] for one in cursor.description]
            while rows := cursor.fetchmany(BATCH_ROWS):
                cells = zip(*rows, strict=True)
                yield pa.table([_array(list(column), kind) for column, kind in zip(cells, types, strict=True)], names)

    def _types(self, connection: sqlite3.Connection, query: str) -> list[pa.DataType]:
        """Return a type for each column, from the types of all its cells."""
        names = [one[0] for one in connection.execute(f"SELECT * FROM ({query}) LIMIT 0").description]
        asked = ", ".join(f"group_concat(DISTINCT typeof({quoted_column(name)}))" for name in names)
        cell_types = connection.execute(f"SELECT {asked} FROM ({query})").fetchone()
        return [_type_of(set((types or "null").split(",")) - {"null"}) for types in cell_types]

    def count(self, query: str) -> tuple[int, int]:
        def work(connection: sqlite3.Connection) -> tuple[int, int]:
            rows = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()[0]
            return int(rows), len(connection.execute(f"SELECT * FROM ({query}) LIMIT 0").description)

        return self._do(work)

    def column_types(self, table: str) -> ColumnTypes:
        rows = self._rows(f"PRAGMA table_info({quoted_column(table)})")
        return ColumnTypes({str(one[1]): str(one[2]) for one in rows if one[2]})

    def exists(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?"
        return self.path.exists() and bool(self._rows(query, table))

    def comment(self, table: str) -> str | None:
        rows = self._rows(f"SELECT text FROM {COMMENTS} WHERE name = ?", table) if self.exists(COMMENTS) else []
        return str(rows[0][0]) if rows else None

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        made = f"made_{secrets.token_hex(8)}"
        types = {one.name: new.declared_types.get(one.name) or _type_for(one.type) for one in new.schema}
        columns = ", ".join(f"{quoted_column(name)} {kind}" for name, kind in types.items())
        places = ", ".join("?" for _ in types)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE {quoted_column(made)} ({columns})")
            for batch in batches:
                cells = zip(*(_cells(column) for column in batch.columns), strict=True)
                connection.executemany(f"INSERT INTO {quoted_column(made)} VALUES ({places})", cells)
            if new.replace:
                connection.execute(f"DROP TABLE IF EXISTS {quoted_column(new.name)}")
            connection.execute(f"ALTER TABLE {quoted_column(made)} RENAME TO {quoted_column(new.name)}")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {COMMENTS} (name TEXT PRIMARY KEY, text TEXT)")
            connection.execute(f"INSERT OR REPLACE INTO {COMMENTS} VALUES (?, ?)", [new.name, new.comment])
            connection.execute("COMMIT")

        self._do(work, writing=True)

    def _connect(self, path: Path, *, writing: bool) -> sqlite3.Connection:
        return sqlite3.connect(path, isolation_level=None)

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        return sqlite3.Error, OSError

    def _describe_error(self, message: str, error: Exception) -> SfumatoError:
        if isinstance(error, sqlite3.OperationalError):
            found = "there is no such table, the file is locked, or the disk is full"
            return RequestError(message, found=found, fix="check the table")
        found = "the file is broken, or the rows do not fit the table"
        return ReadError(message, found=found, fix="check the file")


def _type_of(cell_types: set[str]) -> pa.DataType:
    if cell_types == {"integer"}:
        return pa.int64()
    if cell_types and cell_types <= {"integer", "real"}:
        return pa.float64()
    return pa.binary() if cell_types == {"blob"} else pa.string()


def _array(cells: list[object], kind: pa.DataType) -> pa.Array:
    if pt.is_string(kind):
        return pa.array([None if cell is None else str(cell) for cell in cells], kind)
    return pa.array(cells, kind)


def _type_for(kind: pa.DataType) -> str:
    if pt.is_integer(kind) or pt.is_boolean(kind):
        return "INTEGER"
    return "REAL" if pt.is_floating(kind) else "TEXT"


def _cells(column: pa.ChunkedArray) -> list[object]:
    kind = column.type.value_type if pt.is_dictionary(column.type) else column.type
    plain = column.cast(kind)
    return list(
        plain.cast(pa.string()).to_pylist() if pt.is_temporal(kind) or pt.is_decimal(kind) else plain.to_pylist()
    )
