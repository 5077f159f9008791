"""The characteristics of XK and XF, each defined only by its value and its gradient.

Sensitivities, sampling errors and linear intervals follow from these two; see :mod:`.influence`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.statistic import Gradient, Statistic, quoted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments

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

    In text form this is ``"var(x)"``.

    Parameters
    ----------
    column : str
        Name of the column. The variance has the squared unit of the column.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate(sf.Variance("age"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (66.67, 155.56, 288.89)
    """

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, moments: Moments) -> float:
        return float(moments.covariance[0, 0])

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.zeros(1), np.ones((1, 1)))

    def __str__(self) -> str:
        return f"var({quoted(self.column)})"


@dataclass(frozen=True)
class Sd(Statistic):
    """Population standard deviation of a numeric column.

    In text form this is ``"sd(x)"``.

    Parameters
    ----------
    column : str
        Name of the column. The standard deviation has the unit of the column.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate(sf.Sd("age"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (8.16, 12.47, 17.0)
    """

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def value(self, moments: Moments) -> float:
        return float(moments.sd[0]) if moments.weight > 0.0 else math.nan

    def gradient(self, moments: Moments) -> Gradient:
        sd = moments.sd[0]
        return Gradient(np.zeros(1), np.full((1, 1), 0.5 / sd)) if sd > 0.0 else Gradient.zero(1)

    def scale(self, moments: Moments) -> float:
        return float(moments.sd[0])

    def __str__(self) -> str:
        return f"sd({quoted(self.column)})"


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

    In text form this is ``"cov(x, y)"``.

    Parameters
    ----------
    first, second : str
        Names of two different columns. The covariance has the product of their units.

    Examples
    --------
    >>> import sfumato as sf
    >>> data = sf.read_release({"x_low": [20, 30, 50], "x_high": [21, 31, 51], "y_low": [1, 2, 4], "y_high": [2, 3, 5]})
    >>> estimate = data.estimate(sf.Covariance("x", "y"))
    >>> round(estimate.low, 2), round(estimate.value, 2), round(estimate.high, 2)
    (9.67, 15.56, 21.89)
    """

    def value(self, moments: Moments) -> float:
        return float(moments.covariance[0, 1])

    def gradient(self, moments: Moments) -> Gradient:
        return Gradient(np.zeros(2), np.array([[0.0, 0.5], [0.5, 0.0]]))

    def __str__(self) -> str:
        return f"cov({quoted(self.first)}, {quoted(self.second)})"


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
    is ``"regress(y ~ x1 + x2)"``.

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
    >>> slope = data.estimate(sf.Regression("y", ("x",)))[1]
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
        """The name of the regressor, or "intercept"."""
        return "intercept" if self.term is None else self.term

    def __str__(self) -> str:
        return f"{self.regression}: {self.term_name}"


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


@dataclass(frozen=True)
class Custom(Statistic):
    """A characteristic g(E, S) defined by the user.

    ``function(mean, covariance)`` returns a number. ``gradient_function(mean, covariance)`` returns the pair (g_E, G)
    with a symmetric G; without it, central differences are used.
    """

    name: str
    names: tuple[str, ...]
    function: Callable[[Any, Any], float] = field(compare=False)
    gradient_function: Callable[[Any, Any], tuple[Any, Any]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        if not self.names or len(set(self.names)) < len(self.names):
            raise StatisticError(f"The statistic {self.name!r} must name at least one column, and each column once.")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def value(self, moments: Moments) -> float:
        return float(self.function(moments.mean.copy(), moments.covariance.copy()))

    def gradient(self, moments: Moments) -> Gradient:
        if self.gradient_function is not None:
            mean, covariance = self.gradient_function(moments.mean.copy(), moments.covariance.copy())
            across = np.asarray(covariance, dtype=np.float64)
            return Gradient(np.asarray(mean, dtype=np.float64), (across + across.T) / 2.0)
        return _numerical_gradient(self.function, moments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(quoted, self.names))})"


def _numerical_gradient(function: Callable[[Any, Any], float], moments: Moments) -> Gradient:
    """Compute central differences; the step is the cube root of the machine epsilon, relative to the spread."""
    columns = len(moments.mean)
    spread = np.where(moments.sd > 0.0, moments.sd, np.maximum(np.abs(moments.mean), 1.0))
    step = np.finfo(np.float64).eps ** (1.0 / 3.0)

    def slope(mean: NDArray[np.float64], covariance: NDArray[np.float64], size: float) -> float:
        up = function(moments.mean + mean, moments.covariance + covariance)
        down = function(moments.mean - mean, moments.covariance - covariance)
        return (float(up) - float(down)) / (2.0 * size)

    gradient = Gradient.zero(columns)
    for i in range(columns):
        size = step * spread[i]
        gradient.mean[i] = slope(size * np.eye(columns)[i], np.zeros((columns, columns)), size)
        for j in range(i, columns):
            size = step * spread[i] * spread[j]
            change = np.zeros((columns, columns))
            change[i, j] = change[j, i] = size
            derivative = slope(np.zeros(columns), change, size)
            gradient.covariance[i, j] = gradient.covariance[j, i] = derivative if i == j else derivative / 2.0
    return gradient
