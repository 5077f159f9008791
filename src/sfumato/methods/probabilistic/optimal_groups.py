"""Optimal grouping of each column: no other groups of at least k cost less (LT §4.1, dynamic programming)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.kernels import grouping_1d
from sfumato.methods.probabilistic.buckets import SHOWN, Buckets, Shown
from sfumato.methods.probabilistic.columnwise import ColumnwiseMethod, Goal
from sfumato.params import require_choice, require_int
from sfumato.survey.quantile_sketches import all_points

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

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
    """Groups of at least k neighbouring values in each numeric quasi-identifier, at the least cost.

    Costs: ``squared`` distances to the mean, distances to the ``median``, rows × radius around a member (``cellular``),
    rows × ``width``, or the largest width of all (``centre``). Each column is anonymous by itself; columns together are
    not.
    """

    name: ClassVar[str] = "optimal-groups"

    k: int
    cost: Cost = "squared"
    represent: Shown | None = (
        None  # what is shown; None: the mean or median that the cost measures from, else the range
    )
    ties: Ties = "split"  # equal values may fall into two groups, or stay together at some cost

    def __post_init__(self) -> None:
        require_int(self.k, name="k", at_least=1)
        require_choice(self.cost, name="cost", choices=COSTS)
        require_choice(self.ties, name="ties", choices=TIES)
        if self.represent is not None:
            require_choice(self.represent, name="represent", choices=SHOWN)

    @property
    def goal(self) -> Goal:
        return Goal(self.k)

    def group(self, survey: Survey, sample: Table, name: str, randomness: Randomness) -> Buckets:
        if sample.rows < survey.rows or survey.block_rows is not None:
            raise CannotRelease(
                "Optimal groups need the whole column in memory.",
                found=f"{survey.rows:,} rows in parts",
                fix="Quantiles, which takes a table in parts",
            )
        shown = self.represent or NATURAL.get(self.cost, "range")
        numbers = sample.numbers(name)
        if self.ties == "split":
            present = np.sort(numbers[~np.isnan(numbers)])
            ends = self.ends(present, np.ones(len(present), dtype=np.int64))
            return Buckets.by_rank(sample, name, ends, shown=shown).anonymous(self.k)
        points = all_points(numbers)
        ends = self.ends(points.values, points.weights.astype(np.int64))
        return Buckets.by_value(sample, name, points, ends, shown=shown).anonymous(self.k)

    def ends(self, values: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Ends of the cheapest groups of rising values; one group where there are fewer than k rows."""
        if counts.sum() < self.k:
            return np.array([len(values)] if len(values) else [], dtype=np.int64)
        ends: NDArray[np.int64] = grouping_1d.cheapest_groups(values, counts, self.k, COSTS[self.cost])[0]
        return ends
