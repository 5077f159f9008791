"""Groups of k rows like those of MDAV, from the nearest cells of a tree: almost linear in the number of rows.

A tree cuts the rows at the median of the axis with the largest squared error, down to cells of about 128 rows. From the
outermost rows inwards, each row that is left is grouped with its k − 1 nearest rows in the cells nearest to it. Rows of
the same shell are taken cell by cell, so that neighbours are still in the cache of the processor. When
only a share of the rows is left, a new tree is grown on them, so that cells always hold enough rows. The last rows are
grouped by MDAV itself. Distances are computed in single precision, which only affects which of two almost equally near
rows is chosen.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import argsort, select, sort, total_of
from sfumato.methods.microaggregate.mdav_kernels import distances, mdav

CELL = 128  # rows of a cell
AROUND = 32  # cells among which the nearest ones of a row are chosen
SHELLS = 24  # parts of the rows from the outermost to the innermost, within which the order follows the cells
VISITED = 9  # nearest cells that are searched for neighbours
SHARE = 0.3  # share of the rows that is left when a new tree is grown
FEW = 1000  # rows that are left to MDAV
PART = 1_000_000  # rows of a part of a large table that is grouped by itself
SAMPLE = 128  # rows from which the squared error of a cell is estimated


class RowCells(NamedTuple):
    """Rows in cells: cell c has the places from starts[c] on, the first alive[c] of which are not yet grouped."""

    columns: NDArray[np.float32]  # (axes, places)
    rows: NDArray[np.int64]  # row at each place at the start
    at: NDArray[np.int64]  # first place of the row that is now at each place
    place: NDArray[np.int64]  # place of the row that was at each place first; −1: grouped
    cell: NDArray[np.int64]  # cell of each place
    starts: NDArray[np.int64]
    alive: NDArray[np.int64]
    near: NDArray[np.int64]  # (cells, AROUND): the nearest cells of each
    low: NDArray[np.float32]  # (cells, axes, AROUND): their lower faces
    high: NDArray[np.float32]


def cell_groups(matrix: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the group of each row, numbered from 0: groups of k rows, the last of each part of up to 2k − 1."""
    values, order = np.ascontiguousarray(matrix, np.float32), np.arange(len(matrix))
    if len(matrix) <= PART:
        return _grouped(matrix, values, k)
    ends = pairwise(cut(values, order, max(PART, 4 * k)).tolist())
    parts = [order[start:end] for start, end in ends]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda rows: _grouped(matrix[rows], values[rows], k), parts))
    labels, groups = np.empty(len(matrix), dtype=np.int64), 0
    for rows, own in zip(parts, found, strict=True):
        labels[rows] = groups + own
        groups += int(own.max(initial=-1)) + 1
    return labels


