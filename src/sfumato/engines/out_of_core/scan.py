"""A survey of rows in files. An engine answers a few queries; the rest is the same for all engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.engines.out_of_core.source import EXACTLY_COUNTED, StoredRows, column_facts
from sfumato.machine import MemoryBudget
from sfumato.plan.answers import ComparedRows, EqualRowCounts, Extremes
from sfumato.plan.questions import (
    Answers,
    Distinct,
    DistinctIn,
    ExtremesOf,
    FactsOf,
    GroupSizesOf,
    MissingIn,
    PartialAnswers,
    PointsOf,
    Question,
)
from sfumato.plan.sketches import WeightedPoints
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.table.facts import ColumnFacts
from sfumato.table.group_counts import GroupSizes
from sfumato.table.kinds import Kind, is_text

FROM_FACTS: dict[type[Question[Any]], Callable[[ColumnFacts], Any]] = {  # questions that facts of a column answer
    FactsOf: lambda facts: facts,
    ExtremesOf: lambda facts: Extremes(facts.low, facts.high),
    MissingIn: lambda facts: facts.missing,
}


@dataclass(frozen=True)
class SqlDialect:
    """What engines write in different ways in SQL, with ``{}`` in place of a column."""

    days: str  # of a date, since 1970
    microseconds: str  # of a timestamp without a time zone, since 1970
    instant: str  # microseconds of a timestamp with a time zone, since 1970 in UTC
    is_infinite: str
    estimated_distinct: str  # number of distinct values

    def number(self, column: str, kind: pa.DataType) -> str | None:
        """Return a column in the units of ``Table.numbers``: days, microseconds, or the number itself; else None."""
        if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
            return f"CAST({column} AS DOUBLE)"
        moments = self.instant if pt.is_timestamp(kind) and kind.tz else self.microseconds
        unit = self.days if pt.is_date(kind) else moments if pt.is_timestamp(kind) else None
        return None if unit is None else f"CAST({unit.format(column)} AS DOUBLE)"

    def counts(self, column: str, kind: pa.DataType, distinct: str | None) -> dict[str, str]:
        """Return the counts of :func:`column_facts`; ``distinct`` is how distinct values are counted, if they are."""
        number = self.number(column, kind)
        asked = {"present": f"count({column})"}
        asked |= {"low": f"min({number})", "high": f"max({number})"} if number else {}
        asked |= {"infinite": f"count_if({self.is_infinite.format(column)})"} if pt.is_floating(kind) else {}
        if distinct is not None:
            asked["distinct"] = distinct.format(column)
            spaces = f"sum(length({column}) - length(replace({column}, ' ', '')))"
            asked |= {"blanks": spaces} if is_text(kind) else {}
        return asked


class Scan(ABC):
    """How an engine reads stored rows: all of them for any questions, and a few counts by shortcuts of its own."""

    stored: StoredRows
    dialect: ClassVar[SqlDialect]

    def facts(self, names: Sequence[str], count_distinct: bool = False) -> Mapping[str, ColumnFacts]:
        """Return counts and extremes of these columns, in one scan."""
        if not names:
            return {}
        types, kinds = self.stored.relation.types, self.stored.kinds
        exact = self.stored.rows <= EXACTLY_COUNTED
        distinct = "count(DISTINCT {})" if exact else self.dialect.estimated_distinct
        asked = [
            f"{sql} AS {count}{position}"
            for position, name in enumerate(names)
            for count, sql in self.dialect.counts(
                self.column(name), types[name], distinct if count_distinct else None
            ).items()
        ]
        counts = self.count(["count(1) AS rows", *asked], names)
        return {
            name: column_facts(counts, position, kinds.get(name, Kind.NOMINAL), types[name])
            for position, name in enumerate(names)
        }

    @abstractmethod
    def column(self, name: str) -> str:
        """Return a column in SQL."""

    @abstractmethod
    def count(self, asked: Sequence[str], names: Sequence[str]) -> Mapping[str, Any]:
        """Return the only row of a query that counts all rows in these columns."""

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
    def fold(self, questions: Sequence[Question[Any]]) -> PartialAnswers:
        """Return the partial answers of all rows, read batch by batch in one pass."""

    @abstractmethod
    def take(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return the rows with these numbers, which ascend, with all columns."""


