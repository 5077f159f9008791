"""Optimal grouping of each column: no other groups of at least k cost less (LT §4.1, dynamic programming)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from sfumato.kernels import grouping_1d
from sfumato.methods.probabilistic.buckets import SHOWN, Buckets, Shown
from sfumato.methods.probabilistic.columnwise import ColumnwiseMethod, Goal
from sfumato.params import Choice, OrNone, Whole, option
from sfumato.survey.quantile_sketches import all_points

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.survey.questions import Answers, Question
    from sfumato.survey.survey import Survey

Cost = Literal["squared", "median", "cellular", "width", "centre"]
COSTS: dict[str, int] = {
    "squared": grouping_1d.SQUARED,
    "median": grouping_1d.MEDIAN,
    "cellular": grouping_1d.CELLULAR,
    "width": grouping_1d.WIDTH,
    "centre": grouping_1d.CENTRE,
}
NATURAL: dict[str, Shown] = {"squared": "mean", "median": "median"}  # what the cost measures the distance to

Ties = Literal["split", "together"]
TIES: tuple[Ties, ...] = ("split", "together")


@dataclass(frozen=True, kw_only=True)
class OptimalGroups(ColumnwiseMethod):
    """Put the values of each numeric quasi-identifier into groups of at least k, at the least cost there is.

    Each column is anonymous by itself; columns together are not. It needs the whole table in memory.

    Examples
    --------
    >>> import sfumato as sf
    >>> release = sf.OptimalGroups(k=2).release({"age": [20, 21, 22, 40, 41]}, schema={"age": "quasi"})
    >>> sorted(release.table.numbers("age").tolist())
    [21.0, 21.0, 21.0, 40.5, 40.5]
    """

    name: ClassVar[str] = "optimal-groups"
    noted: ClassVar[Mapping[str, str]] = {"columns": "what was done to each column"}

    k: int = option(Whole(at_least=1), "Smallest number of rows in a group.", unit="rows", reported=True)
    cost: Cost = option(
        Choice(tuple(COSTS)),
        'What is minimised: "squared" distances to the mean, distances to the "median", rows × radius around a member '
        '("cellular"), rows × "width", or the largest width of all ("centre").',
        default="squared",
        reported=True,
    )
    represent: Shown | None = option(
        OrNone(Choice(SHOWN)),
        "What is shown for a group. None: the mean or median that the cost measures from, else the range.",
        default=None,
        reported=True,
    )
    ties: Ties = option(
        Choice(TIES),
        'Whether equal values may fall into two groups ("split") or stay "together", at some cost.',
        default="split",
        reported=True,
    )

    @property
    def goal(self) -> Goal:
        return Goal(self.k)

    @property
    def needs_whole_table(self) -> bool:
        return True

    def questions(self, survey: Survey, name: str) -> Sequence[Question[Any]]:
        return ()

    def group(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> Buckets:
        sample = survey.sample.table
        shown = self.represent or NATURAL.get(self.cost, "range")
        numbers = sample.numbers(name)
        if self.ties == "split":
            present = np.sort(numbers[~np.isnan(numbers)])
            ends = self.ends(present, np.ones(len(present), dtype=np.int64))
            return Buckets.of_ranks(sample, name, ends, shown=shown).anonymous(self.k)
        points = all_points(numbers)
        ends = self.ends(points.values, points.weights.astype(np.int64))
        return Buckets.of_points(sample, name, points, ends, shown=shown).anonymous(self.k)

    def ends(self, values: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends of the cheapest groups of rising values; one group where there are fewer than k rows."""
        if counts.sum() < self.k:
            return np.array([len(values)] if len(values) else [], dtype=np.int64)
        ends: NDArray[np.int64] = grouping_1d.cheapest_groups(values, counts, self.k, COSTS[self.cost])[0]
        return ends
