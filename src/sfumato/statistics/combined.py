"""Statistics made of others: shares, interquartile ranges, groups, tables, and differences and ratios of two."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure
from sfumato.statistics.bounds.joint import JointForms, LinearForm
from sfumato.statistics.bounds.one_or_two_columns import enclose_mean
from sfumato.statistics.conditions import Condition, Predicate, complement_clauses, join_clauses, quote
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import DAYS, Estimate
from sfumato.statistics.estimate_records import GroupedEstimate, TableEstimate
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.statistic import ConditionalStatistic, OneColumn, Statistic
from sfumato.statistics.tallies import Count, Quantile, Sum, Tally
from sfumato.statistics.units import Calendar, Days, Unit
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes

MOST_GROUPS = 400  # groups, or cells of a table
SEPARATELY = "the two statistics were bounded separately, so the interval may be wider than it must be"


@dataclass(frozen=True)
class ShareMeeting(Tally):
    """Share of the records that meet a condition, from 0 to 1; a record whose value is missing does not meet it."""

    limits = (0.0, 1.0)

    condition: Condition

    @property
    def columns(self) -> tuple[str, ...]:
        return self.condition.columns

    @property
    def box_columns(self) -> tuple[str, ...]:
        return ()

    def covers(self, unseen: Unseen) -> bool:
        return True  # each of these rows may meet the condition or not

    def unseen_ends(self, unseen: Unseen) -> list[tuple[float, float]]:
        return [(0.0, 1.0), (0.0, 1.0)]

    def records_where(self, table: CountedBoxes, where: Condition) -> WeightedBoxes:
        """Return the records that meet another condition, with the share of each group that meets this one."""
        among, asked = table.clauses([], where), table.clauses([], self.condition)
        inside, outside = join_clauses([among, asked]), join_clauses([among, complement_clauses(asked)])
        whole, met, unmet = (table.rows_meeting(clauses) for clauses in (among, inside, outside))
        equal = (table.lightest == table.heaviest) & (table.pools is None)
        certain = equal & (whole.least == table.count)  # then shares of rows are exact
        low = np.where(certain, 1.0 - unmet.most / table.count, unmet.most == 0.0)
        high = np.where(certain, met.most / table.count, met.most > 0.0)
        likely = met.likely / np.maximum(whole.likely, 1e-300)
        ends = np.column_stack([low, high, np.clip(likely, low, high)])
        boxes = table.with_weights(whole, ends, ends)
        return replace(boxes, low=boxes.low[:, [0, 2]], high=boxes.high[:, [1, 2]])

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the mean of the truth; the second column is the best guess of each group."""
        if not len(boxes.weight):
            raise StatisticError(f"{self} needs at least one record.", found="none that qualifies")
        ends = replace(boxes, low=boxes.low[:, :1], high=boxes.high[:, :1])
        found, weight = enclose_mean(ends), boxes.likely_weight
        guess = (boxes.low[:, 1] + boxes.high[:, 1]) / 2.0 if boxes.low.shape[1] > 1 else ends.midpoints[:, 0]
        value = float(weight @ guess / weight.sum()) if weight.sum() > 0.0 else math.nan
        low, high = self.clip(found.low, found.high)
        return Enclosure(low, high, found.inner_low, found.inner_high, value=value)

    def linear_form(self, where: Condition) -> LinearForm:
        """Return it as a mean of the truth of its condition."""
        return LinearForm(where, indicator=self.condition, divided=True)

    def __str__(self) -> str:
        return f"share({self.condition})"


@dataclass(frozen=True)
class Iqr(OneColumn, Tally):
    """Interquartile range of a numeric column: the 0.75 quantile minus the 0.25 quantile."""

    def tally(self, boxes: WeightedBoxes) -> Enclosure:
        """Compute the difference of the quartiles."""
        lower, upper = (Quantile(self.column, share).tally(boxes) for share in (0.25, 0.75))
        low, high = max(upper.low - lower.high, 0.0), upper.high - lower.low
        return Enclosure(low, high, math.nan, math.nan, value=upper.value - lower.value)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Days(1.0 / calendars[self.column].per_day, DAYS)

    def __str__(self) -> str:
        return f"iqr({quote(self.column)})"


def form_of(statistic: Statistic) -> LinearForm | None:
    """Return a mean, sum, count or share, with or without a condition, as a sum over records; None for others."""
    inner, where = statistic.unconditional, statistic.where
    if isinstance(inner, Mean):
        return LinearForm(where, inner.column, divided=True)
    if isinstance(inner, Sum):
        return LinearForm(where, inner.column)
    if isinstance(inner, Count):
        return LinearForm(where)
    return inner.linear_form(where) if isinstance(inner, ShareMeeting) else None