@dataclass(frozen=True, repr=False)
class OutOfCoreSurvey:
    """A survey of rows that may not fit into memory."""

    stored: StoredRows
    scan: Scan
    block_rows: int | None
    randomness: Randomness
    sample_rows: int
    _facts: dict[tuple[str, bool], ColumnFacts] = field(default_factory=dict)

    @classmethod
    def of(
        cls, rows: StoredRows, scan: Scan, memory: MemoryBudget, block_rows: int | None, randomness: Randomness
    ) -> OutOfCoreSurvey:
        """Return a survey with blocks and a sample that fit into memory; the sample is all rows if a block holds them.

        ``block_rows`` is what the user gave, or None.
        """
        most = block_rows or memory.block_rows
        sampled = rows.rows if rows.rows <= most else memory.sample_rows(-(-rows.rows // most))
        return cls(rows, scan, most, randomness, sampled)

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
        return Sample(self.stored.to_table(self.scan.take(chosen)), self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        """Answer by the shortcuts of the engine where there are some, and the rest in one pass over the rows."""
        asked = list(dict.fromkeys(questions))
        answers = self._answer_from_facts([one for one in asked if type(one) in FROM_FACTS])
        for question in asked:
            if type(question) in SHORTCUTS:
                answer = SHORTCUTS[type(question)](self, question)
                answers |= {} if answer is None else {question: answer}
        others = [one for one in asked if one not in answers]
        return Answers(answers | self.scan.fold(others).finish() if others else answers)

    def _answer_from_facts(self, questions: Sequence[Any]) -> dict[Question[Any], Any]:
        """Answer counts and extremes from facts, all of them in one scan."""
        keys = {one: (one.column, getattr(one, "count_distinct", False)) for one in questions}
        unknown = set(keys.values()) - set(self._facts)
        for count in (False, True):
            names = [name for name in self.stored.names if (name, count) in unknown]
            if names:
                self._facts.update({(name, count): facts for name, facts in self.scan.facts(names, count).items()})
        return {one: FROM_FACTS[type(one)](self._facts[key]) for one, key in keys.items()}

    def distinct(self, question: DistinctIn) -> Distinct:
        """Return the distinct values that the engine has counted."""
        limit = question.at_most
        counted = self.scan.distinct(question.column, None if limit is None else limit + 1)
        complete = limit is None or counted.num_rows <= limit
        counted = counted if complete else counted.slice(0, limit)
        coded = self.stored.to_table(counted.select([0])).coded(question.column)
        counts = np.zeros(coded.size, dtype=np.int64)
        counts[coded.codes] = counted.column(1).to_numpy()
        return Distinct(coded.values, counts, is_complete=complete)

    def group_sizes(self, question: GroupSizesOf) -> GroupSizes:
        """Return the sizes of groups that the engine has counted."""
        return histogram_of(self.scan.group_sizes(question.columns))

    def all_points(self, question: PointsOf) -> WeightedPoints | None:
        """Return all values of a column, counted by the engine; None if a sketch is enough."""
        if question.epsilon:
            return None
        counted = self.scan.values(question.column)
        present = counted.filter(counted.column("value").is_valid())
        values, rows = (present.column(one).to_numpy().astype(np.float64) for one in ("value", "rows"))
        return WeightedPoints(values, rows, 0.0, self.rows - int(rows.sum()))


SHORTCUTS: dict[type[Question[Any]], Callable[[OutOfCoreSurvey, Any], Any]] = {  # None: no shortcut for this one
    DistinctIn: OutOfCoreSurvey.distinct,
    GroupSizesOf: OutOfCoreSurvey.group_sizes,
    PointsOf: OutOfCoreSurvey.all_points,
}


def histogram_of(counted: pa.Table) -> GroupSizes:
    """Return the sizes of groups from the columns ``size`` and ``groups`` of a query."""
    return GroupSizes(*(counted.column(name).to_numpy().astype(np.int64) for name in ("size", "groups")))


# Compare the keys of all original rows, the people, with those of all released rows, by SQL that all engines have.


def compare_keys(people: str, rows: str, told_apart: bool, ask: Callable[[str], pa.Table]) -> ComparedRows:
    """Compare two relations of keys, given in SQL; see :class:`sfumato.engines.base.RowKeys`.

    ``told_apart`` says whether a column tells people apart, and ``ask`` answers a query.
    """
    count = "count(DISTINCT (person_a, person_b))" if told_apart else "count(*)"
    owners = ask(f"SELECT count(*) AS rows, {count} AS people FROM {people}").to_pylist()[0]
    shown = f"(SELECT count(*) AS size FROM {rows} AS released GROUP BY shown_a, shown_b) AS counted"
    groups = histogram_of(ask(f"SELECT size, count(*) AS groups FROM {shown} GROUP BY size ORDER BY size"))
    return ComparedRows(
        original_rows=owners["rows"],
        people=owners["people"],
        released_rows=int(groups.sizes @ groups.groups),
        whole=_equal_rows("whole", people, rows, told_apart, ask),
        known=_equal_rows("known", people, rows, told_apart, ask),
        groups=groups,
    )


def _equal_rows(key: str, people: str, rows: str, told_apart: bool, ask: Callable[[str], pa.Table]) -> EqualRowCounts:
    """Count the people whom released rows equal in a key; who shares the ``known`` key with others is not unique.

    The hint keeps Spark from sending a side of the join through its driver; other engines read a comment.
    """
    on = f"{key}_a, {key}_b"
    count = "count(DISTINCT (person_a, person_b))" if told_apart else "count(*)"
    person = "any_value((person_a, person_b))" if told_apart else "NULL"
    those = "count(DISTINCT person) FILTER (WHERE {})" if told_apart else "count_if({})"
    query = f"""
        WITH together AS (
            SELECT {on}, {count} AS people, {person} AS person, any_value(known_a) AS a, any_value(known_b) AS b
            FROM {people} AS everybody GROUP BY {on}
        ), alone AS (
            SELECT known_a AS a, known_b AS b FROM {people} AS everybody GROUP BY known_a, known_b HAVING {count} = 1
        ), shown AS (
            SELECT {on}, count(*) AS number FROM {rows} AS released GROUP BY {on}
        ), counted AS (
            SELECT /*+ MERGE(shown, alone) */
                people, person, coalesce(number, 0) AS number, people = 1 AND alone.a IS NOT NULL AS is_unique
            FROM together LEFT JOIN shown USING ({on}) LEFT JOIN alone ON together.a = alone.a AND together.b = alone.b
        )
        SELECT {those.format("is_unique")} AS is_unique, {those.format("is_unique AND number > 0")} AS copied,
            count_if(people = 2) AS pairs, CAST(coalesce(sum(number), 0) AS BIGINT) AS equal FROM counted
    """
    counts = {name: int(number) for name, number in ask(query).to_pylist()[0].items()}  # DuckDB counts in 128 bits
    return EqualRowCounts(
        unique=counts["is_unique"], copied=counts["copied"], pairs=counts["pairs"], equal=counts["equal"]
    )
