"""Options shared by the commands that read a table and need the roles of its columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console
from sfumato.errors import OptionError
from sfumato.project.reading import READING, Reading, file_source, is_url, listed, schema_of

if TYPE_CHECKING:
    from sfumato.engines.database.database import Database
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.table.sources import TableSource
    from sfumato.table.table import Table

FILE_HELP = (
    "CSV, TSV, JSON Lines, Parquet, Arrow, Excel, SPSS, Stata or SAS file, a pattern such as 'part-*.csv', or the URL "
    "of a database."
)
FILE = typer.Argument(..., metavar="FILE", help=FILE_HELP)
OPTIONAL_FILE = typer.Argument(None, metavar="[FILE]", help=f"{FILE_HELP} Not needed with --project.")
SCHEMA = typer.Option(None, "--schema", metavar="TOML", help="Schema file with the roles of the columns.")
ROLE = typer.Option(
    [],
    "--role",
    metavar="COLUMN=ROLE",
    help="Role of a column: identifier, quasi, sensitive, other or weight; repeatable.",
)
QUASI = typer.Option(
    [],
    "--quasi",
    metavar="A,B,C",
    help="Quasi-identifiers: columns that others may know; patterns such as 'lab_*' are allowed. Other columns get a "
    "suggested role.",
)
SENSITIVE = typer.Option([], "--sensitive", metavar="A,B,C", help="Sensitive columns, or patterns.")
OTHER = typer.Option(
    [], "--other", metavar="A,B,C", help="Columns that need no protection, or patterns; '*' stands for all the rest."
)
SEPARATOR = typer.Option(None, "--separator", help="Character between cells; detected automatically by default.")
ENCODING = typer.Option(None, "--encoding", help="Encoding of a text file; detected automatically by default.")
DECIMAL = typer.Option(None, "--decimal", help='Decimal mark, "." or ","; detected automatically by default.')
MISSING = typer.Option(
    [], "--missing", metavar="TEXT", help="Text of a missing value, in addition to the usual ones; repeatable."
)
HEADER = typer.Option(
    None,
    "--header/--no-header",
    help="Whether the first line contains column names; detected automatically by default.",
)
NAMES = typer.Option(
    None, "--names", metavar="A,B,C", help="Names of all columns; the first line is then data unless --header is given."
)
SHEET = typer.Option(
    None, "--sheet", metavar="NAME", help="Sheet of a workbook, by name or number; the first one by default."
)


def reading_of(
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    missing: Sequence[str],
    header: bool | None,
    names: str | None,
    sheet: str | None = None,
) -> Reading | None:
    """Return how to read a file; None if nothing was given."""
    found = Reading(
        separator=separator,
        encoding=encoding,
        decimal=decimal,
        missing=tuple(missing),
        header=header,
        names=names,
        sheet=sheet,
    )
    return None if found == READING else found


TABLE = typer.Option(None, "--table", metavar="NAME", help="Table to read, if FILE is the URL of a database.")
ENGINE_HELP = "Engine that does the work: auto, memory, duckdb for tables larger than memory, or spark for clusters."
ENGINE = typer.Option("auto", "--engine", help=ENGINE_HELP)
ENGINE_OR_NONE = typer.Option(None, "--engine", help=ENGINE_HELP)
MEMORY = typer.Option(
    None, "--memory", metavar="SIZE", help="Memory that the process keeps to, e.g. 4GB; for the engine duckdb."
)
QUERY = typer.Option(None, "--query", metavar="SQL", help="Or: query to read, if FILE is the URL of a database.")


def source_of(file: str, reading: Reading, *, table: str | None = None, query: str | None = None) -> TableSource:
    """Return the file, or the table of a database, with how to read it."""
    if is_url(file):
        return database(file, table=table, query=query)
    if table is not None or query is not None:
        raise OptionError("--table and --query need the URL of a database.", found="a file", fix="leave them out")
    return file_source(file, reading)


def database(url: str, *, table: str | None, query: str | None = None, replace: bool = False) -> Database:
    """Return a table of a database; a password in the URL is refused, because others see it in the process list."""
    from sfumato.engines.database.database import Database

    if re.match(r"[A-Za-z0-9+]+://[^/@]*:[^/@]+@", url) or re.search(r"[?&]password=", url):
        raise OptionError(
            "A password must not be on the command line, where others can see it.",
            fix="PGPASSWORD in the environment, ~/.pgpass, or a service file",
        )
    return Database(url, table=table, query=query, replace=replace)


def table(file: str, reading: Reading) -> Table:
    """Read the table in a file."""
    return file_source(file, reading).read()


def fitted(file: str, reading: Reading, *, schema: str | None, roles: Sequence[str]) -> FittedTable:
    """Read a table and give every column its kind and role."""
    return fitted_source(file_source(file, reading), schema=schema, roles=roles)


def fitted_source(given: TableSource, *, schema: str | None, roles: Sequence[str]) -> FittedTable:
    """Read a table from a file or a database, and give every column its kind and role."""
    from sfumato.schema.schema import FittedTable

    return FittedTable.of(given.read(), schema_of(schema, roles))


def given_roles(
    role: Sequence[str], quasi: Sequence[str], sensitive: Sequence[str], other: Sequence[str] = ()
) -> list[str]:
    """Return all roles of the command line as ``COLUMN=ROLE``."""
    lists = {"quasi": quasi, "sensitive": sensitive, "other": other}
    return [
        *role,
        *(f"{name}={word}" for word, given in lists.items() for names in given for name in listed(names)),
    ]


def say_roles(schema: Schema) -> None:
    """Print the suggested roles with their reasons, so that the user sees what is protected and what is not."""
    for column in schema.columns:
        if column.reason:
            console.say(f"· {column.name}: {column.role} ({column.reason})")
