"""An inspection of a table: kind, role and uniqueness of each column, and of the quasi-identifiers together.

It can be limited in time. Columns that were not counted in time are listed without counts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from sfumato.plan.questions import Answers, GroupSizesOf, MissingIn, PeopleAloneIn
from sfumato.plan.survey import Survey
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.kinds import Kind

CELLS_AT_A_TIME = 5_000_000  # between two looks at the clock


@dataclass(frozen=True, kw_only=True)
class ColumnInspection:
    """One column: its kind, its role with the reason for it, and how far it distinguishes rows."""

    name: str
    kind: Kind
    role: Role
    reason: str  # empty if the user gave the role
    missing: int | None  # rows without a value; None, here and below, if there was no time to count
    distinct: int | None  # different values, not counting a missing one
    unique_rows: int | None  # rows whose value no other row has; a missing value counts as a value


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """All columns of a table, and its quasi-identifiers together."""

    rows: int
    columns: tuple[ColumnInspection, ...]
    quasi: tuple[str, ...]
    groups: int | None  # combinations of the quasi-identifiers that occur; None if there was no time to count
    unique_rows: int | None  # rows whose combination no other row has
    smallest_group: int | None  # rows of the rarest combination
    people: int | None = None  # if a column tells people apart; None otherwise
    unique_people: int | None = None  # people with a combination that nobody else has

    @property
    def unique_share(self) -> float:
        """Share of the rows that the quasi-identifiers together single out, from 0 to 1; NaN if it is not known."""
        if self.unique_rows is None:
            return math.nan
        return self.unique_rows / self.rows if self.rows else 0.0

    @property
    def not_counted(self) -> tuple[str, ...]:
        """Columns that were not counted because the time was up."""
        return tuple(column.name for column in self.columns if column.distinct is None)


def inspect(survey: Survey, schema: Schema, *, seconds: float | None = None) -> Inspection:
    """Inspect every column of the schema: in one round of survey questions, or in several within a time limit."""
    deadline = math.inf if seconds is None else time.perf_counter() + seconds
    quasi, kinds = schema.names(Role.QUASI), survey.kinds
    together, columns = GroupSizesOf(quasi), schema.columns
    step = len(columns) if seconds is None else max(CELLS_AT_A_TIME // max(survey.rows, 1), 1)
    inspected: list[ColumnInspection] = []
    answers: Answers | None = survey.ask([together]) if not columns else None
    for first in range(0, len(columns), max(step, 1)):
        if first and time.perf_counter() > deadline:
            break
        part = columns[first : first + step]
        is_last = first + step >= len(columns)
        asked = [question for column in part for question in (GroupSizesOf((column.name,)), MissingIn(column.name))]
        answers = survey.ask([*asked, *([together] if is_last else [])])
        inspected += [_inspect(column, kinds[column.name], answers) for column in part]
    is_complete = answers is not None and len(inspected) == len(columns)
    sizes = answers[together] if answers is not None and is_complete else None
    return Inspection(
        rows=survey.rows,
        columns=(*inspected, *(_inspect(one, kinds[one.name], None) for one in columns[len(inspected) :])),
        quasi=quasi,
        groups=None if sizes is None else sizes.count,
        unique_rows=None if sizes is None else sizes.unique_rows,
        smallest_group=None if sizes is None else sizes.smallest,
        **(_count_people(survey, quasi, schema.person) if is_complete and schema.person is not None else {}),
    )


def _count_people(survey: Survey, quasi: tuple[str, ...], person: str) -> dict[str, int]:
    every, alone = GroupSizesOf((person,)), PeopleAloneIn(quasi, person)
    answers = survey.ask([every, alone])
    return {"people": answers[every].count, "unique_people": answers[alone]}


def _inspect(column: Column, kind: Kind, answers: Answers | None) -> ColumnInspection:
    """Inspect one column; without answers, because there was no time, it is only listed."""
    sizes = None if answers is None else answers[GroupSizesOf((column.name,))]
    missing = None if answers is None else answers[MissingIn(column.name)]
    return ColumnInspection(
        name=column.name,
        kind=kind,
        role=column.role,
        reason=column.reason,
        missing=missing,
        distinct=None if sizes is None or missing is None else sizes.count - (missing > 0),
        unique_rows=None if sizes is None else sizes.unique_rows,
    )
