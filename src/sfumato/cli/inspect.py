"""``sfumato inspect FILE``: what the columns are, and how far they tell people apart."""

from __future__ import annotations

import typer

from sfumato.cli import console, source


def command(
    *,
    file: str = source.FILE,
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show kinds, roles with reasons, missing and distinct values, and how many rows stand alone."""
    from sfumato.engines.memory import MemorySurvey
    from sfumato.report import terminal
    from sfumato.survey.inspection import inspect

    table, roles = source.table_and_schema(
        file, schema=schema, roles=role, separator=separator, encoding=encoding, decimal=decimal, missing=missing
    )
    found = inspect(MemorySurvey(table), roles, table)
    if json:
        console.show_json(found)
    else:
        console.show(terminal.inspection(found))
