"""MySQL and MariaDB by PyMySQL.

These servers end a transaction at each change of a table's definition. So rows are written into a table of another
name, and one RENAME puts it, and the table with its manifest, in place: both or neither. Comments are too short for a
manifest, which is therefore in a table beside the rows. A writer holds a lock of the server with the name of its table,
so that the next one knows and removes the tables of a writer that was killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import MissingExtra, ReadError, RequestError, SfumatoError, without_cause
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

SETTINGS = "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES', time_zone = '+00:00'"
SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"
MANIFEST = "_manifest"  # what the name of the table beside the rows ends with
NAME_CHARACTERS = 64
INSERTED = 1_000  # rows of one statement
REASONS = {  # number of the error → what is wrong, and what to try
    1146: ("there is no such table", "check the name of the table"),
    1049: ("there is no such database", "check the URL"),
    1044: ("permission denied", "a user who may read the source and create tables"),
    1045: ("the server does not accept the user", "MYSQL_PWD, or the file ~/.my.cnf"),
    1142: ("permission denied", "a user who may read the source and create tables"),
    1050: ("the table exists already", "--replace, or another name"),
    1064: ("the query is not valid", "check the query"),
    1054: ("the query is not valid", "check the query"),
    1060: ("a name of a column occurs twice in the query", "give the columns different names"),
    1117: ("more columns than a table can have", "fewer columns, or a folder of files"),
    1118: ("more columns than a table can have", "fewer columns, or a folder of files"),
    1792: ("the query would change the database, and a source is only read", "a query that only reads"),
    1365: ("the query divides by zero", "check the query"),
    1021: ("the server has no space left", "free space on the server"),
    1114: ("the server has no space left", "free space on the server"),
    1205: ("another transaction holds the rows", "try again"),
    1213: ("another transaction changed the same rows", "try again"),
    2003: ("no connection to the server", "check the URL, and that the server runs"),
    2006: ("the connection was lost", "try again; the log of the server says why"),
    2013: ("the connection was lost", "try again; the log of the server says why"),
}
LOST = """
    SELECT 'indexes' AS what FROM information_schema.statistics WHERE {own}
    UNION SELECT 'triggers' FROM information_schema.triggers
        WHERE event_object_schema = {schema} AND event_object_table = {table}
    UNION SELECT 'foreign keys' FROM information_schema.key_column_usage
        WHERE (({own}) OR (referenced_table_schema = {schema} AND referenced_table_name = {table}))
        AND referenced_table_name IS NOT NULL
    UNION SELECT 'rights of other users' FROM information_schema.table_privileges WHERE {own}
    UNION SELECT 'a view' FROM information_schema.views WHERE {own}
