"""The quantile transformation: groups of equal size, which minimise the rank difference for given k (LT Theorem 5).

Cuts come from the whole column, from a random sample, or from a sketch with a guaranteed error. Rows are assigned to
groups by binary search, and groups of fewer than k rows are joined to a neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.errors import OptionError, TableError
from sfumato.methods.options import diversity_option, reported_option
from sfumato.methods.recodings.buckets import SHOWN, Buckets, Shown, merge_to_at_least, quantile_ends
from sfumato.methods.recodings.quasi_columns import TIES, ColumnwiseMethod, Goal, Ties
from sfumato.params import GROUP_SIZES, Choice, OrNone, Probability, Whole, require_choice, require_int
from sfumato.plan.questions import Answers, ExtremesOf, MissingIn, PointsOf, Question
from sfumato.plan.sketches import Reservoir, WeightedPoints, sample_size
from sfumato.plan.survey import Survey, is_whole, rank_error
from sfumato.sources.frames import as_table

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
    faster. Of more than 5,000,000 rows that an engine reads in parts, cuts come from a sketch: groups with ``k`` are
    larger by its error, so that each still has k rows, and the manifest states the error. (Lodha and Thomas.)

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

    k: int | None = reported_option(
        OrNone(Whole(at_least=1)),
        "Smallest number of rows in a group. Give either k or buckets.",
        default=None,
        unit="rows",
        strengths=GROUP_SIZES,
    )
    l: int | None = diversity_option(
        " Columns are grouped one by one, so a release with less diverse groups is refused."
    )
    buckets: int | None = reported_option(
        OrNone(Whole(at_least=1)),
        "Number of groups in each column, instead of k. With buckets the method promises no privacy.",
        default=None,
        unit="groups",
    )
    sample: int | None = reported_option(
        OrNone(Whole(at_least=1)),
        "Number of random rows from which the cuts are computed. None: all rows.",
        default=None,
        unit="rows",
    )
    epsilon: float | None = reported_option(
        OrNone(Probability()),
        "Largest error of the rank of a cut, as a share of the rows. Without delta a sketch guarantees it; with delta "
        "a sample meets it with probability 1 − delta. None: no error, and 0.0001 by a sketch where an engine reads "
        "more than 5,000,000 rows in parts.",
        default=None,
        unit="share of rows",
    )
    delta: float | None = reported_option(
        OrNone(Probability()),
        "Probability, for each column, that a sample fails to meet epsilon. Used only with epsilon or sample; None "
        "with sample: 0.01.",
        default=None,
    )
    represent: Shown = reported_option(
        Choice(SHOWN),
        "What is released for a group: its median or mean, its range (two columns), or a label.",
        default="median",
    )
    ties: Ties = reported_option(
        Choice(TIES),
        'Whether equal values may be split between groups ("split") or are kept "together". With a sample, with a '
        "sketch, and in tables that are processed in blocks, they are always kept together.",
        default="split",
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
        points = [self._points_of(survey, name)] if self._asks_points else []
        return (ExtremesOf(name), MissingIn(name), *points)

    def _points_of(self, survey: Survey, name: str) -> PointsOf:
        """Return the question about all values, with the error that was chosen; a large table is sketched."""
        return PointsOf(name, rank_error(survey) if self.epsilon is None else self.epsilon)

    @property
    def _asks_points(self) -> bool:
        """Whether the cuts come from all rows: exactly, or from a sketch with a guaranteed error."""
        return self.sample is None and self.delta is None

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
            counted = _count_rows(buckets, sample)
            merged = merge_to_at_least(self.k or 1, ends, counted)
            if len(merged) < len(ends):
                buckets = self._buckets(sample, name, points, merged)
                counted = _count_rows(buckets, sample)
            buckets = replace(buckets, sizes=counted)
        ends_of_column = answers[ExtremesOf(name)]
        return buckets.spanning((ends_of_column.low, ends_of_column.high)).anonymous(self.k)

    def _points(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> WeightedPoints:
        if self._asks_points:
            return answers[self._points_of(survey, name)]
        delta = self.delta or DELTA
        size = self.sample or sample_size(self.epsilon or 1.0, delta)
        numbers = survey.sample.table.numbers(name)
        reservoir = Reservoir(size, randomness.stream(f"reservoir of {name}"), delta=delta).update(numbers)
        points = reservoir.points().scale_to(survey.rows, len(numbers))
        return replace(points, missing=answers[MissingIn(name)])

    def _ends(self, points: WeightedPoints, *, margin: float) -> NDArray[np.int64]:
        """Return the ends of the groups; with k, groups have k rows even if their estimate is ``margin`` too high."""
        if self.k is None:
            return quantile_ends(points.weights, self.goal.groups(points.rows))
        least = self.k + math.ceil(margin)
        ends = quantile_ends(points.weights, Goal(least).groups(points.rows))
        before = np.concatenate([[0.0], np.cumsum(points.weights)])
        return merge_to_at_least(least, ends, np.diff(before[ends], prepend=0.0))

    def _buckets(self, table: Table, name: str, points: WeightedPoints, ends: NDArray[np.int64]) -> Buckets:
        buckets = Buckets.of_points(table, name, points, ends, shown=self.represent)
        return buckets.as_cells() if points.error else buckets


def _count_rows(buckets: Buckets, table: Table) -> NDArray[np.float64]:
    """Count the rows of each group."""
    return np.bincount(buckets.codes(table), minlength=buckets.code_size)[:-1].astype(np.float64)


# The privacy–utility curve of one column: error against the number of buckets (LT §5.2, Figure 7).


BUCKETS = (1, 2, 5, 10, 20, 50, 100, 200, 500)

Centre = Literal["mean", "median"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One point of the curve, for one number of buckets.

    Attributes
    ----------
    buckets : int
        Number of buckets (b).
    k : int
        Rows of the smallest bucket.
    error : float
        Σ(x' − x)² ÷ Σ(x − mean)², at least 0; 1 if every value is replaced by the mean.
    law : float
        1/b², the error of evenly spread values.
    rank_difference : int
        Sum of the differences between the ranks of rows and the median ranks of their buckets (LT Definition 8).
    """

    buckets: int
    k: int
    error: float
    law: float
    rank_difference: int

    @property
    def privacy(self) -> float:
        """1 − 1/k: one minus the probability of guessing the right one of k rows (LT §5.2)."""
        return 1.0 - 1.0 / self.k

    @property
    def utility(self) -> float:
        """1 − error (LT §5.2)."""
        return 1.0 - self.error


