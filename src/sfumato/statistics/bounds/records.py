"""The records of a statistic in the forms that its enclosures need, each computed once for all parts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.coefficients import Perturbation
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure, End, Witness
from sfumato.statistics.bounds.orthants import Slopes
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.moments import Differentiable, Moments, derivatives, influence
from sfumato.statistics.weighted_boxes import WeightedBoxes, WeightPools

# Best guess and attained values when only weight totals and ranges per box are known.
#
# If a column was released as it is, the rows of such a box differ. The bounds hold for more than what weights of the
# rows can attain. An attained value puts the weight that is left open on the rows whose influence is the largest.


class Characteristic(Differentiable, Protocol):
    """A differentiable function of mean and covariance."""

    def value(self, moments: Moments) -> float:
        """Compute it; NaN if it is not defined."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class PooledRows:
    """The rows that may count for a statistic, each with its released weight, and the box of each."""

    boxes: WeightedBoxes
    count: NDArray[np.int64]  # (rows,)
    box: NDArray[np.int64]  # (rows,)
    pools: WeightPools
    every_row_counts: bool

    def attain(self, statistic: Characteristic, enclosure: Enclosure) -> Enclosure:
        """Return the enclosure of a statistic with inner ends that weights of the rows attain; NaN if none is known."""
        lowest, highest = (
            self._follow(statistic, choice, sign)
            for choice, sign in ((enclosure.lowest, -1.0), (enclosure.highest, 1.0))
        )
        inner_low, inner_high = (
            math.nan if choice is None else statistic.value(choice.moments) for choice in (lowest, highest)
        )
        return Enclosure(enclosure.low, enclosure.high, inner_low, inner_high, lowest, highest)

    def _follow(self, statistic: Characteristic, start: Witness | None, sign: float) -> Witness | None:
        """Return the weights and the points that the influence at a choice prefers, while the statistic improves."""
        if not self.every_row_counts:
            return None
        points = self.boxes.midpoints
        moments = Moments.of(points, self.boxes.likely_weight) if start is None else start.moments
        best, best_value = None, -math.inf
        for _ in range(MOST_EXCHANGES):
            slopes = sign * derivatives(statistic, moments, points)
            points = np.where(slopes > 0.0, self.boxes.high, np.where(slopes < 0.0, self.boxes.low, points))
            order = np.lexsort((-sign * influence(statistic, moments, points), self.box))
            found = Witness(self.box, points, self.pools.fill(self.box, self.count, order))
            moments = found.moments
            value = sign * statistic.value(moments)
            if math.isnan(value) or value <= best_value:
                break
            best, best_value = found, value
        return best


MOST_EXCHANGES = 8  # of weights between the rows of boxes, towards an attained end
MAX_SPLIT_RECORDS = 4000  # up to this number of records each gets its own box, because terms of order 1/N matter
TINY = float(np.finfo(float).tiny)  # smallest unit: a product of smaller ones is 0
WIDE = 0.5  # excess of a perturbation from which on bounds by orthants may be narrower
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

    ``rows`` are the released rows, if only weight totals and ranges per box are known.
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

    def slopes(self, seconds: float) -> Slopes | None:
        """Bounds of the slopes of such a regression on three or more wide columns, computed once in this time."""
        is_narrow = self.perturbation is not None and self.perturbation.kappa < WIDE
        if is_narrow or self.problem.columns <= 3:
            return None
        if "_slopes" not in self.__dict__:
            self.__dict__["_slopes"] = Slopes.of(self.problem.merged, seconds)
        found: Slopes | None = self.__dict__["_slopes"]
        return found

    def bound_quickly(self, functional: NDArray[np.float64], seconds: float) -> float:
        """Return an upper bound of functional · c, with c the coefficients of such a regression."""
        ways = (self.perturbation, self.slopes(seconds))
        return min((way.highest(functional) for way in ways if way is not None), default=math.inf)

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
