"""Exchange of cells of one column until it is nearly orthogonal to the previous ones; a permutation stays one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Exchanged:
    """The result of a run of proposals."""

    largest: float  # largest absolute product of the column with a previous one
    exchanges: int  # pairs of cells that were exchanged


def exchange(
    columns: NDArray[np.float64],
    column: int,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    bound: float,
) -> Exchanged:
    """Exchange pairs of cells of one column, in place, if this reduces its squared products with the previous columns.

    The pairs of rows ``first`` and ``second`` are tried in order, until the product of the column with each previous
    column is at most ``bound`` or no pair is left. An exchange is made if it reduces the sum of squared products.
    """
    largest, exchanges = _exchange(columns, column, first, second, bound)
    return Exchanged(float(largest), int(exchanges))


@jit(work=lambda columns, column, first, second, bound: (len(first) + len(columns)) * column)
def _exchange(columns, column, first, second, bound):
    products = np.zeros(column)
    for row in range(len(columns)):
        for other in range(column):
            products[other] += columns[row, column] * columns[row, other]
    tried = np.empty_like(products)
    largest, total = np.abs(products).max(), 0.0
    for product in products:
        total += product * product
    exchanges = 0
    for one, two in zip(first, second):  # noqa: B905 - numba does not support strict
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
