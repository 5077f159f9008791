"""Questions that a method can ask about a table that it never holds as a whole, and their answers.

    batch → Question.of → merge with the partial answers of other batches → finish → answer

A question knows how it is answered, and an engine only scans: the memory engine answers from the whole table, other
engines batch by batch. Several questions are asked at once, so that an engine can answer all of them in one scan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import TableError
from sfumato.plan.answers import Extremes, ReleasedSets, ReleasedWidths, outer_end
from sfumato.plan.sketches import CombinationSketch, CombinationSketches, QuantileSketch, WeightedPoints, all_points
from sfumato.statistics.moments import Moments
from sfumato.table.coding import code_column
from sfumato.table.facts import ColumnFacts, facts_of
from sfumato.table.group_counts import GroupCounts, GroupSizes, PeopleCounts
from sfumato.table.groups import KeyedGroups, column_hashes
from sfumato.table.intervals import ANY, Intervals, interval_names, parse_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

Answer = TypeVar("Answer")

RANK_ERROR = 1e-4  # largest error of the ranks of quantiles from several batches, as a share of the rows: far below
# what the sampling error of a table with more than one batch would be


@dataclass(frozen=True)
class Question(ABC, Generic[Answer]):
    """A question about a table.

    A partial answer can be pickled and never leaves the engine. Partial answers may be merged in any grouping;
    ``merge`` may change and return ``one``. The answer to a single batch is exact. One that grows with the groups of a
    table is split into shares, which are settled when they are complete, like the tally of a claim.
    """

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """The columns that are needed to answer."""

    @abstractmethod
    def of(self, batch: Table) -> Any:
        """Return the partial answer of a batch of rows."""

    def merge(self, one: Any, other: Any) -> Any:
        """Return the partial answer of the rows of both; by default a partial answer itself knows how."""
        return one.merge(other)

    def settle(self, share: Any) -> Any:
        """Return what the answer needs of a share that is complete; by default the share itself."""
        return share

    def finish(self, partial: Any) -> Answer:
        """Return the answer, given the partial answer of all rows, settled or not; by default this is the answer."""
        answer: Answer = partial
        return answer


@dataclass(frozen=True)
class ColumnQuestion(Question[Answer]):
    """A question about one column."""

    column: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)


@dataclass(frozen=True, repr=False)
class _PartialFacts:
    """The facts of some rows, and their cells, or each distinct value once, if distinct values are counted."""

    facts: ColumnFacts
    cells: pa.ChunkedArray | None


@dataclass(frozen=True)
class FactsOf(ColumnQuestion[ColumnFacts]):
    """Counts and extremes of a column; ``count_distinct`` also counts the distinct values."""

    count_distinct: bool = False

    def of(self, batch: Table) -> _PartialFacts:
        facts = facts_of(batch, self.reads, self.count_distinct)[self.column]
        return _PartialFacts(facts, batch.arrow.column(self.column) if self.count_distinct else None)

    def merge(self, one: _PartialFacts, other: _PartialFacts) -> _PartialFacts:
        facts = replace(
            one.facts,
            rows=one.facts.rows + other.facts.rows,
            missing=one.facts.missing + other.facts.missing,
            low=outer_end(min, one.facts.low, other.facts.low),
            high=outer_end(max, one.facts.high, other.facts.high),
            infinite=one.facts.infinite + other.facts.infinite,
            blanks=one.facts.blanks + other.facts.blanks,
        )
        if one.cells is None or other.cells is None:
            return _PartialFacts(facts, None)
        values = pa.chunked_array([_plain(one.cells).unique(), _plain(other.cells).unique()]).unique()
        return _PartialFacts(replace(facts, distinct=len(values) - values.null_count), pa.chunked_array([values]))

    def finish(self, partial: _PartialFacts) -> ColumnFacts:
        return partial.facts


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of a column of categories without its dictionary."""
    return column.cast(column.type.value_type) if pt.is_dictionary(column.type) else column


