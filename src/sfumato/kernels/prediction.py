"""How well an intruder can predict a person: distance, ambiguity, uncertainty (TL §3.1), also for halves of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.neighbours import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.neighbours import Neighbours


BLOCK = 8192  # people whose nearest rows are in memory at the same time


@dataclass(frozen=True, repr=False)
class Prediction:
    """One number per person for each measure; for all three, higher is safer."""

    distance: NDArray[np.float64]  # to the nearest released row
    ambiguity: NDArray[np.float64]  # distance to the nearest ÷ distance to the k-th nearest, from 0 to 1
    uncertainty: NDArray[np.float64]  # variance of the k nearest rows, summed over the axes
    nearest: NDArray[np.int64]  # the nearest released row, which an intruder would choose


def prediction(people: NDArray[np.float64], rows: NDArray[np.float64], k: int) -> Prediction:
    """Compute the measures of every person from the rows, both as points of Euclidean space."""
    return measure_prediction(nearest(people, rows, min(k, len(rows))), rows)


def prediction_from_others(people: NDArray[np.float64], k: int) -> Prediction:
    """Compute the measures of every person from the other people, a sample without that person."""
    return measure_prediction(nearest(people, people, min(k + 1, len(people))).without(np.arange(len(people))), people)


def measure_prediction(found: Neighbours, rows: NDArray[np.float64]) -> Prediction:
    """Compute the three measures from known neighbours.

    Equally near rows, including exact matches, have ambiguity 1. Without neighbours the measures are infinite.
    """
    if not found.index.shape[1]:
        none = np.full(len(found.index), np.inf)
        return Prediction(none, np.ones(len(none)), none, np.full(len(none), -1, dtype=np.int64))
    first, last = found.distance[:, 0], found.distance[:, -1]
    ambiguity = np.divide(first, last, where=last > 0.0, out=np.ones_like(first))
    uncertainty = np.zeros(len(first))
    if found.index.shape[1] > 1:
        for start in range(0, len(first), BLOCK):
            part = slice(start, start + BLOCK)
            uncertainty[part] = rows[found.index[part]].var(axis=1, ddof=1).sum(axis=1)
    uncertainty[uncertainty < 1e-24 * float(rows.var(axis=0).sum())] = 0.0  # rounding errors of equal rows
    return Prediction(first, ambiguity, uncertainty, found.index[:, 0])


def downward_shift(numbers: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Return sup(F − F₀), the largest excess of the cumulative distribution of ``numbers`` over the reference's.

    It is the statistic of the one-sided Kolmogorov–Smirnov test that the numbers are not below the reference.
    """
    places = np.sort(numbers)  # the excess is largest where the first distribution has a step
    below = np.searchsorted(places, places, side="right") / len(numbers)
    expected = np.searchsorted(np.sort(reference), places, side="right") / len(reference)
    return max(0.0, float((below - expected).max()))


def measure_halves(
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