def _grouped(matrix: NDArray[np.float64], values: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Group one part: tree after tree, then MDAV."""
    labels, groups, rows = np.zeros(len(matrix), dtype=np.int64), 0, np.arange(len(matrix))
    stuck = False
    while len(rows) > max(FEW, 8 * k) and not stuck:
        left, groups = group_in_tree(values, rows, k, labels, groups)
        stuck, rows = len(left) == len(rows), left
    labels[rows] = groups + mdav(matrix[rows], k)
    return labels


@jit(work=lambda values, rows, *_: 300.0 * len(rows) * values.shape[1])
def group_in_tree(values, rows, k, labels, group):
    """Grow a tree and group rows until a share is left; return these and the number of groups.

    All steps are one kernel: apart they are compiled in three times the time, or not at all in a table of middle size.
    """
    cells = _cells(values, rows, cut(values, rows, max(CELL, 4 * k)), AROUND)
    return _grow(cells, _seeds(cells), k, int(SHARE * len(rows)), labels, group)


@jit
def _seeds(cells):
    """Return all places, shell by shell from the outermost one, and cell by cell within a shell."""
    axes, count = cells.columns.shape
    centre, squared = np.empty(axes, cells.columns.dtype), np.empty(count, cells.columns.dtype)
    for axis in range(axes):
        centre[axis] = total_of(cells.columns[axis]) / count
    distances(cells.columns, 0, count, centre, squared)
    for place in range(count):
        squared[place] = -squared[place]  # the outermost first
    inwards, keys = argsort(squared), np.empty(count, np.int64)
    for rank in range(count):
        keys[rank] = (rank * SHELLS // count * len(cells.starts) + cells.cell[inwards[rank]]) * count + rank
    sort(keys, inwards)
    return inwards


@jit(work=lambda values, order, most: 20.0 * len(order))
def cut(values, order, most):
    """Reorder rows so that cells of at most this many are contiguous; return their starts and the end."""
    starts, cells = np.zeros(len(order) + 2, np.int64), 0  # an empty table has one cell, too
    keys = np.empty(len(order), values.dtype)
    stack = [(0, len(order))]
    while len(stack) > 0:
        first, last = stack.pop()
        if last - first <= most:
            starts[cells] = first
            cells += 1
            continue
        axis = _axis(values, order[first : last : max(1, (last - first) // SAMPLE)])
        for place in range(first, last):
            keys[place] = values[order[place], axis]
        middle = (first + last) // 2
        select(keys[first:last], order[first:last], middle - first)
        stack.append((middle, last))
        stack.append((first, middle))
    starts[cells] = len(order)
    return starts[: cells + 1]


@jit
def _axis(values, rows):
    """Return the axis along which these rows have the largest squared error."""
    best, found = -1.0, 0
    for axis in range(values.shape[1]):
        total, squares = np.float64(0.0), np.float64(0.0)
        for row in rows:
            value = values[row, axis]
            total += value
            squares += value * value
        if squares - total * total / len(rows) > best:
            best, found = squares - total * total / len(rows), axis
    return found


@jit
def _cells(values, rows, starts, around):
    """Return the cells with their nearest cells, by the distances of their means."""
    axes, count = values.shape[1], len(starts) - 1
    columns, cell = np.empty((axes, len(rows)), values.dtype), np.empty(len(rows), np.int64)
    means, low, high = np.empty((3, axes, count), values.dtype)
    alive = np.empty(count, np.int64)
    for number in range(count):
        alive[number] = starts[number + 1] - starts[number]
        for place in range(starts[number], starts[number + 1]):
            cell[place] = number
            for axis in range(axes):
                columns[axis, place] = values[rows[place], axis]
        for axis in range(axes):
            own = columns[axis, starts[number] : starts[number + 1]]
            means[axis, number], low[axis, number], high[axis, number] = _summary(own)
    few = min(around, count)
    near, squared = np.empty((count, few), np.int64), np.empty(count, values.dtype)
    near_low, near_high = np.empty((2, count, axes, few), values.dtype)
    for number in range(count):
        distances(means, 0, count, means[:, number].copy(), squared)
        others = np.arange(count)
        if few < count:
            select(squared, others, few)
        for place in range(few):
            other = near[number, place] = others[place]
            for axis in range(axes):
                near_low[number, axis, place] = low[axis, other]
                near_high[number, axis, place] = high[axis, other]
    places = np.arange(len(rows))
    return RowCells(columns, rows, places, places.copy(), cell, starts, alive, near, near_low, near_high)


@jit
def _summary(numbers):
    """Return mean, least and largest of some numbers."""
    total, low, high = numbers.dtype.type(0.0), numbers[0], numbers[0]
    for number in numbers:
        total += number
        low, high = min(low, number), max(high, number)
    return total / len(numbers), low, high


@jit
def _to_boxes(low, high, point, squared):
    """Compute the squared distances of a point to boxes."""
    squared[:] = 0.0
    for axis in range(len(point)):
        lower, upper, value = low[axis], high[axis], point[axis]
        for box in range(len(squared)):
            step = max(lower[box] - value, value - upper[box], np.float32(0.0))
            squared[box] += step * step


@jit(forceinline=True)
def _insert(squared, index, found, value, item):
    """Insert an item into a list that is sorted by distance, if it is near enough; return the length of the list."""
    most = len(squared)
    if found == most and value >= squared[most - 1]:
        return found
    place = min(found, most - 1)
    while place > 0 and squared[place - 1] > value:
        squared[place], index[place] = squared[place - 1], index[place - 1]
        place -= 1
    squared[place], index[place] = value, item
    return min(found + 1, most)


@jit(forceinline=True)
def _nearest_rows(cells, own, point, boxes, visits, squared, near, apart):
    """Fill ``near`` with the rows nearest to a point of cell ``own``, from the nearest cells; return their number."""
    visited, reach = visits
    _to_boxes(cells.low[own], cells.high[own], point, boxes)
    open_cells = 0
    for place in range(len(boxes)):
        if cells.alive[cells.near[own, place]] > 0:
            open_cells = _insert(reach, visited, open_cells, boxes[place], cells.near[own, place])
    found = 0
    for place in range(open_cells):
        if found == len(near) and reach[place] >= apart[found - 1]:
            break
        start = cells.starts[visited[place]]
        count = cells.alive[visited[place]]
        distances(cells.columns, start, start + count, point, squared)
        for row in range(count):
            if found < len(near) or squared[row] < apart[found - 1]:
                found = _insert(apart, near, found, squared[row], cells.at[start + row])
    return found


@jit(forceinline=True)
def _remove(cells, member):
    """Remove a row: the last row of its cell that is left takes its place."""
    cell, place = cells.cell[member], cells.place[member]
    last = cells.starts[cell] + cells.alive[cell] - 1
    moved = cells.at[last]
    cells.at[place], cells.place[moved] = moved, place
    for axis in range(len(cells.columns)):
        cells.columns[axis, place] = cells.columns[axis, last]
    cells.place[member] = -1
    cells.alive[cell] -= 1


@jit
def _grow(cells, seeds, k, enough, labels, group):
    """Group rows around the seeds until ``enough`` rows are left; return these and the number of groups."""
    left, kind = len(cells.rows), cells.columns.dtype
    boxes = np.empty(cells.near.shape[1], kind)
    visits = np.empty(min(VISITED, len(boxes)), np.int64), np.empty(min(VISITED, len(boxes)), kind)
    squared = np.empty(len(cells.rows), kind)
    near, apart = np.empty(k, np.int64), np.empty(k, kind)
    for seed in seeds:
        if left <= max(enough, 2 * k):
            break
        if cells.place[seed] < 0:
            continue
        point = cells.columns[:, cells.place[seed]].copy()
        if _nearest_rows(cells, cells.cell[seed], point, boxes, visits, squared, near, apart) < k:
            continue
        for member in near:
            labels[cells.rows[member]] = group
            _remove(cells, member)
        group += 1
        left -= k
    return cells.rows[cells.place >= 0], group