@dataclass(frozen=True)
class ExtremesOf(ColumnQuestion[Extremes]):
    """Smallest and largest number of a numeric column."""

    def of(self, batch: Table) -> Extremes:
        numbers = batch.numbers(self.column)
        present = numbers[~np.isnan(numbers)]
        return Extremes(float(present.min()), float(present.max())) if present.size else Extremes(np.nan, np.nan)

    def merge(self, one: Extremes, other: Extremes) -> Extremes:
        return Extremes(outer_end(min, one.low, other.low), outer_end(max, one.high, other.high))


@dataclass(frozen=True)
class MissingIn(ColumnQuestion[int]):
    """Number of rows without a value."""

    def of(self, batch: Table) -> int:
        return int(batch.arrow.column(self.column).null_count)

    def merge(self, one: int, other: int) -> int:
        return one + other


@dataclass(frozen=True)
class OccursIn(ColumnQuestion[bool]):
    """Whether a value, as text, occurs in a column."""

    value: str = field(repr=False)

    def of(self, batch: Table) -> bool:
        return bool(pc.any(pc.equal(batch.coded(self.column).values.cast(pa.string()), self.value)).as_py())

    def merge(self, one: bool, other: bool) -> bool:
        return one or other


class SketchedNumbers(ColumnQuestion[Answer]):
    """A question about the numbers of a column: they are kept as they are of one batch, and sketched of several."""

    @property
    @abstractmethod
    def rank_error(self) -> float:
        """Largest error of a rank in the sketch, as a share of the rows."""

    def of(self, batch: Table) -> Any:
        return batch.numbers(self.column)

    def merge(self, one: Any, other: Any) -> Any:
        sketch = self.sketch(one)
        return sketch.merge(other) if isinstance(other, QuantileSketch) else sketch.update(other)

    def sketch(self, partial: NDArray[np.float64] | QuantileSketch) -> QuantileSketch:
        """Return a sketch of numbers, unless they are sketched already."""
        return partial if isinstance(partial, QuantileSketch) else QuantileSketch(self.rank_error).update(partial)


@dataclass(frozen=True)
class QuantilesOf(SketchedNumbers["NDArray[np.float64]"]):
    """Quantiles of a numeric column at ``shares`` (each from 0 to 1); NaN if all values are missing."""

    shares: tuple[float, ...]

    @property
    def rank_error(self) -> float:
        return RANK_ERROR

    def finish(self, partial: NDArray[np.float64] | QuantileSketch) -> NDArray[np.float64]:
        if not isinstance(partial, QuantileSketch):
            present = partial[~np.isnan(partial)]
            return np.quantile(present, self.shares) if present.size else np.full(len(self.shares), np.nan)
        points = partial.points()
        if not len(points.values):
            return np.full(len(self.shares), np.nan)
        ranks = np.cumsum(points.weights) - points.weights / 2.0
        return np.interp(np.asarray(self.shares) * points.rows, ranks, points.values)


@dataclass(frozen=True)
class PointsOf(SketchedNumbers[WeightedPoints]):
    """Values of a numeric column and the number of rows that each represents.

    No rank is wrong by more than ``epsilon`` times the number of rows; 0 asks for every value.
    """

    epsilon: float = 0.0

    @property
    def rank_error(self) -> float:
        return self.epsilon

    def of(self, batch: Table) -> Any:
        numbers = super().of(batch)
        return numbers if self.epsilon else all_points(numbers)

    def merge(self, one: Any, other: Any) -> Any:
        return super().merge(one, other) if self.epsilon else one.merge(other)

    def finish(self, partial: Any) -> WeightedPoints:
        return partial if isinstance(partial, WeightedPoints) else self.sketch(partial).points()


@dataclass(frozen=True, repr=False)
class _ValueCounts:
    """The distinct values of some rows, in the order of their codes, and the rows of each."""

    values: pa.Array
    counts: NDArray[np.int64]
    order: pa.Array | None  # all categories of an ordered column, also those that do not occur


