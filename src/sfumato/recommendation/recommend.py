"""Recommend a method: look at the table, choose, and try the choice on some of its rows."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.disclosure.anonymity_budget import require_population
from sfumato.errors import SfumatoError, names_memory_errors
from sfumato.examination import open_for_inspection
from sfumato.job.job import Job
from sfumato.params import require_int
from sfumato.recommendation.choice import ChosenMethod, Preferences, Situation, choose
from sfumato.recommendation.cost import expected_cost
from sfumato.recommendation.records import Cost, Recommendation, Unknown, command_line, quoted_name
from sfumato.schema.columns import Role
from sfumato.schema.suggest import may_be_unknown
from sfumato.schema.suggested_trees import with_suggested_trees
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.examination import InspectedTable
    from sfumato.schema.schema import Schema
    from sfumato.statistics.statistic import Statistic


@names_memory_errors
def recommend(
    table: Any,
    keep: Sequence[str | Statistic] = (),
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    k: int | None = None,
    l: int | None = None,
    population: float | None = None,
    engine: str | Engine = "auto",
    file: str | None = None,
    arguments: Sequence[str] = (),
) -> Recommendation:
    """Recommend a method and its options for a table, with reasons and the expected cost.

    The recommendation follows from the roles and kinds of the columns, the number of rows and the statistics that must
    stay accurate. It prefers methods that promise privacy and give certain intervals. The cost is found by a trial
    release of up to 4,000 rows, which is not kept.

    Parameters
    ----------
    table : Table, path, data frame or Database
        The original rows; it may be larger than memory.
    keep : sequence of str or Statistic, optional
        Statistics that must stay accurate, such as ``["corr(age, income)"]``. Default: none.
    schema : Schema, mapping or path, optional
        Roles of the columns; by default they are suggested.
    k : int, optional
        Smallest number of rows in a group, at least 2. Default: 5, or 3 in a table of fewer than 50 rows.
    l : int, optional
        Smallest number of different sensitive values in a group. Default: 2 if there is a sensitive column.
    population : int or float, optional
        Whole number of people among whom an intruder searches. Default: those of the table.
    engine : str or Engine, default "auto"
        Engine that reads the table.
    file : str, optional
        Name of the table in the command. Default: its path, or "FILE".
    arguments : sequence of str, optional
        Further arguments of the command, such as ``["--separator", ";"]``. Default: the path of the schema, if any.

    Returns
    -------
    Recommendation
        The method, its options, the reasons, the command and the cost.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 300)
    >>> people = {"age": ages, "income": 1000.0 + 40.0 * ages}
    >>> roles = {"age": "quasi", "income": "sensitive"}
    >>> found = sf.recommend(people, keep=["corr(age, income)"], schema=roles)
    >>> found.method, dict(found.options)
    ('boxes', {'k': 5, 'l': 2, 'keep': ['corr(age, income)']})
    >>> found.command
    "sfumato release FILE -o out --method boxes --k 5 --l 2 --keep 'corr(age, income)'"
    """
    for name, value, least in (("k", k, 2), ("l", l, 1)):
        if value is not None:
            require_int(value, name=name, at_least=least)
    population = None if population is None else require_population(population)  # 3e8 is a whole number, too
    with open_for_inspection(Job.of(table, schema=schema, engine=engine)) as opened:
        names = [column.name for column in opened.schema.without(Role.IDENTIFIER).columns]
        wanted = Preferences(keep=tuple(parse(one, names=names) for one in keep), k=k, l=l, population=population)
        choice = choose(_situation(opened, opened.schema), wanted)
        cost = _cost(opened, opened.schema, choice)
        others = _with_unknown(opened, wanted) if choice.method == "boxes" else None
    file = file or (str(table) if isinstance(table, str | Path) else "FILE")
    given = [*(["--schema", str(schema)] if isinstance(schema, str | Path) else []), *arguments]
    return Recommendation(
        method=choice.method,
        options=choice.options,
        reasons=choice.reasons,
        command=command_line(file, choice.method, choice.options, given),
        cost=cost,
        alternatives=choice.alternatives,
        unknown=None if others is None else _unknown(others, file, given),
    )


@dataclass(frozen=True, kw_only=True)
class _WithUnknown:
    """What is chosen, and what it costs, if columns that outsiders may not know are sensitive."""

    columns: tuple[str, ...]
    choice: ChosenMethod
    cost: Cost


def _with_unknown(opened: InspectedTable, wanted: Preferences) -> _WithUnknown | None:
    """Try the release again with the columns that outsiders may not know as sensitive ones; None if that fails."""
    kinds = opened.survey.kinds
    columns = tuple(
        column.name
        for column in opened.schema.columns
        if may_be_unknown(column) and kinds[column.name] is not Kind.DATE  # others may know when, whatever it is called
    )
    if not columns or set(columns) == set(opened.schema.names(Role.QUASI)):
        return None
    schema = opened.schema.with_roles(dict.fromkeys(columns, Role.SENSITIVE))
    with contextlib.suppress(SfumatoError):
        choice = choose(_situation(opened, schema), wanted)
        return _WithUnknown(columns=columns, choice=choice, cost=_cost(opened, schema, choice))
    return None


def _unknown(others: _WithUnknown, file: str, given: Sequence[str]) -> Unknown:
    roles = ["--sensitive", ",".join(map(quoted_name, others.columns))]
    command = command_line(file, others.choice.method, others.choice.options, [*given, *roles])
    return Unknown(columns=others.columns, command=command, widths=others.cost.widths)


def _situation(opened: InspectedTable, schema: Schema) -> Situation:
    suggested = with_suggested_trees(schema, opened.survey.sample.table)
    codes = tuple(column.name for column in suggested.columns if column.tree == "prefix" != schema[column.name].tree)
    return Situation(rows=opened.survey.rows, schema=schema, kinds=opened.survey.kinds, codes=codes)


def _cost(opened: InspectedTable, schema: Schema, choice: ChosenMethod) -> Cost:
    return expected_cost(choice.method, choice.options, opened.survey.sample.table, schema, opened.survey.rows)
