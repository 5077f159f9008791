"""Bases in which the columns of a matrix have nothing to do with each other: uncorrelated, or independent.

Every basis writes the matrix as ``centre + scores @ loadings`` with white scores (mean 0, variance 1, uncorrelated), as
many as the matrix has rank: constant and collinear columns, and more columns than rows, take no score and come back as
they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BasisWord = Literal["svd", "robust"]
BASES: tuple[BasisWord, ...] = ("svd", "robust")

NEGLIGIBLE = 1e-9  # a singular value below this share of the largest is rounding
ICA_ROUNDS = 100  # normal data never settles, and any rotation of it serves
ICA_TOLERANCE = 1e-4


@dataclass(frozen=True, repr=False)
class Basis:
    """A matrix as white scores and what they load on."""

    centre: NDArray[np.float64]  # (columns,)
    scores: NDArray[np.float64]  # (rows, rank): mean 0, variance 1 (divided by the rows), uncorrelated
    loadings: NDArray[np.float64]  # (rank, columns)

    @property
    def rank(self) -> int:
        """Number of scores."""
        return len(self.loadings)

    def matrix(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """The matrix that has these scores."""
        return self.centre + scores @ self.loadings

    def rotated(self, rotation: NDArray[np.float64]) -> Basis:
        """The same matrix in rotated scores: a rotation of white scores is white."""
        return Basis(self.centre, self.scores @ rotation, rotation.T @ self.loadings)


def principal(matrix: NDArray[np.float64]) -> Basis:
    """Singular vectors of the centred matrix: A = U D Vᵀ, the scores being √rows·U (TL §4.1.1)."""
    centre = matrix.mean(axis=0)
    left, singular, right = np.linalg.svd(matrix - centre, full_matrices=False)
    rank = int((singular > NEGLIGIBLE * max(singular.max(initial=0.0), np.finfo(float).tiny)).sum())
    root = np.sqrt(len(matrix))
    return Basis(centre, left[:, :rank] * root, (singular[:rank, None] / root) * right[:rank])


def invariant(matrix: NDArray[np.float64]) -> Basis:
    """Invariant coordinates: the covariance and a scatter that outliers hardly move, made diagonal together.

    The second scatter gives the white scores Cauchy weights 1/(1 + |s|²/rank), so its directions are those of the bulk
    (after Perkonoja and Virta, 2026, who replace the principal components by invariant coordinates).
    """
    basis = principal(matrix)
    if basis.rank < 2:
        return basis
    weights = 1.0 / (1.0 + (basis.scores**2).mean(axis=1))
    scatter = (basis.scores * weights[:, None]).T @ basis.scores
    return basis.rotated(np.linalg.eigh(scatter)[1])


def independent(matrix: NDArray[np.float64], draw: np.random.Generator) -> Basis:
    """Independent components by FastICA: symmetric, contrast log cosh (Hyvärinen; TL §5.1)."""
    basis = principal(matrix)
    if basis.rank < 2:
        return basis
    return basis.rotated(unmixing(basis.scores, draw).rotation)


@dataclass(frozen=True, repr=False)
class Unmixing:
    """The rotation that FastICA ended with, and how it ended."""

    rotation: NDArray[np.float64]
    rounds: int
    converged: bool


def unmixing(scores: NDArray[np.float64], draw: np.random.Generator) -> Unmixing:
    """The rotation of white scores that makes them most independent.

    One that has not converged is a rotation all the same: the swap is as private with it, and a little less faithful.
    """
    rows, rank = scores.shape
    rotation = np.linalg.qr(draw.standard_normal((rank, rank)))[0]
    change = np.inf
    for step in range(1, ICA_ROUNDS + 1):
        bent = np.tanh(scores @ rotation)
        slopes = 1.0 - np.einsum("ij,ij->j", bent, bent) / rows
        turned = _nearest_rotation(scores.T @ bent / rows - rotation * slopes)
        change = float(np.abs(np.abs(np.einsum("ij,ij->j", turned, rotation)) - 1.0).max())
        rotation = turned
        if change < ICA_TOLERANCE:
            return Unmixing(rotation, step, converged=True)
    return Unmixing(rotation, ICA_ROUNDS, converged=False)


def _nearest_rotation(square: NDArray[np.float64]) -> NDArray[np.float64]:
    left, _, right = np.linalg.svd(square)
    nearest: NDArray[np.float64] = left @ right
    return nearest
