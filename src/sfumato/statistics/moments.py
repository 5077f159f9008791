"""Weighted means and covariances in one pass that can be cut anywhere and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import StatisticError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

CHUNK = 1 << 15  # rows that fit a processor's cache a few columns wide


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Mean vector and population covariance (divided by the total weight, as in XK and XF) of some columns.

    ``weight`` is the total weight (the number of records when none were given) and ``records`` the number of rows
    without a missing cell. With no weight at all, mean and covariance are NaN.
    """

    weight: float
    mean: NDArray[np.float64]  # (n,)
    covariance: NDArray[np.float64]  # (n, n), symmetric
    records: int
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The shape only: the mean of one record is that record."""
        return f"Moments({', '.join(self.names) or f'{len(self.mean)} columns'}; {self.records:,} records)"

    @classmethod
    def of(cls, matrix: ArrayLike, weights: ArrayLike | None = None, *, names: Sequence[str] = ()) -> Moments:
        """Moments of the rows of a matrix; rows with NaN in any column (or in the weight) are left out."""
        rows = np.asarray(matrix, dtype=np.float64)
        if rows.ndim != 2:
            raise StatisticError("Moments need a matrix, one row a record.", found=f"{rows.ndim} dimensions")
        row_weight = _checked_weights(weights, len(rows))
        total = cls.nothing(rows.shape[1], names=names)
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            part_weight = None if row_weight is None else row_weight[start : start + CHUNK]
            total = total.merge(_moments_of_chunk(part, part_weight, total.names))
        if total.weight > 0.0 and not (np.isfinite(total.mean).all() and np.isfinite(total.covariance).all()):
            raise StatisticError(
                "Moments need finite numbers whose squares are finite too.",
                found="an infinite or too large number",
                fix="leave the infinite cells out, or measure the column in a larger unit",
            )
        return total

    @classmethod
    def nothing(cls, columns: int, *, names: Sequence[str] = ()) -> Moments:
        """The moments of no record: merging them changes nothing."""
        return cls(0.0, np.full(columns, np.nan), np.full((columns, columns), np.nan), 0, tuple(names))

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of records together (Chan, Golub and LeVeque); associative up to rounding."""
        if self.mean.shape != other.mean.shape or (self.names and other.names and self.names != other.names):
            raise StatisticError("Only moments of the same columns can be merged.")
        names, records = self.names or other.names, self.records + other.records
        if self.weight == 0.0 or other.weight == 0.0:
            some = self if other.weight == 0.0 else other
            return Moments(some.weight, some.mean, some.covariance, records, names)
        weight = self.weight + other.weight
        share = other.weight / weight
        with np.errstate(over="ignore", invalid="ignore"):
            step = other.mean - self.mean
            between = share * (1.0 - share) * np.outer(step, step)
            covariance = (1.0 - share) * self.covariance + share * other.covariance + between
            return Moments(weight, self.mean + share * step, covariance, records, names)

    def select(self, positions: Sequence[int]) -> Moments:
        """The moments of some of the columns, in this order."""
        chosen = list(positions)
        names = tuple(self.names[position] for position in chosen) if self.names else ()
        return Moments(self.weight, self.mean[chosen], self.covariance[np.ix_(chosen, chosen)], self.records, names)

    @property
    def sd(self) -> NDArray[np.float64]:
        """Standard deviations of the columns."""
        deviations: NDArray[np.float64] = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return deviations


def _checked_weights(weights: Any, rows: int) -> NDArray[np.float64] | None:
    if weights is None:
        return None
    row_weight = np.asarray(weights, dtype=np.float64)
    if row_weight.shape != (rows,):
        raise StatisticError(
            "There must be one weight a record.", found=f"{row_weight.size} weights for {rows} records"
        )
    if (row_weight < 0.0).any() or np.isinf(row_weight).any():
        raise StatisticError("Weights must be finite and not negative.", fix="check the weight column")
    return row_weight


def _moments_of_chunk(
    rows: NDArray[np.float64], weights: NDArray[np.float64] | None, names: tuple[str, ...]
) -> Moments:
    """Two passes over rows that are still in the cache: exact means first, then squares about them."""
    present = ~np.isnan(rows).any(axis=1)
    if weights is not None:
        present &= ~np.isnan(weights)
    kept = rows if present.all() else rows[present]
    row_weight = np.ones(len(kept)) if weights is None else weights[present]
    total = float(row_weight.sum())
    if total == 0.0:
        nothing = Moments.nothing(rows.shape[1], names=names)
        return Moments(0.0, nothing.mean, nothing.covariance, len(kept), names)
    share = row_weight / total
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (share[:, None] * kept).sum(axis=0)
        centred = kept - mean
        shared = share[:, None] * centred
        slip = shared.sum(axis=0)  # what rounding left in the mean
        covariance = shared.T @ centred - np.outer(slip, slip)
        return Moments(total, mean + slip, (covariance + covariance.T) / 2.0, len(kept), names)
