"""``sfumato inspect FILE``: kinds and suggested roles of the columns, and which sets of columns identify people."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from sfumato.cli import console, options
from sfumato.errors import OptionError
from sfumato.job.request import schema_of, split_names
from sfumato.params import require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.job.inspect import InspectedTable
    from sfumato.risk.knowledge import Precision
    from sfumato.risk.quasi_identifiers import QuasiIdentifiers
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

MAX_SIZE = 4  # columns in a set, by default
SECONDS = 10.0  # by default
LEAST_SECONDS = 1.0  # for the columns and for the sets, however long reading took
SHOWING_SECONDS = 1.5  # reserved for starting and printing


@options.with_groups
def inspect(
    *,
    file: str = options.FILE,
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
    place: options.PlaceOptions,
    engine: options.EngineOptions,
    schema: str | None = options.SCHEMA,
    role: list[str] = options.ROLE,
    person: str | None = options.PERSON,
    household: str | None = options.HOUSEHOLD,
    knows: list[str] = options.KNOWS,
    reading: options.ReadingOptions,
    models: bool = typer.Option(
        False, "--models", help="Show instead which privacy models the table satisfies: k-anonymity, ℓ-diversity, …."
    ),
    quasi: str = typer.Option(
        "", "--quasi", metavar="A,B,C", help="With --models: the quasi-identifiers; by default those by role."
    ),
    sensitive: str = typer.Option(
        "", "--sensitive", metavar="A,B,C", help="With --models: the sensitive columns; by default those by role."
    ),
    json: bool = options.JSON,
) -> None:
    """Show columns, suggested roles and identifying column sets.

    For each column: kind, role, missing and distinct values, rows with a unique value, and the reason for the role.
    Then the smallest sets of quasi-identifiers that single out a share --alpha of people, as far as they are found in
    --seconds.

    With --models: the largest k and ℓ and the smallest t for which the table as it is satisfies k-anonymity,
    ℓ-diversity and t-closeness; with --population also an estimate of how many people of it are unique.

    Example: sfumato inspect patients.csv --role diagnosis=sensitive
    """
    start = time.perf_counter()
    from sfumato.job.inspect import open_for_inspection
    from sfumato.report import terminal
    from sfumato.risk import inspection

    role = options.roles_with_people(role, person, household)
    limit = require_number(seconds, name="--seconds", at_least=0.0) or None
    end = start + (limit or 0.0) - SHOWING_SECONDS
    named = (
        *(f"{name}=quasi" for name in split_names(quasi)),
        *(f"{name}=sensitive" for name in split_names(sensitive)),
    )
    if models or named:
        fitted = options.job_of(file, reading, place, schema=schema_of(schema, (*role, *named))).fitted
        _show_models(fitted.table, fitted.schema, quasi, sensitive, population, json=json)
        return
    job = options.job_of(file, reading, place, engine, schema=schema_of(schema, role))
    with open_for_inspection(job) as opened:
        columns = inspection.inspect(opened.survey, opened.schema, seconds=limit and _left(end))
        homes = opened.household_risk()
        if not json:
            console.show(terminal.inspection(columns))
            console.show_text("" if homes is None else f"Households: {homes.found}.\n")
        known = options.precisions(knows)
        sets = _identifying(opened, alpha, population, max_size, known, limit and end)
    if json:
        searched = {"complete": sets.complete, "coverage": sets.coverage} if sets is not None else {}
        identifying = None if sets is None else asdict(sets) | searched
        found = {**asdict(columns), "not_counted": columns.not_counted, "identifying": identifying}
        console.show_json(found | ({} if homes is None else {"households": homes}))
    elif sets is not None:
        console.show(terminal.identifying(sets))


def _left(end: float) -> float:
    return max(LEAST_SECONDS, end - time.perf_counter())


def _identifying(
    opened: InspectedTable,
    alpha: float,
    population: float | None,
    max_size: int,
    knows: Mapping[str, Precision],
    end: float | None,
) -> QuasiIdentifiers | None:
    """Find the smallest sets of quasi-identifiers that single out a share alpha of the rows or of the population.

    ``knows`` is what an intruder knows of some columns, and ``end`` is the time at which the search must end, or None.
    """
    from sfumato.risk.quasi_identifiers import SetSearchOptions
    from sfumato.schema.columns import Role

    columns = opened.schema.names(Role.QUASI)
    if not columns:
        return None
    console.say_progress()
    console.say_compiling()
    most = min(max_size, len(columns))
    limit = None if end is None else _left(end)
    return opened.quasi_identifiers(
        SetSearchOptions(
            columns=columns,
            population=population,
            alpha=alpha,
            max_size=most,
            by="rows" if population is None else "population",
            knows=knows,
            seconds=limit,
        )
    )


def _show_models(
    table: Table, schema: Schema, quasi: str, sensitive: str, population: float | None, *, json: bool
) -> None:
    """Show the privacy models of the table, and its population uniqueness if there is a population."""
    from sfumato.report import terminal
    from sfumato.risk.group_models import group_models
    from sfumato.risk.population import population_uniqueness
    from sfumato.schema.columns import Role

    known = split_names(quasi) or schema.names(Role.QUASI)
    others = split_names(sensitive) or schema.names(Role.SENSITIVE)
    if not known:
        raise OptionError("Groups need at least one quasi-identifier.", found="none", fix="--quasi age,zip")
    groups = group_models(table, known, others, schema=schema)
    people = None if population is None else population_uniqueness(table, known, population)
    if json:
        console.show_json({**groups.to_plain(), "population_uniqueness": people})
    else:
        console.show(terminal.group_models(groups, people))
