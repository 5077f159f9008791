"""PostgreSQL by ADBC, which moves Arrow batches over the binary COPY protocol."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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

# types that are read as they are; all others are read as text, and exact decimals as below
NUMBERS, TEXTS = ("int2", "int4", "int8", "float4", "float8", "bool"), ("varchar", "text", "bpchar", "name")
KNOWN = frozenset([*NUMBERS, *TEXTS, "timestamptz", "timestamp", "date"])
REASONS = {  # SQLSTATE, or its class → what is wrong, and what to try
    "42P01": ("there is no such table", "check the name of the table"),
    "42501": ("permission denied", "a role that may read the source and create tables"),
    "3D000": ("there is no such database", "check the URL"),
    "28": ("the server does not accept the user", "PGPASSWORD, ~/.pgpass or a service file"),
    "42P07": ("the table exists already", "--replace, or another name"),
    "2BP01": ("other objects depend on the table that would be replaced", "another name"),
    "08": ("the connection was lost", "try again; the log of the server says why"),
    "57P": ("the server ended the connection", "try again when it runs"),
    "25006": ("the query would change the database, and a source is only read", "a query that only reads"),
    "22012": ("the query divides by zero", "check the query"),
    "53": ("the server has no space or memory left", "free space on the server"),
    "57": ("the server ended the query", "try again"),
    "40": ("another transaction changed the same rows", "try again"),
    "22": ("a cell does not have the type that the query gives it", "check the query"),
    "22021": ("a text with the character NUL, which PostgreSQL cannot store", "remove it from the table"),
    "3F000": ("there is no such schema", "create it, or another name of the table"),
    "42809": ("what would be replaced is not a table, but a view or the like", "another name"),
    "42702": ("a name of a column occurs twice in the query", "give the columns different names"),
    "54011": ("more columns than a table of PostgreSQL can have", "fewer columns, or a folder of files"),
    "42": ("the query is not valid", "check the query"),
}
WRITTEN_AS = {
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
LOST = """
    WITH old AS (SELECT * FROM pg_class WHERE oid = to_regclass({}))
    SELECT what FROM (
        SELECT 'rights of other roles' AS what FROM old WHERE EXISTS (
            SELECT 1 FROM aclexplode(relacl) WHERE grantee <> relowner)
            OR EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = old.oid AND attacl IS NOT NULL)
        UNION ALL SELECT 'a view' FROM old WHERE relkind IN ('v', 'm')
        UNION ALL SELECT 'another owner' FROM old WHERE relowner <> current_user::regrole
        UNION ALL SELECT 'row security' FROM old WHERE relrowsecurity OR relforcerowsecurity
            OR EXISTS (SELECT 1 FROM pg_policy WHERE polrelid = old.oid)
        UNION ALL SELECT 'indexes' FROM old WHERE EXISTS (SELECT 1 FROM pg_index WHERE indrelid = old.oid)
        UNION ALL SELECT 'constraints or defaults' FROM old WHERE
            EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = old.oid)
            OR EXISTS (SELECT 1 FROM pg_attrdef WHERE adrelid = old.oid)
            OR EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = old.oid AND attnum > 0 AND attnotnull)
        UNION ALL SELECT 'triggers or rules' FROM old WHERE
            EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = old.oid AND NOT tgisinternal)
            OR EXISTS (SELECT 1 FROM pg_rewrite WHERE ev_class = old.oid AND relkind = 'r')
        UNION ALL SELECT 'partitions or inheritance' FROM old WHERE relispartition OR relkind = 'p'
            OR EXISTS (SELECT 1 FROM pg_inherits WHERE inhrelid = old.oid OR inhparent = old.oid)
        UNION ALL SELECT 'publications' FROM old WHERE
            EXISTS (SELECT 1 FROM pg_publication_rel WHERE prrelid = old.oid)
        UNION ALL SELECT 'statistics or labels' FROM old WHERE
            EXISTS (SELECT 1 FROM pg_statistic_ext WHERE stxrelid = old.oid)
            OR EXISTS (SELECT 1 FROM pg_seclabel WHERE objoid = old.oid AND classoid = 'pg_class'::regclass)
    ) AS found
