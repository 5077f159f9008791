"""The unit of an estimate: counts as whole numbers, means of dates as dates, spreads of dates in days."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.quantities import COUNT, DATE

if TYPE_CHECKING:
    from sfumato.statistics.dates import Calendar
    from sfumato.statistics.estimate import Estimate, Reweighting

LARGEST_WHOLE = 2.0**53  # from here on not every whole number is a float
NUMBERS = ("value", "low", "high", "inner_low", "inner_high", "linear_low", "linear_high")  # of an estimate
ERRORS = ("uncertainty", "sampling", "minimised", "threshold", "whole_uncertainty", "whole_sampling")  # of an effect


class Unit:
    """The unit that follows from the columns: nothing is converted."""

    def express(self, estimate: Estimate) -> Estimate:
        """Return an estimate, which is in the units of the table, in this unit."""
        return estimate

    def express_effect(self, effect: Reweighting) -> Reweighting:
        """Return the effect of reweighting in this unit."""
        return effect


class Counts(Unit):
    """Whole numbers, where they are exact."""

    def express(self, estimate: Estimate) -> Estimate:
        whole: dict[str, Any] = {name: _whole(getattr(estimate, name)) for name in NUMBERS}
        return replace(estimate, **whole, unit=COUNT)


class NoDates(Unit):
    """The unit of a statistic that has no meaning for dates."""

    def express(self, estimate: Estimate) -> Estimate:
        raise StatisticError(
            f"{estimate.name} has no meaning: dates cannot be added.", fix="use a mean or a quantile of the dates"
        )


@dataclass(frozen=True)
class Days(Unit):
    """A unit of time that takes the place of that of dates; ``name`` is empty if other units occur in it."""

    factor: float = 1.0
    name: str = ""

    def express(self, estimate: Estimate) -> Estimate:
        if self.factor != 1.0:
            numbers = {name: getattr(estimate, name) * self.factor for name in NUMBERS}
            estimate = replace(estimate, **numbers | {"low": _down(numbers["low"]), "high": _up(numbers["high"])})
        return replace(estimate, unit=self.name)

    def express_effect(self, effect: Reweighting) -> Reweighting:
        numbers = {name: getattr(effect, name) * self.factor for name in (*ERRORS, "value", "whole_value")}
        return replace(effect, **numbers, low=_down(effect.low * self.factor), high=_up(effect.high * self.factor))


@dataclass(frozen=True)
class Dates(Unit):
    """Dates; the ends of the guaranteed interval are rounded outward."""

    calendar: Calendar
    of_mean: bool  # whether the numbers are means of dates, which need not be whole days

    def express(self, estimate: Estimate) -> Estimate:
        calendar, whole_days = self.calendar, not self.of_mean or estimate.weighted_by is None
        dates: dict[str, Any] = {name: calendar.nearest(getattr(estimate, name)) for name in NUMBERS}
        dates["low"] = calendar.before(estimate.low, whole_days=whole_days)
        dates["high"] = calendar.after(estimate.high, whole_days=whole_days)
        return replace(estimate, **dates, unit=DATE, _numbers=estimate)

    def express_effect(self, effect: Reweighting) -> Reweighting:
        """Return the effect with dates; its errors and the shift are in days."""
        calendar = self.calendar
        numbers: dict[str, Any] = {name: getattr(effect, name) / calendar.per_day for name in ERRORS}
        numbers |= {name: calendar.nearest(getattr(effect, name)) for name in ("value", "whole_value")}
        numbers |= {"low": calendar.before(effect.low), "high": calendar.after(effect.high)}
        return replace(effect, **numbers, _shift=effect.shift / calendar.per_day)


def _whole(value: float) -> float | int:
    return int(value) if abs(value) < LARGEST_WHOLE and float(value).is_integer() else value


def _down(value: float) -> float:
    return value - 4.0 * EPS * abs(value) if math.isfinite(value) else value


def _up(value: float) -> float:
    return value + 4.0 * EPS * abs(value) if math.isfinite(value) else value
