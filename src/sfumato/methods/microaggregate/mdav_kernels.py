"""Fixed-size microaggregation: MDAV and its variable-size form V-MDAV, exact, in O(n²/k) time and O(n) memory.

MDAV (Domingo-Ferrer and Torra 2005) takes the row r farthest from the mean of the rows that are left and groups it with
its k − 1 nearest rows, then does the same for the row farthest from r. V-MDAV (Solanas and Martínez-Ballesté 2006)
takes one row at a time, the one farthest from the mean of the table, and lets a group grow to 2k − 1 rows while the
nearest row outside is nearer to the group than ``gain`` times its distance to the nearest other row outside.

Rows that are left stay together at the front of every column, so that distances are computed over dense columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import sort, total_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

TILE = 512  # rows whose distances are computed together, so that they stay in the level 1 cache


def mdav(matrix: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the group of each row, numbered from 0: groups of k rows, the last one of up to 2k − 1."""
    labels = np.zeros(len(matrix), dtype=np.int64)
    if len(matrix) >= 2 * k:
        _mdav(np.array(matrix.T, order="C"), k, labels)  # a copy: its rows are moved
    return labels


def vmdav(matrix: NDArray[np.float64], k: int, gain: float) -> NDArray[np.int64]:
    """Return the group of each row, numbered from 0: groups of at least k rows.

    Fewer than k rows that are left over join the groups with the nearest means.
    """
    labels = np.zeros(len(matrix), dtype=np.int64)
    if len(matrix) < 2 * k:
        return labels
    columns = np.vstack([matrix.T, np.zeros(len(matrix))])
    rest, groups = _vmdav(columns, k, gain * gain, labels)
    grouped = np.delete(np.arange(len(matrix)), rest)
    sizes = np.bincount(labels[grouped], minlength=groups)
    means = [np.bincount(labels[grouped], weights=column[grouped], minlength=groups) / sizes for column in matrix.T]
    for row in rest:
        labels[row] = np.argmin(((np.array(means).T - matrix[row]) ** 2).sum(axis=1))
    return labels


@jit
def distances(columns, start, end, centre, squared):
    """Compute the squared distances of the rows from ``start`` to ``end`` to a point, four columns at a time."""
    count = end - start
    squared[:count] = 0.0
    axis = 0
    while axis + 4 <= len(columns):
        a, b = columns[axis, start:end], columns[axis + 1, start:end]
        c, d = columns[axis + 2, start:end], columns[axis + 3, start:end]
        p, q, r, s = centre[axis], centre[axis + 1], centre[axis + 2], centre[axis + 3]
        for row in range(count):
            e, f, g, h = a[row] - p, b[row] - q, c[row] - r, d[row] - s
            squared[row] += e * e + f * f + g * g + h * h
        axis += 4
    while axis < len(columns):
        a, p = columns[axis, start:end], centre[axis]
        for row in range(count):
            e = a[row] - p
            squared[row] += e * e
        axis += 1


@jit
def _farthest(columns, left, centre, squared):
    """Return the row that is farthest from a point."""
    best, found = -1.0, 0
    for start in range(0, left, TILE):
        end = min(start + TILE, left)
        distances(columns, start, end, centre, squared)
        largest = squared[: end - start].max()
        if largest > best:
            best, found = largest, start + np.argmax(squared[: end - start])
    return found


@jit
def _nearest(columns, left, centre, squared, near, apart):
    """Fill ``near`` with the nearest rows of a point, nearest first; return the farthest row."""
    k, found = len(near), 0
    best, far = -1.0, 0
    for start in range(0, left, TILE):
        end = min(start + TILE, left)
        distances(columns, start, end, centre, squared)
        for row in range(end - start):
            value = squared[row]
            if value > best:
                best, far = value, start + row
            if found < k or value < apart[k - 1]:
                place = min(found, k - 1)
                while place > 0 and apart[place - 1] > value:
                    apart[place], near[place] = apart[place - 1], near[place - 1]
                    place -= 1
                apart[place], near[place] = value, start + row
                found = min(found + 1, k)
    return far


@jit
def _take(columns, rows, left, near, group, labels, total):
    """Give these rows to a group and move the last rows that are left to their places; return the number left."""
    chosen = near.copy()
    sort(chosen, near.copy())
    for place in chosen[::-1]:
        left -= 1
        labels[rows[place]] = group
        rows[place] = rows[left]
        for axis in range(len(columns)):
            total[axis] -= columns[axis, place]
            columns[axis, place] = columns[axis, left]
    return left


@jit(work=lambda columns, k, labels: 0.4 * columns.size * columns.shape[1] / k, seconds=3.0)
def _mdav(columns, k, labels):
    left = columns.shape[1]
    axes = len(columns)
    rows, total = np.arange(left), np.zeros(axes)
    for axis in range(axes):
        total[axis] = total_of(columns[axis])
    squared = np.empty(TILE)
    near, apart = np.empty(k, np.int64), np.empty(k)
    group = 0
    while left >= 2 * k:
        pair = left >= 3 * k
        point = columns[:, _farthest(columns, left, total / left, squared)].copy()
        far = _nearest(columns, left, point, squared, near, apart)
        other = columns[:, far].copy()
        left = _take(columns, rows, left, near, group, labels, total)
        group += 1
        if pair:
            _nearest(columns, left, other, squared, near, apart)
            left = _take(columns, rows, left, near, group, labels, total)
            group += 1
    for place in range(left):
        labels[rows[place]] = group


@jit
def _closer(points, left, point, squared, gap):
    """Lower the gap of each row, its squared distance to a group, to that to a new member of the group."""
    for start in range(0, left, TILE):
        end = min(start + TILE, left)
        distances(points, start, end, point, squared)
        for row in range(end - start):
            gap[start + row] = min(gap[start + row], squared[row])


@jit(work=lambda columns, k, gain, labels: 0.4 * columns.size * columns.shape[1], seconds=3.0)
def _vmdav(columns, k, gain, labels):
    """Form the groups; return the rows that are left over and the number of groups. The last column holds gaps."""
    left, axes = columns.shape[1], len(columns) - 1
    points, gap = columns[:axes], columns[axes]
    rows, total, mean = np.arange(left), np.zeros(axes + 1), np.zeros(axes)
    for axis in range(axes):
        mean[axis] = total_of(points[axis]) / left
    squared = np.empty(TILE)
    near, apart = np.empty(k, np.int64), np.empty(k)
    nearest, nearest_apart = np.empty(2, np.int64), np.empty(2)
    members = np.empty((k, axes))
    group = 0
    while left >= k:
        point = points[:, _farthest(points, left, mean, squared)].copy()
        _nearest(points, left, point, squared, near, apart)
        for place in range(k):
            members[place] = points[:, near[place]]
        left = _take(columns, rows, left, near, group, labels, total)
        gap[:left] = np.inf
        for place in range(k):
            _closer(points, left, members[place], squared, gap)
        for _ in range(k - 1):
            if left < 2:
                break
            row = np.argmin(gap[:left])
            point = points[:, row].copy()
            _nearest(points, left, point, squared, nearest, nearest_apart)
            if not gap[row] < gain * nearest_apart[1]:
                break
            nearest[0] = row
            left = _take(columns, rows, left, nearest[:1], group, labels, total)
            _closer(points, left, point, squared, gap)
        group += 1
    return rows[:left].copy(), group
