"""Counts, sums, shares, means under a condition and quantiles of a release of any size, from one pass over its parts.

Rows without missing values are independent of each other. So counts and sums of parts add up, with their intervals. A
quantile increases with every value, so its ends are quantiles of the ends of the ranges. These come from sketches whose
error of a rank is certain, and the interval is wider by that error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.plan.questions import ExtremesOf, PointsOf, Question, SketchedNumbers
from sfumato.plan.sketches import WeightedPoints
from sfumato.release.moments_in_parts import Ask, can_be_summed, estimate_in_parts, is_numeric, midpoints_of
from sfumato.statistics.combined import ShareMeeting
from sfumato.statistics.conditions import base_columns
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.released_columns import find_needed
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.tallies import Count, Quantile, Sum
from sfumato.table.intervals import high_name, is_interval, low_name, missing_name
from sfumato.table.table import Table

ADDED = "computed in parts"
RANKED = (
    "computed in parts, from sketches: wider than the narrowest interval by at most {:g} of the records at each end"
)
RANK_ERROR = 5e-4  # of a sketch, as a share of the rows
ENDS = ("low", "high", "inner_low", "inner_high", "linear_low", "linear_high")

OfRows = Callable[[Statistic, Table], Estimate]  # how a statistic of some released rows is estimated


@dataclass(frozen=True, repr=False)
class StatisticInParts(ABC):
    """A statistic of a release that is read part by part."""

    statistic: Statistic
    table: Table

    @property
    @abstractmethod
    def questions(self) -> tuple[Question[Any], ...]:
        """What is asked of the released rows first."""

    @abstractmethod
    def estimate(self, ask: Ask) -> Estimate | None:
        """Return the estimate; None if parts do not tell it."""


def in_parts(statistic: Statistic, table: Table, of_rows: OfRows, *, sketched: bool) -> StatisticInParts | None:
    """Return how a statistic is computed from parts, if it can be; ``of_rows`` estimates one of some rows.

    ``sketched`` says whether intervals may be wider by the error of sketches.
    """
    if can_be_summed(statistic, table):
        return _FromMoments(statistic, table)
    if sketched and isinstance(statistic, Quantile) and is_numeric(statistic.column, table):
        return _FromRanks(statistic, table)
    added = _sum_behind(statistic)
    if added is not None and _are_complete(statistic, table):
        return _FromSums(statistic, table, added, of_rows)
    return None


def _sum_behind(statistic: Statistic) -> Statistic | None:
    """Return the count or sum that a statistic is, or is a multiple of."""
    inner = statistic.unconditional
    if isinstance(inner, Count | Sum):
        return statistic
    if isinstance(inner, ShareMeeting) and inner is statistic:
        return Count(inner.condition)
    return Sum(inner.column).given(statistic.where) if isinstance(inner, Mean) else None


def _are_complete(statistic: Statistic, table: Table) -> bool:
    """Whether the columns are released, and no rows of a box share how many of its values are missing."""
    names = base_columns(statistic.columns)
    known = all(name in table.kinds or is_interval(name, table.kinds) for name in names)
    return known and not any(missing_name(name) in table.kinds for name in names)


@dataclass(frozen=True, repr=False)
class _FromMoments(StatisticInParts):
    """Moments of midpoints, and sums over half-widths."""

    @property
    def questions(self) -> tuple[Question[Any], ...]:
        return (midpoints_of(self.statistic, self.table),)

    def estimate(self, ask: Ask) -> Estimate | None:
        return estimate_in_parts(self.statistic, self.table, ask)


@dataclass(frozen=True, repr=False)
class _FromSums(StatisticInParts):
    """Counts and sums of the parts, added up; a share of all rows, or a mean of known ones, is such a sum, divided."""

    added: Statistic
    of_rows: OfRows

    @cached_property
    def questions(self) -> tuple[Question[Any], ...]:
        reads = find_needed(self.table, base_columns(self.added.columns), (), None, None, pooled=False)
        return (AddedEstimate(self.added, reads, self.of_rows),)

    def estimate(self, ask: Ask) -> Estimate | None:
        found: Estimate | None = ask(self.questions)[self.questions[0]]
        if found is None:
            return None
        told = replace(found, name=str(self.statistic), notes=(*found.notes, ADDED))
        if self.added is self.statistic:
            return told
        if isinstance(self.statistic, ShareMeeting):
            told = replace(told, records=self.table.rows, uncertain_records=0)
        if told.uncertain_records:  # of how many rows it is the mean depends on their values
            return None
        ends = {name: getattr(found, name) / told.records for name in ("value", *ENDS)}
        outward = {"low": math.nextafter(ends["low"], -math.inf), "high": math.nextafter(ends["high"], math.inf)}
        low, high = self.statistic.clip(outward["low"], outward["high"])
        return replace(told, **ends | {"low": low, "high": high}, unit="")


@dataclass(frozen=True)
class AddedEstimate(Question[Estimate | None]):
    """The estimate of a count or sum, which that of all rows is the sum of; None if no record qualifies."""

    statistic: Statistic
    columns: tuple[str, ...]
    of_rows: OfRows = field(compare=False, repr=False)

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def of(self, batch: Table) -> tuple[Estimate, ...]:
        try:
            return (self.of_rows(self.statistic, batch.select(self.columns)),)
        except StatisticError:  # none of these rows qualifies
            return ()

    def merge(self, one: tuple[Estimate, ...], other: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
        return (_add(one[0], other[0]),) if one and other else one or other

    def finish(self, partial: tuple[Estimate, ...]) -> Estimate | None:
        return partial[0] if partial else None


def _add(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of the rows of both; ends that are no whole numbers are rounded outward."""
    names = ("value", *ENDS, "records", "uncertain_records")
    added = {name: getattr(one, name) + getattr(other, name) for name in names}
    for name, outward in (("low", -math.inf), ("high", math.inf)):
        if isinstance(added[name], float):
            added[name] = math.nextafter(added[name], outward)
    return replace(one, **added)


