"""How the table of a request is read, and the roles that are given for its columns."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import OptionError
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.engines.database.database import Database
    from sfumato.schema.schema import Schema
    from sfumato.table.read import FileSource
    from sfumato.table.sources import TableSource


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How to read a file, as given on the command line."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: Sequence[str] = ()
    header: bool | None = None
    names: str | None = None  # separated by commas; quotes enclose a name with a comma
    sheet: str | None = None  # of a workbook


READING = Reading()  # everything is detected


def reading_words(reading: Reading | None) -> list[str]:
    """Return how to read a text file as arguments of a command."""
    if reading is None:
        return []
    given = [("--separator", reading.separator), ("--encoding", reading.encoding), ("--decimal", reading.decimal)]
    given += [("--missing", text) for text in reading.missing]
    given += [("--names", reading.names), ("--sheet", reading.sheet)]
    header = [] if reading.header is None else ["--header" if reading.header else "--no-header"]
    return [word for flag, value in given if value is not None for word in (flag, value)] + header


def is_url(text: str) -> bool:
    """Return whether this is the URL of a database."""
    from sfumato.engines.database.database import SCHEMES, scheme_of

    return scheme_of(text) in SCHEMES


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


def file_source(file: str, reading: Reading) -> FileSource:
    """Return the file with how to read it."""
    from sfumato.table.read import FileSource
    from sfumato.table.text import TextOptions

    options = TextOptions(
        separator=reading.separator,
        encoding=reading.encoding,
        decimal=reading.decimal,
        missing=tuple(reading.missing),
        header=reading.header,
        names=None if reading.names is None else listed(reading.names),
        sheet=reading.sheet,
    )
    return FileSource(file, options)


def listed(names: str) -> tuple[str, ...]:
    """Split names that are separated by commas; quotes enclose a name with a comma."""
    return tuple(next(csv.reader([names], skipinitialspace=True), []))


def schema_of(schema: str | Schema | None, roles: Sequence[str]) -> Schema:
    """Return the schema, or that in a file, with the roles of the command line."""
    from sfumato.schema.columns import Role
    from sfumato.schema.schema import Schema

    chosen = {
        name: Role(require_choice(role, name=f"The role of {name!r}", choices=[str(known) for known in Role]))
        for name, role in map(_role, roles)
    }
    return Schema.of(schema).with_roles(chosen)


def _role(text: str) -> tuple[str, str]:
    """Split ``COLUMN=ROLE``; a column name may contain "="."""
    name, mark, role = text.rpartition("=")
    if not mark or not name:
        raise OptionError("--role needs a column and a role.", found=repr(text), fix="--role income=sensitive")
    return name, role