@dataclass(frozen=True, eq=False, repr=False)
class Distinct:
    """Distinct values of a column and how often each occurs.

    ``values`` are sorted, with the missing one last. If ``is_complete`` is false, these are only the most frequent
    values.
    """

    values: pa.Array
    counts: NDArray[np.int64]
    is_complete: bool = True

    def require_complete(self, column: str) -> Distinct:
        """Return this answer if it is complete; raise an error that names the column and the limit if not."""
        if not self.is_complete:
            raise TableError(
                f"Column {column!r} has too many distinct values to be used as categories.",
                found=f"more than {len(self.values):,} values",
                fix="give it the role 'identifier', recode it, or declare it as numeric",
            )
        return self


@dataclass(frozen=True)
class DistinctIn(ColumnQuestion[Distinct]):
    """Distinct values of a column; with ``at_most``, only the most frequent ones if there are more."""

    at_most: int | None = None

    def of(self, batch: Table) -> _ValueCounts:
        column, codes = batch.arrow.column(self.column), batch.coded(self.column)
        is_ordered = pt.is_dictionary(column.type) and column.type.ordered and column.num_chunks > 0
        order = column.unify_dictionaries().chunk(0).dictionary if is_ordered else None
        return _ValueCounts(codes.values, np.bincount(codes.codes, minlength=codes.size).astype(np.int64), order)

    def merge(self, one: _ValueCounts, other: _ValueCounts) -> _ValueCounts:
        values, order = pa.concat_arrays([one.values, other.values]), None
        if one.order is not None and other.order is not None:
            order = pa.concat_arrays([one.order, other.order]).unique()
            values = pa.DictionaryArray.from_arrays(pc.index_in(values, value_set=order), order, ordered=True)
        codes = code_column(pa.chunked_array([values]), ordered=order is not None)
        counts = np.zeros(codes.size, dtype=np.int64)
        np.add.at(counts, codes.codes, np.concatenate([one.counts, other.counts]))
        return _ValueCounts(codes.values, counts, order)

    def finish(self, partial: _ValueCounts) -> Distinct:
        if self.at_most is None or len(partial.values) <= self.at_most:
            return Distinct(partial.values, partial.counts)
        frequent = np.sort(np.argsort(-partial.counts, kind="stable")[: self.at_most])
        return Distinct(partial.values.take(pa.array(frequent)), partial.counts[frequent], is_complete=False)


@dataclass(frozen=True)
class GroupSizesOf(Question[GroupSizes]):
    """Histogram of the sizes of groups of rows that are equal in all of ``columns``.

    Rows with the same number in ``numbered_by`` are probably equal in these columns, which makes it faster.
    """

    columns: tuple[str, ...]
    numbered_by: str | None = field(default=None, compare=False)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns if self.numbered_by is None else (*self.columns, self.numbered_by)

    def of(self, batch: Table) -> GroupCounts:
        return GroupCounts.of(KeyedGroups.of(batch, self.columns, self.numbered_by))

    def settle(self, share: GroupCounts) -> GroupSizes:
        return GroupSizes.of(share.counts)

    def finish(self, partial: GroupCounts | GroupSizes) -> GroupSizes:
        return partial if isinstance(partial, GroupSizes) else self.settle(partial)


@dataclass(frozen=True)
class PeopleAloneIn(Question[int]):
    """Number of people who have a combination of values in ``columns`` that nobody else has."""

    columns: tuple[str, ...]
    person: str

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.columns, self.person)

    def of(self, batch: Table) -> PeopleCounts:
        return PeopleCounts.of(KeyedGroups.of(batch, self.columns), column_hashes(batch, self.person), enough=2)

    def finish(self, partial: PeopleCounts) -> int:
        return len(np.unique(partial.person))  # of the combinations that only one person has


