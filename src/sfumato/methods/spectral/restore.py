"""Restoration, in the units of the columns, of what a swap loses: means and covariances, or marginal distributions.

Logarithms, limits and rounding come between scores and columns, so white scores alone do not preserve the moments of
the columns. If both the moments and the limits are required, two steps alternate: clip the numbers to their limits,
then map them to the wanted mean and covariance by the smallest linear change. Since the original nearly meets both
requirements, the iteration can converge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder

Marginals = Literal["free", "restored"]
MARGINALS: tuple[Marginals, ...] = ("free", "restored")

ROUNDS = 400
EXACT = 1e-11  # relative error of mean and covariance up to which moments count as kept
NEGLIGIBLE = 1e-13  # an eigenvalue below this share of the largest is a rounding error
COMMON = 5  # smallest number of people in a category whose share is restored
SHARE_ROUNDS = 50


@dataclass(frozen=True, repr=False)
class Restored:
    """Numbers with the wanted moments, and a record of the iteration."""

    numbers: NDArray[np.float64]
    error: float  # largest relative error of a mean or a covariance
    rounds: int
    within: bool  # whether they are also within their limits


def with_moments(
    numbers: NDArray[np.float64],
    like: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> Restored:
    """Return numbers with the means and covariances of ``like``, within limits if possible."""
    mean, spread = like.mean(axis=0), like.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    target = (like - mean) / scale
    wanted = target.T @ target / len(like)
    bottom, top = (low - mean) / scale, (high - mean) / scale
    first = _mapped(_mapped((numbers - mean) / scale, wanted), wanted)  # the second step corrects the last digits
    current = first
    for step in range(1, ROUNDS + 1):
        inside = np.clip(current, bottom, top)
        error = _error(inside, wanted)
        if error < EXACT:
            return Restored(inside * scale + mean, error, step, within=True)
        current = _mapped(inside, wanted)
    return Restored(first * scale + mean, _error(first, wanted), ROUNDS, within=False)


def with_marginals(
    numbers: NDArray[np.float64], like: NDArray[np.float64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Return numbers with the same ranks whose values follow the distribution of ``like``, column by column.

    A value is interpolated between two neighbouring values of ``like``, so that few of them are released unchanged.
    Correlations of heavy-tailed columns become less accurate.
    """
    restored = np.empty_like(numbers)
    for column in range(numbers.shape[1]):
        known = np.sort(like[~np.isnan(like[:, column]), column])
        if not known.size:
            restored[:, column] = numbers[:, column]
            continue
        rank = np.empty(len(numbers))
        rank[np.argsort(numbers[:, column], kind="stable")] = np.arange(len(numbers))
        share = (rank + generator.uniform(size=len(numbers))) / len(numbers)
        restored[:, column] = np.interp(share * known.size - 0.5, np.arange(known.size), known)
    return restored


def with_shares(changed: NDArray[np.float64], like: NDArray[np.float64], code: Encoder) -> NDArray[np.float64]:
    """Return a matrix in which categories (by the largest indicator) and missing numbers are as common as in ``like``.

    Each indicator is shifted by the same amount in all rows, so the rows nearest to a category get it. Categories of
    fewer than five people are left as they are, so that their number is not disclosed.
    """
    shared = changed.copy()
    for category in code.categories:
        place = category.columns
        shared[:, place] += _offsets(changed[:, place], (like[:, place] > 0.0).sum(axis=0))
    for number in code.numbers:
        if number.missing is not None:
            missing_rows = int((like[:, number.missing] > 0.0).sum())
            both = np.column_stack([changed[:, number.missing], np.zeros(len(changed))])
            away = _offsets(both, np.array([missing_rows, len(like) - missing_rows]))
            shared[:, number.missing] += away[0] - away[1]
    return shared


def _offsets(scores: NDArray[np.float64], wanted: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what to add to each column so that it is the largest in the wanted number of rows, column by column."""
    offsets = np.zeros(scores.shape[1])
    common = np.flatnonzero((wanted >= COMMON) & (wanted < len(scores)))
    for _ in range(SHARE_ROUNDS):
        if np.array_equal(
            np.bincount((scores + offsets).argmax(axis=1), minlength=len(wanted))[common], wanted[common]
        ):
            break
        for column in common:
            rivals = np.delete(scores + offsets, column, axis=1).max(axis=1)
            behind = np.sort(rivals - scores[:, column])
            offsets[column] = (behind[wanted[column] - 1] + behind[wanted[column]]) / 2.0
    return offsets


def _mapped(numbers: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    """Apply the smallest linear change that gives the numbers mean 0 and the wanted covariance.

    The numbers are whitened, rotated to be as close as possible to the original numbers (a Procrustes problem), and
    given the wanted loadings. This is the optimal transport map between two normal distributions, for any rank.
    """
    centred = numbers - numbers.mean(axis=0)
    loadings = _loadings(centred.T @ centred / len(centred))
    wanted_loadings = _loadings(wanted)
    left, _, right = np.linalg.svd(loadings @ wanted_loadings.T, full_matrices=False)
    whiten = loadings.T / (loadings**2).sum(axis=1)  # loadings are orthogonal, so this is their inverse
    return np.asarray(centred @ (whiten @ left @ right @ wanted_loadings))


def _loadings(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L (rank, columns) with LᵀL the covariance: its eigenvectors times the square roots of the eigenvalues."""
    values, vectors = np.linalg.eigh(covariance)
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def _error(numbers: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Return the largest error of a mean (in standard deviations) or of a covariance (of standardised columns)."""
    if not numbers.shape[1]:
        return 0.0
    mean = numbers.mean(axis=0)
    centred = numbers - mean
    return float(max(np.abs(mean).max(), np.abs(centred.T @ centred / len(numbers) - wanted).max()))
