"""The quantile transformation: groups of equal size, which of all groups of k shift ranks least (LT Theorem 5).

Cuts come from the whole column, from a random sample, or from a sketch whose error is certain. Rows then find their
group by binary search, and groups that fall under k join a neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.disclosure.anonymity_budget import require_probability
from sfumato.errors import OptionError
from sfumato.methods.probabilistic.buckets import SHOWN, Buckets, Shown, merged_to, quantile_ends
from sfumato.methods.probabilistic.columnwise import ColumnwiseMethod, Goal, recoding_plan
from sfumato.methods.probabilistic.optimal_groups import TIES, Ties
from sfumato.methods.probabilistic.recoding import Recoding, RecodingPlan
from sfumato.params import require_choice, require_int
from sfumato.schema.schema import Schema
from sfumato.survey.quantile_sketches import Points, QuantileSketch, Reservoir, all_points, sample_size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

DELTA = 0.01  # probability that a sample fails, where none is said


@dataclass(frozen=True, kw_only=True)
class Quantiles(ColumnwiseMethod):
    """Each numeric quasi-identifier in groups of equal size: of at least ``k`` rows, or ``buckets`` of them.

    ``sample`` takes the cuts from that many random rows; ``epsilon`` with ``delta`` from as many as put every rank
    within ε·n with probability 1 − δ; ``epsilon`` alone from a sketch that puts it there with certainty. Without any of
    them the cuts are exact. Each column is anonymous by itself; columns together are not.
    """

    name: ClassVar[str] = "quantiles"

    k: int | None = None
    buckets: int | None = None
    sample: int | None = None  # rows
    epsilon: float | None = None  # share of rows, in ranks
    delta: float | None = None  # probability
    represent: Shown = "median"
    ties: Ties = "split"  # equal values may fall into two groups; with a sample or a sketch they stay together

    def __post_init__(self) -> None:
        if (self.k is None) == (self.buckets is None):
            raise OptionError("Quantiles need k or buckets, one of the two.", found="both" if self.k else "neither")
        for name, value in (("k", self.k), ("buckets", self.buckets), ("sample", self.sample)):
            if value is not None:
                require_int(value, name=name, at_least=1)
        for name, share in (("epsilon", self.epsilon), ("delta", self.delta)):
            if share is not None:
                require_probability(share, name=name)
        if self.sample is not None and self.epsilon is not None:
            raise OptionError("The cuts come from a sample or are within epsilon, one of the two.", found="both")
        if self.delta is not None and self.epsilon is None and self.sample is None:
            raise OptionError("delta is the probability that epsilon or the sample fails.", found="delta alone")
        require_choice(self.represent, name="represent", choices=SHOWN)
        require_choice(self.ties, name="ties", choices=TIES)

    @property
    def goal(self) -> Goal:
        return Goal(self.k, self.buckets)

    @property
    def is_exact(self) -> bool:
        """Whether the cuts come from all rows."""
        return self.sample is None and self.epsilon is None

    def group(self, survey: Survey, sample: Table, name: str, randomness: Randomness) -> Buckets:
        numbers = sample.numbers(name)
        in_memory = sample.rows == survey.rows and survey.block_rows is None
        if self.is_exact and in_memory and self.ties == "split":
            present = int((~np.isnan(numbers)).sum())
            ends = quantile_ends(np.ones(present), self.goal.groups(present))
            return Buckets.by_rank(sample, name, ends, shown=self.represent).anonymous(self.k)
        points = self._summary(numbers, randomness.stream(f"reservoir of {name}")).scaled_to(survey.rows, len(numbers))
        ends = self._ends(points, margin=points.error if in_memory else 2.0 * points.error)
        buckets = self._buckets(sample, name, points, ends)
        if in_memory:  # rows can be counted, so no estimate decides
            counted = _counted(buckets, sample)
            merged = merged_to(self.k or 1, ends, counted)
            if len(merged) < len(ends):
                buckets = self._buckets(sample, name, points, merged)
                counted = _counted(buckets, sample)
            buckets = replace(buckets, sizes=counted)
        return buckets.spanning(survey.extremes(name)).anonymous(self.k)

    def plan_from_summaries(self, summaries: Mapping[str, Points], like: Table, schema: Schema) -> RecodingPlan:
        """A plan for a table that is read in batches, from the summaries of its quasi-identifiers, all of them numeric.

        ``like`` is any part of the table, for its types. Groups are widened by the summaries' errors, so that k holds
        without counting again: with certainty after a sketch, with probability 1 − δ for each column after a sample.
        """
        recodings: list[Recoding] = [
            self._buckets(like, name, points, self._ends(points, margin=2.0 * points.error)).anonymous(self.k)
            for name, points in summaries.items()
        ]
        return recoding_plan(schema, recodings, self.goal, 1)

    def _summary(self, numbers: NDArray[np.float64], draw: np.random.Generator) -> Points:
        if self.is_exact:
            return all_points(numbers)
        if self.epsilon is not None and self.delta is None:
            return QuantileSketch(self.epsilon).update(numbers).points()
        delta = self.delta or DELTA
        size = self.sample or sample_size(self.epsilon or 1.0, delta)
        return Reservoir(size, draw, delta=delta).update(numbers).points()

    def _ends(self, points: Points, *, margin: float) -> NDArray[np.int64]:
        """Ends of the groups; for k, of groups that hold k rows even if they lose ``margin`` of them."""
        if self.k is None:
            return quantile_ends(points.weights, self.goal.groups(points.rows))
        least = self.k + math.ceil(margin)
        ends = quantile_ends(points.weights, Goal(least).groups(points.rows))
        before = np.concatenate([[0.0], np.cumsum(points.weights)])
        return merged_to(least, ends, np.diff(before[ends], prepend=0.0))

    def _buckets(self, table: Table, name: str, points: Points, ends: NDArray[np.int64]) -> Buckets:
        buckets = Buckets.by_value(table, name, points, ends, shown=self.represent)
        return buckets.as_cells() if points.error else buckets


def _counted(buckets: Buckets, table: Table) -> NDArray[np.float64]:
    """Rows that fall into each group."""
    return np.bincount(buckets.codes(table), minlength=buckets.code_size)[:-1].astype(np.float64)
