"""Counts, sums, quantiles and survival: statistics that are not functions of moments, with exact intervals by sorting.

A record that may or may not meet a condition counts if that widens the interval.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure
from sfumato.statistics.bounds.records import Records
from sfumato.statistics.conditions import ALWAYS, Condition, Predicate, quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.estimate_records import TestEstimate
from sfumato.statistics.statistic import OneColumn, Statistic, compute_in_groups
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


@dataclass(frozen=True)
class Survival(Tally):
    """The Kaplan–Meier estimate of the share that survives a time; ``event`` is 1 for an event and 0 if censored.

    Events come before censorings at the same time. With all other records fixed, the estimate rises if a censored time
    is later, falls if an event is later but not after ``at``, and rises if it is moved there. One more record lowers it
    if it has an event up to ``at``, and raises it otherwise. So each record has its own best and worst choice.
    """

    time: str
    event: str
    at: float

    def __post_init__(self) -> None:
        if self.time == self.event:
            raise StatisticError(f"{self} must name two different columns.")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.time, self.event

    def records_where(self, table: CountedBoxes, where: Condition) -> WeightedBoxes:
        """Return the records with time and event, which may be numbers or true and false."""
        if self.event not in table.categories:
            return super().records_where(table, where)
        known = where.joined(Condition((Predicate(self.event, "!=", None),)))
        clauses = table.clauses([self.time], known)
        meeting = table.rows_meeting(table.clauses([], Condition((Predicate(self.event, "=", "true"),))))
        if not {str(level) for level in table.levels(self.event)} <= {"false", "true"}:
            raise self._not_an_event()
        events = np.stack([meeting.least == table.count, meeting.most > 0.0]).astype(np.float64)
        low, high = (np.column_stack(ends) for ends in zip(table.clip([self.time], clauses), events, strict=True))
        return table.with_weights(table.rows_meeting(clauses), low, high)

    def _not_an_event(self) -> StatisticError:
        return StatisticError(
            f"The column {self.event!r} must be 1 (or true) for an event and 0 (or false) for a censored record."
        )

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the estimate, and those of the best and of the worst choice of every record."""
        (start, least), (end, most), at = boxes.low.T, boxes.high.T, self.at
        if not len(start):
            raise StatisticError(f"{self} needs at least one complete record.", found="none")
        if least.min() < 0.0 or most.max() > 1.0 or ((least == most) & (least != np.rint(least))).any():
            raise self._not_an_event()
        leaves = (least == 1.0) & (end <= at)  # certainly has an event up to this time
        enters = (most == 1.0) & (start <= at)  # may have one
        high = _survive(np.where(leaves, start, end), leaves, boxes.weight + np.where(leaves, 0.0, boxes.extra), at)
        weight = boxes.weight + np.where(enters, boxes.extra, 0.0)
        low = _survive(np.where(enters, np.minimum(end, at), start), enters, weight, at)
        whole = not (np.rint(boxes.low) != boxes.low).any() and not (np.rint(boxes.high) != boxes.high).any()
        last = float(np.floor(at)) if whole else at  # a whole number may be all that a time can be
        attained = _survive(np.where(enters, np.minimum(end, last), start), enters, weight, at)
        value = _survive(boxes.midpoints[:, 0], boxes.midpoints[:, 1], boxes.likely_weight, at)
        summed = 1 if (np.rint(weight) == weight).all() else len(weight)
        rounding = 8.0 * len(weight) * summed * EPS
        return Enclosure(max(low - rounding, 0.0), min(high + rounding, 1.0), attained, high, value=value)

    def unit(self, calendars: Mapping[str, Calendar]) -> Unit:
        return NoDates() if set(self.columns) & set(calendars) else Unit()

    def __str__(self) -> str:
        return f"survival({quote(self.time)}, {quote(self.event)}, {self.at:.15g})"


