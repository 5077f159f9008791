"""The claim that means and covariances are those of the original."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.claims.base import Claim, Evidence, Finding
from sfumato.statistics.moments import Moments

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class BothMoments:
    """Moments before and after, of numbers from which ``shift`` was subtracted.

    Shifted numbers are of the size of their standard deviations, so that means and covariances keep all their digits
    however far from zero the column lies.
    """

    shift: NDArray[np.float64]  # (columns,)
    original: Moments
    released: Moments
    missing: int  # rows with a missing or an infinite number, before and after

    @classmethod
    def of(cls, original: NDArray[np.float64], released: NDArray[np.float64]) -> BothMoments:
        """Moments of the rows of two matrices."""
        shift = original.mean(axis=0) if len(original) else np.zeros(original.shape[1])
        shift = np.where(np.isfinite(shift), shift, 0.0)
        before, after = Moments.of(_finite(original - shift)), Moments.of(_finite(released - shift))
        return cls(shift, before, after, len(original) + len(released) - before.records - after.records)

    def merge(self, other: BothMoments) -> BothMoments:
        """The moments of the rows of both, from which the shift of the larger was subtracted."""
        if self.original.records < other.original.records:
            return other.merge(self)
        step = other.shift - self.shift
        return BothMoments(
            self.shift,
            self.original.merge(replace(other.original, mean=other.original.mean + step)),
            self.released.merge(replace(other.released, mean=other.released.mean + step)),
            self.missing + other.missing,
        )

    @property
    def largest_error(self) -> float:
        """Largest difference of a mean in standard deviations, or of a covariance in products of them."""
        if self.missing or not self.original.records or not self.released.records:
            return math.nan
        mean, spread = self.shift + self.original.mean, self.original.sd
        # a constant column is held against its own size
        scale = np.where(spread > 1e-12 * np.abs(mean), spread, np.maximum(np.abs(mean), 1.0))
        means = np.abs(self.released.mean - self.original.mean) / scale
        covariances = np.abs(self.released.covariance - self.original.covariance) / np.outer(scale, scale)
        return float(max(means.max(), covariances.max()))


def _finite(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The matrix with NaN for infinite numbers."""
    return np.where(np.isinf(matrix), np.nan, matrix) if np.isinf(matrix).any() else matrix


@dataclass(frozen=True, kw_only=True)
class MomentsKept(Claim[BothMoments]):
    """Means and covariances of ``columns`` are those of the original.

    An error of a mean counts in standard deviations of the column, one of a covariance in products of them.
    """

    columns: tuple[str, ...]
    tolerance: float = 1e-9

    def tally(self, evidence: Evidence) -> BothMoments:
        return BothMoments.of(evidence.original.matrix(self.columns), evidence.released.matrix(self.columns))

    def finding(self, tally: BothMoments) -> Finding:
        error = tally.largest_error
        return Finding(
            claim=f"means and covariances of {len(self.columns)} columns kept to {self.tolerance:g}",
            held=error <= self.tolerance,
            found=f"largest relative error {error:.1e}",
            fix="repair=False, which promises nothing of the moments",
            kind=self.kind,
        )
