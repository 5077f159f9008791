"""Tables in a DuckDB file."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.engines.database.database_file import DatabaseFile
from sfumato.engines.database.driver import BATCH_ROWS, ColumnTypes, NewTable, quoted_column, quoted_text
from sfumato.errors import ReadError, RequestError, SfumatoError


@dataclass(frozen=True, repr=False)
class DuckDBFile(DatabaseFile):
    """A DuckDB database in a file."""

    product: ClassVar[str] = "DuckDB"

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with self._connected() as connection:
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
        return self.path.exists() and bool(self._rows(f"SELECT 1 FROM duckdb_tables() WHERE {_has_name(table)}"))

    def comment(self, table: str) -> str | None:
        rows = self._rows(f"SELECT comment FROM duckdb_tables() WHERE {_has_name(table)}")
        return str(rows[0][0]) if rows and rows[0][0] is not None else None

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        made = quoted_column(f"made_{secrets.token_hex(8)}")

        def work(connection: Any) -> None:
            connection.execute("BEGIN")
            connection.register("rows_to_write", new.schema.empty_table())
            connection.execute(f"CREATE TABLE {made} AS SELECT * FROM rows_to_write")
            for batch in batches:
                connection.register("rows_to_write", batch)
                connection.execute(f"INSERT INTO {made} SELECT * FROM rows_to_write")
            for column, kind in new.declared_types.items():
                connection.execute(f"ALTER TABLE {made} ALTER {quoted_column(column)} TYPE {kind}")
            for column, text in new.comments.items():
                connection.execute(f"COMMENT ON COLUMN {made}.{quoted_column(column)} IS {quoted_text(text)}")
            connection.execute(f"COMMENT ON TABLE {made} IS {quoted_text(new.comment)}")
            if new.replace:
                connection.execute(f"DROP TABLE IF EXISTS {quoted_column(new.name)}")
            connection.execute(f"ALTER TABLE {made} RENAME TO {quoted_column(new.name)}")
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
            return RequestError(message, found="there is no such table, or it exists already", fix="check its name")
        if isinstance(error, duckdb.IOException):
            found = "the file is broken, locked by another process, or the disk is full"
            return ReadError(message, found=found, fix="check the file")
        return RequestError(message, found="the query is not valid, or the rows do not fit", fix="check the query")


def _has_name(table: str) -> str:
    return f"table_name = {quoted_text(table)}"
