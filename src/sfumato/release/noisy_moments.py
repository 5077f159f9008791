"""Means, variances, covariances and correlations from noisy counts of cells, with the width of the cells joined.

Let every row of a cell c have a quantity between p_c and q_c, and let n_c rows be counted as y_c = n_c + noise of
standard deviation s. Some cells meet a condition certainly, others possibly. The average t over all rows that meet it
has Σ (quantity − t) = 0, so that

    0 ≤ Σ_c n_c w_c   with   w_c = q_c − t in certain cells, and max(0, q_c − t) in possible ones.

At the true t the sum of y_c w_c differs from this by noise of standard deviation s·√Σ w_c². The average is therefore
not above the largest t at which Σ y_c w_c + z·s·√Σ w_c² is not negative, and in the same way not below the smallest one
by the lower ends. Nothing is linearised; the events are joined by a union bound. A mean has the quantity x, a variance
(x − m)² and a covariance (x − m)(y − m′), with all m that the interval of the mean allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.release.private_estimates import Ends, reach
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.tallies import Sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.statistic import Statistic

    Array = NDArray[np.float64]
    Interval = tuple[Array, Array]

STEPS = 512  # of the search for the ends of an interval
OF_CELLS = (Mean, Sum, Variance, Sd, Covariance, Correlation)


@dataclass(frozen=True, eq=False, repr=False)
class MeasuredCells:
    """Cells with noisy counts: which of them count, and between which ends the numbers of their rows are."""

    counts: Array
    sigma: float
    certain: NDArray[np.bool_]  # every row of the cell counts
    possible: NDArray[np.bool_]  # some rows of the cell may count
    likely: Array  # share of the rows of each cell that probably count
    ends: Mapping[str, Interval]  # of the columns of a statistic
    unseen: float  # rows with a missing value that are in the wrong cells: at most so many

    def estimate(self, part: Statistic, error: float) -> Ends:
        """Return a statistic with the ends of its interval."""
        inner = part.unconditional
        if isinstance(inner, Mean):
            return self._middle(*self.ends[inner.column]), *self.average(*self.ends[inner.column], error)
        if isinstance(inner, Sum):
            return self._sum(*self.ends[inner.column], error)
        if isinstance(inner, Correlation):
            return self._correlation(inner.columns, error)
        names = inner.columns if len(inner.columns) == 2 else inner.columns * 2
        value, low, high = self._covariance((names[0], names[1]), 0.9 * error)
        if getattr(inner, "unbiased", False):
            rows = float(self.counts @ self.likely)
            noise = reach(0.1 * error) * self.sigma * math.sqrt(self.certain.sum()) + self.unseen
            fewest = float(self.counts[self.certain].sum()) - noise
            value *= rows / (rows - 1.0) if rows > 1.0 else math.nan
            most = fewest / (fewest - 1.0) if fewest > 1.0 else math.inf
            low, high = min(low, low * most), max(high, high * most)
        if isinstance(inner, Sd):
            value, low, high = (math.sqrt(max(0.0, one)) for one in (value, low, high))
        return value, low, high

    def average(self, low: Array, high: Array, error: float) -> tuple[float, float]:
        """Return the ends of the average of a quantity that lies between ``low`` and ``high`` in each cell."""
        if not self.possible.any():
            return -math.inf, math.inf
        return -self._highest(-low, error), self._highest(high, error)

    def _highest(self, places: Array, error: float) -> float:
        """Return the largest average that noise does not rule out, if a quantity is at most at these places."""
        used, z = self.possible, reach(error) * self.sigma
        counts, ends, certain = self.counts[used], places[used], self.certain[used]
        tried = np.linspace(float(ends.min()), float(ends.max()), STEPS + 1)
        step = float(tried[1] - tried[0])
        weights = ends[None, :] - tried[:, None]
        weights = np.where(certain[None, :], weights, np.maximum(weights, 0.0))
        noise = z * np.sqrt((weights**2).sum(axis=1)) + self.unseen * np.maximum(-weights, 0.0).max(axis=1)
        between = step * (np.abs(counts).sum() + z * math.sqrt(len(counts)) + self.unseen)  # that no step jumps over
        allowed = weights @ counts + noise + between >= 0.0
        return float(tried[np.flatnonzero(allowed)[-1]]) if allowed.any() else float(ends.max())

    def _sum(self, low: Array, high: Array, error: float) -> Ends:
        ends = []
        for places in (-low, high):
            most = np.where(self.certain, places, np.where(self.possible, np.maximum(places, 0.0), 0.0))
            noise = reach(error) * self.sigma * math.sqrt(most @ most)
            ends.append(float(most @ self.counts) + noise + self.unseen * float(np.maximum(-most, 0.0).max()))
        return float(((low + high) / 2.0 * self.likely)[self.possible] @ self.counts[self.possible]), -ends[0], ends[1]

    def _middle(self, low: Array, high: Array) -> float:
        """Return the average of the middles of the cells, by the rows that probably count."""
        rows = np.where(self.possible, np.maximum(self.counts, 0.0) * self.likely, 0.0)
        middles = np.where(self.possible, (low + high) / 2.0, 0.0)
        return float(rows @ middles / rows.sum()) if rows.sum() > 0.0 else math.nan

    def _around(self, name: str, error: float) -> tuple[Interval, Array]:
        """Return the ends of x − m in each cell, for all means m that are not ruled out, and those of the middles."""
        low, high = self.ends[name]
        least, most = self.average(low, high, error)
        return (low - most, high - least), (low + high) / 2.0 - self._middle(low, high)

    def _covariance(self, names: tuple[str, str], error: float, means: float | None = None) -> Ends:
        """Return a covariance, or a variance if both columns are the same; a quarter of the error is that of means."""
        of_mean = error / 8.0 if means is None else means
        (one, first), (two, second) = (self._around(name, of_mean) for name in names)
        if names[0] == names[1]:
            high = np.maximum(one[0] ** 2, one[1] ** 2)
            low = np.where((one[0] <= 0.0) & (one[1] >= 0.0), 0.0, np.minimum(one[0] ** 2, one[1] ** 2))
        else:
            corners = np.stack([a * b for a in one for b in two])
            low, high = corners.min(axis=0), corners.max(axis=0)
        products = first * second
        return self._middle(products, products), *self.average(low, high, 0.75 * error if means is None else error)

    def _correlation(self, columns: tuple[str, ...], error: float) -> Ends:
        """Return a correlation: an eighth of the error for each mean, a quarter for each of the three products."""
        one, two = columns
        parts = [self._covariance(names, error / 4.0, error / 8.0) for names in ((one, two), (one, one), (two, two))]
        covariance, first, second = parts
        spread = math.sqrt(max(0.0, first[0] * second[0]))
        value = covariance[0] / spread if spread > 0.0 else math.nan
        least, most = (math.sqrt(max(0.0, first[end] * second[end])) for end in (1, 2))
        low = covariance[1] / (most if covariance[1] > 0.0 else least) if least > 0.0 else -1.0
        high = covariance[2] / (least if covariance[2] > 0.0 else most) if least > 0.0 else 1.0
        return value, max(-1.0, low), min(1.0, high)
