"""Exchanging cells of one column until it hardly goes with those before it: a permutation stays a permutation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Exchanged:
    """How a run of proposals ended."""

    largest: float  # largest absolute product of the column with one before it
    exchanges: int  # pairs of cells that were exchanged


def exchange(
    columns: NDArray[np.float64],
    column: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    bound: float,
) -> Exchanged:
    """Exchange two cells of one column, in place, wherever that brings it nearer to being orthogonal to those before.

    The pairs of rows ``first`` and ``second`` are taken in turn, until the product of the column with each one before
    it is at most ``bound`` or no pair is left. Nearer is a smaller sum of squared products.
    """
    largest, exchanges = _exchange(columns, column, first, second, bound)
    return Exchanged(float(largest), int(exchanges))


@jit
def _exchange(columns, column, first, second, bound):
    products = np.zeros(column)
    for row in range(len(columns)):
        for other in range(column):
            products[other] += columns[row, column] * columns[row, other]
    tried = np.empty_like(products)
    largest, total = np.abs(products).max(), (products**2).sum()
    exchanges = 0
    for one, two in zip(first, second):  # noqa: B905 - numba knows no strict
        if largest <= bound:
            break
        step = columns[two, column] - columns[one, column]
        after = 0.0
        for other in range(column):
            tried[other] = products[other] + step * (columns[one, other] - columns[two, other])
            after += tried[other] ** 2
        if after < total:
            columns[one, column], columns[two, column] = columns[two, column], columns[one, column]
            exchanges += 1
            total, largest = after, 0.0
            for other in range(column):
                products[other] = tried[other]
                largest = max(largest, abs(tried[other]))
    return largest, exchanges
