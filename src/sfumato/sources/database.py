"""A table of a database, as the source or the destination of a release."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import OptionError, RequestError, TableError, printable
from sfumato.sources.base import CELL_BYTES, SCHEMES, Destination, TableSource, scheme_of
from sfumato.sources.database_driver import ColumnTypes, Driver, NewTable, quote_name
from sfumato.table.intervals import missing_name, original_name
from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Database(TableSource, Destination):
    """A table of a PostgreSQL, DuckDB or SQLite database.

    A release reads one state of the source, and writes the released rows in one transaction: all of them or none, also
    if the process is killed. Types and comments of columns are kept. The manifest is the comment on the new table, and
    in MySQL and MariaDB a table beside it whose name ends with ``_manifest``; there, a killed process may leave a
    table whose name begins with ``sfumato_``.

    Parameters
    ----------
    url : str
        ``"postgresql://user@host/database"``, ``"mysql://user@host/database"`` (also MariaDB),
        ``"duckdb:///file.duckdb"`` or ``"sqlite:///file.db"``. Leave a password out: PostgreSQL finds it in the
        environment (``PGPASSWORD``), in ``~/.pgpass`` or in a service file (``"postgresql://?service=hospital"``),
        MySQL in ``MYSQL_PWD`` or ``~/.my.cnf``.
    table : str, optional
        Name of the table, or ``"schema.table"``.
    query : str, optional
        A query to read, in place of a table.
    replace : bool, default False
        As a destination: whether an existing table is replaced. A view is refused, and a table with indexes, triggers,
        or in a server rights of other users, which a new table would not have.

    Examples
    --------
    >>> import sqlite3, sfumato as sf
    >>> with sqlite3.connect("clinic.db") as connection:
    ...     _ = connection.execute("CREATE TABLE patients (age INTEGER)")
    ...     _ = connection.executemany("INSERT INTO patients VALUES (?)", [(20,), (21,), (40,), (41,)])
    >>> connection.close()
    >>> released = sf.Database("sqlite:///clinic.db", table="released")
    >>> _ = sf.Boxes(k=2).release(
    ...     sf.Database("sqlite:///clinic.db", table="patients"), schema={"age": "quasi"}, into=released
    ... )
    >>> released.read()
    Table(4 rows × 3 columns; age_low: whole, age_high: whole, box: boolean)
    """

    url: str
    table: str | None = None
    query: str | None = None
    replace: bool = False
    _declared: ColumnTypes = field(default_factory=ColumnTypes)  # what the columns of the source are declared as

    def __post_init__(self) -> None:
        if not isinstance(self.url, str) or scheme_of(self.url) not in SCHEMES or "://" not in self.url:
            raise OptionError(
                "The URL of a database must begin with postgresql://, mysql://, mariadb://, duckdb:/// or sqlite:///.",
                found=f"the scheme {scheme_of(self.url)}" if scheme_of(self.url) else "",
                fix="postgresql://user@host/database; tables of SQL Server, Oracle and others are read as a frame of "
                "Spark (session.read.jdbc) or exported to Parquet",
            )
        if (self.table is None) == (self.query is None):
            raise OptionError("Give a table or a query.", found="both" if self.table else "neither", fix="table=…")

    def __repr__(self) -> str:
        what = f"table={self.table!r}" if self.table else "query=…"
        return f"Database({printable(self.url)!r}, {what})"

    def read(self) -> Table:
        """Read all rows."""
        parts = list(self.batches())
        if not parts:
            raise TableError("A table must have rows.", found="no rows in the database")
        return Table.from_arrow(pa.concat_tables(parts))

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in batches, all of one state of the table."""
        yield from self._driver.batches(self._select)

    def memory_needed(self) -> int:
        """Estimate the bytes of memory that working on all rows at once takes."""
        rows, columns = self._driver.count(self._select)
        return CELL_BYTES * rows * columns

    def require_free(self) -> None:
        """Raise unless the table can be written: it must not exist, or be replaced."""
        if self.table is None:
            raise OptionError("A release is written into a table, not into a query.", fix="table=…, --into TABLE")
        if self.replace:
            self._driver.require_replaceable(self.table)
        elif self._driver.exists(self.table):
            raise RequestError(
                f"The table {self.table!r} must not exist.", found="a table of that name", fix="--replace, replace=True"
            )

    def following(self, source: Any) -> Database:
        """Take the types and comments of columns over from a table in a database of the same kind."""
        if not isinstance(source, Database) or source.table is None or scheme_of(source.url) != scheme_of(self.url):
            return self
        return replace(self, _declared=source._driver.column_types(source.table))

    def write(self, release: Any) -> None:
        """Write the released rows in one transaction, and the manifest as the comment on the table."""
        assert self.table is not None
        assert release.manifest is not None
        parts = release.table.parts()
        first = next(parts)
        new = NewTable(
            name=self.table,
            schema=first.arrow.schema.remove_metadata(),
            declared=_declare_released(self._declared, first),
            comment=release.manifest.to_json(),
            replace=self.replace,
        )
        self._driver.write(new, (part.arrow for part in chain([first], parts)))

    def manifest_text(self) -> str | None:
        """Return the comment on the table, which is the manifest if a release was written into it."""
        return self._driver.comment(self.table) if self.table else None

    @property
    def _select(self) -> str:
        if self.query is None:
            return f"SELECT * FROM {quote_name(self.table or '')}"
        return self.query.rstrip().rstrip(";") + "\n"  # which ends a comment

    @property
    def _driver(self) -> Driver:
        scheme = scheme_of(self.url)
        if SCHEMES[scheme] == "PostgreSQL":
            from sfumato.sources.postgres import Postgres

            return Postgres(self.url)
        if SCHEMES[scheme] == "MySQL":
            from sfumato.sources.mysql import MySQL

            return MySQL(self.url)
        path = Path(re.sub(r"^\w+:(///)?", "", self.url)).expanduser()
        if scheme == "duckdb":
            from sfumato.sources.database_files import DuckDBFile

            return DuckDBFile(path)
        from sfumato.sources.database_files import SQLiteFile

        return SQLiteFile(path)