"""  # what DROP TABLE would take away for good
NAME_BYTES = 63  # longer names are cut off by the server


@dataclass(frozen=True, repr=False)
class Postgres(Driver):
    """A PostgreSQL server; what the URL does not say comes from the environment, a service file or ~/.pgpass."""

    url: str

    def _batches(self, query: str) -> Iterator[pa.Table]:
        with self._open() as cursor:
            shown = ", ".join(map(_column, _schema(cursor, query))) or "1 AS one"
            cursor.execute(f"SELECT {shown} FROM ({query}) AS source")
            reader = _reader(cursor)
            waiting: list[pa.RecordBatch] = []
            for batch in reader:
                waiting.append(batch)
                if sum(one.num_rows for one in waiting) >= BATCH_ROWS:
                    yield pa.Table.from_batches(waiting, reader.schema)
                    waiting = []
            if waiting:
                yield pa.Table.from_batches(waiting, reader.schema)

    def count(self, query: str) -> tuple[int, int]:
        def work(cursor: Any) -> tuple[int, int]:
            rows = _table(cursor, f"SELECT count(*) AS rows FROM ({query}) AS source").column("rows")[0].as_py()
            return int(rows), len(_schema(cursor, query))

        return self._do(work)

    def column_types(self, table: str) -> ColumnTypes:
        query = f"""
            SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type,
                col_description(attrelid, attnum) AS comment
            FROM pg_attribute WHERE attrelid = to_regclass({quote_text(quote_name(table))}) AND attnum > 0
                AND NOT attisdropped ORDER BY attnum
        """
        columns = self._do(partial(_table, query=query)).to_pylist()
        comments = {one["name"]: one["comment"] for one in columns if one["comment"]}
        return ColumnTypes({one["name"]: one["type"] for one in columns}, comments)

    def exists(self, table: str) -> bool:
        query = f"SELECT to_regclass({quote_text(quote_name(table))})::text AS found"
        return self._do(partial(_table, query=query)).column("found")[0].as_py() is not None

    def comment(self, table: str) -> str | None:
        query = f"SELECT obj_description(to_regclass({quote_text(quote_name(table))}), 'pg_class') AS comment"
        text: str | None = self._do(partial(_table, query=query)).column("comment")[0].as_py()
        return text

    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        _require_names(new.name, new.schema.names)
        place, _, name = new.name.rpartition(".")
        made = f"{name[:40]}_{secrets.token_hex(8)}" if new.replace else name  # readers see the old table until the end
        full = f"{place}.{made}" if place else made
        types = {one.name: new.declared_types.get(one.name) or _new_type(one.type) for one in new.schema}
        stored = pa.schema([pa.field(one.name, _written_type(types[one.name], one.type)) for one in new.schema])

        def work(cursor: Any) -> None:
            columns = ", ".join(f"{quote_column(column)} {kind}" for column, kind in types.items())
            cursor.execute(f"CREATE TABLE {quote_name(full)} ({columns})")
            reader = pa.RecordBatchReader.from_batches(stored, _cast_batches(batches, stored))
            cursor.adbc_ingest(made, reader, mode="append", db_schema_name=place or None)
            for column, text in new.comments.items():
                cursor.execute(f"COMMENT ON COLUMN {quote_name(full)}.{quote_column(column)} IS {quote_text(text)}")
            cursor.execute(f"COMMENT ON TABLE {quote_name(full)} IS {quote_text(new.comment)}")
            if new.replace:
                _require_nothing_lost(cursor, new.name)
                cursor.execute(f"DROP TABLE IF EXISTS {quote_name(new.name)}")
                cursor.execute(f"ALTER TABLE {quote_name(full)} RENAME TO {quote_column(name)}")

        self._do(work, writing=True)

    def require_replaceable(self, table: str) -> None:
        self._do(partial(_require_nothing_lost, table=table))

    @contextlib.contextmanager
    def _open(self, *, writing: bool = False) -> Iterator[Any]:
        """Yield a cursor; its transaction only reads unless it may write, and is rolled back after an error."""
        import adbc_driver_postgresql.dbapi as driver

        opened = without_cause(partial(driver.connect, self.url), self._errors, _no_connection)
        with contextlib.closing(opened) as connection:
            with contextlib.closing(connection.cursor()) as cursor:
                if not writing:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield cursor
            connection.commit()

    @property
    def _errors(self) -> tuple[type[Exception], ...]:
        try:
            import adbc_driver_manager
            import adbc_driver_postgresql
        except ImportError:
            raise MissingExtra(
                "PostgreSQL needs a driver that is not installed.", fix="pip install 'sfumato[postgres]'"
            ) from None
        return (adbc_driver_manager.Error if adbc_driver_postgresql else Exception,)

    def _replace_error(self, error: Exception) -> SfumatoError:
        """Return the error for a state of SQL."""
        state = getattr(error, "sqlstate", None) or ""
        known = next((REASONS[part] for part in (state, state[:3], state[:2]) if part in REASONS), None)
        if known:
            kind = ReadError if state[:2] in ("08", "53", "57", "40") else RequestError
            return kind("PostgreSQL could not do this.", found=known[0], fix=known[1])
        found = f"SQLSTATE {state}" if state else "the connection was lost"
        return ReadError("PostgreSQL could not do this.", found=found, fix="look into the log of the server")


def _no_connection(error: Exception) -> ReadError:
    return ReadError(
        "PostgreSQL could not do this.",
        found="no connection to the server",
        fix="check the URL, the user, the password (PGPASSWORD, ~/.pgpass, service file) and that the server runs",
    )


def _reader(cursor: Any) -> Any:
    """Return the rows of the last query; if the driver has it, by a reader whose errors tell the state of SQL."""
    reader = cursor.fetch_record_batch()
    return getattr(getattr(cursor, "_results", None), "reader", None) or reader


def _require_nothing_lost(cursor: Any, table: str) -> None:
    """Raise if the table has what would be lost with it: rights, rules about rows, and what hangs on it."""
    lost = _table(cursor, LOST.format(quote_text(quote_name(table)))).column("what").to_pylist()
    require_nothing_lost(table, lost)


def _require_names(table: str, columns: Sequence[str]) -> None:
    """Raise unless PostgreSQL can store these names as they are."""
    wrong = [name for name in (*table.split("."), *columns) if not _is_name(name)]
    if wrong:
        raise RequestError(
            f"Names in PostgreSQL must have 1 to {NAME_BYTES} bytes, and no character NUL.",
            found=", ".join(f"{name[:NAME_BYTES]!r} ({len(name.encode()):,} bytes)" for name in wrong[:5]),
            fix="rename the columns or the table; intervals add _low, _high and _missing to the names of columns",
        )


def _is_name(name: str) -> bool:
    return 0 < len(name.encode()) <= NAME_BYTES and "\0" not in name


def _schema(cursor: Any, query: str) -> list[pa.Field]:
    """Return the columns of a query."""
    cursor.execute(f"SELECT * FROM ({query}) AS source LIMIT 0")
    return list(cursor.fetch_record_batch().schema)


def _table(cursor: Any, query: str) -> pa.Table:
    cursor.execute(query)
    return cursor.fetch_arrow_table()


def _column(field: pa.Field) -> str:
    """Return a column as SQL, in a type that tables have: exact decimals as numbers, other types as text."""
    name = quote_column(field.name)
    kind = (field.metadata or {}).get(b"POSTGRESQL:type", b"").decode()
    if kind in KNOWN and not pt.is_list(field.type):
        return f"trim(trailing from {name}) AS {name}" if kind == "bpchar" else name
    if kind == "numeric":
        return f"{name}::{'int8' if _is_whole(field) else 'float8'} AS {name}"
    return f"{name}::numeric::float8 AS {name}" if kind == "money" else f"{name}::text AS {name}"


def _is_whole(field: pa.Field) -> bool:
    """Whether an exact decimal has no digits after the point and fits into 64 bits."""
    given = (field.metadata or {}).get(b"POSTGRESQL:typmod")
    if given is None or int(given) < 0:
        return False
    precision, scale = ((int(given) - 4) >> 16) & 0xFFFF, (int(given) - 4) & 0x7FF
    return scale == 0 and precision <= 18


def _new_type(kind: pa.DataType) -> str:
    """Return the type of a new column."""
    if pt.is_timestamp(kind):
        return "timestamp with time zone" if kind.tz else "timestamp"
    tests: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
        (pt.is_boolean, "boolean"),
        (pt.is_integer, "bigint"),
        (pt.is_float32, "real"),
        (pt.is_floating, "double precision"),
        (pt.is_decimal, "double precision"),
        (pt.is_date, "date"),
    )
    return next((name for test, name in tests if test(kind)), "text")


def _written_type(declared: str, kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that is written into a column of a declared type."""
    if declared not in WRITTEN_AS and pt.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC" if kind.tz else None)
    return WRITTEN_AS.get(declared, pa.string())


def _cast_batches(batches: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [batch.column(one.name).cast(one.type) for one in schema]
        yield from pa.table(columns, schema=schema).to_batches(max_chunksize=BATCH_ROWS)
