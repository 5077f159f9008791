"""Recommend a method: look at the table, choose with reasons in words, and test the choice on held-out people.

If the choice fails its privacy tests, changes are tried in the same way as `improve` does, and what passes is
recommended.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.comparison.attempts import Trial
from sfumato.errors import OptionError, SfumatoError, wrap_memory_errors
from sfumato.job.inspect import open_for_inspection
from sfumato.job.job import Job
from sfumato.methods.base import make_method
from sfumato.params import require_int, require_probability
from sfumato.recommendation.changes import Change, HeldOutTrials, changes, find_passing, require_testable
from sfumato.recommendation.choice import ChosenMethod, Preferences, Situation, choose
from sfumato.recommendation.records import (
    TRIED,
    Cost,
    Recommendation,
    Unknown,
    command_line,
    expected_cost,
    hidden_steps,
    quoted_name,
    try_release,
)
from sfumato.report.distributions import blamed_columns
from sfumato.risk.anonymity_budget import require_population
from sfumato.schema.columns import Role
from sfumato.schema.recognition.roles import may_be_unknown
from sfumato.schema.schema import FittedTable
from sfumato.schema.suggested_hierarchies import add_suggested_trees
from sfumato.statistics.language import parse
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.job.inspect import InspectedTable
    from sfumato.recommendation.changes import ImprovementStep
    from sfumato.report.distributions import BlamedColumn
    from sfumato.schema.schema import Schema
    from sfumato.statistics.statistic import Statistic


ROUNDING = 1e-9  # of 1/risk, so that a third gives 3
SECONDS = 120.0  # after which no further change is tried


@wrap_memory_errors
def recommend(
    table: Any,
    keep: Sequence[str | Statistic] = (),
    *,
    schema: Schema | Mapping[str, Any] | str | Path | None = None,
    k: int | None = None,
    l: int | None = None,
    risk: float | None = None,
    population: float | None = None,
    engine: str | Engine = "auto",
    file: str | None = None,
    arguments: Sequence[str] = (),
    seconds: float = SECONDS,
) -> Recommendation:
    """Recommend a method and its options for a table, with reasons and the expected cost.

    The choice follows from the roles and kinds of the columns, the number of rows and the statistics that must stay
    accurate. It prefers methods that promise privacy and give certain intervals. The cost is found by a trial release
    of up to 4,000 rows, which is not kept.

    The choice is then tested: half of the people are released in this way and attacked, and the others are those who
    are not in it. If a privacy test fails, stronger options, more protected columns and rows from a model are tried,
    and the first that passes is recommended. If none passes, ``passed`` is False and ``verdict`` says why.
    :func:`sfumato.compare` holds out the same people and takes the same tests, so that both come to the same verdict.
    Of tables of more than 4,000 rows, a random part of that size is tested.

    The same question about the same table has the same answer. Other options, roles or statistics are other questions:
    the tests do not know how many were asked, and whoever asks until something passes weakens them.

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
    risk : float, optional
        Accepted probability, above 0 and below 1, that an intruder who knows the quasi-identifiers of a person picks
        the right one of the people who look alike: k is the smallest with 1/k ≤ risk. Instead of ``k``.
    population : int or float, optional
        Whole number of people among whom an intruder searches. Default: those of the table.
    engine : str or Engine, default "auto"
        Engine that reads the table.
    file : str, optional
        Name of the table in the command. Default: its path, or "FILE".
    arguments : sequence of str, optional
        Further arguments of the command, such as ``["--separator", ";"]``. Default: the path of the schema, if any.
    seconds : float, default 120
        Time after which no further change is tried. With 0 only the choice itself is tested.

    Returns
    -------
    Recommendation
        The method, its options, the reasons, the command, the cost, and whether it ``passed`` the privacy tests.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> ages = np.random.default_rng(0).integers(18, 90, 300)
    >>> people = {"age": ages, "income": 1000.0 + 40.0 * ages}
    >>> roles = {"age": "quasi", "income": "sensitive"}
    >>> found = sf.recommend(people, keep=["corr(age, income)"], schema=roles, seconds=0)
    >>> found.method, dict(found.options)
    ('boxes', {'k': 5, 'l': 2, 'keep': ['corr(age, income)']})
    >>> found.command
    "sfumato release FILE -o out --method boxes --k 5 --l 2 --keep 'corr(age, income)'"
    """
    for name, value, least in (("k", k, 2), ("l", l, 1)):
        if value is not None:
            require_int(value, name=name, at_least=least)
    k = k if risk is None else _k_for(risk, k)
    population = None if population is None else require_population(population)  # 3e8 is a whole number, too
    file = file or (str(table) if isinstance(table, str | Path) else "FILE")
    given = [*(["--schema", str(schema)] if isinstance(schema, str | Path) else []), *arguments]
    with open_for_inspection(Job.of(table, schema=schema, engine=engine)) as opened:
        names = [column.name for column in opened.schema.without(Role.IDENTIFIER).columns]
        wanted = Preferences(
            keep=tuple(parse(one, names=names) for one in keep), k=k, l=l, population=population, risk=risk
        )
        choice = choose(_situation(opened, opened.schema), wanted)
        tested = _test(opened, choice, wanted, seconds)
        if tested.changed is not None:
            return _changed(opened, choice, tested, file, given)
        cost = _cost(opened, opened.schema, choice)
        others = _with_unknown(opened, wanted, cost) if choice.method == "boxes" else None
    return Recommendation(
        method=choice.method,
        options=choice.options,
        reasons=choice.reasons,
        command=command_line(file, choice.method, choice.options, given),
        cost=cost,
        alternatives=choice.alternatives,
        unknown=None if others is None else _unknown(others, file, given),
        passed=tested.passed,
        verdict=tested.verdict,
        steps=tested.steps,
    )


def _k_for(risk: float, k: int | None) -> int:
    """Return the smallest k with 1/k within the risk."""
    if k is not None:
        raise OptionError("k follows from the accepted risk.", found="both k and risk", fix="one of them")
    return max(2, math.ceil(1.0 / require_probability(risk, name="risk") - ROUNDING))


@dataclass(frozen=True, kw_only=True)
class _Tested:
    """What the tests on held-out people found, and the change that passes if the choice itself does not."""

    passed: bool | None
    verdict: str
    steps: tuple[ImprovementStep, ...] = ()
    changed: Change | None = None


def _test(opened: InspectedTable, choice: ChosenMethod, wanted: Preferences, seconds: float) -> _Tested:
    """Test a choice on held-out people of the table or, if it is larger, of a random part of it."""
    fitted = opened.fitted(TRIED)
    try:
        require_testable(fitted)
    except OptionError as error:
        return _Tested(passed=None, verdict=f"Not tested: {error}")
    trials = HeldOutTrials(fitted=fitted, given={"rows_not_people": True})
    method = make_method(choice.method, **choice.options)
    start = Change(trial=Trial(method=method), change=f"{choice.method}, as chosen", is_first=True)
    with hidden_steps():
        found = find_passing(trials, start, lambda: _groups(start, fitted, choice, wanted), seconds=seconds)
    if found.candidate is None:
        return _Tested(passed=False, verdict=found.refusal, steps=found.steps)
    verdict = f"All {found.steps[-1].tests} privacy tests passed on held-out people of {fitted.table.rows:,} rows"
    changed = None if found.candidate is start else found.candidate
    verdict += "." if changed is None else f"; not so {found.steps[0]}."
    return _Tested(passed=True, verdict=verdict, steps=found.steps, changed=changed)


def _groups(start: Change, fitted: FittedTable, choice: ChosenMethod, wanted: Preferences) -> Iterator[list[Change]]:
    """Yield changes that a command can say: a column is only left out of the file; a given k or population stays."""
    blamed: Sequence[BlamedColumn] = ()
    with contextlib.suppress(SfumatoError):
        blamed = blamed_columns(try_release(choice.method, choice.options, fitted.table, fitted.schema))
    given = [name for name in ("k", "population") if getattr(wanted, name) is not None]
    stays = {name: choice.options[name] for name in given if name in choice.options}
    for group in changes(start, fitted.schema, blamed, fitted.table.rows):
        asked = [one for one in group if stays == {name: getattr(one.trial.method, name, None) for name in stays}]
        if asked and not group[0].trial.left_out:
            yield asked


def _changed(
    opened: InspectedTable, choice: ChosenMethod, tested: _Tested, file: str, given: Sequence[str]
) -> Recommendation:
    """Return the recommendation of what passed in place of the choice."""
    assert tested.changed is not None
    trial, schema = tested.changed.trial, opened.schema.with_roles(tested.changed.trial.roles)
    passing = replace(choice, method=trial.method.name, options=trial.options)
    roles = [word for name, role in trial.roles.items() for word in ("--role", f"{quoted_name(name)}={role}")]
    return Recommendation(
        method=passing.method,
        options=passing.options,
        reasons=(*choice.reasons[:1], f"{tested.changed.change}: {tested.changed.reason}"),
        command=command_line(file, passing.method, passing.options, [*given, *roles]),
        cost=_cost(opened, schema, passing),
        alternatives=tuple(one for one in choice.alternatives if one.method != passing.method),
        passed=True,
        verdict=tested.verdict,
        steps=tested.steps,
        roles={name: str(role) for name, role in trial.roles.items()},
    )


@dataclass(frozen=True, kw_only=True)
class _WithUnknown:
    """What is chosen, and what it costs, if columns that outsiders may not know are sensitive."""

    columns: tuple[str, ...]
    choice: ChosenMethod
    cost: Cost


def _with_unknown(opened: InspectedTable, wanted: Preferences, cost: Cost) -> _WithUnknown | None:
    """Try the release again with columns that outsiders may not know as sensitive ones; None if nothing is gained."""
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
        others = _WithUnknown(columns=columns, choice=choice, cost=_cost(opened, schema, choice))
        pairs = zip(others.cost.widths, cost.widths, strict=False)  # a trial that failed has no widths
        return others if any(new.width < old.width for new, old in pairs) else None
    return None


def _unknown(others: _WithUnknown, file: str, given: Sequence[str]) -> Unknown:
    roles = ["--sensitive", ",".join(map(quoted_name, others.columns))]
    command = command_line(file, others.choice.method, others.choice.options, [*given, *roles])
    return Unknown(columns=others.columns, command=command, widths=others.cost.widths)


def _situation(opened: InspectedTable, schema: Schema) -> Situation:
    suggested = add_suggested_trees(schema, opened.survey.sample.table)
    codes = tuple(column.name for column in suggested.columns if column.tree == "prefix" != schema[column.name].tree)
    return Situation(rows=opened.survey.rows, schema=schema, kinds=opened.survey.kinds, codes=codes)


def _cost(opened: InspectedTable, schema: Schema, choice: ChosenMethod) -> Cost:
    return expected_cost(choice.method, choice.options, opened.survey.sample.table, schema, opened.survey.rows)
