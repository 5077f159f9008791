"""Generalized moments above the second, restored by the smallest changes of the numbers (TL §2.3.5).

With J the derivatives of the moments by the cells that are free to move, the smallest change that moves the moments by
r, to first order, is Jᵀ(JJᵀ)⁻¹r. Such steps are repeated, with all numbers in their ranges. TL calls even approximate
solutions difficult above degree 2: that is so from an arbitrary start, and not from rows with the right second moments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import CannotRelease
from sfumato.methods.spectral.moments import EXACT, GAIN, Restored, column_means
from sfumato.statistics.generalized_moments import Products, blocks_of, count_moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MOST_MOMENTS = 1200  # a step solves a linear system of this size
CELLS_PER_MOMENT = 10  # with fewer, hardly any table but the original has all of its moments
STEPS = 60
STEP_LENGTHS = (1.0, 0.5, 0.2, 0.05)  # shares of a step that are tried


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

    def missing_of(standard: Array) -> tuple[Array, float]:
        missing = wanted - products.sums(standard)[0]
        return missing, float((np.abs(missing) / size).max(initial=0.0))

    current = np.clip((numbers - mean) / scale, bottom, top)
    missing, error = missing_of(current)
    best = Restored(current, error, 0, converged=error < EXACT)
    while not best.converged and best.rounds < STEPS:
        current = best.numbers
        change = _smallest_change(products, current, (current > bottom) & (current < top), missing)
        for length in STEP_LENGTHS:
            moved = np.clip(current + length * change, bottom, top)
            missing, error = missing_of(moved)
            if error < GAIN * best.error:
                break
        else:
            break
        best = Restored(moved, error, best.rounds + 1, converged=error < EXACT)
    return Restored(np.clip(best.numbers * scale + mean, low, high), best.error, best.rounds, best.converged)


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
