"""A table in memory with its schema, and its survey, which answers from all rows at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.engines.base import others_of, without_identifiers
from sfumato.plan.questions import Answers, Question
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class MemoryTable:
    """A table in memory with its schema."""

    fitted: FittedTable

    @property
    def schema(self) -> Schema:
        return self.fitted.schema

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.fitted.table.kinds

    @property
    def rows(self) -> int:
        return self.fitted.table.rows

    @property
    def with_all_columns(self) -> MemoryTable:
        return MemoryTable(FittedTable(self.fitted.table, without_identifiers(self.schema)))

    def only(self, names: Sequence[str]) -> MemoryTable:
        return MemoryTable(FittedTable(self.fitted.table.select(names), others_of(self.schema, names)))

    @cached_property
    def releasable(self) -> Table:
        """All columns except identifiers: the columns that a method may see."""
        return self.fitted.table.select([column.name for column in self.schema.without(Role.IDENTIFIER).columns])


@dataclass(frozen=True, repr=False)
class MemorySurvey:
    """A survey of a table in memory, with exact answers; the sample is the table unless ``sample_rows`` is given."""

    table: Table
    block_rows: int | None = None
    sample_rows: int | None = None
    randomness: Randomness = field(default_factory=Randomness)

    @property
    def rows(self) -> int:
        return self.table.rows

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.table.kinds

    @cached_property
    def sample(self) -> Sample:
        if self.sample_rows is None or self.sample_rows >= self.rows:
            return Sample(self.table, self.rows)
        chosen = self.randomness.stream("sample").choice(self.rows, self.sample_rows, replace=False, shuffle=False)
        return Sample(self.table.take(np.sort(chosen)), self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        return Answers({question: question.finish(question.of(self.table)) for question in questions})