def _survive(
    time: NDArray[np.float64], event: NDArray[np.float64] | NDArray[np.bool_], weight: NDArray[np.float64], at: float
) -> float:
    """Return ∏ (1 − d/n) over the times up to ``at``; it stays where it is when nobody is left."""
    times, place = np.unique(time, return_inverse=True)
    leaving = np.bincount(place, weights=weight)
    at_risk = np.cumsum(leaving[::-1])[::-1]
    events = np.bincount(place, weights=weight * event)
    counts = (times <= at) & (events > 0.0)
    return float(np.prod(np.maximum(at_risk[counts] - events[counts], 0.0) / at_risk[counts]))


@dataclass(frozen=True)
class LogRank(Statistic):
    """The log-rank test that two groups survive alike: χ² = (O − E)² / V with one degree of freedom.

    O is the number of events of the second group. The share of that group among those at risk is bounded for each event
    by those who certainly are and those who may be at risk, at any time that the event may have. The bounds of E and V
    are sums of these, so that they hold for all completions but need not be attained.
    """

    is_characteristic = False
    parts_share_records = False

    time: str
    event: str
    group: str
    condition: Condition = ALWAYS

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.time, self.event, self.group, *self.condition.columns)))

    def covers(self, unseen: Unseen) -> bool:
        return False

    def given(self, condition: Condition) -> Statistic:
        return replace(self, condition=self.condition.joined(condition))

    def estimate_in(self, table: CountedBoxes, deadline: Deadline) -> Estimate:
        from scipy import stats  # these take time to import, and only a test needs them

        from sfumato.statistics.bounds.risk_sets import bound_log_rank

        sides = self._sides(table)
        low, high = (np.concatenate([getattr(one, end) for one in sides]) for end in ("low", "high"))
        weight = np.concatenate([one.likely_weight for one in sides])
        second = np.repeat([False, True], [len(one.weight) for one in sides])
        known = all(one.is_certain for one in sides) and bool((low[:, 1] == high[:, 1]).all())
        event, middle = np.rint((low[:, 1] + high[:, 1]) / 2.0), (low[:, 0] + high[:, 0]) / 2.0
        value = bound_log_rank(middle, middle, event, second, weight)[0]
        ends = bound_log_rank(low[:, 0], high[:, 0], event, second, weight) if known else (0.0, np.inf)
        slack = 1e-10 * (1.0 + value)
        p_ends = [float(stats.chi2.sf(end, 1)) for end in (ends[1] + slack, max(ends[0] - slack, 0.0))]
        records = sum(one.records for one in sides)
        return TestEstimate(
            name=str(self),
            value=value,
            low=max(min(ends[0], value) - slack, 0.0),
            high=max(ends[1], value) + slack,
            inner_low=value,
            inner_high=value,
            linear_low=np.nan,
            linear_high=np.nan,
            records=records,
            uncertain_records=sum(one.most_records for one in sides) - records,
            weighted_by=table.weighted_by,
            notes=() if known else ("nothing is certain: the event or the group of some records is not known",),
            p_value=float(stats.chi2.sf(value, 1)),
            p_low=p_ends[0],
            p_high=p_ends[1],
        )

    def _sides(self, table: CountedBoxes) -> list[WeightedBoxes]:
        """Return the records of the two groups."""
        if self.time in table.calendars or table.weighted_by is not None:
            raise StatisticError(f"{self} needs times that are numbers, and records without sampling weights.")
        survival = Survival(self.time, self.event, np.inf)
        conditions = [Condition((Predicate(self.group, "=", str(level)),)) for level in table.levels(self.group)]
        sides = [
            compute_in_groups(self, partial(survival.records_where, table, self.condition.joined(one)))
            for one in conditions
        ]
        if len(sides) != 2:
            raise StatisticError(f"{self} needs two groups.", found=f"{len(sides)}")
        for one in sides:
            survival.tally(one)  # which refuses other events
        return sides

    def __str__(self) -> str:
        where = f" | {self.condition}" if self.condition.predicates else ""
        return f"logrank({quote(self.time)}, {quote(self.event)} ~ {quote(self.group)}{where})"


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
