"""The base class of all statistics."""

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
    """The gradient of a statistic g(E, S): dg = mean · dE + Σᵢⱼ covariance_ij dS_ij, with a symmetric covariance."""

    mean: NDArray[np.float64]  # (n,)
    covariance: NDArray[np.float64]  # (n, n)

    @classmethod
    def zero(cls, columns: int) -> Gradient:
        """Return the gradient of a statistic that does not change."""
        return cls(np.zeros(columns), np.zeros((columns, columns)))


@dataclass(frozen=True)
class Statistic(ABC):
    """A number, or for a regression several ``parts()``, computed from the records of a table.

    A *characteristic* in the sense of XK and XF is a function of mean and covariance. It implements ``value``,
    ``gradient`` and ``scale`` for the moments of exactly its ``columns``, in that order. Counts, sums, quantiles and
    statistics under a condition are not functions of moments; for them these methods raise a StatisticError.
    """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the numeric columns, in the order in which moments are expected."""

    def parts(self) -> tuple[Statistic, ...]:
        """Return the single numbers that this statistic consists of."""
        return (self,)

    def value(self, moments: Moments) -> float:
        """Compute the statistic; NaN if it is not defined.

        Parameters
        ----------
        moments : Moments
            Mean and covariance of exactly the columns of the statistic, in their order.
        """
        raise self._not_a_characteristic()

    def gradient(self, moments: Moments) -> Gradient:
        """Compute the derivatives with respect to mean and covariance; zero if the statistic is not defined.

        Parameters
        ----------
        moments : Moments
            Mean and covariance of exactly the columns of the statistic, in their order.
        """
        raise self._not_a_characteristic()

    def scale(self, moments: Moments) -> float:
        """Compute the natural unit of a change: the change if every moment changes by the spread of its columns.

        Parameters
        ----------
        moments : Moments
            Mean and covariance of exactly the columns of the statistic, in their order.
        """
        gradient, sd = self.gradient(moments), moments.sd
        return float(np.abs(gradient.mean) @ sd + sd @ np.abs(gradient.covariance) @ sd)

    def _not_a_characteristic(self) -> StatisticError:
        return StatisticError(
            f"{self} must be a single function of means and covariances.",
            fix="use its parts, or a mean, variance, sd, covariance, correlation or regression coefficient",
        )


RESERVED = set("(),~+|=<>!&`\"'")


def quoted(name: str) -> str:
    """Return a column name as the language of statistics writes it: unquoted if possible, else in backticks."""
    plain = name and name == name.strip() and not RESERVED & set(name) and " and " not in name.lower()
    return name if plain else "`" + name.replace("`", "``") + "`"
