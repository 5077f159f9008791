"""The characteristics of XK and XF: each has a value, a gradient and enclosures.

Sensitivities, sampling errors and linear intervals follow from value and gradient; see :mod:`.moments`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import EPS, Deadline, Enclosure, Factor
from sfumato.statistics.bounds.one_or_two_columns import (
    enclose_mean,
    enclose_variance,
    highest_correlation,
    highest_covariance,
    zero_spread,
)
from sfumato.statistics.bounds.records import TINY, Records, Scale
from sfumato.statistics.bounds.scaled_boxes import compile_kernels
from sfumato.statistics.conditions import quote
from sfumato.statistics.estimate import DAYS, SQUARE_DAYS
from sfumato.statistics.moments import Gradient, Moments
from sfumato.statistics.statistic import OneColumn, Statistic
from sfumato.statistics.units import Calendar, Dates, Days, Unit
from sfumato.statistics.weighted_boxes import WeightedBoxes


@dataclass(frozen=True)
class Mean(OneColumn):
    """Mean of a numeric column.

    Sampling weights are used if the release has them. In text form this is ``"mean(x)"``.

    Parameters
    ----------
    column : str
        Name of the column. The mean has the unit of the column.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate(sf.Mean("age"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (33.33, 38.33, 43.33)
    """

    def value(self, moments: Moments) -> float:
        return float(moments.mean[0])

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.ones(1), np.zeros((1, 1)))

    def prepare(self, boxes: WeightedBoxes | None) -> None:
        """Compile nothing: there are no kernels."""

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        return enclose_mean(records.boxes)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Dates(calendars[self.column], of_mean=True)

    def __str__(self) -> str:
        return f"mean({quote(self.column)})"


class Spread(Statistic):
    """A statistic that is divided by the number n of records or, if it is unbiased, by n − 1."""

    unbiased: bool

    @property
    def population(self) -> Statistic:
        spread: Any = self  # every subclass is a dataclass with this field
        population: Statistic = replace(spread, unbiased=False) if self.unbiased else self
        return population

    def factor(self, boxes: WeightedBoxes) -> Factor:
        """Return n / (n − 1) if it is unbiased.

        If it is not known how many records count, neither is n. For one record the statistic is not defined.
        """
        if not self.unbiased:
            return Factor()
        records = boxes.most_records, boxes.records, (boxes.records + boxes.most_records) / 2.0
        least, most, likely = (count / (count - 1.0) if count > 1 else math.inf for count in records)
        return Factor(least, most, likely if math.isfinite(likely) else math.nan)

    def _bessel(self, moments: Moments, undefined: float = math.nan) -> float:
        """Return n / (n − 1) for the n records of the moments, or 1 for a population variance."""
        if not self.unbiased:
            return 1.0
        return moments.records / (moments.records - 1.0) if moments.records > 1 else undefined

    @property
    def _option(self) -> str:
        return ", unbiased" if self.unbiased else ""


@dataclass(frozen=True)
class _SpreadOfOne(OneColumn, Spread):
    """The variance of a column, or its root."""

    unbiased: bool = False

    def prepare(self, boxes: WeightedBoxes | None) -> None:
        if boxes is None or not boxes.is_certain:  # known weights need only sorting
            compile_kernels()


@dataclass(frozen=True)
class Variance(_SpreadOfOne):
    """Population variance of a numeric column, divided by the number of records or their total weight.

    In text form this is ``"var(x)"`` or ``"var(x, unbiased)"``.

    Parameters
    ----------
    column : str
        Name of the column. The variance has the squared unit of the column; days for a column of dates.
    unbiased : bool, default False
        Multiply by n / (n − 1), so that n − 1 takes the place of the number n of records.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate(sf.Variance("age"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (66.67, 155.56, 288.89)
    """

    def value(self, moments: Moments) -> float:
        return float(moments.covariance[0, 0]) * self._bessel(moments)

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.zeros(1), np.full((1, 1), self._bessel(moments, undefined=0.0)))

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        return enclose_variance(records.boxes, deadline)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        per_day = calendars[self.column].per_day
        return Days(1.0 / (per_day * per_day), SQUARE_DAYS)

    def __str__(self) -> str:
        return f"var({quote(self.column)}{self._option})"


@dataclass(frozen=True)
class Sd(_SpreadOfOne):
    """Population standard deviation of a numeric column.

    In text form this is ``"sd(x)"`` or ``"sd(x, unbiased)"``.

    Parameters
    ----------
    column : str
        Name of the column. The standard deviation has the unit of the column; days for a column of dates.
    unbiased : bool, default False
        Take the root of the unbiased variance, which is divided by the number of records minus 1.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate(sf.Sd("age"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (8.16, 12.47, 17.0)
    """

    def value(self, moments: Moments) -> float:
        root = math.sqrt(self._bessel(moments))
        return float(moments.sd[0]) * root if moments.weight > 0.0 else math.nan

    def gradient(self, moments: Moments) -> Gradient:
        sd, root = moments.sd[0], math.sqrt(self._bessel(moments, undefined=0.0))
        return Gradient(np.zeros(1), np.full((1, 1), 0.5 * root / sd)) if sd > 0.0 else Gradient.zero(1)

    def scale(self, moments: Moments) -> float:
        return float(moments.sd[0])

    def factor(self, boxes: WeightedBoxes) -> Factor:
        """Return the root of the factor of a variance."""
        square = super().factor(boxes)
        return Factor(*(math.sqrt(limit) for limit in (square.least, square.most, square.likely)))

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        """Return the roots of the ends of the variance."""
        variance = enclose_variance(records.boxes, deadline)
        return Enclosure(
            math.sqrt(variance.low) * (1.0 - 2.0 * EPS),
            math.sqrt(variance.high) * (1.0 + 2.0 * EPS),
            math.sqrt(variance.inner_low),
            math.sqrt(variance.inner_high),
            variance.lowest,
            variance.highest,
        )

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        return Days(1.0 / calendars[self.column].per_day, DAYS)

    def __str__(self) -> str:
        return f"sd({quote(self.column)}{self._option})"


@dataclass(frozen=True)
class _TwoColumns(Statistic):
    """A characteristic of two different columns."""

    first: str
    second: str

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise StatisticError(
                f"{self} must name two different columns.", fix="use var(x) for the covariance of x with itself"
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.first, self.second)


@dataclass(frozen=True)
class Covariance(_TwoColumns, Spread):
    """Population covariance of two numeric columns.

    In text form this is ``"cov(x, y)"`` or ``"cov(x, y, unbiased)"``.

    Parameters
    ----------
    first, second : str
        Names of two different columns. The covariance has the product of their units.
    unbiased : bool, default False
        Multiply by n / (n − 1), so that n − 1 takes the place of the number n of records.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.read_release({"x_low": [20, 30, 50], "x_high": [21, 31, 51], "y_low": [1, 2, 4], "y_high": [2, 3, 5]})
    >>> estimate = data.estimate(sf.Covariance("x", "y"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (9.67, 15.56, 21.89)
    """

    unbiased: bool = False

    def value(self, moments: Moments) -> float:
        return float(moments.covariance[0, 1]) * self._bessel(moments)

    def gradient(self, moments: Moments) -> Gradient:
        half = 0.5 * self._bessel(moments, undefined=0.0)
        return Gradient(np.zeros(2), np.array([[0.0, half], [half, 0.0]]))

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        if records.split.is_one_record:
            return zero_spread(records.split)
        scale = Scale(max(float(records.problem.unit.prod()), TINY))
        slack = scale.slack(half, deadline)
        return records.enclose(
            self.value, lambda problem, limit: highest_covariance(problem, slack, limit), scale, deadline
        )

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        first, second = (calendars[name].per_day if name in calendars else 1.0 for name in self.columns)
        return Days(1.0 / (first * second), SQUARE_DAYS if set(self.columns) <= set(calendars) else "")

    def __str__(self) -> str:
        return f"cov({quote(self.first)}, {quote(self.second)}{self._option})"


@dataclass(frozen=True)
class Correlation(_TwoColumns):
    """Pearson correlation of two numeric columns, from −1 to 1.

    It is not defined (NaN) if one of the columns is constant. In text form this is ``"corr(x, y)"``.

    Parameters
    ----------
    first, second : str
        Names of two different columns.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.read_release({"x_low": [20, 30, 50], "x_high": [21, 31, 51], "y_low": [1, 2, 4], "y_high": [2, 3, 5]})
    >>> estimate = data.estimate(sf.Correlation("x", "y"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (0.9, 1.0, 1.0)
    """

    limits = (-1.0, 1.0)

    def value(self, moments: Moments) -> float:
        x, y = moments.sd
        return float(np.clip(moments.covariance[0, 1] / x / y, -1.0, 1.0)) if x > 0.0 and y > 0.0 else math.nan

    def gradient(self, moments: Moments) -> Gradient:
        r, (x, y) = self.value(moments), moments.sd
        if math.isnan(r):
            return Gradient.zero(2)
        across = 0.5 / x / y
        return Gradient(np.zeros(2), np.array([[-0.5 * r / x / x, across], [across, -0.5 * r / y / y]]))

    def scale(self, moments: Moments) -> float:
        return 1.0

    @property
    def divisors(self) -> tuple[str, ...]:
        return self.columns

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        scale = Scale(1.0)
        slack = scale.slack(half, deadline)
        enclosure = records.enclose(
            self.value, lambda problem, limit: highest_correlation(problem, slack, limit), scale, deadline
        )
        low, high = self.clip(enclosure.low, enclosure.high)
        return replace(enclosure, low=low, high=high)

    def __str__(self) -> str:
        return f"corr({quote(self.first)}, {quote(self.second)})"
