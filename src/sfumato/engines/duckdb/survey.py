"""A survey of rows in files: counts by SQL, and what needs the rows themselves in one pass over batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.engines.duckdb.facts import facts_of, number_sql
from sfumato.engines.duckdb.relation import quoted
from sfumato.statistics.moments import Moments
from sfumato.survey.quantile_sketches import Points, QuantileSketch
from sfumato.survey.questions import (
    Answers,
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
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.engines.duckdb.connection import Connection
    from sfumato.engines.duckdb.memory import MemoryPlan
    from sfumato.engines.duckdb.relation import Rows
    from sfumato.randomness import Randomness
    from sfumato.table.facts import ColumnFacts

RANK_ERROR = 1e-4  # largest error of the ranks of quantiles, as a share of the rows
FACTS = (FactsOf, ExtremesOf, MissingIn)
STREAMED = (MomentsOf, PointsOf, QuantilesOf)


@dataclass(frozen=True, repr=False)
class StoredSurvey:
    """A survey of rows that may not fit into memory."""

    stored: Rows
    connection: Connection
    memory: MemoryPlan
    block_rows: int | None
    randomness: Randomness
    sample_rows: int
    _facts: dict[tuple[str, bool], ColumnFacts] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return self.stored.rows

    @cached_property
    def sample(self) -> Sample:
        """Rows drawn at random by their number: the same rows that the memory engine draws from the same seed."""
        size = min(self.sample_rows, self.rows)
        if size == self.rows:
            chosen = np.arange(self.rows)
        else:
            chosen = np.sort(self.randomness.stream("sample").choice(self.rows, size, replace=False, shuffle=False))
        parts = []
        for keys, batch in self.stored.relation.batches(self.stored.names, self.memory.batch_rows):
            first, last = np.searchsorted(chosen, [keys[0], keys[-1] + np.uint64(1)])
            if last > first:
                parts.append(batch.take(pa.array(chosen[first:last] - int(keys[0]))))
        return Sample(self.stored.typed(pa.concat_tables(parts)), self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        asked = list(dict.fromkeys(questions))
        answers: dict[Question[Any], Any] = {}
        self._ask_facts([one for one in asked if isinstance(one, FACTS)], answers)
        for question in asked:
            if isinstance(question, DistinctIn):
                answers[question] = self._distinct(question)
            elif isinstance(question, GroupSizesOf):
                answers[question] = self._group_sizes(question)
            elif isinstance(question, PointsOf) and not question.epsilon:
                answers[question] = self._all_points(question.column)
        streamed = [one for one in asked if isinstance(one, STREAMED) and one not in answers]
        if streamed:
            answers |= self._stream(streamed)
        return Answers(answers)

    def _ask_facts(self, questions: Sequence[FactsOf | ExtremesOf | MissingIn], answers: dict[Any, Any]) -> None:
        """Answer counts and extremes from facts, all of them in one scan."""
        for count in (False, True):
            wanted = {one.column for one in questions if (isinstance(one, FactsOf) and one.count_distinct) == count}
            names = [name for name in self.stored.names if name in wanted and (name, count) not in self._facts]
            found = facts_of(self.connection, self.stored.relation, names, count, self.stored.kinds)
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
        column, limit = quoted(question.column), question.at_most
        most = "" if limit is None else f" ORDER BY number DESC LIMIT {limit + 1}"
        query = f"SELECT {column}, count(*) AS number FROM {self.stored.sql([question.column])} GROUP BY {column}{most}"
        found = self.connection.table(query)
        complete = limit is None or found.num_rows <= limit
        found = found if complete else found.slice(0, limit)
        values = self.stored.typed(found.select([question.column]))
        coded = values.coded(question.column)
        counts = np.zeros(coded.size, dtype=np.int64)
        counts[coded.codes] = found.column("number").to_numpy()
        return Distinct(coded.values, counts, is_complete=complete)

    def _group_sizes(self, question: GroupSizesOf) -> GroupSizes:
        columns = ", ".join(map(quoted, question.columns)) or "1"
        groups = f"SELECT count(*) AS size FROM {self.stored.sql(question.columns)} GROUP BY {columns}"
        found = self.connection.table(f"SELECT size, count(*) AS groups FROM ({groups}) GROUP BY size ORDER BY size")
        return GroupSizes(*(found.column(name).to_numpy().astype(np.int64) for name in ("size", "groups")))

    def _all_points(self, name: str) -> Points:
        number = number_sql(name, self.stored.relation.types[name])
        found = self.connection.table(
            f"SELECT {number} AS value, count(*) AS rows FROM {self.stored.sql([name])} GROUP BY value ORDER BY value"
        )
        present = found.filter(found.column("value").is_valid())
        values, rows = (present.column(one).to_numpy().astype(np.float64) for one in ("value", "rows"))
        return Points(values, rows, 0.0, self.rows - int(rows.sum()))

    def _stream(self, questions: Sequence[Question[Any]]) -> dict[Question[Any], Any]:
        """Answer in one pass over the columns that are needed."""
        collectors = {question: _COLLECTORS[type(question)](question) for question in questions}
        needed = dict.fromkeys(name for collector in collectors.values() for name in collector.columns)
        for _, batch in self.stored.tables(self.memory.batch_rows, list(needed)):
            for collector in collectors.values():
                collector.add(batch)
        return {question: collector.answer() for question, collector in collectors.items()}


class _Moments:
    def __init__(self, question: MomentsOf) -> None:
        self.names, self.weight = question.columns, question.weight
        self.columns = (*question.columns, *([question.weight] if question.weight else []))
        self.found = Moments.empty(len(question.columns), names=question.columns)

    def add(self, batch: Table) -> None:
        weights = None if self.weight is None else batch.numbers(self.weight)
        self.found = self.found.merge(Moments.of(batch.matrix(self.names), weights, names=self.names))

    def answer(self) -> Moments:
        return self.found


class _Points:
    def __init__(self, question: PointsOf | QuantilesOf) -> None:
        self.columns = (question.column,)
        self.sketch = QuantileSketch(question.epsilon if isinstance(question, PointsOf) else RANK_ERROR)

    def add(self, batch: Table) -> None:
        self.sketch.update(batch.numbers(self.columns[0]))

    def answer(self) -> Any:
        return self.sketch.points()


class _Quantiles(_Points):
    def __init__(self, question: QuantilesOf) -> None:
        super().__init__(question)
        self.shares = question.shares

    def answer(self) -> NDArray[np.float64]:
        points = self.sketch.points()
        if not len(points.values):
            return np.full(len(self.shares), np.nan)
        ranks = np.cumsum(points.weights) - points.weights / 2.0
        return np.interp(np.asarray(self.shares) * points.rows, ranks, points.values)


_COLLECTORS: dict[type[Question[Any]], Any] = {MomentsOf: _Moments, PointsOf: _Points, QuantilesOf: _Quantiles}
