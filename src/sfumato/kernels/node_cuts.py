"""The cuts of a cell along an axis with a generalization tree: between the children of its covering node.

Two children together already need the node itself, so a cut saves width only for a side that is a single child. Cells
are therefore cut by splitting off one child after the other, the commonest first.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.covering import covering_width, has_tree
from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import sort


@jit
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


@jit
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
