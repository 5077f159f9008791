"""Answers that need the rows themselves, collected batch by batch; collectors of separate rows can be merged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from sfumato.statistics.moments import Moments
from sfumato.survey.combination_sketches import CombinationSketch, CombinationSketches
from sfumato.survey.quantile_sketches import Points, QuantileSketch
from sfumato.survey.questions import CombinationsOf, MomentsOf, PointsOf, QuantilesOf, Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

A = TypeVar("A")

RANK_ERROR = 1e-4  # largest error of the ranks of quantiles, as a share of the rows


class Collector(ABC, Generic[A]):
    """Collects the answer to one question."""

    columns: tuple[str, ...]  # that it needs

    @abstractmethod
    def add(self, batch: Table) -> None:
        """Take in more rows."""

    @abstractmethod
    def merge(self, other: Self) -> Self:
        """Take in the rows of another collector of the same question."""

    @abstractmethod
    def answer(self) -> A:
        """Return the answer for all rows."""


class _Moments(Collector[Moments]):
    def __init__(self, question: MomentsOf) -> None:
        self.names, self.weight = question.columns, question.weight
        self.columns = (*question.columns, *([question.weight] if question.weight else []))
        self.found = Moments.empty(len(question.columns), names=question.columns)

    def add(self, batch: Table) -> None:
        weights = None if self.weight is None else batch.numbers(self.weight)
        self.found = self.found.merge(Moments.of(batch.matrix(self.names), weights, names=self.names))

    def merge(self, other: Self) -> Self:
        self.found = self.found.merge(other.found)
        return self

    def answer(self) -> Moments:
        return self.found


class _Sketch(Collector[A]):
    def __init__(self, column: str, epsilon: float) -> None:
        self.columns = (column,)
        self.sketch = QuantileSketch(epsilon)

    def add(self, batch: Table) -> None:
        self.sketch.update(batch.numbers(self.columns[0]))

    def merge(self, other: Self) -> Self:
        self.sketch.merge(other.sketch)
        return self


class _Points(_Sketch[Points]):
    def __init__(self, question: PointsOf) -> None:
        super().__init__(question.column, question.epsilon)

    def answer(self) -> Points:
        return self.sketch.points()


class _Quantiles(_Sketch["NDArray[np.float64]"]):
    def __init__(self, question: QuantilesOf) -> None:
        super().__init__(question.column, RANK_ERROR)
        self.shares = question.shares

    def answer(self) -> NDArray[np.float64]:
        points = self.sketch.points()
        if not len(points.values):
            return np.full(len(self.shares), np.nan)
        ranks = np.cumsum(points.weights) - points.weights / 2.0
        return np.interp(np.asarray(self.shares) * points.rows, ranks, points.values)


class _Combinations(Collector[tuple[CombinationSketch, ...]]):
    def __init__(self, question: CombinationsOf) -> None:
        self.sketches = CombinationSketches(question.sets, question.size, question.salt)
        self.columns = self.sketches.columns

    def add(self, batch: Table) -> None:
        self.sketches.update(batch)

    def merge(self, other: Self) -> Self:
        self.sketches.merge(other.sketches)
        return self

    def answer(self) -> tuple[CombinationSketch, ...]:
        return self.sketches.each


COLLECTORS: dict[type[Question[Any]], Any] = {
    MomentsOf: _Moments,
    PointsOf: _Points,
    QuantilesOf: _Quantiles,
    CombinationsOf: _Combinations,
}


class Collectors:
    """The collectors of several questions, which are answered in one pass."""

    def __init__(self, questions: Sequence[Question[Any]]) -> None:
        self._each: dict[Question[Any], Collector[Any]] = {one: COLLECTORS[type(one)](one) for one in questions}

    @property
    def columns(self) -> list[str]:
        """All columns that are needed."""
        return list(dict.fromkeys(name for collector in self._each.values() for name in collector.columns))

    def add(self, batches: Iterable[Table]) -> Self:
        """Take in more rows."""
        for batch in batches:
            for collector in self._each.values():
                collector.add(batch)
        return self

    def merge(self, other: Collectors) -> Self:
        """Take in the rows of other collectors of the same questions."""
        for question, collector in self._each.items():
            collector.merge(other._each[question])
        return self

    def answers(self) -> dict[Question[Any], Any]:
        """Return all answers."""
        return {question: collector.answer() for question, collector in self._each.items()}
