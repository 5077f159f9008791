"""What a swap loses in the columns' own units, given back: means and covariances, or the columns' own distributions.

Logarithms, limits and rounding come between the scores and the columns, so white scores alone do not keep the moments
of the columns. Where both the moments and the limits are asked for, two steps alternate: draw the numbers into their
limits, then map them by the smallest linear change to the wanted mean and covariance. The original nearly meets both,
so there is something to converge to.
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
EXACT = 1e-11  # relative error of mean and covariance at which the moments count as kept
NEGLIGIBLE = 1e-13  # an eigenvalue below this share of the largest is rounding
COMMON = 5  # people that a category must have for its share to be restored
SHARE_ROUNDS = 50


@dataclass(frozen=True, repr=False)
class Restored:
    """Numbers with the wanted moments, and how they were reached."""

    numbers: NDArray[np.float64]
    error: float  # largest relative error of a mean or a covariance
    rounds: int
    within: bool  # whether they also lie in their limits


def with_moments(
    numbers: NDArray[np.float64],
    like: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> Restored:
    """Numbers with the means and covariances of ``like``, within limits where that can be had."""
    mean, spread = like.mean(axis=0), like.std(axis=0)
    scale = np.where(spread > 0.0, spread, 1.0)
    target = (like - mean) / scale
    wanted = target.T @ target / len(like)
    bottom, top = (low - mean) / scale, (high - mean) / scale
    first = _mapped(_mapped((numbers - mean) / scale, wanted), wanted)  # once more for the last digits
    current = first
    for step in range(1, ROUNDS + 1):
        inside = np.clip(current, bottom, top)
        error = _error(inside, wanted)
        if error < EXACT:
            return Restored(inside * scale + mean, error, step, within=True)
        current = _mapped(inside, wanted)
    return Restored(first * scale + mean, _error(first, wanted), ROUNDS, within=False)


def with_marginals(
    numbers: NDArray[np.float64], like: NDArray[np.float64], draw: np.random.Generator
) -> NDArray[np.float64]:
    """Numbers whose ranks are kept and whose values follow the distribution of ``like``, column by column.

    A value is taken between two neighbouring values of ``like`` and not at one of them, so that few of them leave as
    they are. Correlations of heavy-tailed columns suffer: that is the price.
    """
    restored = np.empty_like(numbers)
    for column in range(numbers.shape[1]):
        known = np.sort(like[~np.isnan(like[:, column]), column])
        if not known.size:
            restored[:, column] = numbers[:, column]
            continue
        rank = np.empty(len(numbers))
        rank[np.argsort(numbers[:, column], kind="stable")] = np.arange(len(numbers))
        share = (rank + draw.uniform(size=len(numbers))) / len(numbers)
        restored[:, column] = np.interp(share * known.size - 0.5, np.arange(known.size), known)
    return restored


def with_shares(changed: NDArray[np.float64], like: NDArray[np.float64], code: Encoder) -> NDArray[np.float64]:
    """A matrix whose categories, read by the largest indicator, are as common as in ``like``; so are missing numbers.

    Each indicator is raised or lowered in all rows alike, so the rows nearest to a category get it. Categories of fewer
    than five people stay as the swap left them: their number is theirs to hide.
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
    """What to add to each column so that it is the largest in as many rows as wanted, one column after the other."""
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
    """The smallest linear change of the numbers that gives them mean 0 and the wanted covariance.

    Whiten them, turn the white scores so that they lie as near as can be to where they were (a Procrustes problem), and
    give them the wanted loadings: the map of optimal transport between two normal laws, at any rank.
    """
    centred = numbers - numbers.mean(axis=0)
    loadings = _loadings(centred.T @ centred / len(centred))
    wanted_loadings = _loadings(wanted)
    left, _, right = np.linalg.svd(loadings @ wanted_loadings.T, full_matrices=False)
    whiten = loadings.T / (loadings**2).sum(axis=1)  # loadings are orthogonal, so this is their inverse
    return np.asarray(centred @ (whiten @ left @ right @ wanted_loadings))


def _loadings(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """L with LᵀL the covariance: its eigenvectors by the roots of their eigenvalues, (rank, columns)."""
    values, vectors = np.linalg.eigh(covariance)
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def _error(numbers: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Largest difference of a mean (in standard deviations) or of a covariance (of standardised columns)."""
    if not numbers.shape[1]:
        return 0.0
    mean = numbers.mean(axis=0)
    centred = numbers - mean
    return float(max(np.abs(mean).max(), np.abs(centred.T @ centred / len(numbers) - wanted).max()))
