"""Restoration, in the units of the columns, of what a swap loses: means and covariances, or marginal distributions.

Logarithms, limits and rounding come between scores and columns, so white scores alone do not preserve the moments of
the columns. If both the moments and the limits are required, two steps alternate: clip the numbers to their limits,
then map them to the wanted mean and covariance by the smallest linear change. Since the original nearly meets both
requirements, the iteration can converge. Where it cannot, which its pace tells after some rounds, the moments have
precedence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.encoder import Encoder

Marginals = Literal["free", "restored"]
MARGINALS: tuple[Marginals, ...] = ("free", "restored")

ROUNDS = 400
EXACT = 1e-11  # in standard deviations: a step that changes no number by more than this has converged
OVERSHOOT = 1.8  # numbers move this many times the way to their limits, which halves the number of rounds, or better
MARGIN = 0.01  # numbers first move this share of the range inside their limits: a wide margin is met in few rounds
MARGIN_DECAY = 0.98  # per round, because numbers of a few values cannot keep away from their limits
PACE_ROUNDS = 50  # rounds over which the pace of convergence is measured
PATIENCE = 2.0  # the iteration stops if at its pace it would need more than this multiple of ROUNDS
NEGLIGIBLE = 1e-9  # a singular value below this share of the largest is a rounding error
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
    loadings = _loadings(target)
    bottom, top = (low - mean) / scale, (high - mean) / scale
    margin = MARGIN * np.where(np.isfinite(top - bottom), top - bottom, 0.0)
    first = current = _nearest((numbers - mean) / scale, loadings)
    outside: list[float] = []  # largest distance to a limit, after each round
    for step in range(1, ROUNDS + 1):
        inside = np.clip(current, bottom, top)
        outside.append(float(np.abs(inside - current).max(initial=0.0)))
        if outside[-1] < EXACT:
            return Restored(inside * scale + mean, _error(inside, target), step, within=True)
        if _is_too_slow(outside):
            break
        margin = MARGIN_DECAY * margin
        moved = np.clip(current, bottom + margin, top - margin) - current
        current = _nearest(current + OVERSHOOT * moved, loadings)
    return Restored(first * scale + mean, _error(first, target), step, within=False)


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


def _is_too_slow(outside: list[float]) -> bool:
    """Return whether the iteration, at the pace of its last rounds, would need far more than ``ROUNDS`` rounds."""
    if len(outside) <= PACE_ROUNDS:
        return False
    pace = math.log(outside[-1 - PACE_ROUNDS] / outside[-1]) / PACE_ROUNDS  # per round
    return pace <= 0.0 or len(outside) + math.log(outside[-1] / EXACT) / pace > PATIENCE * ROUNDS


def _nearest(numbers: NDArray[np.float64], loadings: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest numbers with mean 0 and the covariance LᵀL of the loadings.

    They are √rows·QL with the orthonormal Q, orthogonal to the constant, that is nearest to the projections of the
    numbers on the loadings (a Procrustes problem). This is the optimal transport map between two normal distributions.
    There are as many projections as the rank, so a wide table costs no more than its rows.
    """
    rows = len(numbers)
    basis, parts = np.linalg.qr(np.column_stack([np.ones(rows), numbers @ loadings.T]))
    left, _, right = np.linalg.svd(parts[1:, 1:])
    return np.asarray(np.sqrt(rows) * (basis[:, 1:] @ (left @ right)) @ loadings)


def _loadings(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return L (rank, columns) with LᵀL the covariance of centred numbers: scaled singular vectors."""
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    real = singular > NEGLIGIBLE * max(singular.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray(singular[real, None] * right[real] / np.sqrt(len(centred)))


def _error(numbers: NDArray[np.float64], target: NDArray[np.float64]) -> float:
    """Return the largest error of a mean (in standard deviations) or of a covariance (of standardised columns)."""
    if not numbers.shape[1]:
        return 0.0
    mean = numbers.mean(axis=0)
    centred = numbers - mean
    covariances = (centred.T @ centred - target.T @ target) / len(numbers)
    return float(max(np.abs(mean).max(), np.abs(covariances).max()))
