"""Eigenvectors: the leading ones of a symmetric matrix, and the principal axes of rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEW = 3  # the Lanczos method is used if the matrix has more rows than this × the wanted number of vectors


@dataclass(frozen=True, repr=False)
class Eigenpairs:
    """Eigenvalues, largest first, and their vectors as columns."""

    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


def principal_axes(centred: NDArray[np.float64]) -> Eigenpairs:
    """Return the eigenpairs of CᵀC of centred rows C, those that are not 0 if columns outnumber rows.

    The work is that of the smaller of rows and columns: with many columns, CᵀC does not fit into memory.
    """
    rows, columns = centred.shape
    if columns > rows:
        _, singular, right = np.linalg.svd(centred, full_matrices=False)
        return Eigenpairs(singular**2, right.T)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    return Eigenpairs(values[::-1], vectors[:, ::-1])


def leading_eigenpairs(
    symmetric: NDArray[np.float64], count: int, generator: np.random.Generator, *, tolerance: float = 0.0
) -> Eigenpairs:
    """Return the ``count`` algebraically largest eigenvalues and their vectors.

    ``tolerance`` is relative; 0 means machine precision. The generator draws the starting vector.
    """
    if count * FEW < len(symmetric):
        from scipy.sparse.linalg import ArpackError, eigsh

        with suppress(ArpackError):
            start = generator.uniform(0.5, 1.0, len(symmetric))
            values, vectors = eigsh(symmetric, k=count, which="LA", v0=start, tol=tolerance)
            order = np.argsort(-values)
            return Eigenpairs(values[order], vectors[:, order])
    values, vectors = np.linalg.eigh(symmetric)
    return Eigenpairs(values[::-1][:count], vectors[:, ::-1][:, :count])