@dataclass(frozen=True)
class Combination(Statistic):
    """A difference or a ratio of two statistics of the same records."""

    is_characteristic = False
    takes_condition = False
    parts_share_records = False

    first: Statistic
    second: Statistic

    def __post_init__(self) -> None:
        for one in (self.first, self.second):
            if one.terms or isinstance(one, Combination | GroupedStatistic):
                raise StatisticError(f"{type(self).__name__.lower()}(…) needs two single numbers.", found=str(one))

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.first.columns, *self.second.columns)))

    def covers(self, unseen: Unseen) -> bool:
        return self.first.covers(unseen) and self.second.covers(unseen)

    def estimate_in(self, table: CountedBoxes, deadline: Deadline) -> Estimate:
        if table.unseen is not None and not self.covers(table.unseen):
            table = replace(table, unseen=None)
        plain = replace(table, calendars={})
        apart = [one.estimate_in(plain, deadline.share(2)) for one in (self.first, self.second)]
        forms = [form_of(one) for one in (self.first, self.second)]
        joint = JointForms.of(plain, forms[0], forms[1]) if forms[0] and forms[1] else None
        low, high, inner_low, inner_high = self._ends(apart, joint)
        value = self._combine(apart[0].value, apart[1].value)
        # else a choice may have other numbers of missing cells than the boxes, or all weight in one of their groups
        known = not plain.missing.any() and plain.pools is None
        attained = [one for one in (inner_low, inner_high) if math.isfinite(one) and known]
        found = Estimate(
            name=str(self),
            value=value,
            low=low,
            high=high,
            inner_low=min(attained, default=math.nan),
            inner_high=max(attained, default=math.nan),
            linear_low=math.nan,
            linear_high=math.nan,
            records=min(one.records for one in apart),
            uncertain_records=max(one.uncertain_records for one in apart),
            weighted_by=table.weighted_by,
            ended_early=any(one.ended_early for one in apart),
            notes=() if joint else (SEPARATELY,),
        )
        return self._unit(table.calendars).express(found)

    def _ends(self, apart: Sequence[Estimate], joint: JointForms | None) -> tuple[float, float, float, float]:
        """Return the guaranteed and the attained ends: those of both statistics apart, narrowed if they are joint."""
        low, high = self._apart(*apart)
        if joint is None:
            return low, high, math.nan, math.nan
        joint_low, joint_high, inner_low, inner_high = self._joint(joint, apart[1])
        return max(low, joint_low), min(high, joint_high), inner_low, inner_high

    @abstractmethod
    def _combine(self, first: float, second: float) -> float:
        """Combine two numbers."""

    @abstractmethod
    def _apart(self, first: Estimate, second: Estimate) -> tuple[float, float]:
        """Combine two intervals."""

    @abstractmethod
    def _joint(self, joint: JointForms, second: Estimate) -> tuple[float, float, float, float]:
        """Bound the combination of two forms of the same records, and give the ends that were attained."""

    def _unit(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Unit()

    def __str__(self) -> str:
        return f"{type(self).__name__.lower()}({self.first}, {self.second})"


@dataclass(frozen=True)
class Difference(Combination):
    """The first statistic minus the second."""

    def _combine(self, first: float, second: float) -> float:
        return first - second

    def _apart(self, first: Estimate, second: Estimate) -> tuple[float, float]:
        low, high = first.low - second.high, first.high - second.low
        ends = (first.low, first.high, second.low, second.high)
        exact = not all(map(math.isfinite, ends)) or all(float(end).is_integer() for end in ends)
        rounding = 0.0 if exact else 4.0 * EPS * max(map(abs, ends))
        return low - rounding, high + rounding

    def _joint(self, joint: JointForms, second: Estimate) -> tuple[float, float, float, float]:
        high, top = joint.highest((1.0, -1.0))
        low, bottom = joint.highest((-1.0, 1.0))
        inner = [self._combine(*joint.values(one)) for one in (bottom, top)]
        return -low, high, inner[0], inner[1]

    def _unit(self, calendars: Mapping[str, Calendar]) -> Unit:
        units = [one.unconditional.unit(calendars) for one in (self.first, self.second)]
        dated = [name for name in self.first.unconditional.box_columns if name in calendars]
        if dated and type(units[0]) is not Unit:
            return Days(1.0 / calendars[dated[0]].per_day, DAYS)
        return units[0] if units[0] == units[1] else Unit()


@dataclass(frozen=True)
class Ratio(Combination):
    """The first statistic divided by the second; its interval is infinite if the second may be 0."""

    def _combine(self, first: float, second: float) -> float:
        return first / second if second else math.nan

    def _apart(self, first: Estimate, second: Estimate) -> tuple[float, float]:
        if second.low <= 0.0 <= second.high or not all(map(math.isfinite, (first.low, first.high))):
            return -math.inf, math.inf
        corners = [one / other for one in (first.low, first.high) for other in (second.low, second.high)]
        return min(corners) - 4.0 * EPS * abs(min(corners)), max(corners) + 4.0 * EPS * abs(max(corners))

    def _joint(self, joint: JointForms, second: Estimate) -> tuple[float, float, float, float]:
        """Bound A / B by A − ρ B ≤ u, which gives A / B ≤ ρ + u / B; ρ is the best ratio that was found."""
        if second.low <= 0.0 <= second.high:
            return -math.inf, math.inf, math.nan, math.nan
        sign = 1.0 if second.low > 0.0 else -1.0
        smallest = min(abs(second.low), abs(second.high))
        ends = []
        for side in (-1.0, 1.0):
            ratio, excess = 0.0, math.inf
            for _ in range(8):
                excess, best = joint.highest((side * sign, -side * sign * ratio))
                found = self._combine(*joint.values(best))
                if not math.isfinite(found) or abs(found - ratio) <= 1e-13 * abs(found):
                    break
                ratio = found
            else:
                excess, best = joint.highest((side * sign, -side * sign * ratio))
            outer = ratio + side * max(excess, 0.0) / smallest
            ends.append((outer + side * 8.0 * EPS * abs(outer), self._combine(*joint.values(best))))
        return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


@dataclass(frozen=True)
class GroupedStatistic(Statistic):
    """A statistic of each group: of the records with each value of some columns. A group without numbers has none."""

    is_characteristic = False
    takes_condition = False
    parts_share_records = False

    statistic: Statistic
    groups: tuple[str, ...]
    levels: tuple[tuple[Any, ...], ...] = ()  # the values of each group, once the table is known

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.statistic.columns, *self.groups)))

    def resolve(self, table: CountedBoxes) -> Statistic:
        levels = _combinations([table.levels(name) for name in self.groups])
        found = replace(self, levels=tuple(values for values in levels if self._has_records(values, table)))
        if not found.levels:
            raise StatisticError(f"{self} needs at least one record that is complete.", found="none")
        return found

    def _has_records(self, values: Sequence[Any], table: CountedBoxes) -> bool:
        part = self._of(values)
        singles = (part.first, part.second) if isinstance(part, Combination) else (part,)
        columns = [(one.unconditional.box_columns, one.where) for one in singles]
        return all(not names or len(table.meeting(names, where).weight) > 0 for names, where in columns)

    def parts(self) -> tuple[Statistic, ...]:
        return tuple(self._of(values) for values in self.levels)

    def covers(self, unseen: Unseen) -> bool:
        return self.statistic.covers(unseen)

    def _of(self, values: Sequence[Any]) -> Statistic:
        return under(self.statistic, is_value(self.groups, values))

    def as_record(self, estimates: Sequence[Any]) -> Any:
        keys = tuple(values[0] if len(values) == 1 else values for values in self.levels)
        return GroupedEstimate(str(self), keys, tuple(estimates))

    def __str__(self) -> str:
        return f"{self.statistic} by {', '.join(map(quote, self.groups))}"


