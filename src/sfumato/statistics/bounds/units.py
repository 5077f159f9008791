"""What follows the enclosure of a statistic: the factor n / (n − 1), counts as whole numbers, and dates as dates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Enclosure
from sfumato.statistics.bounds.spread import EPS
from sfumato.statistics.conditions import Count, Quantile, Sum
from sfumato.statistics.dates import Calendar
from sfumato.statistics.estimate import Estimate, Quantity, Reweighting
from sfumato.statistics.moment_statistics import Coefficient, Covariance, Mean, Sd, Variance
from sfumato.statistics.quantities import COUNT, DATE, DAYS, SQUARE_DAYS
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import WeightedBoxes

LARGEST_WHOLE = 2.0**53  # from here on not every whole number is a float


@dataclass(frozen=True)
class Factor:
    """A factor of which only limits are known; ∞ if the statistic may not be defined."""

    least: float = 1.0
    most: float = 1.0
    likely: float = 1.0

    def applied_to(self, enclosure: Enclosure) -> Enclosure:
        """Multiply the ends; the limits are widened so that rounding cannot make the interval wrong."""
        if self.least == self.most == 1.0:
            return enclosure
        if math.isinf(self.least):
            return Enclosure(-math.inf, math.inf, math.nan, math.nan, None, None)
        products = [[_product(limit, end) for limit in (self.least, self.most)] for end in _ends(enclosure)]
        low, high = min(products[0]), max(products[1])
        inner = [self.likely * end if self.least == self.most else math.nan for end in _inner_ends(enclosure)]
        return Enclosure(
            low - 8.0 * EPS * abs(low) if math.isfinite(low) else low,
            high + 8.0 * EPS * abs(high) if math.isfinite(high) else high,
            inner[0],
            inner[1],
            enclosure.lowest,
            enclosure.highest,
        )


def _ends(enclosure: Enclosure) -> tuple[float, float]:
    return enclosure.low, enclosure.high


def _inner_ends(enclosure: Enclosure) -> tuple[float, float]:
    return enclosure.inner_low, enclosure.inner_high


def _product(factor: float, end: float) -> float:
    return 0.0 if end == 0.0 and math.isfinite(factor) else math.inf if end == 0.0 else factor * end


def bessel_factor(statistic: Statistic, boxes: WeightedBoxes) -> Factor:
    """Return n / (n − 1) for an unbiased variance or covariance, and its root for a standard deviation.

    If it is not known how many records count, neither is n. For one record the statistic is not defined.
    """
    if not isinstance(statistic, Variance | Sd | Covariance) or not statistic.unbiased:
        return Factor()
    records = boxes.most_records, boxes.records, (boxes.records + boxes.most_records) / 2.0
    least, most, likely = (count / (count - 1.0) if count > 1 else math.inf for count in records)
    if isinstance(statistic, Sd):
        least, most, likely = math.sqrt(least), math.sqrt(most), math.sqrt(likely)
    return Factor(least, most, likely if math.isfinite(likely) else math.nan)


def in_units(estimate: Estimate, statistic: Statistic, calendars: Mapping[str, Calendar]) -> Estimate:
    """Return a mean or quantile of dates as dates, other statistics of dates in days, and counts as whole numbers."""
    if isinstance(statistic, Count):
        return _counted(estimate)
    if not any(name in calendars for name in statistic.columns):
        return estimate
    if isinstance(statistic, Sum):
        raise StatisticError(
            f"{estimate.name} has no meaning: dates cannot be added.", fix="use a mean or a quantile of the dates"
        )
    if isinstance(statistic, Mean | Quantile):
        return _dated(estimate, calendars[statistic.column], is_mean=isinstance(statistic, Mean))
    factor, unit = _days(statistic, calendars)
    return replace(_multiplied(estimate, factor), unit=unit)


def _counted(estimate: Estimate) -> Estimate:
    whole: dict[str, Any] = {name: _whole(getattr(estimate, name)) for name in _NUMBERS}
    return replace(estimate, **whole, unit=COUNT)


def _whole(value: float) -> float | int:
    return int(value) if abs(value) < LARGEST_WHOLE and float(value).is_integer() else value


_NUMBERS = ("value", "low", "high", "inner_low", "inner_high", "linear_low", "linear_high")


def _dated(estimate: Estimate, calendar: Calendar, *, is_mean: bool) -> Estimate:
    """Return the estimate with dates; the ends of the guaranteed interval are rounded outward."""
    whole_days = not is_mean or estimate.weighted_by is None
    low, high = (
        calendar.before(estimate.low, whole_days=whole_days),
        calendar.after(estimate.high, whole_days=whole_days),
    )
    others: dict[str, Any] = {
        name: calendar.nearest(getattr(estimate, name)) for name in _NUMBERS if name not in ("low", "high")
    }
    return replace(estimate, **others, low=low, high=high, unit=DATE, _numbers=estimate)


def dated_reweighting(effect: Reweighting, statistic: Statistic, calendars: Mapping[str, Calendar]) -> Reweighting:
    """Return the effect of reweighting with the same units as the estimate; the shift of dates is in days."""
    if not any(name in calendars for name in statistic.columns):
        return effect
    if isinstance(statistic, Mean):
        calendar = calendars[statistic.column]
        errors = {name: getattr(effect, name) / calendar.per_day for name in _ERRORS}
        dates: dict[str, Quantity] = {
            name: calendar.nearest(getattr(effect, name)) for name in ("value", "whole_value")
        }
        dates |= {"low": calendar.before(effect.low), "high": calendar.after(effect.high)}
        return replace(effect, **errors, **dates, _shift=effect.shift / calendar.per_day)
    factor, _ = _days(statistic, calendars)
    numbers = {name: getattr(effect, name) * factor for name in (*_ERRORS, "value", "whole_value")}
    return replace(effect, **numbers, low=_down(effect.low * factor), high=_up(effect.high * factor))


_ERRORS = ("uncertainty", "sampling", "minimised", "threshold", "whole_uncertainty", "whole_sampling")


def _days(statistic: Statistic, calendars: Mapping[str, Calendar]) -> tuple[float, str]:
    """Return the factor from the units of the table to days, and the unit if only days occur in it."""
    per_day = [calendars[name].per_day if name in calendars else 1.0 for name in statistic.columns]
    only_dates = all(name in calendars for name in statistic.columns)
    if isinstance(statistic, Variance | Covariance):
        return 1.0 / (per_day[0] * per_day[-1]), SQUARE_DAYS if only_dates else ""
    if isinstance(statistic, Sd):
        return 1.0 / per_day[0], DAYS
    if isinstance(statistic, Coefficient):
        if statistic.term is None:
            return 1.0 / per_day[0], DAYS if statistic.regression.response in calendars else ""
        return per_day[statistic.columns.index(statistic.term)] / per_day[0], ""
    return 1.0, ""  # a correlation has no unit, and that of the user's own statistic is not known


def _multiplied(estimate: Estimate, factor: float) -> Estimate:
    if factor == 1.0:
        return estimate
    numbers = {name: getattr(estimate, name) * factor for name in _NUMBERS}
    return replace(estimate, **numbers | {"low": _down(numbers["low"]), "high": _up(numbers["high"])})


def _down(value: float) -> float:
    return value - 4.0 * EPS * abs(value) if math.isfinite(value) else value


def _up(value: float) -> float:
    return value + 4.0 * EPS * abs(value) if math.isfinite(value) else value
