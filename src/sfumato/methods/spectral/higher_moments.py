"""Generalized moments above the second, restored by the smallest changes of the numbers (TL §2.3.5).

With J the derivatives of the moments by the cells that are free to move, the smallest change that moves the moments by
r, to first order, is Jᵀ(JJᵀ)⁻¹r. Such steps are repeated, with all numbers in their ranges. TL calls even approximate
solutions difficult above degree 2: that is so from an arbitrary start, and not from rows with the right second moments.
Where a few people far beyond the ranges make up a moment, no numbers within the ranges have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.spectral.moments import EXACT, Restored, column_means
from sfumato.statistics.generalized_moments import Products, blocks_of, count_moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_MOMENTS = 1200  # a step solves a linear system of this size
CELLS_PER_MOMENT = 10  # with fewer, hardly any table but the original has all of its moments
STEPS = 60
STEP_LENGTHS = (1.0, 0.5, 0.2, 0.05, 0.01)  # shares of a step that are tried
GAIN = 0.1  # a share l of a step is taken if the errors fall by a share l × GAIN, as a root of the sum of their squares
INWARD = 5  # times that a step is computed again without the cells that it would move beyond their range


def require_room(rows: int, columns: int, degree: int) -> None:
    """Raise if there are so many moments that a table with all of them is nearly the original."""
    count = count_moments(columns, degree)
    if not columns or count > min(MOST_MOMENTS, rows * columns // CELLS_PER_MOMENT):
        raise CannotRelease(
            "Moments above the second need continuous columns, at least ten cells per moment, and at most "
            f"{MOST_MOMENTS:,} moments.",
            found=f"{count:,} moments of {columns:,} columns up to degree {degree:d}, {rows:,} rows in a block",
            fix="degree=2, fewer columns or more rows",
        )


def with_higher_moments(numbers: Array, like: Array, low: Array, high: Array, degree: int) -> Restored:
    """Return numbers within ``low`` … ``high`` with the generalized moments of ``like``, as far as possible.

    The error of a moment counts in root mean squares of its product, at least 1. ``low`` and ``high`` have one value
    per column or one per cell.
    """
    mean, rows = column_means(like), max(1, len(like))
    spread = np.sqrt(((like - mean) ** 2).mean(axis=0))
    scale = np.where(spread > 0.0, spread, 1.0)
    bottom, top = (low - mean) / scale, (high - mean) / scale
    products = Products.up_to(degree, like.shape[1])
    wanted, squares = products.sums((like - mean) / scale)
    size = np.maximum(np.sqrt(squares / rows), 1.0) * rows

    current = np.clip((numbers - mean) / scale, bottom, top)
    missing, steps = wanted - products.sums(current)[0], 0
    while (error := float((np.abs(missing) / size).max(initial=0.0))) >= EXACT and steps < STEPS:
        change, far = _step_within(products, current, bottom, top, missing), np.linalg.norm(missing / size)
        for length in STEP_LENGTHS:
            moved = np.clip(current + length * change, bottom, top)
            left = wanted - products.sums(moved)[0]
            if np.linalg.norm(left / size) < (1.0 - GAIN * length) * far:
                break
        else:
            break
        current, missing, steps = moved, left, steps + 1
    return Restored(np.clip(current * scale + mean, low, high), error, steps, converged=error < EXACT)


def _step_within(products: Products, numbers: Array, bottom: Array, top: Array, wanted: Array) -> Array:
    """Return the smallest change of the cells that can follow it: one at an end of its range moves inwards only."""
    free = np.ones(numbers.shape, dtype=bool)
    for _ in range(INWARD):
        change = _smallest_change(products, numbers, free, wanted)
        beyond = free & np.where(change < 0.0, numbers <= bottom, (numbers >= top) & (change > 0.0))
        if not beyond.any():
            break
        free &= ~beyond
    return change


def _smallest_change(products: Products, numbers: Array, free: NDArray[np.bool_], wanted: Array) -> Array:
    """Return the smallest change of the free cells that moves the sums of the products by ``wanted``, to first order.

    The system is solved in the sense of least squares, because moments may depend on each other.
    """
    system = np.zeros((len(wanted), len(wanted)))
    cells = [(block, place) for block in blocks_of(len(numbers)) for place in range(numbers.shape[1])]
    for block, place in cells:
        slopes = products.of(numbers[block], by=place) * free[block, place, None]
        system += slopes.T @ slopes
    multipliers = np.linalg.lstsq(system, wanted, rcond=None)[0]
    change = np.empty_like(numbers)
    for block, place in cells:
        change[block, place] = products.of(numbers[block], by=place) @ multipliers * free[block, place]
    return change