@dataclass(frozen=True)
class CrossTable(GroupedStatistic):
    """Counts of all combinations of two columns, with margins and shares; records with a missing value are left out."""

    def resolve(self, table: CountedBoxes) -> Statistic:
        if not table.rows_meeting(table.clauses([], self._where((None, None)))).most.any():  # a cell would be named
            raise StatisticError(f"{self} needs at least one record with a value in both columns.", found="none")
        return super().resolve(table)

    @property
    def _keys(self) -> tuple[tuple[Any, ...], ...]:
        """The cells, with None for all values of a column."""
        sides = [tuple(dict.fromkeys(one[side] for one in self.levels)) for side in range(2)]
        return tuple(_combinations([(*side, None) for side in sides]))

    def parts(self) -> tuple[Statistic, ...]:
        whole = self._where((None, None))
        counts = [Count(self._where(key)) for key in self._keys]
        return (*counts, *(ConditionalStatistic(ShareMeeting(self._where(key)), whole) for key in self._keys))

    def _where(self, values: Sequence[Any]) -> Condition:
        each = [
            Condition((Predicate(name, "!=", None),)) if value is None else is_value((name,), (value,))
            for name, value in zip(self.groups, values, strict=True)
        ]
        return each[0].joined(each[1])

    def covers(self, unseen: Unseen) -> bool:
        return True

    def as_record(self, estimates: Sequence[Any]) -> Any:
        keys = self._keys
        shares = GroupedEstimate(f"shares of {self}", keys, tuple(estimates[len(keys) :]))
        return TableEstimate(str(self), keys, tuple(estimates[: len(keys)]), shares)

    def __str__(self) -> str:
        return f"table({', '.join(map(quote, self.groups))})"


def under(statistic: Statistic, condition: Condition) -> Statistic:
    """Return the statistic of the records that also meet a condition."""
    if isinstance(statistic, Combination):
        return replace(statistic, first=under(statistic.first, condition), second=under(statistic.second, condition))
    joined = statistic.where.joined(condition)
    if isinstance(statistic, Count):
        return Count(joined)
    return ConditionalStatistic(statistic.unconditional, joined)


def is_value(names: Sequence[str], values: Sequence[Any]) -> Condition:
    """Return the condition that columns have these values."""
    return Condition(tuple(Predicate(name, "=", str(value)) for name, value in zip(names, values, strict=True)))


def _combinations(levels: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    if math.prod(len(one) for one in levels) > MOST_GROUPS:
        raise StatisticError(
            f"There may be at most {MOST_GROUPS} groups.", found=" × ".join(str(len(one)) for one in levels)
        )
    found: list[tuple[Any, ...]] = [()]
    for one in levels:
        found = [(*before, value) for before in found for value in one]
    return found
