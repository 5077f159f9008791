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


def squared_distances(points: NDArray[np.float64], index: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the squared distances among the points of each row of ``index``: ``(queries, neighbours, neighbours)``."""
    apart = np.zeros((*index.shape, index.shape[1]))
    _fill_distances(np.ascontiguousarray(points), index, apart)
    return apart


def _distance_work(points, index, apart):
    return 0.1 * apart.size * points.shape[1]


@jit(work=_distance_work)
def _fill_distances(points, index, apart):
    for query in range(len(index)):
        for one in range(index.shape[1]):
            for other in range(one):
                if index[query, one] < 0 or index[query, other] < 0:
                    continue
                squared = _squared_distance(points[index[query, one]], points[index[query, other]])
                apart[query, one, other], apart[query, other, one] = squared, squared


@jit(forceinline=True)
def _squared_distance(one, other):
    """Return the squared distance of two points: four sums side by side, which do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = len(one) - len(one) % 4
    for column in range(0, whole, 4):
        first += (one[column] - other[column]) ** 2
        second += (one[column + 1] - other[column + 1]) ** 2
        third += (one[column + 2] - other[column + 2]) ** 2
        fourth += (one[column + 3] - other[column + 3]) ** 2
    for column in range(whole, len(one)):
        first += (one[column] - other[column]) ** 2
    return (first + second) + (third + fourth)


def measure_halves(
    distance: NDArray[np.float64],
    index: NDArray[np.int64],
    apart: NDArray[np.float64],
    first: NDArray[np.bool_],
    k: int,
) -> NDArray[np.float64]:
    """Return the three measures of each query from the first and from the second half; shape (queries, 2, 3).

    ``distance`` and ``index`` are neighbours in the pool, nearest first, and ``apart`` their squared distances from
    each other; ``first`` says which points are in the first half. The variance of n points is the sum of the squared
    distances of all pairs ÷ n(n − 1). A query without neighbours in a half is infinitely far from it.
    """
    found = np.empty((len(index), 2, 3))
    _measure(distance, index, apart, first, k, found)
    return found


@jit(work=lambda distance, index, apart, first, k, found: 0.5 * index.size)
def _measure(distance, index, apart, first, k, found):
    chosen = np.empty(k, dtype=np.int64)  # places of the nearest neighbours in a half
    for query in range(len(index)):
        for half in range(2):
            count, squares = 0, 0.0
            for place in range(index.shape[1]):
                row = index[query, place]
                if row < 0 or first[row] != (half == 0):
                    continue
                for earlier in range(count):
                    squares += apart[query, place, chosen[earlier]]
                chosen[count] = place
                count += 1
                if count == k:
                    break
            nearest = distance[query, chosen[0]] if count > 0 else np.inf
            last = distance[query, chosen[count - 1]] if count > 0 else np.inf
            found[query, half, 0] = nearest
            found[query, half, 1] = nearest / last if count > 0 and last > 0.0 else 1.0
            found[query, half, 2] = squares / (count * (count - 1)) if count > 1 else (0.0 if count else np.inf)
