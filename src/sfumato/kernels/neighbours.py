"""Exact nearest neighbours in Euclidean space: a cheap lower bound excludes most pairs, the others are computed.

Distances do not change under rotation, so both sides are rotated to the principal axes of the points. The leading few
axes, in single precision, give a lower bound of the distance. The full distance, from the original numbers, is computed
only for pairs that may still be among the nearest.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE = 512  # points whose bounds are computed together, so that they stay in the level 1 cache
SHARE = 64  # queries that a thread processes at a time
BOUND_SHARE = 0.75  # share of the variance that the axes of the bound should explain
ROUNDING = 4.0 * float(np.finfo(np.float32).eps)


@dataclass(frozen=True, repr=False)
class Neighbours:
    """The nearest points of each query, nearest first; of equally near points the one with the smaller index first."""

    distance: NDArray[np.float64]  # (queries, k)
    index: NDArray[np.int64]  # (queries, k)

    def without(self, own: NDArray[np.int64]) -> Neighbours:
        """Remove one neighbour: the query's own point, or the farthest if its copies have displaced it."""
        k = self.index.shape[1] - 1
        drop = self.index == own[:, None]
        drop[:, -1] |= ~drop.any(axis=1)
        kept = np.arange(k) + (np.arange(k) >= np.argmax(drop, axis=1)[:, None])
        return Neighbours(np.take_along_axis(self.distance, kept, axis=1), np.take_along_axis(self.index, kept, axis=1))


def nearest(queries: NDArray[np.float64], points: NDArray[np.float64], k: int) -> Neighbours:
    """Return the ``k`` nearest ``points`` of each query.

    If there are fewer than ``k`` points, the last distances are infinite and their index is −1.
    """
    asked, known = np.ascontiguousarray(queries), np.ascontiguousarray(points)
    squared, index = np.full((len(asked), k), np.inf), np.full((len(asked), k), -1, dtype=np.int64)
    if len(known) and len(asked) and k:
        turn, centre = _leading_axes(known)
        turned, short = (known - centre) @ turn, (asked - centre) @ turn
        slack = ROUNDING * np.sqrt(turn.shape[1]) * max(float(np.abs(short).max()), float(np.abs(turned).max()))
        tiles, short = _tiled(turned), short.astype(np.float32)

        def work(start: int) -> None:
            part = slice(start, start + SHARE)
            _scan(asked[part], known, short[part], tiles, slack, squared[part], index[part])

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(work, range(0, len(asked), SHARE)))
    return Neighbours(np.sqrt(squared), index)


def _leading_axes(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the principal axes with most of the variance, a multiple of four if possible, and the mean."""
    centre = points.mean(axis=0)
    centred = points - centre
    values, vectors = np.linalg.eigh(centred.T @ centred)
    held = np.cumsum(np.maximum(values[::-1], 0.0))
    enough = int(np.searchsorted(held, BOUND_SHARE * held[-1])) + 1
    return vectors[:, ::-1][:, : min(-(-enough // 4) * 4, len(values))], centre


def _tiled(turned: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the points as tiles of columns (tiles, axes, TILE); empty places of the last tile are far away."""
    tiles = -(-len(turned) // TILE)
    padded = np.full((tiles * TILE, turned.shape[1]), np.float32(1e18))
    padded[: len(turned)] = turned
    return np.ascontiguousarray(padded.reshape(tiles, TILE, -1).transpose(0, 2, 1))


@jit
def _scan(queries, points, short, tiles, slack, squared, index):
    """Fill the sorted lists of the nearest points."""
    k = squared.shape[1]
    bound = np.empty(TILE, dtype=np.float32)
    for tile in range(len(tiles)):
        start = tile * TILE
        end = min(TILE, len(points) - start)
        for query in range(len(queries)):
            _bounds(short[query], tiles[tile], bound)
            reach = (np.sqrt(squared[query, k - 1]) + slack) ** 2
            for place in range(end):
                if bound[place] > reach:
                    continue
                apart = 0.0
                for column in range(queries.shape[1]):
                    step = queries[query, column] - points[start + place, column]
                    apart += step * step
                if apart < squared[query, k - 1]:
                    _insert(squared[query], index[query], apart, start + place)
                    reach = (np.sqrt(squared[query, k - 1]) + slack) ** 2


@jit(fastmath={"contract", "reassoc", "nsz"})
def _bounds(query, tile, bound):
    """Compute squared distances along the leading axes, four axes at a time."""
    bound[:] = 0.0
    axis = 0
    while axis + 4 <= len(query):
        q0, q1, q2, q3 = query[axis], query[axis + 1], query[axis + 2], query[axis + 3]
        t0, t1, t2, t3 = tile[axis], tile[axis + 1], tile[axis + 2], tile[axis + 3]
        for place in range(len(bound)):
            d0, d1, d2, d3 = t0[place] - q0, t1[place] - q1, t2[place] - q2, t3[place] - q3
            bound[place] += d0 * d0 + d1 * d1 + d2 * d2 + d3 * d3
        axis += 4
    while axis < len(query):
        only, column = query[axis], tile[axis]
        for place in range(len(bound)):
            step = column[place] - only
            bound[place] += step * step
        axis += 1


@jit
def _insert(squared, index, apart, point):
    """Insert a point into a list that is sorted by distance, after points with the same distance."""
    place = len(squared) - 1
    while place > 0 and squared[place - 1] > apart:
        squared[place] = squared[place - 1]
        index[place] = index[place - 1]
        place -= 1
    squared[place] = apart
    index[place] = point
