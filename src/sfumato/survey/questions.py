"""The questions a method may ask of a table that it never holds as a whole, and their answers.

A question is a frozen record that says what is wanted. Several are asked at once, so that an engine can answer all of
them in one scan: memory by looking, a database by one query, a cluster by one aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sfumato.errors import TableError
from sfumato.survey.quantile_sketches import Points
from sfumato.table.facts import ColumnFacts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments  # noqa: F401 - named in a base class

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Question(Generic[Answer]):
    """Something that can be asked of a table."""


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest number of a column; NaN where it has none."""

    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class Distinct:
    """Distinct values of a column and how often each occurs.

    ``values`` are sorted, the missing one last. Where ``is_complete`` is false, there are more of them, and these are
    the most frequent.
    """

    values: pa.Array
    counts: NDArray[np.int64]
    is_complete: bool = True

    def require_complete(self, column: str) -> Distinct:
        """The same, or an error that names the column and the limit."""
        if not self.is_complete:
            raise TableError(
                f"Column {column!r} has too many different values to be used as categories.",
                found=f"more than {len(self.values):,}",
                fix="give it the role 'identifier', recode it, or read it as numbers",
            )
        return self


@dataclass(frozen=True, eq=False, repr=False)
class GroupSizes:
    """How many groups of equal rows there are of each size: ``groups[i]`` groups of ``sizes[i]`` rows."""

    sizes: NDArray[np.int64]  # rising
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> GroupSizes:
        """The histogram of the sizes of single groups."""
        return cls(*np.unique(sizes, return_counts=True))

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.sum())

    @property
    def smallest(self) -> int:
        """Rows of the smallest group; 0 where there is none."""
        return int(self.sizes.min(initial=np.iinfo(np.int64).max)) if len(self.sizes) else 0

    @property
    def unique_rows(self) -> int:
        """Rows that are alone in their group."""
        return int(self.groups[self.sizes == 1].sum())


@dataclass(frozen=True)
class FactsOf(Question[ColumnFacts]):
    """Counts and ends of a column; ``count_distinct`` also asks for the number of different values."""

    column: str
    count_distinct: bool = False


@dataclass(frozen=True)
class ExtremesOf(Question[Extremes]):
    """Smallest and largest number of a numeric column."""

    column: str


@dataclass(frozen=True)
class MissingIn(Question[int]):
    """Number of rows without a value."""

    column: str


@dataclass(frozen=True)
class QuantilesOf(Question["NDArray[np.float64]"]):
    """Quantiles of a numeric column at ``shares`` (each from 0 to 1); NaN where all its values are missing."""

    column: str
    shares: tuple[float, ...]


@dataclass(frozen=True)
class PointsOf(Question[Points]):
    """Values of a numeric column with the rows that each stands for.

    No rank is wrong by more than ``epsilon`` times the rows; 0 asks for every value.
    """

    column: str
    epsilon: float = 0.0


@dataclass(frozen=True)
class DistinctIn(Question[Distinct]):
    """Distinct values of a column; with ``at_most``, the most frequent ones where there are more."""

    column: str
    at_most: int | None = None


@dataclass(frozen=True)
class GroupSizesOf(Question[GroupSizes]):
    """Sizes of the groups of rows that are equal in all of ``columns``, as a histogram."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class MomentsOf(Question["Moments"]):
    """Weighted mean and covariance of numeric columns over the rows where none of them is missing."""

    columns: tuple[str, ...]
    weight: str | None = None


class Answers:
    """What a survey answered, found by the question."""

    def __init__(self, answers: dict[Question[Any], Any]) -> None:
        self._answers = answers

    def __getitem__(self, question: Question[Answer]) -> Answer:
        answer: Answer = self._answers[question]
        return answer
