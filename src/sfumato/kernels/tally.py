"""The running extent and weight of a set of records, and the smallest cost that boxes can reach for them."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.covering import covering_width, has_tree
from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import select, smallest

# a tally has one row per quantity and one column per axis; axes with an order come first, then sets
LOW, HIGH, WEIGHT, MEMBERS, ORDERED, FIRST, LAST = range(7)
ROWS = 7

LEADING = 16  # axes with the largest pressures, the only ones along which a small cell is cut


@jit
def clear(tally, bits):
    """Remove all records."""
    tally[LOW] = np.inf
    tally[HIGH] = -np.inf
    tally[WEIGHT] = 0.0
    tally[MEMBERS] = 0.0
    tally[FIRST] = np.inf
    tally[LAST] = -np.inf
    bits[:] = 0


def _add_with_arrays(tally, bits, values, weights, set_start, trees, row):
    """Add one record as :func:`add` does, with few operations on arrays instead of many on numbers."""
    own, numbers = values[row], values.shape[1] - len(set_start)
    ends = own[:numbers]
    if len(trees.start) > 0:
        for axis in range(numbers):
            if has_tree(trees, axis):
                add_rank(tally, trees, axis, own[axis])
            else:
                tally[LOW, axis], tally[HIGH, axis] = (
                    min(tally[LOW, axis], own[axis]),
                    max(tally[HIGH, axis], own[axis]),
                )
    else:
        np.minimum(tally[LOW, :numbers], ends, out=tally[LOW, :numbers])
        np.maximum(tally[HIGH, :numbers], ends, out=tally[HIGH, :numbers])
    tally[WEIGHT] += weights[row]
    for place in range(len(set_start)):
        bit = set_start[place] + int(own[numbers + place])
        mask = np.uint64(1) << np.uint64(bit & 63)
        if bits[bit >> 6] & mask == 0:
            bits[bit >> 6] |= mask
            tally[MEMBERS, numbers + place] += 1.0


# inlined, because a call would count references to the arrays of the trees, which takes longer than the work
@jit(forceinline=True, plain=_add_with_arrays)
def add(tally, bits, values, weights, set_start, trees, row):
    """Add one record. Along an axis with a tree, the records extend from 0 to the width of their covering node."""
    numbers = values.shape[1] - len(set_start)
    for axis in range(numbers):
        if has_tree(trees, axis):
            add_rank(tally, trees, axis, values[row, axis])
            continue
        value, low, high = values[row, axis], tally[LOW, axis], tally[HIGH, axis]
        tally[LOW, axis] = value if value < low else low
        tally[HIGH, axis] = value if value > high else high
    for axis in range(values.shape[1]):
        tally[WEIGHT, axis] += weights[row, axis]
    for place in range(len(set_start)):
        bit = set_start[place] + int(values[row, numbers + place])
        mask = np.uint64(1) << np.uint64(bit & 63)
        if bits[bit >> 6] & mask == 0:
            bits[bit >> 6] |= mask
            tally[MEMBERS, numbers + place] += 1.0


@jit(forceinline=True)
def add_rank(tally, trees, axis, rank):
    """Add the rank of one record along an axis with a tree."""
    if rank < tally[FIRST, axis] or rank > tally[LAST, axis]:
        tally[FIRST, axis] = min(rank, tally[FIRST, axis])
        tally[LAST, axis] = max(rank, tally[LAST, axis])
        tally[LOW, axis] = 0.0
        tally[HIGH, axis] = covering_width(trees, axis, tally[FIRST, axis], tally[LAST, axis])


@jit(forceinline=True)
def width(tally, set_start, axis):
    """Return the width of the records along an axis."""
    if axis >= tally.shape[1] - len(set_start):
        return tally[MEMBERS, axis] - 1.0
    return tally[HIGH, axis] - tally[LOW, axis]


@jit
def cost(tally, set_start):
    """Return the cost of one box around the records: Σ_i (Σ a_i) · width_i."""
    total = 0.0
    for axis in range(tally.shape[1]):
        total += tally[WEIGHT, axis] * width(tally, set_start, axis)
    return total


@jit
def leading(pressures, most):
    """Mark the axes with the largest pressures: at most ``most``, and none without pressure.

    A cell is cut a few times at most, along axes with large pressures. Trying all of them would take a time that grows
    with the square of their number.
    """
    axes = len(pressures)
    marked = pressures > 0.0
    if axes <= most:
        return marked
    ranked = pressures.copy()
    select(ranked, np.arange(axes), axes - most)
    least = smallest(ranked[axes - most :])
    above = 0
    for axis in range(axes):
        above += pressures[axis] > least
    for axis in range(axes):  # of equal pressures the first ones
        if pressures[axis] == least and above < most:
            above += 1
        elif pressures[axis] <= least:
            marked[axis] = False
    return marked


@jit
def least_cost(tally, set_start, boxes):
    """Return the smallest Σ s_i / c_i with Π c_i = boxes and c_i ≥ 1: the cost of ``boxes`` boxes for pressures s_i.

    The axes with the largest pressures are cut to a common level, the others are not cut (the solution of XK §IV with
    the range of the cell as the upper bound of each width). Only the ``LEADING`` axes may be cut.
    """
    axes = min(tally.shape[1], LEADING)
    total = 0.0
    for axis in range(tally.shape[1]):
        pressure = tally[WEIGHT, axis] * width(tally, set_start, axis)
        total += pressure
        place = axis
        if axis >= axes:
            if pressure <= tally[ORDERED, axes - 1]:
                continue
            place = axes - 1
        while place > 0 and tally[ORDERED, place - 1] < pressure:
            tally[ORDERED, place] = tally[ORDERED, place - 1]
            place -= 1
        tally[ORDERED, place] = pressure
    if boxes <= 1:
        return total
    log_product = -math.log(float(boxes))
    rest, level = total, 0.0
    for cut in range(axes):
        pressure = tally[ORDERED, cut]
        if pressure <= 0.0:
            return rest + cut * level
        log_product += math.log(pressure)
        rest -= pressure
        level = math.exp(log_product / (cut + 1))
        if cut + 1 == axes or level >= tally[ORDERED, cut + 1]:
            return rest + (cut + 1) * level
    return rest + axes * level
