"""Noisy sums for the kept statistics: their moments, measured over all rows, each in one step.

A mean needs the number of complete rows and the sum of a column; a variance, a covariance, a correlation or a
regression also the sums of squares and products. Numbers are put on a grid of whole numbers from −G to G over their
declared domain, so that one row changes a sum by at most G, and a product of two of them, divided by G and rounded, by
at most G as well. Of F sums in one measurement, one row changes the squares by at most F · G².
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import OptionError
from sfumato.methods.discrete_noise import LARGEST_SCALE, NoisyNumbers, gaussian_scale, measure
from sfumato.methods.private_columns import Domain, NumberDomain
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.tallies import Sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table

FINEST = 2**13  # largest G; smaller if the noise would otherwise be too large for exact arithmetic


@dataclass(frozen=True, kw_only=True)
class MomentSet:
    """Columns whose moments are measured together, over the rows in which none of them is missing."""

    columns: tuple[str, ...]
    order: int  # 1: sums; 2: also sums of squares and products

    @property
    def sums(self) -> int:
        """Number of sums, the number of rows included."""
        count = len(self.columns)
        return 1 + count + (count * (count + 1) // 2 if self.order == 2 else 0)


def moment_sets(kept: Sequence[Statistic], domains: Mapping[str, Domain]) -> tuple[MomentSet, ...]:
    """Return the moments that the kept statistics are functions of, each set of columns once."""
    orders: dict[frozenset[str], MomentSet] = {}
    for statistic in kept:
        of_moments = statistic.is_characteristic or isinstance(statistic, Sum)
        wrong = [name for name in statistic.columns if not isinstance(domains.get(name), NumberDomain)]
        if not of_moments or statistic.where.predicates or wrong:
            raise OptionError(
                "The statistics to keep must be functions of moments of numbers, without a condition.",
                found=str(statistic),
                fix="means, sums, variances, covariances, correlations and regressions of columns with a domain",
            )
        order = 1 if isinstance(statistic, Mean | Sum) else 2
        key = frozenset(statistic.columns)
        if key not in orders or orders[key].order < order:
            orders[key] = MomentSet(columns=tuple(dict.fromkeys(statistic.columns)), order=order)
    return tuple(orders.values())


@dataclass(frozen=True, eq=False, repr=False)
class MomentSums:
    """The noisy sums of a set, in units of the grid: rows · G, then columns, then products ÷ G."""

    asked: MomentSet
    domains: tuple[NumberDomain, ...]
    grid: int
    noisy: NoisyNumbers

    @classmethod
    def measure(
        cls, asked: MomentSet, domains: Mapping[str, Domain], table: Table, *, rho: float, rows_per_person: int
    ) -> MomentSums:
        """Measure the sums: ρ-zCDP."""
        own = tuple(domain for name in asked.columns if isinstance(domain := domains[name], NumberDomain))
        squared = asked.sums * rows_per_person**2
        grid = FINEST
        while grid > 1 and gaussian_scale(squared_sensitivity=squared * grid**2, rho=rho) > LARGEST_SCALE:
            grid //= 2
        sums = _add_rows(_grid_rows(own, table, grid), grid, asked.order)
        return cls(asked, own, grid, measure(sums, squared_sensitivity=squared * grid**2, rho=rho))

    @property
    def note(self) -> dict[str, Any]:
        """What the manifest tells."""
        return {
            "columns": list(self.asked.columns),
            "order": self.asked.order,
            "centers": [one.center for one in self.domains],
            "halves": [one.half for one in self.domains],
            "grid": self.grid,
            "sums": self.noisy.numbers.tolist(),
            "sigma": self.noisy.sigma,
        }


def _grid_rows(domains: Sequence[NumberDomain], table: Table, grid: int) -> NDArray[np.int64]:
    """Return the numbers of all complete rows on the grid, each from −G to G."""
    columns = [(one.numbers(table) - one.center) / one.half for one in domains]
    scaled = np.column_stack(columns) if columns else np.zeros((table.rows, 0))
    complete = scaled[~np.isnan(scaled).any(axis=1)]
    return np.clip(np.rint(complete * grid), -grid, grid).astype(np.int64)


def _add_rows(rows: NDArray[np.int64], grid: int, order: int) -> NDArray[np.int64]:
    """Return the sums: rows, columns, and products rounded to the grid. All of it is integer arithmetic."""
    sums = [len(rows) * grid, *rows.sum(axis=0).tolist()]
    if order == 2:
        pairs = combinations_with_replacement(range(rows.shape[1]), 2)
        sums += [int(np.floor_divide(rows[:, one] * rows[:, two] + grid // 2, grid).sum()) for one, two in pairs]
    return np.array(sums, dtype=np.int64)
