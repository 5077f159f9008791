"""Recommend a method: look at the table, choose, and try the choice on some of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.registry import engine_for
from sfumato.errors import names_memory_errors
from sfumato.examination import examined
from sfumato.params import require_int
from sfumato.recommendation.choice import Situation, Wanted, choose
from sfumato.recommendation.cost import expected_cost
from sfumato.recommendation.records import Recommendation, command_line
from sfumato.schema.columns import Role
from sfumato.statistics.language import parse

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
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
    population: int | None = None,
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
    population : int, optional
        Number of people among whom an intruder searches. Default: those of the table.
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
    for name, value, least in (("k", k, 2), ("l", l, 1), ("population", population, 1)):
        if value is not None:
            require_int(value, name=name, at_least=least)
    with examined(table, schema, engine_for(engine, table)) as opened:
        sample, rows = opened.survey.sample.table, opened.survey.rows
        names = opened.schema.without(Role.IDENTIFIER)
        wanted = Wanted(
            keep=tuple(parse(one, names=[column.name for column in names.columns]) for one in keep),
            k=k,
            l=l,
            population=population,
        )
        choice = choose(Situation(rows=rows, schema=opened.schema, kinds=opened.survey.kinds), wanted)
        cost = expected_cost(choice.method, choice.options, sample, opened.schema, rows)
    file = file or (str(table) if isinstance(table, str | Path) else "FILE")
    given = ["--schema", str(schema)] if isinstance(schema, str | Path) else []
    return Recommendation(
        method=choice.method,
        options=choice.options,
        reasons=choice.reasons,
        command=command_line(file, choice.method, choice.options, [*given, *arguments]),
        cost=cost,
        alternatives=choice.alternatives,
    )
