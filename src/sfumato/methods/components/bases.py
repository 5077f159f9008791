"""Bases in which the components of a matrix are uncorrelated or independent.

Every basis writes the matrix as ``centre + scores @ loadings`` with white scores (mean 0, variance 1, uncorrelated).
There are as many scores as the rank of the matrix: constant and collinear columns add no score and are reproduced
exactly, also if there are more columns than rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BasisName = Literal["svd", "robust", "kernel"]
BASES: tuple[BasisName, ...] = ("svd", "robust", "kernel")

NEGLIGIBLE = 1e-9  # a singular value below this share of the largest is a rounding error
ICA_ROUNDS = 100  # normal data never converge, and any rotation of them will do
ICA_TOLERANCE = 1e-4
# With fewer rows per component FastICA finds directions in which a single row stands out (overlearning: Särelä and
# Vigário, 2003), and never converges. With hundreds of components that takes most of the time, so the components
# that are left over stay principal; a few components cost little, and are all rotated as TL does
ICA_ROWS_PER_COMPONENT = 4
ALL_ROTATED = 60


@dataclass(frozen=True, repr=False)
class Basis:
    """A matrix as white scores and their loadings."""

    centre: NDArray[np.float64]  # (columns,)
    scores: NDArray[np.float64]  # (rows, rank): mean 0, variance 1 (divisor: rows), uncorrelated
    loadings: NDArray[np.float64]  # (rank, columns)

    @property
    def rank(self) -> int:
        """Number of scores."""
        return len(self.loadings)

    def matrix(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the matrix with these scores."""
        return self.centre + scores @ self.loadings

    def rotate(self, rotation: NDArray[np.float64]) -> Basis:
        """Return the same matrix with rotated scores; a rotation of white scores is white."""
        return Basis(self.centre, self.scores @ rotation, rotation.T @ self.loadings)


def principal(matrix: NDArray[np.float64]) -> Basis:
    """Return the basis of the singular vectors of the centred matrix: A = U D Vᵀ with scores √rows·U (TL §4.1.1)."""
    centre = matrix.mean(axis=0)
    left, singular, right = np.linalg.svd(matrix - centre, full_matrices=False)
    rank = int((singular > NEGLIGIBLE * max(singular.max(initial=0.0), np.finfo(float).tiny)).sum())
    root = np.sqrt(len(matrix))
    return Basis(centre, left[:, :rank] * root, (singular[:rank, None] / root) * right[:rank])


def invariant(matrix: NDArray[np.float64]) -> Basis:
    """Return the basis of invariant coordinates, which diagonalises the covariance and a robust scatter matrix jointly.

    The robust scatter gives the white scores Cauchy weights 1/(1 + |s|²/rank), so that outliers hardly influence its
    directions (after Perkonoja and Virta, 2026, who replace principal components by invariant coordinates).
    """
    basis = principal(matrix)
    if basis.rank < 2:
        return basis
    weights = 1.0 / (1.0 + (basis.scores**2).mean(axis=1))
    scatter = (basis.scores * weights[:, None]).T @ basis.scores
    return basis.rotate(np.linalg.eigh(scatter)[1])


def independent(matrix: NDArray[np.float64], generator: np.random.Generator) -> Basis:
    """Return the basis of independent components, by symmetric FastICA with contrast log cosh (Hyvärinen; TL §5.1).

    Of more than ALL_ROTATED components only as many leading ones are made independent as the rows can tell, one per
    ICA_ROWS_PER_COMPONENT rows.
    """
    basis = principal(matrix)
    if basis.rank < 2:
        return basis
    leading = min(basis.rank, max(ALL_ROTATED, len(matrix) // ICA_ROWS_PER_COMPONENT))
    rotation = np.eye(basis.rank)
    rotation[:leading, :leading] = unmixing(basis.scores[:, :leading], generator).rotation
    return basis.rotate(rotation)


@dataclass(frozen=True, repr=False)
class Unmixing:
    """The rotation found by FastICA, and whether it converged."""

    rotation: NDArray[np.float64]
    rounds: int
    converged: bool


def unmixing(scores: NDArray[np.float64], generator: np.random.Generator) -> Unmixing:
    """Return the rotation of white scores that makes them as independent as possible.

    Without convergence the result is still a rotation: the swap is equally private and slightly less accurate.
    """
    rows, rank = scores.shape
    rotation = np.linalg.qr(generator.standard_normal((rank, rank)))[0]
    change = np.inf
    for step in range(1, ICA_ROUNDS + 1):
        bent = np.tanh(scores @ rotation)
        slopes = 1.0 - np.einsum("ij,ij->j", bent, bent) / rows
        left, _, right = np.linalg.svd(scores.T @ bent / rows - rotation * slopes)
        turned = left @ right  # the nearest rotation
        change = float(np.abs(np.abs(np.einsum("ij,ij->j", turned, rotation)) - 1.0).max())
        rotation = turned
        if change < ICA_TOLERANCE:
            return Unmixing(rotation, step, converged=True)
    return Unmixing(rotation, ICA_ROUNDS, converged=False)
