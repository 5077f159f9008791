"""The number of points in each box, where a box is a product of intervals and of sets of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


def inside_counts(
    *,
    numbers: NDArray[np.float64],
    categories: NDArray[np.int32],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    cells: NDArray[np.int32],
    allowed: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Count for each box the points whose numbers are in its intervals and whose categories are in its sets.

    ``allowed[c, cell, category]`` says which categories of column c a cell contains. NaN, on either side, fits always.
    """
    counts = np.zeros(len(low), dtype=np.int64)
    _count(
        np.ascontiguousarray(numbers),
        np.ascontiguousarray(categories, dtype=np.int32),
        np.ascontiguousarray(low),
        np.ascontiguousarray(high),
        np.ascontiguousarray(cells, dtype=np.int32),
        np.ascontiguousarray(allowed),
        counts,
    )
    return counts


@jit
def _count(numbers, categories, low, high, cells, allowed, counts):
    for box in range(len(low)):
        for point in range(len(numbers)):
            inside = True
            for column in range(numbers.shape[1]):
                value = numbers[point, column]
                if value < low[box, column] or value > high[box, column]:
                    inside = False
                    break
            if inside:
                for column in range(categories.shape[1]):
                    if not allowed[column, cells[box, column], categories[point, column]]:
                        inside = False
                        break
            if inside:
                counts[box] += 1
