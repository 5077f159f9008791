"""What every statistic answers, whatever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments


@dataclass(frozen=True, eq=False, repr=False)
class Gradient:
    """How a statistic g(E, S) changes: dg = mean · dE + Σᵢⱼ covariance_ij dS_ij, the latter symmetric."""

    mean: NDArray[np.float64]  # (n,)
    covariance: NDArray[np.float64]  # (n, n)

    @classmethod
    def zero(cls, columns: int) -> Gradient:
        """The gradient of a statistic that nothing changes."""
        return cls(np.zeros(columns), np.zeros((columns, columns)))


@dataclass(frozen=True)
class Statistic(ABC):
    """A number (or, for a regression, several ``parts()``) computed from the records of a table.

    A *characteristic* in the sense of XK and XF is a function of mean and covariance and answers ``value``,
    ``gradient`` and ``scale`` from the moments of exactly its ``columns``, in that order. Counts, sums, quantiles and
    statistics under a condition are statistics too, but no functions of moments, and say so when asked.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the numeric columns, in the order in which moments are expected."""

    def parts(self) -> tuple[Statistic, ...]:
        """The single numbers that this statistic consists of."""
        return (self,)

    def value(self, moments: Moments) -> float:
        """The statistic of records with these moments; NaN where it is not defined."""
        raise self._no_characteristic()

    def gradient(self, moments: Moments) -> Gradient:
        """Derivatives by mean and covariance; zero where the statistic is not defined: nothing can be kept there."""
        raise self._no_characteristic()

    def scale(self, moments: Moments) -> float:
        """The natural unit of a change: the change when each moment changes by as much as the columns spread."""
        gradient, sd = self.gradient(moments), moments.sd
        return float(np.abs(gradient.mean) @ sd + sd @ np.abs(gradient.covariance) @ sd)

    def _no_characteristic(self) -> StatisticError:
        return StatisticError(
            f"{self} is no single function of means and covariances.",
            fix="ask for its parts, or name a mean, variance, sd, covariance, correlation or regression",
        )


RESERVED = set("(),~+|=<>!&`\"'")


def quoted(name: str) -> str:
    """A column name as the words language reads it: bare where that is plain, else in backticks."""
    plain = name and name == name.strip() and not RESERVED & set(name) and " and " not in name.lower()
    return name if plain else "`" + name.replace("`", "``") + "`"
