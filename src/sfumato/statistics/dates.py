"""Dates as numbers and numbers as dates: days or microseconds since 1970-01-01.

A mean or a quantile of dates is a date again. Spreads, covariances and slopes of dates are in days.
"""

from __future__ import annotations

import datetime
import math
from enum import StrEnum

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
