"""The options by which commands read a table and learn the roles of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console
from sfumato.errors import OptionError
from sfumato.params import require_choice

if TYPE_CHECKING:
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.table.table import Table

FILE = typer.Argument(..., metavar="FILE", help="CSV, TSV, Parquet, Arrow or Feather; a pattern reads several.")
SCHEMA = typer.Option(None, "--schema", metavar="TOML", help="A schema file with the roles of columns.")
ROLE = typer.Option(
    [], "--role", metavar="COLUMN=ROLE", help="identifier, quasi, sensitive, other or weight; repeatable."
)
SEPARATOR = typer.Option(None, "--separator", help="Between cells; found out where not given.")
ENCODING = typer.Option(None, "--encoding", help="Of a text file; found out where not given.")
DECIMAL = typer.Option(None, "--decimal", help='"." or ","; found out where not given.')
MISSING = typer.Option([], "--missing", metavar="MARK", help="A mark of missing values; repeatable.")


def table(
    file: str, *, separator: str | None, encoding: str | None, decimal: str | None, missing: Sequence[str]
) -> Table:
    """The table that a file holds."""
    from sfumato.table.read import read

    return read(file, separator=separator, encoding=encoding, decimal=decimal, missing=list(missing) or None)


def fitted(
    file: str,
    *,
    schema: str | None,
    roles: Sequence[str],
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    missing: Sequence[str],
) -> FittedTable:
    """The table with the kinds that its schema says, and the role of every column."""
    from sfumato.schema.columns import Role
    from sfumato.schema.schema import FittedTable, Schema

    whole = table(file, separator=separator, encoding=encoding, decimal=decimal, missing=missing)
    chosen = {
        name: Role(require_choice(role, name=f"The role of {name!r}", choices=[str(known) for known in Role]))
        for name, role in map(_role, roles)
    }
    return FittedTable.of(whole, Schema.of(schema).with_roles(chosen))


def say_roles(schema: Schema) -> None:
    """Tell which roles were suggested and why, so that nobody is protected, or not, unknowingly."""
    for column in schema.columns:
        if column.reason:
            console.say(f"· {column.name}: {column.role} ({column.reason})")


def _role(words: str) -> tuple[str, str]:
    name, mark, role = words.rpartition("=")
    if not mark or not name:
        raise OptionError("--role needs a column and its role.", found=repr(words), fix="--role income=sensitive")
    return name, role
