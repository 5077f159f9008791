"""``sfumato inspect FILE``: kinds and suggested roles of the columns, and which sets of columns identify people."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console, source
from sfumato.params import require_number

if TYPE_CHECKING:
    from sfumato.disclosure.quasi_identifiers import QuasiIdentifiers
    from sfumato.examination import Examined

MAX_SIZE = 4  # columns in a set, by default
SECONDS = 10.0  # by default
LEAST_SECONDS = 1.0  # for the columns and for the sets, however long reading took
SHOWING_SECONDS = 1.5  # reserved for starting and printing


def command(
    *,
    file: str = source.FILE,
    alpha: float = typer.Option(0.2, "--alpha", help="Share of people that a set must single out to be reported."),
    population: float | None = typer.Option(
        None, "--population", help="Size of the population; by default rows are counted."
    ),
    max_size: int = typer.Option(MAX_SIZE, "--max-size", help="Largest number of columns in a set."),
    seconds: float = typer.Option(
        SECONDS,
        "--seconds",
        help="Time limit for the whole command; what was left out is reported. 0: no limit.",
    ),
    table: str | None = source.TABLE,
    query: str | None = source.QUERY,
    engine: str = source.ENGINE,
    memory: str | None = source.MEMORY,
    schema: str | None = source.SCHEMA,
    role: list[str] = source.ROLE,
    separator: str | None = source.SEPARATOR,
    encoding: str | None = source.ENCODING,
    decimal: str | None = source.DECIMAL,
    missing: list[str] = source.MISSING,
    header: bool | None = source.HEADER,
    names: str | None = source.NAMES,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Show columns, suggested roles and identifying column sets.

    For each column: kind, role, missing and distinct values, rows with a unique value, and the reason for the role.
    Then the smallest sets of quasi-identifiers that single out a share --alpha of people, as far as they are found in
    --seconds.
    """
    start = time.perf_counter()
    from sfumato.disclosure.inspection import inspect
    from sfumato.engines.registry import engine_for
    from sfumato.examination import examined
    from sfumato.report import terminal

    limit = require_number(seconds, name="--seconds", at_least=0.0) or None
    end = start + (limit or 0.0) - SHOWING_SECONDS
    reading = source.Reading(
        separator=separator, encoding=encoding, decimal=decimal, missing=missing, header=header, names=names
    )
    given = source.source_of(file, reading, table=table, query=query)
    with examined(given, source.schema_of(schema, role), engine_for(engine, given, memory=memory)) as opened:
        found = inspect(opened.survey, opened.schema, seconds=limit and _left(end))
        if not json:
            console.show(terminal.inspection(found))
        sets = _identifying(opened, alpha, population, max_size, limit and end)
    if json:
        identifying = sets and {**asdict(sets), "complete": sets.complete, "coverage": sets.coverage}
        console.show_json({**asdict(found), "not_counted": found.not_counted, "identifying": identifying})
    elif sets is not None:
        console.show(terminal.identifying(sets))


def _left(end: float) -> float:
    return max(LEAST_SECONDS, end - time.perf_counter())


def _identifying(
    opened: Examined, alpha: float, population: float | None, max_size: int, end: float | None
) -> QuasiIdentifiers | None:
    """Find the smallest sets of quasi-identifiers that single out a share alpha of the rows or of the population.

    ``end`` is the time at which the search must end, or None.
    """
    from sfumato.schema.columns import Role

    columns = opened.schema.names(Role.QUASI)
    if not columns:
        return None
    console.say_progress()
    console.say_compiling()
    most = min(max_size, len(columns))
    limit = None if end is None else _left(end)
    return opened.quasi_identifiers(columns, alpha, most, population=population, seconds=limit)