"""  # what a new table in the place of the old one would not have


@dataclass(frozen=True, repr=False)
class MySQL(Driver):
    """A server of MySQL or MariaDB; a password comes from MYSQL_PWD or from ~/.my.cnf."""

    url: str

    def _batches(self, query: str) -> Iterator[pa.Table]:
        from pymysql.cursors import SSCursor

        with self._open() as connection, connection.cursor(SSCursor) as cursor:
            cursor.execute(query)
            fields = [_Column.of(one) for one in cursor._result.fields]
            _require_different([one.name for one in fields])
            while rows := cursor.fetchmany(BATCH_ROWS):
                cells = zip(*rows, strict=True)
                arrays = [one.array(column) for one, column in zip(fields, cells, strict=True)]
                yield pa.table(arrays, names=[one.name for one in fields])

    def count(self, query: str) -> tuple[int, int]:
        def work(connection: Any) -> tuple[int, int]:
            rows = _rows(connection, f"SELECT count(*) FROM ({query}) AS source")[0][0]
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT * FROM ({query}) AS source LIMIT 0")
                return int(rows), len(cursor.description)

        return self._do(work)

    def column_types(self, table: str) -> ColumnTypes:
        query = f"SELECT column_name, column_type, column_comment FROM information_schema.columns WHERE {_own(table)}"
        columns = self._do(partial(_rows, query=query))
        return ColumnTypes(
            {name: _text(kind) for name, kind, _ in columns}, {name: note for name, _, note in columns if note}
        )

    def exists(self, table: str) -> bool:
        return bool(self._do(partial(_rows, query=f"SELECT 1 FROM information_schema.tables WHERE {_own(table)}")))

    def comment(self, table: str) -> str | None:
        """Return the manifest in the table beside the rows."""
        beside = f"{table}{MANIFEST}"
        if not self.exists(beside):
            return None
        rows = self._do(partial(_rows, query=f"SELECT manifest FROM {quote_name(beside)}"))
        return str(rows[0][0]) if len(rows) == 1 else None

    def require_replaceable(self, table: str) -> None:
        self._do(partial(_require_nothing_lost, table=table))

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        _require_names([*new.name.split("."), f"{new.name.rpartition('.')[2]}{MANIFEST}", *new.schema.names])
        made = f"sfumato_{secrets.token_hex(8)}"
        place = new.name.rpartition(".")[0]
        waiting = {new.name: made, f"{new.name}{MANIFEST}": f"{made}{MANIFEST}"}
        full = {name: f"{place}.{one}" if place else one for name, one in waiting.items()}

        def work(connection: Any) -> None:
            _run(connection, f"SELECT get_lock({quote_text(made)}, 0)")
            _sweep(connection, place)
            try:
                _fill(connection, full[new.name], new, batches)
                beside = quote_name(full[f"{new.name}{MANIFEST}"])
                _run(connection, f"CREATE TABLE {beside} (manifest LONGTEXT CHARACTER SET utf8mb4)")
                _run(connection, f"INSERT INTO {beside} VALUES (%s)", [new.comment])
                connection.commit()
                _put_in_place(connection, full, new)
            finally:
                for name in full.values():  # what is still there was not put in place, or is the old release
                    _run(connection, f"DROP TABLE IF EXISTS {quote_name(name)}")
                    _run(connection, f"DROP TABLE IF EXISTS {quote_name(f'{name}_old')}")

        self._do(work, writing=True)

    @contextlib.contextmanager
    def _open(self, *, writing: bool = False) -> Iterator[Any]:
        """Yield a connection; its transaction is one snapshot that only reads, unless it may write."""
        import pymysql

        opened = without_cause(partial(pymysql.connect, **_connection(self.url)), self._errors, self._replace_error)
        with contextlib.closing(opened) as connection:
            _run(connection, SETTINGS)
            if not writing:
                _run(connection, SNAPSHOT)
            yield connection

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        try:
            import pymysql
        except ImportError:
            raise MissingExtra(
                "MySQL and MariaDB need a driver that is not installed.", fix="pip install 'sfumato[mysql]'"
            ) from None
        return (pymysql.err.MySQLError,)

    def _replace_error(self, error: Exception) -> SfumatoError:
        """Return the error for a number of the server, without its text, which may quote cells."""
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        if number in REASONS:
            kind = ReadError if number in (1021, 1114, 1205, 1213, 2003, 2006, 2013) else RequestError
            return kind("The server could not do this.", found=REASONS[number][0], fix=REASONS[number][1])
        found = f"error {number}" if number else type(error).__name__
        return ReadError("The server could not do this.", found=found, fix="look into the log of the server")


def _connection(url: str) -> dict[str, Any]:
    """Return how to connect; what the URL does not say comes from the environment and from ~/.my.cnf."""
    parts = urlsplit(url)
    given = {
        "host": parts.hostname,
        "port": parts.port,
        "user": unquote(parts.username) if parts.username else None,
        "password": unquote(parts.password) if parts.password else os.environ.get("MYSQL_PWD"),
        "database": unquote(parts.path.lstrip("/")) or None,
        "unix_socket": parse_qs(parts.query).get("unix_socket", [None])[0],
    }
    file = Path.home() / ".my.cnf"
    known = {"read_default_file": str(file)} if file.is_file() else {}
    return known | {"charset": "utf8mb4", **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, repr=False)
class _Column:
    """A column of a query, and the type that its cells get: exact decimals become numbers, other types text."""

    name: str
    type: pa.DataType

    @classmethod
    def of(cls, field: Any) -> _Column:
        from pymysql.constants import FIELD_TYPE as KIND
        from pymysql.constants import FLAG

        whole = (KIND.TINY, KIND.SHORT, KIND.LONG, KIND.INT24, KIND.LONGLONG, KIND.YEAR)
        exact = (KIND.DECIMAL, KIND.NEWDECIMAL)
        if field.type_code == KIND.LONGLONG and field.flags & FLAG.UNSIGNED:
            return cls(field.name, pa.uint64())
        if field.type_code in whole or (field.type_code in exact and not field.scale and field.length <= 18):
            return cls(field.name, pa.int64())
        if field.type_code in (*exact, KIND.FLOAT, KIND.DOUBLE):
            return cls(field.name, pa.float64())
        kinds = {
            KIND.DATE: pa.date32(),
            KIND.NEWDATE: pa.date32(),
            KIND.DATETIME: pa.timestamp("us"),
            KIND.TIMESTAMP: pa.timestamp("us", "UTC"),
        }
        return cls(field.name, kinds.get(field.type_code, pa.string()))

    def array(self, cells: Sequence[Any]) -> pa.Array:
        """Return cells of the library as an array; a date with a month or day 0 is missing."""
        if pt.is_string(self.type):
            return pa.array([None if cell is None else _text(cell) for cell in cells], pa.string())
        if pt.is_date(self.type) or pt.is_timestamp(self.type):
            return pa.array([None if isinstance(cell, str) else cell for cell in cells], self.type)
        as_number: Callable[[Any], Any] = float if pt.is_floating(self.type) else int
        return pa.array([None if cell is None else as_number(cell) for cell in cells], self.type)


def _text(cell: Any) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else str(cell)


def _run(connection: Any, statement: str, values: Sequence[Any] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def _rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def _own(table: str) -> str:
    """Return the condition for the rows about a table in the views of the information schema."""
    place, _, name = table.rpartition(".")
    schema = quote_text(place) if place else "database()"
    return f"table_schema = {schema} AND table_name = {quote_text(name)}"


def _fill(connection: Any, full: str, new: NewTable, batches: Iterator[pa.Table]) -> None:
    """Make a table, and write all rows into it."""
    types = {one.name: new.declared_types.get(one.name) or _new_type(one.type) for one in new.schema}
    notes = {name: f" COMMENT {quote_text(text[:1024])}" for name, text in new.comments.items()}
    columns = ", ".join(f"{quote_column(name)} {kind}{notes.get(name, '')}" for name, kind in types.items())
    _run(connection, f"CREATE TABLE {quote_name(full)} ({columns}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    marks = ", ".join(["%s"] * len(types))
    with connection.cursor() as cursor:
        for batch in batches:
            for start in range(0, batch.num_rows, INSERTED):
                part = batch.select(list(types)).slice(start, INSERTED)
                rows = list(zip(*(_cells(column) for column in part.columns), strict=True))
                cursor.executemany(f"INSERT INTO {quote_name(full)} VALUES ({marks})", rows)


def _cells(column: pa.ChunkedArray) -> list[Any]:
    """Return the cells as the library writes them; moments are in UTC, without a zone."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pt.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
    cells: list[Any] = column.to_pylist()
    return cells


