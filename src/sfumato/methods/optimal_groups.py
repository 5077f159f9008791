"""Optimal grouping of each column: groups of at least k rows with the lowest total cost (LT §4.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.kernels import grouping_1d
from sfumato.methods.options import diversity_option, group_size_option, reported_option
from sfumato.methods.recodings.buckets import SHOWN, Buckets, Shown
from sfumato.methods.recodings.quasi_columns import TIES, ColumnwiseMethod, Goal, Ties
from sfumato.params import Choice, OrNone
from sfumato.plan.questions import ExtremesOf, PointsOf
from sfumato.plan.survey import is_whole, rank_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.plan.questions import Answers, Question
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness

Cost = Literal["squared", "median", "cellular", "width", "centre"]
COSTS: dict[str, int] = {
    "squared": grouping_1d.SQUARED,
    "median": grouping_1d.MEDIAN,
    "cellular": grouping_1d.CELLULAR,
    "width": grouping_1d.WIDTH,
    "centre": grouping_1d.CENTRE,
}
NATURAL: dict[str, Shown] = {"squared": "mean", "median": "median"}  # the centre from which the cost measures


@dataclass(frozen=True, kw_only=True)
class OptimalGroups(ColumnwiseMethod):
    """Group the values of each numeric quasi-identifier optimally: at least k rows per group, at the lowest cost.

    The groups are found by dynamic programming (Lodha and Thomas). Each column is k-anonymous by itself; the columns
    together are not. Of more than 5,000,000 rows that an engine reads in parts, the groups are those of a sketch: they
    are larger by twice its error, so that each still has k rows, and the manifest states the error.

    Examples
    --------
    >>> import sfumato as sf
    >>> release = sf.OptimalGroups(k=2).release({"age": [20, 21, 22, 40, 41]}, schema={"age": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())
    [21.0, 21.0, 21.0, 40.5, 40.5]
    """

    name: ClassVar[str] = "optimal-groups"
    theory: ClassVar[str] = "probabilistic"
    one_row_per_person: ClassVar[bool] = True
    block_effect: ClassVar[str] = "equal values stay together; of more than 5,000,000 rows a sketch is grouped"
    manifest_notes: ClassVar[Mapping[str, str]] = {"columns": "how each column was recoded"}

    k: int = group_size_option("Smallest number of rows in a group.")
    l: int | None = diversity_option(
        " Columns are grouped one by one, so a release with less diverse groups is refused."
    )
    cost: Cost = reported_option(
        Choice(tuple(COSTS)),
        'What is minimised: the sum of squared distances to the group mean ("squared") or of distances to the group '
        '"median"; the sum over groups of rows × radius around a member ("cellular") or of rows × "width"; or the '
        'width of the widest group ("centre").',
        default="squared",
    )
    represent: Shown | None = reported_option(
        OrNone(Choice(SHOWN)),
        "What is released for a group: its median, its mean, its range (two columns), or a label. None: the mean or "
        "median from which the cost measures distances, otherwise the range.",
        default=None,
    )
    ties: Ties = reported_option(
        Choice(TIES),
        'Whether equal values may be split between groups ("split") or are kept "together", at a higher cost. In '
        "tables that are processed in blocks, they are always kept together.",
        default="split",
    )

    @property
    def goal(self) -> Goal:
        return Goal(self.k)

    def _cuts_by_rank(self, survey: Survey) -> bool:
        """Return whether groups are cut by rank, so that equal values may be in different groups."""
        return self.ties == "split" and is_whole(survey)

    def questions(self, survey: Survey, name: str) -> Sequence[Question[Any]]:
        return () if self._cuts_by_rank(survey) else (ExtremesOf(name), PointsOf(name, rank_error(survey)))

    def group(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> Buckets:
        sample = survey.sample.table
        shown = self.represent or NATURAL.get(self.cost, "range")
        if self._cuts_by_rank(survey):
            numbers = sample.numbers(name)
            present = np.sort(numbers[~np.isnan(numbers)])
            ends = self.ends(present, np.ones(len(present), dtype=np.int64), self.k)
            return Buckets.of_ranks(sample, name, ends, shown=shown).anonymous(self.k)
        points, extremes = answers[PointsOf(name, rank_error(survey))], answers[ExtremesOf(name)]
        least = self.k + math.ceil(2.0 * points.error)  # both ends of a group may be wrong
        ends = self.ends(points.values, points.weights.astype(np.int64), least)
        buckets = Buckets.of_points(sample, name, points, ends, shown=shown)
        buckets = buckets.as_cells() if points.error else buckets
        return buckets.spanning((extremes.low, extremes.high)).anonymous(self.k)

    def ends(self, values: NDArray[np.float64], counts: NDArray[np.int64], k: int) -> NDArray[np.int64]:
        """Return the ends of the cheapest groups of sorted values; one group if there are fewer than k rows."""
        if counts.sum() < k:
            return np.array([len(values)] if len(values) else [], dtype=np.int64)
        return np.asarray(grouping_1d.cheapest_groups(values, counts, k, COSTS[self.cost])[0])