@dataclass(frozen=True)
class MomentsOf(Question[Moments]):
    """Weighted mean and covariance of numeric columns over the rows without missing values in these columns."""

    columns: tuple[str, ...]
    weight: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns if self.weight is None else (*self.columns, self.weight)

    def of(self, batch: Table) -> Moments:
        weights = None if self.weight is None else batch.numbers(self.weight)
        return Moments.of(batch.matrix(self.columns), weights, names=self.columns)


@dataclass(frozen=True)
class CombinationsOf(Question[tuple[CombinationSketch, ...]]):
    """Sketches of the combinations of values in each of some sets of columns.

    Each holds a random sample of ``size`` combinations with their numbers of rows, or all if there are fewer. Sketches
    with the same ``salt`` draw the same combinations.
    """

    sets: tuple[tuple[str, ...], ...]
    size: int
    salt: bytes = field(repr=False)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for names in self.sets for name in names))

    def of(self, batch: Table) -> CombinationSketches:
        return CombinationSketches(self.sets, self.size, self.salt).update(batch)

    def finish(self, partial: CombinationSketches) -> tuple[CombinationSketch, ...]:
        return partial.each


@dataclass(frozen=True)
class SpreadOf(ColumnQuestion[ReleasedWidths]):
    """Widths of the ranges ``x_low`` to ``x_high`` of a released column ``x``; rows without both ends are left out."""

    @property
    def reads(self) -> tuple[str, ...]:
        return interval_names(self.column)

    def of(self, batch: Table) -> ReleasedWidths:
        ends = Intervals.of(batch, self.column)
        known = ~(np.isnan(ends.low) | np.isnan(ends.high))
        if not known.any():
            return ReleasedWidths(0, 0.0, math.nan, math.nan)
        low, high = ends.low[known], ends.high[known]
        return ReleasedWidths(len(low), float((high - low).sum()), float(low.min()), float(high.max()))


@dataclass(frozen=True)
class SetsOf(ColumnQuestion[ReleasedSets]):
    """What the sets of a column of released categories leave open."""

    def of(self, batch: Table) -> ReleasedSets:
        coded = batch.coded(self.column)
        rows = np.bincount(coded.codes, minlength=coded.size)
        sets = [frozenset(parse_set(None if text is None else str(text))) for text in coded.values.to_pylist()]
        is_any = np.array([ANY in one for one in sets], dtype=bool)
        others = np.array([len(one) - 1 for one in sets], dtype=np.int64)
        return ReleasedSets(
            int(rows.sum()), int(rows[is_any].sum()), int((rows * others)[~is_any].sum()), frozenset().union(*sets)
        )


class PartialAnswers:
    """The partial answers to several questions, which are answered in one pass over batches of rows."""

    def __init__(self, questions: Sequence[Question[Any]]) -> None:
        self._questions = tuple(questions)
        self._each: dict[Question[Any], Any] = {}

    @property
    def reads(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys(name for question in self._questions for name in question.reads))

    def add(self, batches: Iterable[Table]) -> Self:
        """Take in more rows."""
        for batch in batches:
            for question in self._questions:
                self._include(question, question.of(batch))
        return self

    def merge(self, other: PartialAnswers) -> Self:
        """Take in the rows that other partial answers to the same questions have seen."""
        for question, partial in other._each.items():
            self._include(question, partial)
        return self

    def finish(self) -> dict[Question[Any], Any]:
        """Return all answers."""
        return {question: question.finish(partial) for question, partial in self._each.items()}

    def _include(self, question: Question[Any], partial: Any) -> None:
        known = self._each.get(question)
        self._each[question] = partial if known is None else question.merge(known, partial)


class Answers:
    """The answers of a survey, indexed by question."""

    def __init__(self, answers: dict[Question[Any], Any]) -> None:
        self._answers = answers

    def __getitem__(self, question: Question[Answer]) -> Answer:
        answer: Answer = self._answers[question]
        return answer
