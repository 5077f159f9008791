"""The quantile transformation: groups of equal size, which minimise the rank difference for given k (LT Theorem 5).

Cuts come from the whole column, from a random sample, or from a sketch with a guaranteed error. Rows are assigned to
groups by binary search, and groups of fewer than k rows are joined to a neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.probabilistic.columnwise import TIES, ColumnwiseMethod, Goal, Ties
from sfumato.methods.recodings.buckets import SHOWN, Buckets, Shown, merged_to, quantile_ends
from sfumato.params import GROUP_SIZES, Choice, OrNone, Probability, Whole, option
from sfumato.survey.quantile_sketches import Points, Reservoir, sample_size
from sfumato.survey.questions import Answers, ExtremesOf, MissingIn, PointsOf, Question
from sfumato.survey.survey import Survey, is_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.table.table import Table

DELTA = 0.01  # default probability that a sample fails to meet epsilon


@dataclass(frozen=True, kw_only=True)
class Quantiles(ColumnwiseMethod):
    """Group the values of each numeric quasi-identifier into groups of equal size.

    Groups have at least ``k`` rows, or there are ``buckets`` groups. With ``k`` each column is k-anonymous by itself;
    the columns together are not. Cuts are exact by default; ``sample`` and ``epsilon`` make them approximate and
    faster. (Lodha and Thomas.)

    Examples
    --------
    >>> import sfumato as sf
    >>> release = sf.Quantiles(k=3).release({"age": [20, 21, 22, 40, 41, 42]}, schema={"age": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())
    [21.0, 21.0, 21.0, 41.0, 41.0, 41.0]
    """

    name: ClassVar[str] = "quantiles"
    theory: ClassVar[str] = "probabilistic"
    one_row_per_person: ClassVar[bool] = True
    manifest_notes: ClassVar[Mapping[str, str]] = {"columns": "how each column was recoded"}

    k: int | None = option(
        OrNone(Whole(at_least=1)),
        "Smallest number of rows in a group. Give either k or buckets.",
        default=None,
        unit="rows",
        reported=True,
        strengths=GROUP_SIZES,
    )
    buckets: int | None = option(
        OrNone(Whole(at_least=1)),
        "Number of groups in each column, instead of k. With buckets the method promises no privacy.",
        default=None,
        unit="groups",
        reported=True,
    )
    sample: int | None = option(
        OrNone(Whole(at_least=1)),
        "Number of random rows from which the cuts are computed. None: all rows.",
        default=None,
        unit="rows",
        reported=True,
    )
    epsilon: float | None = option(
        OrNone(Probability()),
        "Largest error of the rank of a cut, as a share of the rows. Without delta a sketch guarantees it; with delta "
        "a sample meets it with probability 1 − delta. None: no error.",
        default=None,
        unit="share of rows",
        reported=True,
    )
    delta: float | None = option(
        OrNone(Probability()),
        "Probability, for each column, that a sample fails to meet epsilon. Used only with epsilon or sample; None "
        "with sample: 0.01.",
        default=None,
        reported=True,
    )
    represent: Shown = option(
        Choice(SHOWN),
        "What is released for a group: its median or mean, its range (two columns), or a label.",
        default="median",
        reported=True,
    )
    ties: Ties = option(
        Choice(TIES),
        'Whether equal values may be split between groups ("split") or are kept "together". With a sample, with a '
        "sketch, and in tables that are processed in blocks, they are always kept together.",
        default="split",
        reported=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.k is None) == (self.buckets is None):
            raise OptionError("Quantiles needs either k or buckets.", found="both" if self.k else "neither")
        if self.sample is not None and self.epsilon is not None:
            raise OptionError("At most one of sample and epsilon may be given.", found="both")
        if self.delta is not None and self.epsilon is None and self.sample is None:
            raise OptionError("delta must be given together with epsilon or sample.", found="delta alone")

    @property
    def goal(self) -> Goal:
        return Goal(self.k, self.buckets)

    @property
    def is_exact(self) -> bool:
        """Whether the cuts come from all rows."""
        return self.sample is None and self.epsilon is None

    def _cuts_by_rank(self, survey: Survey) -> bool:
        """Return whether groups are cut by rank, so that equal values may be in different groups."""
        return self.is_exact and self.ties == "split" and is_whole(survey)

    def questions(self, survey: Survey, name: str) -> Sequence[Question[Any]]:
        if self._cuts_by_rank(survey):
            return ()
        return (ExtremesOf(name), MissingIn(name), *([PointsOf(name, self._epsilon)] if self._asks_points else []))

    @property
    def _asks_points(self) -> bool:
        """Whether the cuts come from all rows: exactly, or from a sketch with a guaranteed error."""
        return self.sample is None and self.delta is None

    @property
    def _epsilon(self) -> float:
        return self.epsilon or 0.0

    def group(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> Buckets:
        sample = survey.sample.table
        if self._cuts_by_rank(survey):
            numbers = sample.numbers(name)
            present = int((~np.isnan(numbers)).sum())
            ends = quantile_ends(np.ones(present), self.goal.groups(present))
            return Buckets.of_ranks(sample, name, ends, shown=self.represent).anonymous(self.k)
        points = self._points(survey, answers, name, randomness)
        can_count = survey.sample.is_whole
        ends = self._ends(points, margin=points.error if can_count else 2.0 * points.error)
        buckets = self._buckets(sample, name, points, ends)
        if points.error and can_count:  # sizes are counted and not estimated
            counted = _counted(buckets, sample)
            merged = merged_to(self.k or 1, ends, counted)
            if len(merged) < len(ends):
                buckets = self._buckets(sample, name, points, merged)
                counted = _counted(buckets, sample)
            buckets = replace(buckets, sizes=counted)
        ends_of_column = answers[ExtremesOf(name)]
        return buckets.spanning((ends_of_column.low, ends_of_column.high)).anonymous(self.k)

    def _points(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> Points:
        if self._asks_points:
            return answers[PointsOf(name, self._epsilon)]
        delta = self.delta or DELTA
        size = self.sample or sample_size(self.epsilon or 1.0, delta)
        numbers = survey.sample.table.numbers(name)
        reservoir = Reservoir(size, randomness.stream(f"reservoir of {name}"), delta=delta).update(numbers)
        points = reservoir.points().scaled_to(survey.rows, len(numbers))
        return replace(points, missing=answers[MissingIn(name)])

    def _ends(self, points: Points, *, margin: float) -> NDArray[np.int64]:
        """Return the ends of the groups; with k, groups have k rows even if their estimate is ``margin`` too high."""
        if self.k is None:
            return quantile_ends(points.weights, self.goal.groups(points.rows))
        least = self.k + math.ceil(margin)
        ends = quantile_ends(points.weights, Goal(least).groups(points.rows))
        before = np.concatenate([[0.0], np.cumsum(points.weights)])
        return merged_to(least, ends, np.diff(before[ends], prepend=0.0))

    def _buckets(self, table: Table, name: str, points: Points, ends: NDArray[np.int64]) -> Buckets:
        buckets = Buckets.of_points(table, name, points, ends, shown=self.represent)
        return buckets.as_cells() if points.error else buckets


def _counted(buckets: Buckets, table: Table) -> NDArray[np.float64]:
    """Count the rows of each group."""
    return np.bincount(buckets.codes(table), minlength=buckets.code_size)[:-1].astype(np.float64)
