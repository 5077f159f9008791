"""Questions that a method can ask about a table that it never holds as a whole, and their answers.

A question is a frozen record that describes what is wanted. Several questions are asked at once, so that an engine can
answer all of them in one scan, one query or one aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from sfumato.errors import TableError
from sfumato.survey.quantile_sketches import Points
from sfumato.table.facts import ColumnFacts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments  # noqa: F401 - named in a base class
    from sfumato.survey.combination_sketches import CombinationSketch  # noqa: F401 - named in a base class

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Question(Generic[Answer]):
    """A question about a table."""


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest number of a column; NaN if it has none."""

    low: float
    high: float


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


@dataclass(frozen=True, eq=False, repr=False)
class GroupSizes:
    """A histogram of the sizes of groups of equal rows: there are ``groups[i]`` groups of ``sizes[i]`` rows."""

    sizes: NDArray[np.int64]  # ascending
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> GroupSizes:
        """Return the histogram of the sizes of individual groups."""
        return cls(*np.unique(sizes, return_counts=True))

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.groups.sum())

    @property
    def smallest(self) -> int:
        """Number of rows in the smallest group; 0 if there is none."""
        return int(self.sizes.min(initial=np.iinfo(np.int64).max)) if len(self.sizes) else 0

    @property
    def unique_rows(self) -> int:
        """Number of rows that are alone in their group."""
        return int(self.groups[self.sizes == 1].sum())


@dataclass(frozen=True)
class FactsOf(Question[ColumnFacts]):
    """Counts and extremes of a column; ``count_distinct`` also counts the distinct values."""

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
    """Quantiles of a numeric column at ``shares`` (each from 0 to 1); NaN if all values are missing."""

    column: str
    shares: tuple[float, ...]


@dataclass(frozen=True)
class PointsOf(Question[Points]):
    """Values of a numeric column and the number of rows that each represents.

    No rank is wrong by more than ``epsilon`` times the number of rows; 0 asks for every value.
    """

    column: str
    epsilon: float = 0.0


@dataclass(frozen=True)
class DistinctIn(Question[Distinct]):
    """Distinct values of a column; with ``at_most``, only the most frequent ones if there are more."""

    column: str
    at_most: int | None = None


@dataclass(frozen=True)
class GroupSizesOf(Question[GroupSizes]):
    """Histogram of the sizes of groups of rows that are equal in all of ``columns``."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class MomentsOf(Question["Moments"]):
    """Weighted mean and covariance of numeric columns over the rows without missing values in these columns."""

    columns: tuple[str, ...]
    weight: str | None = None


@dataclass(frozen=True)
class CombinationsOf(Question["tuple[CombinationSketch, ...]"]):
    """Sketches of the combinations of values in each of some sets of columns.

    Each holds a random sample of ``size`` combinations with their numbers of rows, or all if there are fewer. Sketches
    with the same ``salt`` draw the same combinations.
    """

    sets: tuple[tuple[str, ...], ...]
    size: int
    salt: bytes = field(repr=False)


class Answers:
    """The answers of a survey, indexed by question."""

    def __init__(self, answers: dict[Question[Any], Any]) -> None:
        self._answers = answers

    def __getitem__(self, question: Question[Answer]) -> Answer:
        answer: Answer = self._answers[question]
        return answer
