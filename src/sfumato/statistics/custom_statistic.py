"""A statistic that the user defines as a function of mean and covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import StatisticError
from sfumato.statistics.conditions import quoted
from sfumato.statistics.influence import Gradient
from sfumato.statistics.statistic import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments


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
