"""Counts, sums and quantiles: statistics that are not functions of moments, with exact intervals by sorting.

A record that may or may not meet a condition counts if that widens the interval.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure
from sfumato.statistics.bounds.records import Records
from sfumato.statistics.conditions import ALWAYS, Condition, quote
from sfumato.statistics.statistic import OneColumn, Statistic
from sfumato.statistics.units import Calendar, Counts, Dates, NoDates, Unit
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes


class Tally(Statistic):
    """A statistic whose interval is exact, so that the linear one is the same."""

    is_characteristic = False

    @abstractmethod
    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the best guess and the interval of all possible values."""

    def prepare(self, boxes: WeightedBoxes | None) -> None:
        """Compile nothing: there are no kernels."""

    def enclose(self, records: Records, deadline: Deadline) -> Enclosure:
        enclosure = self.tally(records.boxes)
        guess = enclosure if records.rows is None else self.tally(records.rows.boxes)
        return replace(enclosure, value=guess.value, linear_low=enclosure.low, linear_high=enclosure.high)


@dataclass(frozen=True)
class Count(Tally):
    """Number of records that meet a condition, or their total weight if records have sampling weights."""

    takes_condition = False

    condition: Condition = ALWAYS

    @property
    def columns(self) -> tuple[str, ...]:
        return self.condition.columns

    @property
    def box_columns(self) -> tuple[str, ...]:
        return ()

    @property
    def where(self) -> Condition:
        return self.condition

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the total weight of the records that count."""
        low, high = float(boxes.weight.sum()), float((boxes.weight + boxes.extra).sum())
        whole = all(float(weight).is_integer() for weight in (low, high))
        rounding = 0.0 if whole else (len(boxes.weight) + 2) * EPS * high
        return Enclosure(low - rounding, high + rounding, low, high, value=float(boxes.likely_weight.sum()))

    def unit(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Counts()

    def __str__(self) -> str:
        return f"count({self.condition})"


@dataclass(frozen=True)
class Sum(OneColumn, Tally):
    """Sum of a column over the records without a missing value in it."""

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute Σ w x."""
        low, high = boxes.low[:, 0], boxes.high[:, 0]
        bottom = float((boxes.weight * low + boxes.extra * np.minimum(low, 0.0)).sum())
        top = float((boxes.weight * high + boxes.extra * np.maximum(high, 0.0)).sum())
        size = float(((boxes.weight + boxes.extra) * np.maximum(np.abs(low), np.abs(high))).sum())
        rounding = 2.0 * len(low) * EPS * size
        value = float((boxes.likely_weight * boxes.midpoints[:, 0]).sum())
        return Enclosure(bottom - rounding, top + rounding, bottom, top, value=value)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        return NoDates()

    def __str__(self) -> str:
        return f"sum({quote(self.column)})"


NAMED_SHARES = {0.0: "min", 0.5: "median", 1.0: "max"}  # quantiles with a name of their own


@dataclass(frozen=True)
class Quantile(OneColumn, Tally):
    """The value below which a share of the records lies; the mean of two values if the share falls between them."""

    share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise StatisticError("The share of a quantile must be from 0 to 1.", found=f"{self.share:g}")

    def covers(self, unseen: Unseen) -> bool:
        return True  # rows of any value move it to one of the released values, or beyond all of them

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the quantile; it increases with every value, so its ends are quantiles of the ends.

        For the lowest quantile, records that may not count are added at low ends up to it. For the highest quantile,
        they are added at high ends from it upward.
        """
        share, low, high = self.share, boxes.low[:, 0], boxes.high[:, 0]
        value = _quantile(boxes.midpoints[:, 0], boxes.likely_weight, share)
        bottom = _lowest_quantile(low, boxes.weight, boxes.extra, share)
        top = -_lowest_quantile(-high, boxes.weight, boxes.extra, 1.0 - share)
        inner_low = _quantile(low, boxes.weight + np.where(low <= bottom, boxes.extra, 0.0), share)
        inner_high = _quantile(high, boxes.weight + np.where(high >= top, boxes.extra, 0.0), share)
        if boxes.is_certain:
            bottom, top = inner_low, inner_high
        return Enclosure(bottom, top, inner_low, inner_high, value=value)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Dates(calendars[self.column], of_mean=False)

    def __str__(self) -> str:
        if self.share in NAMED_SHARES:
            return f"{NAMED_SHARES[self.share]}({quote(self.column)})"
        return f"quantile({quote(self.column)}, {self.share:.15g})"


def _lowest_quantile(
    values: NDArray[np.float64], weight: NDArray[np.float64], extra: NDArray[np.float64], share: float
) -> float:
    """Compute the smallest v that can have a share of the weight at or below it, with extra weight added only there."""
    order = np.argsort(values, kind="stable")
    joined = np.cumsum(extra[order])
    below = np.cumsum(weight[order]) + joined
    total = float(weight.sum()) + joined
    counts = ((weight + extra)[order] > 0.0) & (below >= (share - len(order) * EPS) * total)
    return float(values[order][int(np.argmax(counts))])


def _quantile(values: NDArray[np.float64], weight: NDArray[np.float64], share: float) -> float:
    """Compute the mean of the smallest v with at least the share of the weight at or below it and that with more."""
    order = np.argsort(values, kind="stable")
    order = order[weight[order] > 0.0]
    below = np.cumsum(weight[order])
    rounding = len(order) * EPS * below[-1]
    first = int(np.searchsorted(below, share * below[-1] - rounding, side="left"))
    second = int(np.searchsorted(below, share * below[-1] + rounding, side="right"))
    lower, upper = (float(values[order[min(place, len(order) - 1)]]) for place in (first, second))
    return lower if lower == upper else lower + (upper - lower) / 2.0
