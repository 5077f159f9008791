"""Exact nearest neighbours in Euclidean space: cheap lower bounds exclude most pairs, the others are computed.

Distances do not change under rotation, so both sides are rotated to the principal axes of the points. The leading few
axes, in single precision, give a lower bound of the distance. Points are kept in cells of near points, so that a cell
whose bounding box is too far away is skipped as a whole. The full distance, from the original numbers, is computed only
for pairs that may still be among the nearest, and once for points that are equal, as those of one box are.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.kernels.eigenvectors import principal_axes
from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Cells of k to 2k − 1 rows: repeated cuts at the median of the axis with the largest range (TL Figure 4-2).


def median_cells(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the cell of each row, numbered from 0; a table of fewer than 2k rows is one cell.

    Cells are cut by rank (the lower half has ⌊rows/2⌋ rows), so equal values never make a cell smaller than k.
    """
    labels = np.zeros(len(scores), dtype=np.int64)
    if len(scores):
        _cut(np.ascontiguousarray(scores), k, np.arange(len(scores)), labels)
    return labels


@jit(work=lambda scores, k, order, labels: 10.0 * scores.size)
def _cut(scores, k, order, labels):
    """Process a stack of ranges of ``order``, each a cell that may still have to be cut."""
    axes = scores.shape[1]
    starts, ends = np.empty(128, dtype=np.int64), np.empty(128, dtype=np.int64)
    starts[0], ends[0] = 0, len(order)
    waiting, cells = 1, 0
    while waiting > 0:
        waiting -= 1
        start, end = starts[waiting], ends[waiting]
        if end - start < 2 * k or axes == 0:
            for place in range(start, end):
                labels[order[place]] = cells
            cells += 1
            continue
        axis, widest = 0, -1.0
        for column in range(axes):
            low = high = scores[order[start], column]
            for place in range(start + 1, end):
                value = scores[order[place], column]
                low, high = min(low, value), max(high, value)
            if high - low > widest:
                axis, widest = column, high - low
        values = np.empty(end - start)
        for place in range(start, end):
            values[place - start] = scores[order[place], axis]
        order[start:end] = order[start:end][np.argsort(values, kind="mergesort")]
        middle = start + (end - start) // 2
        # each cut halves a cell, so the stack never contains more than log2(rows) + 1 cells
        starts[waiting], ends[waiting] = middle, end
        starts[waiting + 1], ends[waiting + 1] = start, middle
        waiting += 2


CELL = 128  # smallest number of points of a cell; their bounds stay in the level 1 cache
FIRST = 8  # cells that are searched in the order of their distance, so that the others are soon too far away
SKIPPING = 10  # columns up to which bounds keep most pairs from being compared
SHARE = 64  # queries that a thread processes at a time
MANY = 400  # columns from which a bound excludes few pairs: then all distances are computed as products
FEW_PER_COLUMN = 4  # if there are at most this many points per column, so that all of them may be equally near
TOGETHER = 64  # queries whose products with all points are in memory
BOUND_SHARE = 0.75  # share of the variance that the axes of the bound should explain
SLACK = 1e-9  # relative; more than rounding changes a sum
ROUNDING = 4.0 * float(np.finfo(np.float32).eps)
ROUNDING_OF_SUMS = 4.0 * float(np.finfo(np.float64).eps)
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits


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


class DistinctPoints(NamedTuple):
    """The distinct points, and the points that equal each of them: ``copies[start[i]:start[i + 1]]``, ascending."""

    values: NDArray[np.float64]  # (distinct points, columns)
    copies: NDArray[np.int64]
    start: NDArray[np.int64]


class PointCells(NamedTuple):
    """Cells of near points along the leading axes; empty places of a cell are far away."""

    tiles: NDArray[np.float32]  # (cells, axes, places)
    point: NDArray[np.int64]  # (cells, places): the distinct point
    size: NDArray[np.int64]  # points of each cell
    low: NDArray[np.float32]  # (axes, cells): bounding boxes
    high: NDArray[np.float32]


def nearest(queries: NDArray[np.float64], points: NDArray[np.float64], k: int) -> Neighbours:
    """Return the ``k`` nearest ``points`` of each query.

    If there are fewer than ``k`` points, the last distances are infinite and their index is −1.
    """
    asked, known = np.ascontiguousarray(queries, dtype=np.float64), np.ascontiguousarray(points, dtype=np.float64)
    squared, index = np.full((len(asked), k), np.inf), np.full((len(asked), k), -1, dtype=np.int64)
    if len(known) and len(asked) and k:
        distinct = _distinct(known)
        if known.shape[1] > MANY and len(known) <= FEW_PER_COLUMN * known.shape[1]:
            _search_by_products(asked, distinct, squared, index)
            return Neighbours(np.sqrt(squared), index)
        turn, centre = _leading_axes(distinct.values)
        turned, short = (distinct.values - centre) @ turn, (asked - centre) @ turn
        slack = ROUNDING * np.sqrt(turn.shape[1]) * max(float(np.abs(short).max()), float(np.abs(turned).max()))
        cells, short = _in_cells(turned), short.astype(np.float32)
        order = np.argsort(_homes(short, cells), kind="stable")  # queries of one thread search the same cells

        def work(start: int) -> None:
            _scan(order[start : start + SHARE], asked, short, distinct, cells, slack, squared, index)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(work, range(0, len(asked), SHARE)))
    return Neighbours(np.sqrt(squared), index)