def _declare_released(declared: ColumnTypes, released: Table) -> ColumnTypes:
    """Return what is declared about the released columns, by that of the columns that they come from.

    The ends of an interval have the type of their column. A column that is released as text where the source has
    another type, and a count of missing values, get new types.
    """
    types, comments = {}, {}
    arrow = released.arrow.schema
    for name in released.names:
        origin = original_name(name, released.kinds, declared.types)
        kind = declared.types.get(origin)
        counts = name == missing_name(origin) and name != origin
        if kind and not counts and _can_hold(kind, arrow.field(name).type):
            types[name] = kind
        if origin in declared.comments:
            comments[name] = declared.comments[origin]
    return ColumnTypes(types, comments)


def _can_hold(declared: str, arrow: pa.DataType) -> bool:
    """Whether a column of a declared type can hold released cells of this Arrow type; an exact decimal holds none."""
    name = declared.lower()
    if name in ("text", "varchar", "character varying"):
        return bool(pt.is_string(arrow) or pt.is_dictionary(arrow))
    if name in ("real", "float"):  # of 32 bits: what was verified must be what is written
        return bool(pt.is_float32(arrow))
    if name.startswith(("double", "float", "real")):
        return bool(pt.is_floating(arrow) or pt.is_integer(arrow))
    if name == "date":
        return bool(pt.is_date(arrow))
    tests = {"smallint": pt.is_integer, "int": pt.is_integer, "bigint": pt.is_integer, "bool": pt.is_boolean}
    tests["timestamp"] = pt.is_timestamp
    return any(name.startswith(beginning) and test(arrow) for beginning, test in tests.items())