def _sweep(connection: Any, place: str) -> None:
    """Drop the tables of writers whose connections have ended: a second release of the same people tells more."""
    schema = quote_text(place) if place else "database()"
    names = "'^sfumato_[0-9a-f]{16}(_manifest)?(_old)?$'"
    writer = "is_free_lock(substr(table_name, 1, 24))"  # sfumato_ and 16 digits
    query = f"table_schema = {schema} AND table_name RLIKE {names} AND {writer}"
    for (name,) in _rows(connection, f"SELECT table_name FROM information_schema.tables WHERE {query}"):
        _run(connection, f"DROP TABLE IF EXISTS {quote_name(f'{place}.{_text(name)}'.lstrip('.'))}")


def _put_in_place(connection: Any, full: dict[str, str], new: NewTable) -> None:
    """Rename the new tables in one statement; old ones that they replace are renamed in the same."""
    if new.replace:
        _require_nothing_lost(connection, new.name)
    renamed = []
    for name, made in full.items():
        if new.replace and _rows(connection, f"SELECT 1 FROM information_schema.tables WHERE {_own(name)}"):
            renamed.append(f"{quote_name(name)} TO {quote_name(f'{made}_old')}")
        renamed.append(f"{quote_name(made)} TO {quote_name(name)}")
    _run(connection, f"RENAME TABLE {', '.join(renamed)}")


def _require_nothing_lost(connection: Any, table: str) -> None:
    place, _, name = table.rpartition(".")
    asked = LOST.format(own=_own(table), schema=quote_text(place) if place else "database()", table=quote_text(name))
    require_nothing_lost(table, [_text(what) for (what,) in _rows(connection, asked)])


def _require_names(names: Sequence[str]) -> None:
    wrong = [name for name in names if not 0 < len(name) <= NAME_CHARACTERS or re.search(r"[\0]|\s$", name)]
    if wrong:
        raise RequestError(
            f"Names in MySQL must have 1 to {NAME_CHARACTERS} characters.",
            found=", ".join(f"{name[:NAME_CHARACTERS]!r}" for name in wrong[:5]),
            fix="rename the columns or the table; intervals add _low, _high and _missing to the names of columns",
        )


def _require_different(names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) < len(names):
        raise RequestError(
            "The server could not do this.",
            found="a name of a column occurs twice in the query",
            fix="give the columns different names",
        )


def _new_type(kind: pa.DataType) -> str:
    """Return the type of a new column."""
    if pt.is_timestamp(kind):
        return "timestamp(6) NULL" if kind.tz else "datetime(6)"
    tests: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
        (pt.is_boolean, "boolean"),
        (pt.is_integer, "bigint"),
        (pt.is_float32, "float"),
        (pt.is_floating, "double"),
        (pt.is_decimal, "double"),
        (pt.is_date, "date"),
    )
    return next((name for test, name in tests if test(kind)), "longtext")
