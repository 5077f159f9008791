"""Covariances of columns with missing numbers: each from the rows that have a number in both columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pairwise_covariance(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the population covariances of the columns; NaN is missing, and 0 stands for pairs without common rows."""
    present = ~np.isnan(matrix)
    counts = present.sum(axis=0)
    mean = np.where(present, matrix, 0.0).sum(axis=0) / np.maximum(counts, 1)
    centred = np.where(present, matrix - mean, 0.0)
    if present.all():
        return np.asarray(centred.T @ centred / max(1, len(matrix)))
    both = present.T.astype(np.float64) @ present
    rows = np.maximum(both, 1.0)
    means = centred.T @ present / rows  # of each column (rows) over the rows that have the other one (columns)
    return np.asarray(centred.T @ centred / rows - means * means.T)