def nearest_without_each(
    queries: NDArray[np.float64], points: NDArray[np.float64], group: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the nearest point of each query if one group of columns is left out: ``(queries, groups + 1)`` indices.

    ``group`` numbers the groups of columns from 0; in the last column of the result none is left out. Of equally near
    points the one with the smaller index is returned. However many groups there are, this takes about as long as
    computing all distances twice.
    """
    found = np.zeros((len(queries), int(group.max()) + 2), dtype=np.int64)
    asked, known = np.ascontiguousarray(queries), np.ascontiguousarray(points)

    def work(start: int) -> None:
        _scan_without_each(asked[start : start + SHARE], known, group, found[start : start + SHARE])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(work, range(0, len(asked), SHARE)))
    return found


@jit(work=lambda queries, points, *_: 1.2 * len(queries) * points.size)
def _scan_without_each(queries, points, group, found):
    """Fill the nearest points.

    A distance is the sum of what stands before the group and what stands after it. Taken from the whole distance, it
    would have a rounding error that depends on the group, which would decide between equally near points.
    """
    groups = found.shape[1] - 1
    part, before, least = np.empty(groups), np.empty(groups + 1), np.empty(groups + 1)
    for query in range(len(queries)):
        least[:], reach = np.inf, np.inf
        for point in range(len(points)):
            part[:] = 0.0
            for column in range(len(group)):
                step = queries[query, column] - points[point, column]
                part[group[column]] += step * step
            before[0], largest = 0.0, 0.0
            for one in range(groups):
                before[one + 1] = before[one] + part[one]
                largest = max(largest, part[one])
            if before[groups] * (1.0 - SLACK) - largest > reach:
                continue
            after = 0.0
            for one in range(groups, -1, -1):
                if before[one] + after < least[one]:
                    least[one], found[query, one] = before[one] + after, point
                if one < groups:
                    after += part[one]
            reach = least.max()


def _search_by_products(
    asked: NDArray[np.float64], points: DistinctPoints, squared: NDArray[np.float64], index: NDArray[np.int64]
) -> None:
    """Fill the nearest points: |q − p|² = |q|² + |p|² − 2qp tells which may be; their distances are computed."""
    centre = points.values.mean(axis=0)
    centred = points.values - centre
    lengths, k = (centred**2).sum(axis=1), min(squared.shape[1], len(centred))
    copies, largest = np.diff(points.start), max(float(np.abs(asked).max()), float(np.abs(points.values).max()))
    for start in range(0, len(asked), TOGETHER):
        queries = asked[start : start + TOGETHER] - centre
        own = (queries**2).sum(axis=1)
        about = lengths - 2.0 * queries @ centred.T  # less the length of the query
        length = np.sqrt(own) + np.sqrt(lengths.max())
        slack = ROUNDING_OF_SUMS * (len(centre) * length + np.sqrt(len(centre)) * largest) * length
        reach = np.partition(about, k - 1, axis=1)[:, k - 1] + slack
        for query, near in enumerate(about <= reach[:, None]):
            point = np.flatnonzero(near)
            apart = np.repeat(((asked[start + query] - points.values[point]) ** 2).sum(axis=1), copies[point])
            found = np.concatenate([points.copies[points.start[one] : points.start[one + 1]] for one in point])
            first = np.lexsort((found, apart))[: squared.shape[1]]
            squared[start + query, : len(first)], index[start + query, : len(first)] = apart[first], found[first]


def _distinct(points: NDArray[np.float64]) -> DistinctPoints:
    """Return the points without their copies."""
    labels, first = _labels(points.view(np.int64))
    copies = np.argsort(labels, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=len(first)))])
    return DistinctPoints(points[first], copies, start)


def _leading_axes(points: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the principal axes with most of the variance, a multiple of four if possible, and the mean."""
    centre = points.mean(axis=0)
    centred = points - centre
    axes = principal_axes(centred)
    held = np.cumsum(np.maximum(axes.values, 0.0))
    enough = int(np.searchsorted(held, BOUND_SHARE * held[-1])) + 1
    return axes.vectors[:, : min(-(-enough // 4) * 4, len(axes.values))], centre


def _in_cells(turned: NDArray[np.float64]) -> PointCells:
    """Return the points in cells, by cuts at medians of the axis with the largest range."""
    cell = median_cells(turned, CELL)
    order, size = np.argsort(cell, kind="stable"), np.bincount(cell)
    cell, start, short = cell[order], np.cumsum(size) - size, turned[order].astype(np.float32)
    place = np.arange(len(order)) - start[cell]
    point = np.full((len(size), int(size.max())), -1, dtype=np.int64)
    point[cell, place] = order
    tiles = np.full((len(size), turned.shape[1], point.shape[1]), np.float32(1e18))
    tiles[cell, :, place] = short
    low, high = (bound.reduceat(short, start, axis=0).T.copy() for bound in (np.minimum, np.maximum))
    return PointCells(tiles, point, size, low, high)


@jit
def _labels(bits):
    """Number equal rows alike, by first appearance; return the numbers and the first row of each."""
    rows, size = len(bits), 16
    while size < 2 * rows:
        size *= 2
    table, found = np.full(size, -1, dtype=np.int64), 0
    labels, first = np.empty(rows, dtype=np.int64), np.empty(rows, dtype=np.int64)
    for row in range(rows):
        key = np.uint64(0)
        for column in range(bits.shape[1]):
            key = (key ^ np.uint64(bits[row, column])) * ODD
            key ^= key >> np.uint64(29)
        place = np.int64(key & np.uint64(size - 1))
        while table[place] >= 0 and not _equal(bits, row, first[table[place]]):
            place = (place + 1) % size
        if table[place] < 0:
            table[place], first[found] = found, row
            found += 1
        labels[row] = table[place]
    return labels, first[:found]


@jit
def _equal(bits, row, other):
    same = True
    for column in range(bits.shape[1]):
        same &= bits[row, column] == bits[other, column]
    return same


@jit(work=lambda short, cells: short.size * len(cells.size))
def _homes(short, cells):
    """Return the cell whose bounding box is nearest to each query."""
    homes, far = np.empty(len(short), dtype=np.int64), np.empty(len(cells.size), dtype=np.float32)
    for query in range(len(short)):
        _box_bounds(short[query], cells.low, cells.high, far)
        homes[query] = np.argmin(far)
    return homes


def _scan_work(chosen, queries, short, points, *_):
    """Return microseconds as Python: in many columns hardly a pair can be skipped, and each compares all of them."""
    columns = queries.shape[1]
    return len(chosen) * len(points.values) * (0.5 if columns <= SKIPPING else 0.7 * columns)


@jit(work=_scan_work)
def _scan(chosen, queries, short, points, cells, slack, squared, index):
    """Fill the sorted lists of the nearest points of the chosen queries."""
    far, done = np.empty(len(cells.size), dtype=np.float32), np.empty(len(cells.size), dtype=np.bool_)
    bound = np.empty(cells.tiles.shape[2], dtype=np.float32)
    for query in chosen:
        _box_bounds(short[query], cells.low, cells.high, far)
        reach, done[:] = np.inf, False
        for _ in range(min(FIRST, len(far))):
            cell = np.argmin(far)
            if done[cell] or far[cell] > reach:
                break
            _bounds(short[query], cells.tiles[cell], bound)
            reach = _search(cell, bound, queries[query], points, cells, slack, squared[query], index[query], reach)
            far[cell], done[cell] = np.inf, True
        for cell in range(len(far)):
            if not done[cell] and far[cell] <= reach:
                _bounds(short[query], cells.tiles[cell], bound)
                reach = _search(cell, bound, queries[query], points, cells, slack, squared[query], index[query], reach)


@jit
def _search(cell, bound, query, points, cells, slack, squared, index, reach):
    """Look through one cell; return the squared distance along the leading axes beyond which no point is wanted."""
    last = len(squared) - 1
    for place in range(cells.size[cell]):
        if bound[place] > reach:
            continue
        point, apart = cells.point[cell, place], 0.0
        for column in range(len(query)):
            step = query[column] - points.values[point, column]
            apart += step * step
        for copy in range(points.start[point], points.start[point + 1]):
            own = points.copies[copy]
            if not (apart < squared[last] or (apart == squared[last] and own < index[last])):
                break
            _insert(squared, index, apart, own)
        reach = (np.sqrt(squared[last]) + slack) ** 2
    return reach


@jit
def _box_bounds(query, low, high, far):
    """Compute the squared distances of a query to bounding boxes."""
    far[:] = 0.0
    for axis in range(len(query)):
        at, lows, highs = query[axis], low[axis], high[axis]
        for cell in range(len(far)):
            step = max(lows[cell] - at, at - highs[cell], np.float32(0.0))
            far[cell] += step * step


@jit
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
    """Insert a point into a list that is sorted by distance, and by index among points with the same distance."""
    place = len(squared) - 1
    while place > 0 and (squared[place - 1] > apart or (squared[place - 1] == apart and index[place - 1] > point)):
        squared[place] = squared[place - 1]
        index[place] = index[place - 1]
        place -= 1
    squared[place] = apart
    index[place] = point
