"""A statistic of the user's own: any function of means and covariances, with finite intervals where it is monotone.

Nothing is certain about an unknown function. If it is known to grow, or to fall, with each mean, variance and
covariance that it uses, then the intervals of these moments give an interval of the function: it lies between its
values at two corners of the box of all possible moments. The declaration is the user's. It is tried at random points
of that box, and an estimate is refused if one of them contradicts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import StatisticError
from sfumato.statistics.bounds.enclosure import Deadline, Enclosure
from sfumato.statistics.bounds.records import Records
from sfumato.statistics.conditions import quote
from sfumato.statistics.estimate import ASSUMING
from sfumato.statistics.language import PARSERS, parse
from sfumato.statistics.moment_statistics import Covariance, Mean, Variance
from sfumato.statistics.moments import Gradient, Moments
from sfumato.statistics.statistic import Statistic

TRIED = 64  # random moments at which the declared directions are checked
SLIGHT = 1e-6  # of the largest effect of a moment: smaller ones may be rounding errors of the derivative
NOISE = 1e-9  # of the value: an effect that may be a rounding error
ROUNDING = 1e-12  # relative error that is allowed for in the values of the function
DECLARED = f"{ASSUMING}the function is monotone as declared"


@dataclass(frozen=True)
class Custom(Statistic):
    """A statistic of your own: a function of the means and covariances of numeric columns.

    It can be estimated from a release and kept by ``Boxes``, like the built-in ones. Its guaranteed interval is
    infinite, because nothing is known about the function, unless you say in which direction it changes with each
    moment that it uses. With E in [E⁻, E⁺] and S in [S⁻, S⁺], a function that grows with some moments and falls with
    the others lies between its values at two corners of these intervals. The interval is wider than it must be if the
    moments depend on each other.

    Parameters
    ----------
    name : str
        Its name, which the manifest shows: letters, digits and underscores, and no name of a built-in statistic.
    names : sequence of str
        The numeric columns, each once.
    function : callable
        ``function(mean, covariance)`` returns the number; the arrays have one place per column, in the order of
        ``names``, and the covariance is divided by the number of records. NaN, or an error of arithmetic: not defined.
    gradient_function : callable, optional
        ``gradient_function(mean, covariance)`` returns (g_E, G) with dg = g_E·dE + Σ G_ij dS_ij. Default: central
        differences.
    increasing, decreasing : sequence of str, optional
        The moments with which it grows and falls, wherever they may lie: ``"mean(x)"``, ``"var(x)"``,
        ``"cov(x, y)"``. All moments that the function uses must be named. Default: none, and an infinite interval.

    Examples
    --------
    >>> import math
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [21, 31, 51]})
    >>> def variation(mean, covariance):
    ...     return math.sqrt(covariance[0, 0]) / mean[0]
    >>> cv = sf.Custom("cv", ["age"], variation, increasing=["var(age)"], decreasing=["mean(age)"])
    >>> estimate = boxes.estimate(cv)
    >>> round(estimate.low, 3), round(estimate.value, 3), round(estimate.high, 3)
    (0.35, 0.369, 0.388)
    >>> release = sf.Boxes(k=2, keep=[cv]).release({"age": [20, 30, 50, 60]}, schema={"age": "quasi"})
    """

    name: str
    names: tuple[str, ...]
    function: Callable[[Any, Any], float] = field(compare=False)
    gradient_function: Callable[[Any, Any], tuple[Any, Any]] | None = field(default=None, compare=False)
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option in ("names", "increasing", "decreasing"):
            given = getattr(self, option)
            if isinstance(given, str):
                raise StatisticError(
                    f"{option} must be a list of texts.", found="a text", fix="put it in square brackets"
                )
            object.__setattr__(self, option, tuple(given))
        if not self.names or len(set(self.names)) < len(self.names):
            raise StatisticError(f"The statistic {self.name!r} must name at least one column, and each column once.")
        if not self.name.isidentifier() or self.name.lower() in PARSERS:
            raise StatisticError(
                "The name of a statistic of your own must be letters, digits and underscores, and not be taken.",
                found=repr(self.name),
            )
        places = [(moment.row, moment.column) for moment in self._moments]
        if len(set(places)) < len(places):
            raise StatisticError(f"Each moment of {self} may increase or decrease it, and be named once.")

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    @property
    def assumptions(self) -> tuple[str, ...]:
        return (DECLARED,) if self._moments else ()

    def value(self, moments: Moments) -> float:
        return self._call(moments.mean.copy(), moments.covariance.copy())

    def _call(self, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> float:
        """Return the value; NaN where the function raises, as roots and logarithms of negative numbers do."""
        try:
            with np.errstate(all="ignore"):
                value = self.function(mean, covariance)
        except (ArithmeticError, ValueError):
            return math.nan
        if not isinstance(value, Real | np.ndarray) or np.ndim(value) or np.iscomplexobj(value):
            raise StatisticError(f"The function of {self} must return one number.", found=type(value).__name__)
        return float(value)

    def gradient(self, moments: Moments) -> Gradient:
        if self.gradient_function is not None:
            mean, covariance = self.gradient_function(moments.mean.copy(), moments.covariance.copy())
            across = np.asarray(covariance, dtype=np.float64)
            return Gradient(np.asarray(mean, dtype=np.float64), (across + across.T) / 2.0)
        return _numerical_gradient(self._call, moments)

    def enclose_population(self, records: Records, half: float, deadline: Deadline) -> Enclosure:
        """Enclose it by its values at two corners of the moments, if it is monotone; otherwise by infinite ends."""
        attained = super().enclose_population(records, half, deadline)
        if not self._moments:
            return attained
        ends = [moment.enclose(records, deadline.share(len(self._moments))) for moment in self._moments]
        limits = np.array([[end.low, end.high] for end in ends])
        start = Moments.of(records.boxes.midpoints, records.boxes.likely_weight)
        if not (np.isfinite(limits).all() and np.isfinite(start.covariance).all()):
            return attained
        low, high = (self._at_corner(start, limits, side) for side in (0, 1))
        low, high = low - ROUNDING * abs(low), high + ROUNDING * abs(high)
        tried = [one for one in self._try(start, limits) if not math.isnan(one)]
        slack = SLIGHT * abs(high - low)
        values = [*tried, *(end for end in (attained.inner_low, attained.inner_high) if not math.isnan(end))]
        if any(not low - slack <= value <= high + slack for value in values):  # such as at a pole between the corners
            raise StatisticError(f"{self} must change with its moments as it is declared.", found="it does not")
        return replace(attained, low=low, high=high)

    @cached_property
    def _moments(self) -> tuple[DeclaredMoment, ...]:
        sides = [*((text, 1) for text in self.increasing), *((text, -1) for text in self.decreasing)]
        return tuple(DeclaredMoment.of(text, sign, self.names) for text, sign in sides)

    def _at_corner(self, start: Moments, limits: NDArray[np.float64], side: int) -> float:
        """Return the value where every moment makes the function small, or large; infinite if it is not defined."""
        chosen = [
            ends[side if moment.sign > 0 else 1 - side] for moment, ends in zip(self._moments, limits, strict=True)
        ]
        value = self.value(self._with(start, chosen))  # the corner may be no possible moments, and NaN
        return (-math.inf, math.inf)[side] if math.isnan(value) else value

    def _with(self, start: Moments, numbers: list[Any]) -> Moments:
        mean, covariance = start.mean.copy(), start.covariance.copy()
        for moment, number in zip(self._moments, numbers, strict=True):
            moment.put(float(number), mean, covariance)
        return replace(start, mean=mean, covariance=covariance)

    def _try(self, start: Moments, limits: NDArray[np.float64]) -> Iterator[float]:
        """Yield the values at random moments; raise if the function changes there in another direction than declared.

        It must not change with a moment that is not named, either.
        """
        widths = limits[:, 1] - limits[:, 0]
        for share in np.random.default_rng(0).random((TRIED, len(widths))):
            here = self._with(start, list(limits[:, 0] + share * widths))
            gradient, value = self.gradient(here), self.value(here)
            yield value
            effects = np.array([moment.slope(gradient) for moment in self._moments]) * widths
            if np.isfinite(effects).all():
                slight = SLIGHT * float(np.abs(effects).max())
                self._require_directions(effects, slight + NOISE * abs(value))
                self._require_named(gradient, here, slight + SLIGHT * abs(value))

    def _require_directions(self, effects: NDArray[np.float64], slight: float) -> None:
        for moment, effect in zip(self._moments, effects, strict=True):
            if effect * moment.sign < -slight:
                word = "increasing" if moment.sign > 0 else "decreasing"
                raise StatisticError(f"{self} must be {word} in {moment}, as it is declared.", found="it is not")

    def _require_named(self, gradient: Gradient, here: Moments, slight: float) -> None:
        named = {(moment.row, moment.column) for moment in self._moments}
        for other in _all_moments(self.names):
            effect = abs(other.slope(gradient)) * other.spread(here)
            if (other.row, other.column) not in named and effect > slight:
                raise StatisticError(
                    f"All moments that {self} uses must be in increasing or decreasing.", found=f"{other} is not"
                )

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(quote, self.names))})"


@dataclass(frozen=True)
class DeclaredMoment:
    """A mean, variance or covariance, and whether the function grows (1) or falls (−1) with it."""

    statistic: Statistic
    places: tuple[int, ...]  # of its columns among those of the function
    sign: int

    @classmethod
    def of(cls, text: str, sign: int, names: tuple[str, ...]) -> DeclaredMoment:
        """Read the text of a moment."""
        moment = parse(text, names)
        if not isinstance(moment, Mean | Variance | Covariance) or getattr(moment, "unbiased", False):
            raise StatisticError("A moment must be mean(x), var(x) or cov(x, y).", found=f"{moment}")
        return cls(moment, tuple(names.index(name) for name in moment.columns), sign)

    @property
    def row(self) -> int:
        """The place of its mean, −1 for a variance or covariance."""
        return self.places[0] if isinstance(self.statistic, Mean) else -1

    @property
    def column(self) -> tuple[int, int]:
        """The place of its covariance, the smaller first."""
        first, last = min(self.places), max(self.places)
        return (-1, -1) if isinstance(self.statistic, Mean) else (first, last)

    def enclose(self, records: Records, deadline: Deadline) -> Enclosure:
        """Return the interval of the moment, over all values in the boxes."""
        chosen = list(self.places)
        boxes = replace(records.boxes, low=records.boxes.low[:, chosen], high=records.boxes.high[:, chosen])
        half = self.statistic.linear_interval(boxes)[1]
        return self.statistic.enclose_population(Records(boxes), half, deadline)

    def put(self, number: float, mean: NDArray[np.float64], covariance: NDArray[np.float64]) -> None:
        """Set the moment, in place."""
        if isinstance(self.statistic, Mean):
            mean[self.places[0]] = number
        else:
            covariance[self.column] = covariance[self.column[::-1]] = number

    def slope(self, gradient: Gradient) -> float:
        """Return the derivative of the function with respect to the moment."""
        if isinstance(self.statistic, Mean):
            return float(gradient.mean[self.places[0]])
        return float(gradient.covariance[self.column]) * (1.0 if len(self.places) == 1 else 2.0)

    def spread(self, moments: Moments) -> float:
        """Return a natural size of a change: the spread of its columns."""
        spread = float(np.prod(moments.sd[list(self.places)]))
        return spread * spread if isinstance(self.statistic, Variance) else spread

    def __str__(self) -> str:
        return str(self.statistic)


def _all_moments(names: tuple[str, ...]) -> Iterator[DeclaredMoment]:
    for number, name in enumerate(names):
        yield DeclaredMoment(Mean(name), (number,), 1)
        yield DeclaredMoment(Variance(name), (number,), 1)
        for other in range(number):
            yield DeclaredMoment(Covariance(names[other], name), (other, number), 1)


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
