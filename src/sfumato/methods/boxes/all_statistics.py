"""The weights of all means, variances and correlations of many columns, without an object for each of them.

With z = (x − mean) ÷ sd, the derivatives of mean, variance and correlation of XK §II add up to

    a_i(x) = (1 + 2 |z_i| + Σ_j |z_j − r_ij z_i|) ÷ (accuracy · sd_i).

Hundreds of columns have too many pairs. The sum over j of absolute values is then replaced by √(2/π) times the root
of (number of terms · sum of squares), which is the same for normal numbers, and the sum of squares is a matrix
product.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.moments_lookup import MomentsLookup

PAIRS_OF = 200  # with more columns than this, the pairs are summed by a matrix product
SAMPLE = 20_000  # rows from which the correlations are computed; evenly spaced in a larger table
CELLS = 1 << 21  # rows × columns that are computed together, so that the memory does not grow with the table


@dataclass(frozen=True, repr=False)
class AllStatistics:
    """All means, variances and correlations of these columns, each with the same importance."""

    columns: tuple[str, ...]
    mean: NDArray[np.float64]
    sd: NDArray[np.float64]  # 0 if the column is constant or has no value: it then has no weight
    correlation: NDArray[np.float32]
    accuracy: float  # wanted accuracy of each statistic: share of its natural scale

    @classmethod
    def of(cls, columns: Sequence[str], moments_of: MomentsLookup, sample: Table, accuracy: float) -> AllStatistics:
        """Read the moments of each column, and compute the correlations of the sampled rows."""
        each = [moments_of([name]) for name in columns]
        mean = np.array([one.mean[0] if one.records else 0.0 for one in each])
        sd = np.array([one.sd[0] if one.records else 0.0 for one in each])
        evenly = np.linspace(0, sample.rows - 1, min(SAMPLE, sample.rows)).astype(np.int64)
        rows = sample if len(evenly) == sample.rows else sample.take(evenly)
        weight = None if moments_of.weight is None else np.nan_to_num(rows.numbers(moments_of.weight))
        unfinished = cls(tuple(columns), mean, sd, np.zeros((0, 0), dtype=np.float32), accuracy)
        correlation = correlations(unfinished.standardised(rows), weight)
        return cls(tuple(columns), mean, sd, correlation, accuracy)

    def standardised(self, rows: Table) -> NDArray[np.float32]:
        """Return z for each row and column: 0 in a constant column, NaN where the value is missing."""
        scale = np.divide(1.0, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0.0)
        z = np.empty((rows.rows, len(self.columns)), dtype=np.float32)
        for position, name in enumerate(self.columns):
            z[:, position] = (rows.numbers(name) - self.mean[position]) * scale[position]
        return z

    def add_to(self, weights: NDArray[np.float32], rows: Table) -> None:
        """Add the weight of each row to the first columns of ``weights``, in place."""
        from sfumato.kernels.sensitivity import pair_sums

        count = len(self.columns)
        sums = pair_sums if count <= PAIRS_OF else root_mean_squares
        per_unit = np.divide(1.0 / self.accuracy, self.sd, out=np.zeros_like(self.sd), where=self.sd > 0.0)
        step = max(1, CELLS // max(1, count))

        def add(start: int) -> None:
            z = self.standardised(Table(rows.arrow.slice(start, step), rows.kinds))
            added = (1.0 + 2.0 * np.abs(z) + sums(z, self.correlation)) * per_unit.astype(np.float32)
            weights[start : start + step, :count] += np.nan_to_num(added, nan=0.0)

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(add, range(0, rows.rows, step)))


def correlations(z: NDArray[np.float32], weight: NDArray[np.float64] | None) -> NDArray[np.float32]:
    """Return the correlation of each pair of standardised columns, over the rows where both have a value."""
    is_present = ~np.isnan(z)
    filled = np.where(is_present, z, np.float32(0.0))
    row_weight = np.ones(len(z), dtype=np.float32) if weight is None else weight.astype(np.float32)
    products = (filled * row_weight[:, None]).T @ filled
    present = is_present.astype(np.float32)
    total = np.maximum((present * row_weight[:, None]).T @ present, np.finfo(np.float32).tiny)
    found: NDArray[np.float32] = np.clip(products / total, -1.0, 1.0)
    return found


def root_mean_squares(z: NDArray[np.float32], correlation: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return √(2/π) · √((m − 1) Σ_j (z_j − r_ij z_i)²) for a row with m values: about Σ_j |z_j − r_ij z_i|."""
    filled = np.nan_to_num(z, nan=0.0)
    others = np.maximum((~np.isnan(z)).sum(axis=1) - 1, 0)[:, None]
    squares = (filled * filled).sum(axis=1)[:, None]
    squares = squares - 2.0 * filled * (filled @ correlation) + filled * filled * (correlation**2).sum(axis=1)
    found: NDArray[np.float32] = np.sqrt(2.0 / math.pi * others * np.maximum(squares, 0.0)).astype(np.float32)
    found[np.isnan(z)] = np.nan
    return found
