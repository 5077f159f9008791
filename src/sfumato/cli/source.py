"""Options shared by the commands that read a table and need the roles of its columns."""

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

FILE = typer.Argument(
    ..., metavar="FILE", help="CSV, TSV, Parquet, Arrow or Feather file, or a pattern such as 'part-*.csv'."
)
SCHEMA = typer.Option(None, "--schema", metavar="TOML", help="Schema file with the roles of the columns.")
ROLE = typer.Option(
    [],
    "--role",
    metavar="COLUMN=ROLE",
    help="Role of a column: identifier, quasi, sensitive, other or weight; repeatable.",
)
SEPARATOR = typer.Option(None, "--separator", help="Character between cells; detected automatically by default.")
ENCODING = typer.Option(None, "--encoding", help="Encoding of a text file; detected automatically by default.")
DECIMAL = typer.Option(None, "--decimal", help='Decimal mark, "." or ","; detected automatically by default.')
MISSING = typer.Option(
    [], "--missing", metavar="TEXT", help="Text of a missing value; repeatable. Detected automatically by default."
)


def table(
    file: str, *, separator: str | None, encoding: str | None, decimal: str | None, missing: Sequence[str]
) -> Table:
    """Read the table in a file."""
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
    """Read a table and give every column its kind and role."""
    from sfumato.schema.columns import Role
    from sfumato.schema.schema import FittedTable, Schema

    whole = table(file, separator=separator, encoding=encoding, decimal=decimal, missing=missing)
    chosen = {
        name: Role(require_choice(role, name=f"The role of {name!r}", choices=[str(known) for known in Role]))
        for name, role in map(_role, roles)
    }
    return FittedTable.of(whole, Schema.of(schema).with_roles(chosen))


def say_roles(schema: Schema) -> None:
    """Print the suggested roles with their reasons, so that the user sees what is protected and what is not."""
    for column in schema.columns:
        if column.reason:
            console.say(f"· {column.name}: {column.role} ({column.reason})")


def _role(text: str) -> tuple[str, str]:
    """Split ``COLUMN=ROLE``; a column name may contain "="."""
    name, mark, role = text.rpartition("=")
    if not mark or not name:
        raise OptionError("--role needs a column and a role.", found=repr(text), fix="--role income=sensitive")
    return name, role
