"""The unit of an estimate: counts as whole numbers, means of dates as dates, spreads of dates in days."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.estimate import COUNT, DATE, Estimate, Reweighting

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


# Dates as numbers and numbers as dates: days or microseconds since 1970-01-01.
#
# A mean or a quantile of dates is a date again. Spreads, covariances and slopes of dates are in days.


EPOCH = datetime.date(1970, 1, 1)
EPOCH_MOMENT = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
NEAR_WHOLE = 1e-9  # days; a mean of fewer than a billion whole days that is this near to a whole day is that day
MICROSECONDS_PER_DAY = 86_400_000_000


class Calendar(StrEnum):
    """The unit of the numbers that stand for the dates of a column."""

    DAYS = "days"  # dates
    MOMENTS = "microseconds"  # timestamps without a time zone
    UTC_MOMENTS = "microseconds, UTC"  # timestamps with a time zone

    @property
    def per_day(self) -> float:
        """How many units make a day."""
        return 1.0 if self is Calendar.DAYS else float(MICROSECONDS_PER_DAY)

    def number(self, text: str) -> float:
        """Return the number of a date in ISO format; a ValueError if it is none."""
        if self is Calendar.DAYS:
            return float((datetime.date.fromisoformat(text) - EPOCH).days)
        moment = datetime.datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
        return float((moment - EPOCH_MOMENT) // datetime.timedelta(microseconds=1))  # exact, unlike seconds

    def nearest(self, number: float) -> datetime.date | float:
        """Return the date nearest to a number; NaN if it is not finite or outside the years 1 to 9999."""
        return self._date(round(number), math.nan) if math.isfinite(number) else math.nan

    def before(self, number: float, *, whole_days: bool = False) -> datetime.date | float:
        """Return the last date that is not after a number; −∞ if there is none.

        ``whole_days`` says that the number is a mean of equally weighted whole days, so that a number that is only a
        rounding error away from a whole day stands for that day.
        """
        if not math.isfinite(number):
            return number
        return self._date(math.floor(self._whole(number) if whole_days else number), -math.inf)

    def after(self, number: float, *, whole_days: bool = False) -> datetime.date | float:
        """Return the first date that is not before a number; ∞ if there is none."""
        if not math.isfinite(number):
            return number
        return self._date(math.ceil(self._whole(number) if whole_days else number), math.inf)

    def _whole(self, number: float) -> float:
        return float(round(number)) if self is Calendar.DAYS and abs(number - round(number)) < NEAR_WHOLE else number

    def _date(self, whole: int, otherwise: float) -> datetime.date | float:
        try:
            if self is Calendar.DAYS:
                return EPOCH + datetime.timedelta(days=whole)
            moment = EPOCH_MOMENT + datetime.timedelta(microseconds=whole)
        except OverflowError:
            return otherwise
        return moment if self is Calendar.UTC_MOMENTS else moment.replace(tzinfo=None)
