"""The characteristics of XK and XF, each defined only by its value and its gradient.

Sensitivities, sampling errors and linear intervals follow from these two; see :mod:`.influence`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.custom_statistic import Custom
from sfumato.statistics.statistic import Gradient, Statistic, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments

__all__ = [
    "INTERCEPT",
    "Coefficient",
    "Correlation",
    "Covariance",
    "Custom",
    "Mean",
    "Regression",
    "Sd",
    "Variance",
    "population_form",
]

INTERCEPT = "intercept"
SINGULAR = 1e-12  # smallest eigenvalue of the correlation matrix of the regressors that counts as full rank


@dataclass(frozen=True)
class Mean(Statistic):
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

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, moments: Moments) -> float:
        return float(moments.mean[0])

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.ones(1), np.zeros((1, 1)))

    def __str__(self) -> str:
        return f"mean({quoted(self.column)})"


@dataclass(frozen=True)
class Variance(Statistic):
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

    column: str
    unbiased: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, moments: Moments) -> float:
        return float(moments.covariance[0, 0]) * _bessel(self.unbiased, moments)

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.zeros(1), np.full((1, 1), _bessel(self.unbiased, moments, undefined=0.0)))

    def __str__(self) -> str:
        return f"var({quoted(self.column)}{_option(self.unbiased)})"


@dataclass(frozen=True)
class Sd(Statistic):
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

    column: str
    unbiased: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, moments: Moments) -> float:
        root = math.sqrt(_bessel(self.unbiased, moments))
        return float(moments.sd[0]) * root if moments.weight > 0.0 else math.nan

    def gradient(self, moments: Moments) -> Gradient:
        sd, root = moments.sd[0], math.sqrt(_bessel(self.unbiased, moments, undefined=0.0))
        return Gradient(np.zeros(1), np.full((1, 1), 0.5 * root / sd)) if sd > 0.0 else Gradient.zero(1)

    def scale(self, moments: Moments) -> float:
        return float(moments.sd[0])

    def __str__(self) -> str:
        return f"sd({quoted(self.column)}{_option(self.unbiased)})"


@dataclass(frozen=True)
class _TwoColumnStatistic(Statistic):
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
class Covariance(_TwoColumnStatistic):
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
        return float(moments.covariance[0, 1]) * _bessel(self.unbiased, moments)

    def gradient(self, moments: Moments) -> Gradient:
        half = 0.5 * _bessel(self.unbiased, moments, undefined=0.0)
        return Gradient(np.zeros(2), np.array([[0.0, half], [half, 0.0]]))

    def __str__(self) -> str:
        return f"cov({quoted(self.first)}, {quoted(self.second)}{_option(self.unbiased)})"


@dataclass(frozen=True)
class Correlation(_TwoColumnStatistic):
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

    def __str__(self) -> str:
        return f"corr({quoted(self.first)}, {quoted(self.second)})"


@dataclass(frozen=True)
class Regression(Statistic):
    """Least-squares regression of one numeric column on others.

    Its estimate consists of one coefficient for the intercept, followed by one slope per regressor. In text form this
    is ``"regress(y ~ x1 + x2)"``, and one of its coefficients is ``"regress(y ~ x1 + x2): x1"``.

    Parameters
    ----------
    response : str
        Name of the column that is predicted. The intercept has its unit.
    regressors : tuple of str
        Names of one or more other columns. A slope has the unit of the response per unit of the regressor.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.read_release({"x_low": [20, 30, 50], "x_high": [21, 31, 51], "y_low": [1, 2, 4], "y_high": [2, 3, 5]})
    >>> slope = data.estimate(sf.Regression("y", ("x",)))["x"]
    >>> round(slope.low, 2), round(slope.value, 2), round(slope.high, 2)
    (0.06, 0.1, 0.14)
    """

    response: str
    regressors: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "regressors", tuple(self.regressors))
        if not self.regressors:
            raise StatisticError(f"A regression of {self.response!r} needs at least one regressor.")
        if len(set(self.columns)) < len(self.columns):
            raise StatisticError(f"{self} must name different columns.")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.response, *self.regressors)

    def parts(self) -> tuple[Statistic, ...]:
        return tuple(Coefficient(self, term) for term in (None, *self.regressors))

    def __str__(self) -> str:
        return f"regress({quoted(self.response)} ~ {' + '.join(map(quoted, self.regressors))})"


@dataclass(frozen=True)
class Coefficient(Statistic):
    """One coefficient of a regression: the slope of ``term``, or the intercept if ``term`` is None."""

    regression: Regression
    term: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.regression.columns

    def value(self, moments: Moments) -> float:
        slopes = _slopes(moments)
        if slopes is None:
            return math.nan
        if self.term is None:
            return float(moments.mean[0] - slopes @ moments.mean[1:])
        return float(slopes[self._position])

    def gradient(self, moments: Moments) -> Gradient:
        slopes = _slopes(moments)
        if slopes is None:
            return Gradient.zero(len(self.columns))
        if self.term is not None:
            return Gradient(
                np.zeros(len(self.columns)), _slope_gradient(moments, slopes, np.eye(len(slopes))[self._position])
            )
        return Gradient(np.concatenate([[1.0], -slopes]), _slope_gradient(moments, slopes, -moments.mean[1:]))

    def scale(self, moments: Moments) -> float:
        sd = moments.sd
        if self.term is None:
            return float(sd[0])
        spread = sd[1 + self._position]
        return float(sd[0] / spread) if spread > 0.0 else math.nan

    @property
    def _position(self) -> int:
        assert self.term is not None
        return self.regression.regressors.index(self.term)

    @property
    def term_name(self) -> str:
        """The name of the regressor as the language writes it, or "intercept"; a column of that name is quoted."""
        if self.term is None:
            return INTERCEPT
        return f"`{self.term}`" if self.term.lower() == INTERCEPT else quoted(self.term)

    def __str__(self) -> str:
        return f"{self.regression}: {self.term_name}"


def population_form(statistic: Statistic) -> Statistic:
    """Return the statistic divided by the number of records, if it is unbiased; otherwise the statistic itself."""
    if isinstance(statistic, Variance | Sd | Covariance) and statistic.unbiased:
        return replace(statistic, unbiased=False)
    return statistic


def _bessel(unbiased: bool, moments: Moments, undefined: float = math.nan) -> float:
    """Return n / (n − 1) for the n records of the moments, or 1 for a population variance."""
    if not unbiased:
        return 1.0
    return moments.records / (moments.records - 1.0) if moments.records > 1 else undefined


def _option(unbiased: bool) -> str:
    return ", unbiased" if unbiased else ""


def _slopes(moments: Moments) -> NDArray[np.float64] | None:
    """Compute c = S_qq⁻¹ s; None if the regressors are (nearly) collinear."""
    sd = moments.sd[1:]
    if not (sd > 0.0).all():
        return None
    scaled = moments.covariance[1:, 1:] / np.outer(sd, sd)
    if np.linalg.eigvalsh(scaled)[0] < SINGULAR:
        return None
    slopes: NDArray[np.float64] = np.linalg.solve(scaled, moments.covariance[1:, 0] / sd) / sd
    return slopes


def _slope_gradient(
    moments: Moments, slopes: NDArray[np.float64], direction: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Compute G of direction · c, from dc = S_qq⁻¹ (ds − dS_qq c)."""
    solution = np.linalg.solve(moments.covariance[1:, 1:], direction)
    gradient = np.zeros_like(moments.covariance)
    gradient[0, 1:] = gradient[1:, 0] = solution / 2.0
    gradient[1:, 1:] = -(np.outer(solution, slopes) + np.outer(slopes, solution)) / 2.0
    return gradient
