"""Prediction distance, ambiguity and uncertainty from either half of a pool, for many ways to halve it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


def measured_in_halves(
    distance: NDArray[np.float64],
    index: NDArray[np.int64],
    points: NDArray[np.float64],
    first: NDArray[np.bool_],
    k: int,
) -> NDArray[np.float64]:
    """Return the three measures of each query from the first and from the second half; shape (queries, 2, 3).

    ``distance`` and ``index`` are neighbours in the pool, nearest first; ``first`` says which points are in the first
    half. A query without neighbours in a half is infinitely far from it.
    """
    found = np.empty((len(index), 2, 3))
    _measure(distance, index, np.ascontiguousarray(points), first, k, found)
    return found


@jit
def _measure(distance, index, points, first, k, found):
    axes = points.shape[1]
    total, squares = np.empty(axes), np.empty(axes)
    for query in range(len(index)):
        for half in range(2):
            count, nearest, last = 0, np.inf, np.inf
            start = 0
            for place in range(index.shape[1]):
                row = index[query, place]
                if row < 0 or first[row] != (half == 0):
                    continue
                if count == 0:
                    nearest, start = distance[query, place], row
                    total[:] = 0.0
                    squares[:] = 0.0
                for axis in range(axes):
                    step = points[row, axis] - points[start, axis]
                    total[axis] += step
                    squares[axis] += step * step
                last = distance[query, place]
                count += 1
                if count == k:
                    break
            spread = np.inf if count == 0 else 0.0
            if count > 1:
                for axis in range(axes):
                    spread += (squares[axis] - total[axis] * total[axis] / count) / (count - 1)
            found[query, half, 0] = nearest
            found[query, half, 1] = nearest / last if count > 0 and last > 0.0 else 1.0
            found[query, half, 2] = max(spread, 0.0)