@dataclass(frozen=True, repr=False)
class _FromRanks(StatisticInParts):
    """A quantile from sketches of the ends of the ranges."""

    @cached_property
    def _ends(self) -> tuple[str, str]:
        (name,) = self.statistic.columns
        return (low_name(name), high_name(name)) if is_interval(name, self.table.kinds) else (name, name)

    @property
    def questions(self) -> tuple[Question[Any], ...]:
        ends = dict.fromkeys(self._ends)
        return (
            *(PointsOf(name, RANK_ERROR) for name in ends),
            *(ExtremesOf(name) for name in ends),
            PointsBetween(self._ends[0], self._ends[1]),
        )

    def estimate(self, ask: Ask) -> Estimate | None:
        answers, (low, high) = ask(self.questions), self._ends
        lows, highs = (_Ranks.of(answers[PointsOf(name, RANK_ERROR)], answers[ExtremesOf(name)]) for name in self._ends)
        middle: WeightedPoints = answers[PointsBetween(low, high)]
        assert isinstance(self.statistic, Quantile)
        share, rows = self.statistic.share, self.table.rows
        if lows.rows != rows or highs.rows != rows:
            return None
        (bottom, attained_low), (attained_high, top) = lows.ends(share), highs.ends(share)
        if attained_low > attained_high:
            attained_low = attained_high = math.nan
        place = int(np.searchsorted(np.cumsum(middle.weights), share * middle.rows))
        value = float(middle.values[min(place, len(middle.values) - 1)])
        return Estimate(
            name=str(self.statistic),
            value=min(max(value, bottom), top),
            low=bottom,
            high=top,
            inner_low=attained_low,
            inner_high=attained_high,
            linear_low=bottom,
            linear_high=top,
            records=rows,
            notes=(RANKED,),
        )


@dataclass(frozen=True)
class PointsBetween(SketchedNumbers[WeightedPoints]):
    """The midpoints of ranges, as weighted points, given the columns of their ends."""

    high: str

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.column, self.high)))

    @property
    def rank_error(self) -> float:
        return RANK_ERROR

    def of(self, batch: Table) -> Any:
        low, high = batch.numbers(self.column), batch.numbers(self.high)
        return low + (high - low) / 2.0

    def finish(self, partial: Any) -> WeightedPoints:
        return self.sketch(partial).points()


@dataclass(frozen=True, repr=False)
class _Ranks:
    """Values of a column, and how many rows are at or below each, up to an error that is certain."""

    values: NDArray[np.float64]
    below: NDArray[np.float64]
    error: float
    low: float  # smallest and largest value of the column
    high: float

    @classmethod
    def of(cls, points: WeightedPoints, extremes: Any) -> _Ranks:
        return cls(points.values, np.cumsum(points.weights), points.error, extremes.low, extremes.high)

    @property
    def rows(self) -> float:
        return float(self.below[-1]) if len(self.below) else 0.0

    def ends(self, share: float) -> tuple[float, float]:
        """Return between which values the quantile is: no value below the first can be it, and none above the second.

        It is the mean of the smallest value with at least the share of the rows at or below it, and of the smallest
        with more.
        """
        wanted, slack = share * self.rows, self.error + 1.0
        first = int(np.searchsorted(self.below, wanted - slack, side="left"))
        last = int(np.searchsorted(self.below, wanted + slack, side="right"))
        return (
            self.low if wanted <= slack else float(self.values[first]),
            self.high if last >= len(self.values) else float(self.values[last]),
        )
