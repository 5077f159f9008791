"""``sfumato inspect FILE``: what the columns are, which sets of them identify people, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console, source

if TYPE_CHECKING:
    from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

AT_MOST = 4  # columns in a set that is looked at, unless the user says otherwise


def command(
    *,
    file: str = source.FILE,
    alpha: float = typer.Option(0.2, "--alpha", help="Share of people whom an identifying set singles out."),
    population: float | None = typer.Option(None, "--population", help="People in whom to hide; the rows by default."),
    max_size: int = typer.Option(AT_MOST, "--max-size", help="Columns in a set that is looked at, at most."),
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show kinds, roles with reasons, missing and distinct values, and which sets of columns single people out."""
    from sfumato.disclosure.inspection import inspect
    from sfumato.engines.memory import MemorySurvey
    from sfumato.report import terminal

    fitted = source.fitted(
        file, schema=schema, roles=role, separator=separator, encoding=encoding, decimal=decimal, missing=missing
    )
    found = inspect(MemorySurvey(fitted.table), fitted.schema)
    sets = _identifying(fitted.table, fitted.schema, alpha, population, max_size)
    if json:
        console.show_json({**asdict(found), "identifying": sets})
    else:
        console.show(terminal.inspection(found), *([terminal.identifying(sets)] if sets is not None else []))


def _identifying(
    table: Table, schema: Schema, alpha: float, population: float | None, max_size: int
) -> QuasiIdentifiers | None:
    """The smallest sets of quasi-identifiers that single out a share alpha of people; by rows or, if given, people."""
    from sfumato.disclosure.quasi_identifiers import quasi_identifiers
    from sfumato.schema.columns import Role

    columns = schema.names(Role.QUASI)
    if not columns:
        return None
    console.say_compiling()
    return quasi_identifiers(
        table,
        population,
        alpha,
        min(max_size, len(columns)),
        "rows" if population is None else "population",
        columns=columns,
        schema=schema,
    )
