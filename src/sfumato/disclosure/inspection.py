"""What a table looks like to someone who wants to know which columns tell people apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.schema.schema import Role

if TYPE_CHECKING:
    from sfumato.schema.schema import Column, Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table


@dataclass(frozen=True, kw_only=True)
class ColumnInspection:
    """One column: what it is, what it is taken for and why, and how far it tells rows apart."""

    name: str
    kind: Kind
    role: Role
    reason: str  # empty where the user gave the role
    missing: int  # rows without a value
    distinct: int  # different values, a missing one not counted
    unique_rows: int  # rows whose value no other row has, a missing one being a value


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """All columns, and the quasi-identifiers together."""

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


def inspect(survey: Survey, schema: Schema, table: Table) -> Inspection:
    """Look at every column of the schema; ``table`` tells the kinds, the survey counts."""
    quasi = schema.names(Role.QUASI)
    sizes = survey.counts(quasi)
    return Inspection(
        rows=survey.rows,
        columns=tuple(_inspect(survey, column, table.kinds[column.name]) for column in schema.columns),
        quasi=quasi,
        groups=int(sizes.size),
        unique_rows=int((sizes == 1).sum()),
        smallest_group=int(sizes.min(initial=survey.rows)),
    )


def _inspect(survey: Survey, column: Column, kind: Kind) -> ColumnInspection:
    distinct = survey.distinct(column.name)
    missing = int(distinct.counts[-1]) if distinct.values.null_count else 0
    return ColumnInspection(
        name=column.name,
        kind=kind,
        role=column.role,
        reason=column.reason,
        missing=missing,
        distinct=len(distinct.values) - distinct.values.null_count,
        unique_rows=int((distinct.counts == 1).sum()),
    )
