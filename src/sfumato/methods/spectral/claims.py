"""What spectral releases promise, measured again on the rows that leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.claims import Finding

if TYPE_CHECKING:
    from sfumato.methods.claims import Evidence


@dataclass(frozen=True, kw_only=True)
class MomentsKept:
    """Means and covariances of ``columns`` are those of the original.

    An error of a mean counts in standard deviations of the column, one of a covariance in products of them.
    """

    columns: tuple[str, ...]
    tolerance: float = 1e-9

    def measure(self, evidence: Evidence) -> Finding:
        """Compute both again."""
        original, released = evidence.original.matrix(self.columns), evidence.released.matrix(self.columns)
        mean = original.mean(axis=0)
        spread = original.std(axis=0)
        # a constant column is held against its own size
        scale = np.where(spread > 1e-12 * np.abs(mean), spread, np.maximum(np.abs(mean), 1.0))
        before, after = (original - mean) / scale, (released - mean) / scale
        error = max(
            float(np.abs(after.mean(axis=0) - before.mean(axis=0)).max()),
            float(np.abs(_covariance(after) - _covariance(before)).max()),
        )
        return Finding(
            claim=f"means and covariances of {len(self.columns)} columns kept to {self.tolerance:g}",
            held=error <= self.tolerance,
            found=f"largest relative error {error:.1e}",
            fix="repair=False, which promises nothing of the moments",
        )


def _covariance(columns: np.ndarray) -> np.ndarray:
    centred = columns - columns.mean(axis=0)
    return np.asarray(centred.T @ centred / len(columns))