@dataclass(frozen=True, kw_only=True)
class PrivacyUtilityCurve:
    """The privacy–utility curve of one column.

    Attributes
    ----------
    column : str
        Name of the column.
    rows : int
        Rows with a value.
    points : tuple of CurvePoint
        The points, by increasing number of buckets.
    """

    column: str
    rows: int
    points: tuple[CurvePoint, ...]

    @property
    def slope(self) -> float:
        """Slope of log error over log buckets, from 2 buckets on: −2 if the error is proportional to 1/b².

        NaN with fewer than two points.
        """
        used = [point for point in self.points if point.buckets > 1 and point.error > 0.0]
        if len(used) < 2:
            return math.nan
        return float(np.polyfit([math.log(p.buckets) for p in used], [math.log(p.error) for p in used], 1)[0])


def privacy_utility_curve(
    table: Any, column: str, buckets: Sequence[int] = BUCKETS, *, represent: Centre = "mean"
) -> PrivacyUtilityCurve:
    """Compute error, privacy and utility of one numeric column for several numbers of buckets.

    The column is grouped into buckets of equal size (the quantile transformation), and each value is replaced by the
    mean or median of its bucket. Rows without a value are ignored.

    Parameters
    ----------
    table : Table, path or data frame
        Anything that :func:`sfumato.read` accepts or returns, or a pandas, polars or Arrow table.
    column : str
        Name of the numeric column; its values must be finite.
    buckets : sequence of int, default (1, 2, 5, 10, 20, 50, 100, 200, 500)
        Numbers of buckets, each at least 1. Numbers above the number of rows are skipped.
    represent : {"mean", "median"}, default "mean"
        What a value is replaced by.

    Returns
    -------
    PrivacyUtilityCurve
        One point per number of buckets, and the slope of the error.

    Examples
    --------
    >>> import sfumato as sf
    >>> curve = sf.privacy_utility_curve({"age": range(100)}, "age", buckets=[2, 5, 10])
    >>> [(point.buckets, point.k, round(point.utility, 2)) for point in curve.points]
    [(2, 50, 0.75), (5, 20, 0.96), (10, 10, 0.99)]
    >>> round(curve.slope, 1)
    -2.0
    """
    source = as_table(table)
    require_choice(represent, name="represent", choices=("mean", "median"))
    wanted = sorted({require_int(number, name="buckets", at_least=1) for number in buckets})
    numbers = source.numbers(column)
    present = np.sort(numbers[~np.isnan(numbers)])
    if not len(present) or not np.isfinite(present).all():
        raise TableError(f"Column {column!r} must contain finite numbers.", found=f"{len(present):,} rows with a value")
    spread = float(((present - present.mean()) ** 2).sum())
    points = []
    for number in (number for number in wanted if number <= len(present)):
        groups = Buckets.of_ranks(source, column, quantile_ends(np.ones(len(present)), number), shown="mean")
        shown = np.repeat(groups.mean if represent == "mean" else groups.median, groups.sizes.astype(np.int64))
        points.append(
            CurvePoint(
                buckets=number,
                k=int(groups.sizes.min()),
                error=float(((shown - present) ** 2).sum()) / spread if spread else 0.0,
                law=1.0 / number**2,
                rank_difference=groups.rank_difference,
            )
        )
    return PrivacyUtilityCurve(column=column, rows=len(present), points=tuple(points))
