"""An inspection of a table: kind, role and uniqueness of each column, and of the quasi-identifiers together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.schema.columns import Role
from sfumato.survey.questions import GroupSizesOf, MissingIn

if TYPE_CHECKING:
    from sfumato.schema.columns import Column
    from sfumato.schema.schema import Schema
    from sfumato.survey.questions import Answers
    from sfumato.survey.survey import Survey
    from sfumato.table.kinds import Kind


@dataclass(frozen=True, kw_only=True)
class ColumnInspection:
    """One column: its kind, its role with the reason for it, and how far it distinguishes rows."""

    name: str
    kind: Kind
    role: Role
    reason: str  # empty if the user gave the role
    missing: int  # rows without a value
    distinct: int  # different values, not counting a missing one
    unique_rows: int  # rows whose value no other row has; a missing value counts as a value


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """All columns of a table, and its quasi-identifiers together."""

    rows: int
    columns: tuple[ColumnInspection, ...]
    quasi: tuple[str, ...]
    groups: int  # combinations of the quasi-identifiers that occur
    unique_rows: int  # rows whose combination no other row has
    smallest_group: int  # rows of the rarest combination

    @property
    def unique_share(self) -> float:
        """Share of the rows that the quasi-identifiers together single out, from 0 to 1."""
        return self.unique_rows / self.rows if self.rows else 0.0


def inspect(survey: Survey, schema: Schema) -> Inspection:
    """Inspect every column of the schema, in one round of survey questions."""
    quasi = schema.names(Role.QUASI)
    names = [column.name for column in schema.columns]
    answers = survey.ask(
        [GroupSizesOf(quasi), *(GroupSizesOf((name,)) for name in names), *(MissingIn(name) for name in names)]
    )
    together, kinds = answers[GroupSizesOf(quasi)], survey.sample.table.kinds
    return Inspection(
        rows=survey.rows,
        columns=tuple(_inspect(answers, column, kinds[column.name]) for column in schema.columns),
        quasi=quasi,
        groups=together.count,
        unique_rows=together.unique_rows,
        smallest_group=together.smallest,
    )


def _inspect(answers: Answers, column: Column, kind: Kind) -> ColumnInspection:
    sizes, missing = answers[GroupSizesOf((column.name,))], answers[MissingIn(column.name)]
    return ColumnInspection(
        name=column.name,
        kind=kind,
        role=column.role,
        reason=column.reason,
        missing=missing,
        distinct=sizes.count - (missing > 0),
        unique_rows=sizes.unique_rows,
    )
