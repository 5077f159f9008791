"""Databases in files, SQLite and DuckDB: a new file appears only with the table that was to be written into it."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ReadError, RequestError, SfumatoError
from sfumato.private_folder import PrivateFolder
from sfumato.sources.database_driver import (
    BATCH_ROWS,
    ColumnTypes,
    Driver,
    NewTable,
    quote_column,
    quote_name,
    quote_text,
    require_nothing_lost,
)


@dataclass(frozen=True, repr=False)
class DatabaseFile(Driver):
    """A database in a file."""

    product: ClassVar[str]  # what makes such files
    path: Path

    def _replace_error(self, error: Exception) -> SfumatoError:
        message = f"{self.product} could not do this in {self.path.name}."
        if isinstance(error, OSError) and error.strerror:  # Arrow's own have no such text
            return RequestError(message, found=error.strerror, fix="another file")
        return self._describe_error(message, error)

    @abstractmethod
    def _describe_error(self, message: str, error: Exception) -> SfumatoError:
        """Return the error with this message for an error of the library."""

    @abstractmethod
    def _connect(self, path: Path, *, writing: bool) -> Any:
        """Return a connection to a file; it must be closed."""

    def _rows(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        return self._do(lambda connection: list(connection.execute(query, values).fetchall()))

    @contextlib.contextmanager
    def _open(self, *, writing: bool = False) -> Iterator[Any]:
        if not writing and not self.path.is_file():  # a library would make an empty one
            raise ReadError(f"There is no file {self.path.name!r}.", fix="check the path")
        place = contextlib.nullcontext(self.path) if self.path.exists() else self._new_file()
        with place as path, contextlib.closing(self._connect(path, writing=writing)) as connection:
            yield connection

    @contextlib.contextmanager
    def _new_file(self) -> Iterator[Path]:
        """Yield a path in a private folder; the file that is made there is put in place if nothing fails.

        So neither an error nor a kill leaves an empty database, and of two runs that make the same file one fails. What
        a killed run left is removed by the next one.
        """
        private = PrivateFolder.create(f".{self.path.name}-", self.path.parent)
        made = private.path / self.path.name
        try:
            yield made
            self._put_in_place(made)
        finally:
            private.remove()

    def _put_in_place(self, made: Path) -> None:
        exists = False
        try:
            os.link(made, self.path)  # unlike a rename, it replaces nothing
        except FileExistsError:
            exists = True
        except OSError:  # a disk without links
            exists = self.path.exists()
            if not exists:
                made.rename(self.path)
        if exists:
            raise RequestError(
                f"The database {self.path.name!r} must not be made by another process at the same time.",
                found="a file that was not there at the start",
                fix="try again",
            )


COMMENTS = "sfumato_comments"  # SQLite has no comments on tables, so they are in a table of their own


@dataclass(frozen=True, repr=False)
class SQLiteFile(DatabaseFile):
    """A SQLite database in a file. A column has the type that all its cells share; mixed cells become text."""

    product: ClassVar[str] = "SQLite"

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with self._open() as connection:
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
        asked = ", ".join(f"group_concat(DISTINCT typeof({quote_column(name)}))" for name in names)
        cell_types = connection.execute(f"SELECT {asked} FROM ({query})").fetchone()
        return [_type_of(set((types or "null").split(",")) - {"null"}) for types in cell_types]

    def count(self, query: str) -> tuple[int, int]:
        def work(connection: sqlite3.Connection) -> tuple[int, int]:
            rows = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()[0]
            return int(rows), len(connection.execute(f"SELECT * FROM ({query}) LIMIT 0").description)

        return self._do(work)

    def column_types(self, table: str) -> ColumnTypes:
        rows = self._rows(f"PRAGMA table_info({quote_column(_in_main(table))})")
        return ColumnTypes({str(one[1]): str(one[2]) for one in rows if one[2]})

    def exists(self, table: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?"
        return bool(_in_main(table)) and self.path.exists() and bool(self._rows(query, _in_main(table)))

    def require_replaceable(self, table: str) -> None:
        """Raise if the table is a view, or has what is dropped with it."""
        query = f"""
            SELECT CASE type WHEN 'view' THEN 'a view' WHEN 'index' THEN 'indexes' ELSE 'triggers' END
            FROM sqlite_master WHERE lower(tbl_name) = lower({quote_text(_in_main(table))})
                AND type <> 'table' AND sql IS NOT NULL GROUP BY 1
        """
        require_nothing_lost(table, [what for (what,) in self._rows(query)] if self.path.exists() else [])

    def comment(self, table: str) -> str | None:
        name = _in_main(table)
        rows = self._rows(f"SELECT text FROM {COMMENTS} WHERE name = ?", name) if self.exists(COMMENTS) else []
        return str(rows[0][0]) if rows else None

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        made, name = f"made_{secrets.token_hex(8)}", _in_main(new.name)
        types = {one.name: new.declared_types.get(one.name) or _type_for(one.type) for one in new.schema}
        columns = ", ".join(f"{quote_column(column)} {kind}" for column, kind in types.items())
        places = ", ".join("?" for _ in types)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"CREATE TABLE {quote_column(made)} ({columns})")
            for batch in batches:
                cells = zip(*(_cells(column) for column in batch.columns), strict=True)
                connection.executemany(f"INSERT INTO {quote_column(made)} VALUES ({places})", cells)
            if new.replace:
                connection.execute(f"DROP TABLE IF EXISTS {quote_column(name)}")
            connection.execute(f"ALTER TABLE {quote_column(made)} RENAME TO {quote_column(name)}")
            connection.execute(f"CREATE TABLE IF NOT EXISTS {COMMENTS} (name TEXT PRIMARY KEY, text TEXT)")
            connection.execute(f"INSERT OR REPLACE INTO {COMMENTS} VALUES (?, ?)", [name, new.comment])
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


def _in_main(table: str) -> str:
    """Return the name of a table without its schema, which is always ``main`` in a file of SQLite."""
    place, _, name = table.rpartition(".")
    if place.lower() not in ("", "main"):
        raise RequestError(
            "A file of SQLite has no schema but main.", found=f"the schema {place!r}", fix="the name of the table alone"
        )
    return name


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


@dataclass(frozen=True, repr=False)
class DuckDBFile(DatabaseFile):
    """A DuckDB database in a file."""

    product: ClassVar[str] = "DuckDB"

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with self._open() as connection:
            reader = connection.sql(query).to_arrow_reader(BATCH_ROWS)
            for batch in reader:
                yield pa.Table.from_batches([batch], reader.schema)

    def count(self, query: str) -> tuple[int, int]:
        rows = self._rows(f"SELECT count(*) FROM ({query})")[0][0]
        return int(rows), len(self._rows(f"DESCRIBE SELECT * FROM ({query})"))

    def column_types(self, table: str) -> ColumnTypes:
        rows = self._rows(f"SELECT column_name, data_type, comment FROM duckdb_columns() WHERE {_has_name(table)}")
        return ColumnTypes({name: kind for name, kind, _ in rows}, {name: text for name, _, text in rows if text})

    def exists(self, table: str) -> bool:
        query = f"SELECT 1 FROM information_schema.tables WHERE {_has_name(table, schema='table_schema')}"
        return self.path.exists() and bool(self._rows(query))

    def require_replaceable(self, table: str) -> None:
        """Raise if the table is a view, or has what is dropped with it."""
        query = f"""
            SELECT 'a view' FROM duckdb_views() WHERE {_has_name(table, name="view_name")}
            UNION SELECT 'indexes' FROM duckdb_indexes() WHERE {_has_name(table)}
        """
        require_nothing_lost(table, [what for (what,) in self._rows(query)] if self.path.exists() else [])

    def comment(self, table: str) -> str | None:
        rows = self._rows(f"SELECT comment FROM duckdb_tables() WHERE {_has_name(table)}")
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        place, _, name = new.name.rpartition(".")
        made = quote_name(f"{place}.made_{secrets.token_hex(8)}".lstrip("."))

        def work(connection: Any) -> None:
            connection.execute("BEGIN")
            connection.register("rows_to_write", new.schema.empty_table())
            connection.execute(f"CREATE TABLE {made} AS SELECT * FROM rows_to_write")
            for batch in batches:
                connection.register("rows_to_write", batch)
                connection.execute(f"INSERT INTO {made} SELECT * FROM rows_to_write")
            for column, kind in new.declared_types.items():
                connection.execute(f"ALTER TABLE {made} ALTER {quote_column(column)} TYPE {kind}")
            for column, text in new.comments.items():
                connection.execute(f"COMMENT ON COLUMN {made}.{quote_column(column)} IS {quote_text(text)}")
            connection.execute(f"COMMENT ON TABLE {made} IS {quote_text(new.comment)}")
            if new.replace:
                connection.execute(f"DROP TABLE IF EXISTS {quote_name(new.name)}")
            connection.execute(f"ALTER TABLE {made} RENAME TO {quote_column(name)}")
            connection.execute("COMMIT")

        self._do(work, writing=True)

    def _connect(self, path: Path, *, writing: bool) -> Any:
        import duckdb

        return duckdb.connect(str(path), read_only=not writing)

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        import duckdb

        return duckdb.Error, OSError

    def _describe_error(self, message: str, error: Exception) -> SfumatoError:
        import duckdb

        if isinstance(error, duckdb.CatalogException):
            found = "there is no such table or schema, or it exists already"
            return RequestError(message, found=found, fix="check its name")
        is_full = "No space left" in str(error)  # an error of the commit has another type
        if isinstance(error, duckdb.IOException) or is_full:
            found = "the file is broken, locked by another process, or the disk is full"
            return ReadError(message, found=found, fix="check the file")
        return RequestError(message, found="the query is not valid, or the rows do not fit", fix="check the query")


def _has_name(table: str, *, name: str = "table_name", schema: str = "schema_name") -> str:
    """Return the condition for the rows about a table in the views of DuckDB, which call these columns so."""
    place, _, alone = table.rpartition(".")
    known = quote_text(place.rpartition(".")[2]) if place else "current_schema()"
    return f"lower({name}) = lower({quote_text(alone)}) AND lower({schema}) = lower({known})"
