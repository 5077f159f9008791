"""A survey of rows in files. An engine answers a few queries; the rest is the same for all engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.survey.quantile_sketches import Points
from sfumato.survey.questions import (
    Answers,
    CombinationsOf,
    Distinct,
    DistinctIn,
    Extremes,
    ExtremesOf,
    FactsOf,
    GroupSizes,
    GroupSizesOf,
    MissingIn,
    MomentsOf,
    PointsOf,
    QuantilesOf,
    Question,
)
from sfumato.survey.survey import Sample

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.engines.stored.memory import MemoryPlan
    from sfumato.engines.stored.relation import Rows
    from sfumato.randomness import Randomness
    from sfumato.table.facts import ColumnFacts
    from sfumato.table.kinds import Kind

FACTS = (FactsOf, ExtremesOf, MissingIn)
COLLECTED = (MomentsOf, PointsOf, QuantilesOf, CombinationsOf)


class Queries(ABC):
    """What an engine must be able to answer about stored rows."""

    @abstractmethod
    def facts(self, names: Sequence[str], count_distinct: bool = False) -> Mapping[str, ColumnFacts]:
        """Return counts and extremes of these columns, in one scan."""

    @abstractmethod
    def distinct(self, column: str, most: int | None) -> pa.Table:
        """Return the values of a column, and in a second column their rows; the ``most`` frequent if given."""

    @abstractmethod
    def group_sizes(self, columns: Sequence[str]) -> pa.Table:
        """Return the ``size`` of groups of equal rows in ascending order, and how many ``groups`` have it."""

    @abstractmethod
    def values(self, column: str) -> pa.Table:
        """Return each ``value`` of a column as a number, in ascending order, and its number of ``rows``."""

    @abstractmethod
    def collected(self, questions: Sequence[Question[Any]]) -> Mapping[Question[Any], Any]:
        """Answer, in one pass over the rows, questions that need the rows themselves."""

    @abstractmethod
    def taken(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return the rows with these numbers, which ascend, with all columns."""


@dataclass(frozen=True, repr=False)
class StoredSurvey:
    """A survey of rows that may not fit into memory."""

    stored: Rows
    queries: Queries
    block_rows: int | None
    randomness: Randomness
    sample_rows: int
    _facts: dict[tuple[str, bool], ColumnFacts] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: Rows, queries: Queries, memory: MemoryPlan, block_rows: int | None, randomness: Randomness
    ) -> StoredSurvey:
        """Return a survey with blocks and a sample that fit into memory; the sample is all rows if a block holds them.

        ``block_rows`` is what the user gave, or None.
        """
        most = block_rows or memory.block_rows
        return cls(rows, queries, most, randomness, rows.rows if rows.rows <= most else memory.sample_rows)

    @property
    def rows(self) -> int:
        return self.stored.rows

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.stored.kinds

    @cached_property
    def sample(self) -> Sample:
        """Rows drawn at random by their number: the same rows that the memory engine draws from the same seed."""
        size = min(self.sample_rows, self.rows)
        if size == self.rows:
            chosen = np.arange(self.rows)
        else:
            chosen = np.sort(self.randomness.stream("sample").choice(self.rows, size, replace=False, shuffle=False))
        return Sample(self.stored.typed(self.queries.taken(chosen)), self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        asked = list(dict.fromkeys(questions))
        answers: dict[Question[Any], Any] = {}
        self._ask_facts([one for one in asked if isinstance(one, FACTS)], answers)
        for question in asked:
            if isinstance(question, DistinctIn):
                answers[question] = self._distinct(question)
            elif isinstance(question, GroupSizesOf):
                found = self.queries.group_sizes(question.columns)
                answers[question] = GroupSizes(
                    *(found.column(name).to_numpy().astype(np.int64) for name in ("size", "groups"))
                )
            elif isinstance(question, PointsOf) and not question.epsilon:
                answers[question] = self._all_points(question.column)
        collected = [one for one in asked if isinstance(one, COLLECTED) and one not in answers]
        if collected:
            answers |= self.queries.collected(collected)
        return Answers(answers)

    def _ask_facts(self, questions: Sequence[FactsOf | ExtremesOf | MissingIn], answers: dict[Any, Any]) -> None:
        """Answer counts and extremes from facts, all of them in one scan."""
        for count in (False, True):
            wanted = {one.column for one in questions if (isinstance(one, FactsOf) and one.count_distinct) == count}
            names = [name for name in self.stored.names if name in wanted and (name, count) not in self._facts]
            if names:
                found = self.queries.facts(names, count)
                self._facts.update({(name, count): facts for name, facts in found.items()})
        for question in questions:
            facts = self._facts[question.column, isinstance(question, FactsOf) and question.count_distinct]
            if isinstance(question, FactsOf):
                answers[question] = facts
            elif isinstance(question, ExtremesOf):
                answers[question] = Extremes(facts.low, facts.high)
            else:
                answers[question] = facts.missing

    def _distinct(self, question: DistinctIn) -> Distinct:
        limit = question.at_most
        found = self.queries.distinct(question.column, None if limit is None else limit + 1)
        complete = limit is None or found.num_rows <= limit
        found = found if complete else found.slice(0, limit)
        coded = self.stored.typed(found.select([0])).coded(question.column)
        counts = np.zeros(coded.size, dtype=np.int64)
        counts[coded.codes] = found.column(1).to_numpy()
        return Distinct(coded.values, counts, is_complete=complete)

    def _all_points(self, name: str) -> Points:
        found = self.queries.values(name)
        present = found.filter(found.column("value").is_valid())
        values, rows = (present.column(one).to_numpy().astype(np.float64) for one in ("value", "rows"))
        return Points(values, rows, 0.0, self.rows - int(rows.sum()))
