"""The records of a statistic in the forms that its enclosures need, each computed once for all parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.coefficients import Perturbation
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure, End, Witness
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.moments import Moments
from sfumato.statistics.weighted_boxes import WeightedBoxes

# Best guess and attained values when only weight totals per box are known.
#
# If a column was released as it is, the rows of such a box differ. The bounds hold for any point of the smallest box
# around the rows, but only the points of the rows themselves are attained: a choice of points is replaced by that of
# the nearest rows, each of which gets the whole weight that the choice has in its box.


@dataclass(frozen=True, eq=False, repr=False)
class PooledRows:
    """The rows that may count for a statistic, each with its released weight, and the box of each."""

    boxes: WeightedBoxes
    box: NDArray[np.int64]  # (rows,)

    def attain(self, value: Callable[[Moments], float], enclosure: Enclosure) -> Enclosure:
        """Return the enclosure of a statistic with inner ends that rows attain."""
        lowest, highest = (self._nearest(choice) for choice in (enclosure.lowest, enclosure.highest))
        inner_low, inner_high = (math.nan if choice is None else value(choice.moments) for choice in (lowest, highest))
        return Enclosure(enclosure.low, enclosure.high, inner_low, inner_high, lowest, highest)

    def _nearest(self, choice: Witness | None) -> Witness | None:
        """Move each point of a choice into the nearest row of its box; distances count in standard deviations."""
        if choice is None:
            return None
        order = np.argsort(self.box, kind="stable")
        start, end = (np.searchsorted(self.box[order], choice.box, side=side) for side in ("left", "right"))
        rows_of = end - start  # at least 1: a box counts only if one of its rows may
        first = np.cumsum(rows_of) - rows_of
        point = np.repeat(np.arange(len(rows_of)), rows_of)
        row = order[np.arange(len(point)) - np.repeat(first - start, rows_of)]
        inside = np.clip(choice.points[point], self.boxes.low[row], self.boxes.high[row])
        distance = (((inside - choice.points[point]) / self._scale) ** 2).sum(axis=1)
        nearest = np.lexsort((distance, point))[first]
        return Witness(choice.box, inside[nearest], choice.weight)

    @property
    def _scale(self) -> NDArray[np.float64]:
        spread = Moments.of(self.boxes.midpoints, self.boxes.likely_weight).sd
        return np.where(spread > 0.0, spread, 1.0)


MAX_SPLIT_RECORDS = 4000  # up to this number of records each gets its own box, because terms of order 1/N matter
TINY = float(np.finfo(float).tiny)  # smallest unit: a product of smaller ones is 0
FINEST = 1e-7  # width, in standard deviations, below which an interval counts as a point


@dataclass(frozen=True)
class Scale:
    """A statistic in the units of the table is ``shift`` + ``unit`` × the statistic in scaled units."""

    unit: float
    shift: float = 0.0

    def slack(self, half: float, deadline: Deadline) -> float:
        """Compute how far an end may be from an attained value, in scaled units: a share of the linear width."""
        width = 2.0 * half / self.unit if math.isfinite(half) else 1.0
        return deadline.gap * max(width, FINEST)


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """The records of a statistic, split and scaled once for all its parts.

    ``rows`` are the released rows, if only weight totals per box are known.
    """

    boxes: WeightedBoxes
    rows: PooledRows | None = None

    @functools.cached_property
    def split(self) -> WeightedBoxes:
        """One box per record in small tables."""
        return self.boxes.split_into_records(MAX_SPLIT_RECORDS)

    @functools.cached_property
    def problem(self) -> ScaledBoxes:
        """The split boxes in scaled units."""
        return ScaledBoxes.of(self.split)

    @functools.cached_property
    def perturbation(self) -> Perturbation | None:
        """Quick bounds for the coefficients of a regression of the first column on the others."""
        return Perturbation.of(self.problem.merged)

    def bound_quickly(self, functional: NDArray[np.float64]) -> float:
        """Return an upper bound of functional · c, with c the coefficients of such a regression."""
        return math.inf if self.perturbation is None else self.perturbation.highest(functional)

    def enclose(
        self,
        value: Callable[[Moments], float],
        highest: Callable[[ScaledBoxes, Deadline], End],
        scale: Scale,
        deadline: Deadline,
    ) -> Enclosure:
        """Enclose a statistic in the units of the table from its ``highest`` value in scaled units.

        The lower end is the upper end of the mirrored problem. ``value`` computes the statistic from moments.
        """
        if math.isinf(scale.unit):  # a slope that may exceed all numbers
            return Enclosure.unknown()
        problem = self.problem
        top = highest(problem, deadline.share(2))
        bottom = highest(problem.mirrored, deadline.share(1))
        high, low = scale.shift + scale.unit * top.outer, scale.shift - scale.unit * bottom.outer
        largest = abs(scale.shift) + max((abs(end) for end in (low, high) if math.isfinite(end)), default=0.0)
        rounding = 8.0 * EPS * largest
        if scale.unit <= TINY:  # the true unit may be smaller, and both ends nearer to the shift
            rounding += 2.0 * TINY * max(abs(top.outer), abs(bottom.outer))
        if bottom.points is not None:
            bottom = replace(bottom, points=bottom.points * np.where(np.arange(problem.columns) == 0, -1.0, 1.0))
        lowest, inner_low = _attain(value, problem.witness(self.split, bottom))
        highest_choice, inner_high = _attain(value, problem.witness(self.split, top))
        return Enclosure(low - rounding, high + rounding, inner_low, inner_high, lowest, highest_choice)


def _attain(value: Callable[[Moments], float], witness: Witness | None) -> tuple[Witness | None, float]:
    """Return a choice and its value; None and NaN if rounding to the table's units leaves the statistic undefined."""
    attained = math.nan if witness is None else value(witness.moments)
    return (None if math.isnan(attained) else witness), attained
