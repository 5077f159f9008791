"""Where cells are cut and boxes end: faces, cuts along trees and along one axis, and the axes that matter in a cell."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to, largest, smallest, sort
from sfumato.methods.boxes.tally_kernels import covering_width, has_tree


@jit
def hulls(values, order, starts):
    """Return the smallest and largest value of each column in each leaf."""
    leaves, axes = len(starts) - 1, values.shape[1]
    low, high = np.full((leaves, axes), np.inf), np.full((leaves, axes), -np.inf)
    for leaf in range(leaves):
        for place in range(starts[leaf], starts[leaf + 1]):
            for axis in range(axes):
                value = values[order[place], axis]
                low[leaf, axis] = min(low[leaf, axis], value)
                high[leaf, axis] = max(high[leaf, axis], value)
    return low, high


class CellFaces(NamedTuple):
    """Where boxes may end along each numeric axis, if they are cells; see ``edges.cell_faces``.

    All arrays but ``offset`` and ``first_number`` have one entry per value that occurs, axis by axis in increasing
    order: axis i has the entries offset[i] to offset[i + 1]. They are empty if boxes are hulls.
    """

    offset: NDArray[np.int64]
    first_number: NDArray[np.int64]  # for each axis, 1 if its first value stands for missing numbers, else 0
    support: NDArray[np.float64]  # the values
    upper: NDArray[np.float64]  # upper face of a box that ends with the value
    lower: NDArray[np.float64]  # lower face of a box that begins with the value
    split_upper: NDArray[np.float64]  # the same, if the records that share the value are in both boxes
    split_lower: NDArray[np.float64]


HULLS = CellFaces(np.zeros(1, np.int64), np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))


@jit(allocates=False)
def cut_faces(faces, axis, left, right):
    """Return the upper face of one side and the lower face of the other, given the values next to the cut."""
    first, last = faces.offset[axis], faces.offset[axis + 1]
    support = faces.support[first:last]
    before = np.searchsorted(support, left)
    if left == right:
        return faces.split_upper[first + before], faces.split_lower[first + before]
    place = before
    if before >= faces.first_number[axis]:  # a cut beside missing numbers leaves all numbers to the other side
        middle = np.searchsorted(support, 0.5 * left + 0.5 * right, side="right") - 1
        place = max(before, min(middle, np.searchsorted(support, right) - 1))
    return faces.upper[first + place], faces.lower[first + place + 1]


@jit(forceinline=True, allocates=False)
def may_cut(keys, k, position, is_set):
    """Return whether to try a cut before ``position`` of the sorted keys: a multiple of k, or beside equal values."""
    count = len(keys)
    if position < k or count - position < k:
        return False
    if position % k == 0 or (count - position) % k == 0:
        return True
    before, after = keys[position - 1], keys[position]
    if before == after:
        return False
    return (
        is_set
        or (position > 1 and keys[position - 2] == before)
        or (position + 1 < count and keys[position + 1] == after)
    )


@jit
def line_faces(faces, axis, ordered):
    """Return the lower face of a box that begins with each sorted value, and the upper face of one that ends there."""
    count = len(ordered)
    lower, upper = np.empty(count), np.empty(count)
    first, last = faces.offset[axis], faces.offset[axis + 1]
    lower[0], upper[count - 1] = faces.lower[first], faces.upper[last - 1]
    for place in range(1, count):
        upper[place - 1], lower[place] = cut_faces(faces, axis, ordered[place - 1], ordered[place])
    return lower, upper


@jit
def whole_space(faces):
    """Return the lower and the upper face of the whole space, one column per axis."""
    axes = len(faces.offset) - 1
    bounds = np.empty((2, axes))
    for axis in range(axes):
        bounds[0, axis] = faces.lower[faces.offset[axis]]
        bounds[1, axis] = faces.upper[faces.offset[axis + 1] - 1]
    return bounds


@jit
def smallest_faces(faces):
    """Return the smallest face of a number along each axis; missing numbers are below it."""
    axes = len(faces.offset) - 1
    smallest = np.empty(axes)
    for axis in range(axes):
        place = faces.offset[axis] + faces.first_number[axis]
        smallest[axis] = faces.lower[min(place, faces.offset[axis + 1] - 1)]
    return smallest


@jit
def cells(faces, values, order, starts, cuts, bounds):
    """Return the lower and upper faces of leaves that subdivide a space with these bounds, (leaves, 2, axes).

    Each cut divides the space of the leaves on its sides. The numeric axes come first; a cut between categories does
    not change their faces. Without columns in ``bounds``, boxes are hulls and nothing is computed.
    """
    axes = bounds.shape[1]
    found = np.empty((len(starts) - 1, 2, axes))
    for leaf in range(len(found)):
        copy_to(found[leaf], bounds)
    if axes == 0:
        return found
    low, high = hulls(values[:, :axes], order, starts)
    for leaf in range(1, len(starts) - 1):
        cut = cuts[starts[leaf]]
        axis = int(cut[0])
        if axis >= axes:
            continue
        first, last = np.searchsorted(starts, cut[2]), np.searchsorted(starts, cut[3])
        upper, lower = cut_faces(faces, axis, largest(high[first:leaf, axis]), smallest(low[leaf:last, axis]))
        for other in range(first, leaf):
            found[other, 1, axis] = min(found[other, 1, axis], upper)
        for other in range(leaf, last):
            found[other, 0, axis] = max(found[other, 0, axis], lower)
    return found


# The cuts of a cell along an axis with a generalization tree: between the children of its covering node.
#
# Two children together already need the node itself, so a cut saves width only for a side that is a single child.
# Cells are therefore cut by splitting off one child after the other, the commonest first.


@jit(allocates=False)
def children(trees, axis, keys, begins):
    """Write the places where a child of the covering node begins among the sorted ranks; return their number."""
    whole = covering_width(trees, axis, keys[0], keys[-1])
    begins[0], found = 0, 1
    for place in range(1, len(keys)):
        if keys[place] != keys[place - 1] and covering_width(trees, axis, keys[place - 1], keys[place]) >= whole:
            begins[found] = place
            found += 1
    begins[found] = len(keys)
    return found


@jit
def commonest_first(trees, axis, keys, rows):
    """Reorder sorted ranks, and the rows with them: the children of the covering node by decreasing frequency."""
    begins = np.empty(len(keys) + 1, np.int64)
    found = children(trees, axis, keys, begins)
    if found < 2:
        return
    order, rank = np.arange(found), np.empty(found)
    for child in range(found):  # of equally common children the first ones first
        rank[child] = child - found * (begins[child + 1] - begins[child])
    sort(rank, order)
    old_keys, old_rows, filled = keys.copy(), rows.copy(), 0
    for child in order:
        for place in range(begins[child], begins[child + 1]):
            keys[filled], rows[filled] = old_keys[place], old_rows[place]
            filled += 1


@jit
def sort_along(problem, rows, axis, own, keys):
    """Write the rows to ``own`` and their values along an axis to ``keys``, in an order to cut by; deterministic."""
    for place in range(len(rows)):
        own[place] = rows[place]
        keys[place] = problem.values[rows[place], axis]
    sort(keys, own)
    if has_tree(problem.trees, axis):
        commonest_first(problem.trees, axis, keys, own)


@jit
def child_gain(values, weights, trees, axis, rows, least):
    """Return the cost saved per bit by splitting off all children, and the range of ranks of the commonest child.

    Children of fewer than ``least`` records stay together.
    """
    count = len(rows)
    keys = np.empty(count)
    for place in range(count):
        keys[place] = values[rows[place], axis]
    order = np.arange(count)
    sort(keys, order)
    whole = covering_width(trees, axis, keys[0], keys[-1])
    begins = np.empty(count + 1, np.int64)
    found = children(trees, axis, keys, begins)
    saved, bits, rest, most, low, high = 0.0, 0.0, count, 0, 0.0, 0.0
    for child in range(found):
        first, last = begins[child], begins[child + 1]
        records = last - first
        if records < least or records == count:
            continue
        weight = np.float64(0.0)
        for place in range(first, last):
            weight += weights[rows[order[place]], axis]
        saved += weight * (whole - covering_width(trees, axis, keys[first], keys[last - 1]))
        bits -= records / count * math.log2(records / count)
        rest -= records
        if records > most:
            most, low, high = records, keys[first], keys[last - 1]
    if most == 0:
        return 0.0, 0.0, 0.0
    if rest > 0:
        bits -= rest / count * math.log2(rest / count)
    return saved / bits, low, high


@jit(allocates=False)
def move_child_before(keys, rows, low, high):
    """Move the records with ranks from ``low`` to ``high`` to the front; return their number."""
    position = 0
    for place in range(len(rows)):
        value = keys[place]
        if low <= value <= high:
            keys[place], keys[position] = keys[position], value
            rows[place], rows[position] = rows[position], rows[place]
            position += 1
    return position


# The records of a small cell along the axes on which they differ, copied so that they lie together in memory.
#
# In a table of many columns the records of a small cell are equal in most of them, for example in amounts that are
# mostly zero. Such an axis has no pressure in the cell, and none in any part of it, so it adds exactly 0 to every
# cost.


class ActiveAxes(NamedTuple):
    """A part of a problem: some records and some axes."""

    axis: NDArray[np.int64]  # number of each axis in the problem
    values: NDArray[np.float64]  # (records, axes)
    weights: NDArray[np.float32]
    set_start: NDArray[np.int64]  # of the axes that are sets, which come last
    bounds: NDArray[np.float64]  # faces of the cell along the first axes, if boxes are cells


@jit
def active_axes(problem, rows, pressures, bounds):
    """Return the records along the axes with pressure; along all axes if some have trees, which are known by number."""
    numbers = problem.values.shape[1] - len(problem.set_start)
    is_active = pressures > 0.0
    if len(problem.trees.start) > 0:
        is_active[:] = True
    axis = np.flatnonzero(is_active)
    active_numbers, active_faces = 0, 0  # axes with trees are numbers, and have no faces
    for one in axis:
        active_numbers += one < numbers
        active_faces += one < bounds.shape[1]
    values = np.empty((len(rows), len(axis)))
    weights = np.empty((len(rows), len(axis)), np.float32)
    for place in range(len(rows)):
        row = rows[place]
        for local in range(len(axis)):
            values[place, local] = problem.values[row, axis[local]]
            weights[place, local] = problem.weights[row, axis[local]]
    set_start = np.empty(len(axis) - active_numbers, np.int64)
    for local in range(len(set_start)):
        set_start[local] = problem.set_start[axis[active_numbers + local] - numbers]
    faces = np.empty((2, active_faces))
    for local in range(faces.shape[1]):
        faces[0, local], faces[1, local] = bounds[0, axis[local]], bounds[1, axis[local]]
    return ActiveAxes(axis, values, weights, set_start, faces)


# Optimal boxes along one axis: the cheapest groups of at least k neighbouring records.
#
# The cost of a group is (Σ a) · width, as in ``partition_kernels``. A group of 2k records or more never
# costs less than its two parts, so groups of k to 2k − 1 records are sufficient. Dynamic programming over the sorted
# records takes rows × k steps.


@jit(work=lambda lower, upper, weights, k: len(weights) * k)
def cheapest_ends(lower, upper, weights, k):
    """Return the ends of the cheapest groups of at least k sorted records, given the weight of each record.

    ``lower`` and ``upper`` are the faces of a group that begins or ends with a record: its value, for hulls.
    """
    count = len(weights)
    total = np.zeros(count + 1)
    for place in range(count):
        total[place + 1] = total[place] + weights[place]
    best, size = np.full(count + 1, np.inf), np.zeros(count + 1, np.int64)
    best[0] = 0.0
    for end in range(k, count + 1):
        size[end] = end if end < 2 * k else k  # in case no cost is a number
        for records in range(k, min(2 * k - 1, end) + 1):
            first = end - records
            cost = best[first] + (total[end] - total[first]) * (upper[end - 1] - lower[first])
            if cost < best[end]:
                best[end], size[end] = cost, records
    ends = np.empty(count // k, np.int64)
    groups, end = 0, count
    while end > 0:
        ends[groups] = end
        groups += 1
        end -= size[end]
    return ends[:groups][::-1].copy()


@jit
def note_line_cuts(values, starts, axis, cuts):
    """Record the cuts between groups as a balanced tree, in the format of ``partition_kernels.split``.

    ``values`` are sorted; ``starts`` are the first places of the groups and, last, the number of records.
    """
    stack = [(0, len(starts) - 1)]
    while len(stack) > 0:
        first, last = stack.pop()
        if last - first < 2:
            continue
        middle = (first + last) // 2
        place = starts[middle]
        cut = cuts[place]
        cut[0], cut[1] = axis, 0.5 * (values[place - 1] + values[place])
        cut[2], cut[3] = starts[first], starts[last]
        stack.append((first, middle))
        stack.append((middle, last))
