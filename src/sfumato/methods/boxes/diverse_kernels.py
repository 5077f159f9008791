"""Boxes that must be diverse: a kd partition, and the cheapest strips of its small cells (XK §IV).

The cost of a strip is Σ_i (Σ a_i) · width_i, as in ``partition_kernels``. Two neighbouring strips never cost
more than the strip that contains both, so strips that contain no two others are sufficient. Dynamic programming over
the sorted records finds the cheapest of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to, largest, select, smallest
from sfumato.methods.boxes.cut_kernels import sort_along
from sfumato.methods.boxes.partition_kernels import (
    PartitionProblem,
    both_diverse,
    coarse_cut,
    fine_cut,
    is_apart,
    median_cut,
    note_cut,
)
from sfumato.methods.boxes.tally_kernels import ROWS, WEIGHT, add_all, clear, cost, width

PLACES = 16  # strips of a cell with more records end at about this many evenly spaced places
EFFORT = 4096  # axes along which strips are tried × protected columns, at most: each strip is checked in every column


@jit
def ends_of(count):
    """Return the places at which strips of ``count`` records may begin and end: 0 first, ``count`` last."""
    step = (count + PLACES - 1) // PLACES
    ends = np.empty((count + step - 1) // step + 1, np.int64)
    for number in range(len(ends)):
        ends[number] = min(number * step, count)
    return ends


@jit
def is_spread(values, l, separation):
    """Return whether l of the values are pairwise different and ``separation`` apart, chosen from the smallest up."""
    last = smallest(values)
    for found in range(1, l):
        best = np.inf
        for value in values:
            if value < best and is_apart(value, last, separation):
                best = value
                if found == l - 1:  # any value will do
                    break
        if best == np.inf:
            return False
        last = best
    return True


@jit
def shortest_ends(problem, rows, ends):
    """Return, for each end, the first end after it with a large and diverse enough strip between.

    Ends are numbered from 0; the number after the last means that there is none.
    """
    columns = problem.protected.shape[1]
    values = np.empty((columns, len(rows)))  # in the order of the rows, because every value is read many times
    for place in range(len(rows)):
        for column in range(columns):
            values[column, place] = problem.protected[rows[place], column]
    shortest = np.zeros(len(ends) + 1, np.int64)
    shortest[-1] = len(ends)
    for column in range(columns):  # a longer strip is as diverse, so the end of a strip only moves forward
        end = 0
        for begin in range(len(ends)):
            end = max(end, shortest[begin])
            while end < len(ends) and (
                ends[end] - ends[begin] < problem.k
                or not is_spread(values[column, ends[begin] : ends[end]], problem.l, problem.separation[column])
            ):
                end += 1
            shortest[begin] = end
    return shortest


@jit
def cheapest_strips(problem, rows, most, tally, bits):
    """Return the cost and the first places of the cheapest strips of the sorted rows.

    The cost is infinite if there are no strips that cost less than ``most``.
    """
    ends = ends_of(len(rows))
    shortest = shortest_ends(problem, rows, ends)
    last = len(ends) - 1
    best, before = np.full(last + 1, np.inf), np.zeros(last + 1, np.int64)
    best[0] = 0.0
    for begin in range(last):
        if best[begin] == np.inf or shortest[begin] > last:
            continue
        clear(tally, bits)
        for end in range(begin + 1, min(shortest[shortest[begin]], last) + 1):
            more = rows[ends[end - 1] : ends[end]]
            add_all(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, more)
            if end >= shortest[begin]:
                total = best[begin] + cost(tally, problem.set_start)
                if total < best[end] and total < most:
                    best[end], before[end] = total, begin
    starts = np.empty(last, np.int64)
    strips, end = 0, last if best[last] < np.inf else 0
    while end > 0:
        end = before[end]
        starts[strips] = ends[end]
        strips += 1
    return best[last], starts[:strips][::-1].copy()


# Boxes that must be diverse: a kd partition whose cuts take into account what diversity allows (XK §IV).
#
# The estimates of ``partition_kernels`` assume boxes of k records. If boxes must also contain ℓ values
# that are ε apart, they need more records, and a cell that is halved until no cut is allowed ends with boxes of up to
# twice the necessary width. Therefore
#
# - a large cell is cut at a boundary between slabs of equal width, each as wide as a diverse box; if that cut is not
#   allowed, the other axes are tried;
# - a small cell follows its best cut to the end. If that gives few boxes, and fewer than k allows, they are compared
#   with the cheapest strips along each axis (``diverse_kernels``). The true cost decides, so strips never
#   make the boxes of a cell wider.


FEW = 2  # strips are tried in cells of at most this many boxes: more take more time and gain little
TIGHT = 0.4  # slabs are used if a diverse box is at least this × as wide as a box of k records, on average of the axes
SLACK = 1.5  # width of a slab beyond the least, in units of (ℓ − 1) ÷ records of a box


class DiverseProblem(NamedTuple):
    """The records to be partitioned, and the distance of different values along each axis."""

    cells: PartitionProblem
    apart: NDArray[np.float64]  # ε of a protected axis, 1 for whole numbers and categories; 0: no distance is needed


@jit
def slab_width(problem, count, tally, axis):
    """Return the width that a diverse box needs along an axis, on average; 0 if k needs more than diversity does.

    A box of r records has gaps of about width ÷ r, so ℓ values that are ε apart need about (ℓ − 1)(ε + width ÷ r).
    """
    l, records, enough = problem.cells.l, float(count), float(problem.cells.k)
    for one in range(len(problem.apart)):
        extent = width(tally, problem.cells.set_start, one)
        if extent > 0.0 and problem.apart[one] > 0.0:
            records *= min(1.0, (l - 1) * problem.apart[one] / extent)
            enough *= TIGHT
    if records < enough:
        return 0.0
    return (l - 1) * problem.apart[axis] * (1.0 + SLACK * (l - 1) / max(records, problem.cells.k))


@jit
def move_to_slab(problem, rows, keys, slab, position):
    """Move a cut to the nearest boundary between slabs of equal width; return its position.

    ``keys`` are the values of the rows along the axis, those of the second side from ``position`` on.
    """
    low, high, count = smallest(keys), largest(keys), len(rows)
    slabs = np.floor((high - low) / slab)
    if slabs < 2.0:
        return position
    wide = (high - low) / slabs
    boundary = low + wide * min(max(np.round((smallest(keys[position:]) - low) / wide), 1.0), slabs - 1.0)
    moved = 0
    for key in keys:
        if key < boundary:
            moved += 1
    if moved < problem.cells.k or count - moved < problem.cells.k:
        return position
    select(keys, rows, moved)
    return moved


@jit
def large_cut(problem, rows, keys, tally, bits, bounds):
    """Cut a large cell: order ``rows`` and return position and axis of an allowed cut; position 0 if none is found."""
    cells = problem.cells
    position, axis = coarse_cut(cells, rows, keys, tally, bits, bounds)
    if position == 0:
        return 0, -1
    pressure = np.empty(len(problem.apart))
    for one in range(len(pressure)):
        pressure[one] = tally[WEIGHT, one] * width(tally, cells.set_start, one)
    is_number = axis < len(pressure) - len(cells.set_start)
    while True:
        slab = slab_width(problem, len(rows), tally, axis) if is_number else 0.0
        if slab > 0.0:
            position = move_to_slab(problem, rows, keys[: len(rows)], slab, position)
        if both_diverse(cells, rows, position):
            return position, axis
        pressure[axis] = 0.0
        axis = 0
        for other in range(len(pressure)):
            if pressure[other] > pressure[axis]:
                axis = other
        if pressure[axis] <= 0.0:
            return 0, -1
        is_number = axis < len(pressure) - len(cells.set_start)
        for place in range(len(rows)):
            keys[place] = cells.values[rows[place], axis]
        position = median_cut(cells, rows, keys[: len(rows)])


@jit
def box_cost(problem, rows, tally, bits):
    """Return the cost of one box."""
    clear(tally, bits)
    add_all(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, rows)
    return cost(tally, problem.set_start)


@jit
def axes_of_strips(problem, rows, tally, bits):
    """Return the axes along which strips are tried: all, or in a wide table those that cost most, from the first on."""
    axes = np.arange(problem.values.shape[1])
    tried = max(EFFORT // max(problem.protected.shape[1], 1), 1)
    if len(axes) <= tried:
        return axes
    clear(tally, bits)
    add_all(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, rows)
    pressure = np.empty(len(axes))
    for axis in axes:
        pressure[axis] = tally[WEIGHT, axis] * width(tally, problem.set_start, axis)
    return np.argsort(-pressure, kind="mergesort")[:tried]


@jit
def best_strips(problem, rows, most, tally, bits):
    """Return the cheapest strips along an axis: cost, axis (−1 if none costs less than ``most``), places and rows."""
    chosen, starts = -1, np.zeros(1, np.int64)
    own, ordered, keys = rows.copy(), rows.copy(), np.empty(len(rows))
    for axis in axes_of_strips(problem, rows, tally, bits):
        sort_along(problem, rows, axis, own, keys)
        if keys[0] < keys[-1]:
            total, found = cheapest_strips(problem, own, most, tally, bits)
            if total < most:
                most, chosen, starts = total, axis, found
                copy_to(ordered, own)
    return most, chosen, starts, ordered


@jit
def begin_strips(problem, order, begins, cuts, first, last, starts, axis):
    """Make boxes of the strips of the cell order[first:last]; no record of one lies beyond the next along the axis."""
    begins[first:last] = False
    begins[first] = True
    begin = first
    for start in starts[1:]:
        begins[first + start] = True
        if len(cuts) > 0:
            note_cut(problem, order[begin:last], cuts, begin, last, first + start - begin, axis)
        begin = first + start


@jit
def lay(problem, order, begins, cuts, bounds, first, last):
    """Cut a small cell into the cheapest boxes that are found; return their cost."""
    rows, count, axes = order[first:last], last - first, problem.values.shape[1]
    tally, bits = np.empty((ROWS, axes)), np.empty(problem.set_words, np.uint64)
    begins[first:last] = False
    begins[first] = True
    best = box_cost(problem, rows, tally, bits)
    if count < 2 * problem.k:
        return best
    keys, costs, boxes = np.empty(count), np.empty(count + 1), 1
    if count >= 3 * problem.k:  # two boxes are strips
        position, axis = fine_cut(problem, rows, keys, costs, np.empty_like(rows), tally, bits, bounds)
        if position > 0:
            middle = first + position
            if len(cuts) > 0:
                note_cut(problem, rows, cuts, first, last, position, axis)
            best = lay(problem, order, begins, cuts, bounds, first, middle)
            best += lay(problem, order, begins, cuts, bounds, middle, last)
            boxes = begins[first:last].sum()
    if boxes <= min(FEW, count // problem.k - 1):  # few boxes, and fewer than k allows
        best, axis, starts, ordered = best_strips(problem, rows, best, tally, bits)
        if axis >= 0:
            copy_to(rows, ordered)
            begin_strips(problem, order, begins, cuts, first, last, starts, axis)
    return best


@jit(
    work=lambda problem, order, begins, cuts, bounds, first, last, enough: 80.0 * (last - first) * len(problem.apart),
    seconds=8.0,
)
def split(problem, order, begins, cuts, bounds, first, last, enough):
    """Cut the cell order[first:last] as ``partition_kernels.split`` does, into diverse boxes.

    The boxes are hulls: ``bounds`` has no columns.
    """
    cells = problem.cells
    tally, bits = np.empty((ROWS, cells.values.shape[1])), np.empty(cells.set_words, np.uint64)
    keys = np.empty(last - first)
    stack = [(first, last)]
    while len(stack) > 0:
        first, last = stack.pop()
        begins[first] = True
        if last - first < 2 * cells.k or last - first <= enough:
            continue
        if last - first <= cells.lookahead * cells.k:
            lay(cells, order, begins, cuts, bounds, first, last)
            continue
        position, axis = large_cut(problem, order[first:last], keys, tally, bits, bounds)
        starts = np.array([0, position])
        if position == 0:
            _, axis, starts, ordered = best_strips(cells, order[first:last], np.inf, tally, bits)
            copy_to(order[first:last], ordered)
        if len(starts) < 2:
            continue
        begin_strips(cells, order, begins, cuts, first, last, starts, axis)
        for part in range(len(starts)):
            stack.append((first + starts[part], first + starts[part + 1] if part + 1 < len(starts) else last))
