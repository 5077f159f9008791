"""Least-squares regression: its coefficients, each with the interval that boxes imply."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.coefficients import Target, highest_coefficient
from sfumato.statistics.bounds.enclosure import Deadline, Enclosure, End
from sfumato.statistics.bounds.records import TINY, Records, Scale
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes
from sfumato.statistics.conditions import Condition, quote
from sfumato.statistics.estimate import DAYS
from sfumato.statistics.moments import Gradient, Moments
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.units import Calendar, Days, Unit

INTERCEPT = "intercept"
SINGULAR = 1e-12  # smallest eigenvalue of the correlation matrix of the regressors that counts as full rank
ORTHANTS = 0.6  # share of the time of a regression in which all its slopes are bounded together


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

    @property
    def terms(self) -> tuple[str, ...]:
        return (INTERCEPT, *self.regressors)

    def parts(self) -> tuple[Statistic, ...]:
        return tuple(Coefficient(self, term) for term in (None, *self.regressors))

    def __str__(self) -> str:
        return f"regress({quote(self.response)} ~ {' + '.join(map(quote, self.regressors))})"


@dataclass(frozen=True)
class Coefficient(Statistic):
    """One coefficient of a regression: the slope of ``term``, or the intercept if ``term`` is None."""

    regression: Regression
    term: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.regression.columns

    @property
    def divisors(self) -> tuple[str, ...]:
        return self.regression.regressors

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

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        problem = records.problem
        if self.term is None:
            target = Target.intercept(-problem.centre[1:] / problem.unit[1:])
            scale = Scale(float(problem.unit[0]), float(problem.centre[0]))
        else:
            target = Target.slope(len(self.regression.regressors), self._position)
            scale = Scale(max(float(problem.unit[0] / problem.unit[1 + self._position]), TINY))
        slack = scale.slack(half, deadline)
        seconds = ORTHANTS * deadline.seconds * len(self.columns)  # the first part has this share of the time
        records.slopes(seconds)

        def highest(side: ScaledBoxes, limit: Deadline) -> End:
            functional = (1.0 if side is problem else -1.0) * target.functional
            return highest_coefficient(side, target, slack, limit, lambda: records.bound_quickly(functional, seconds))

        return records.enclose(self.value, highest, scale, deadline)

    def _unit_of_dates(self, calendars: Mapping[str, Calendar]) -> Unit:
        per_day = [calendars[name].per_day if name in calendars else 1.0 for name in self.columns]
        if self.term is None:
            return Days(1.0 / per_day[0], DAYS if self.regression.response in calendars else "")
        return Days(per_day[1 + self._position] / per_day[0])

    @property
    def _position(self) -> int:
        assert self.term is not None
        return self.regression.regressors.index(self.term)

    @property
    def term_name(self) -> str:
        """The name of the regressor as the language writes it, or "intercept"; a column of that name is quoted."""
        if self.term is None:
            return INTERCEPT
        return f"`{self.term}`" if self.term.lower() == INTERCEPT else quote(self.term)

    def text_under(self, condition: Condition) -> str:
        return f"{self.regression.text_under(condition)}: {self.term_name}"

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
