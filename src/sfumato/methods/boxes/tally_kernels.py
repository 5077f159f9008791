"""The width and the cost of a set of records while a cell is cut: tree nodes, running extents, cuts beside an atom.

The values of a column with a generalization tree are ranked depth-first, so each node covers a range of ranks. The node
that covers the ranks from ``low`` to ``high`` is the widest of the nodes that cover two neighbouring ranks between
them. The tree is therefore given by one number per pair of neighbours, and its covering nodes by a table of the largest
number in every run of 1, 2, 4, … of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import select, smallest


class Trees(NamedTuple):
    """The trees of all axes. Both arrays are empty if there are none."""

    start: NDArray[np.int64]  # first column of each axis in ``widest``; −1 for an axis without a tree
    widest: NDArray[np.float64]  # (j, i): width of the node that covers 2^j + 1 ranks, from i − start on


NO_TREES = Trees(np.empty(0, dtype=np.int64), np.empty((0, 0)))


def trees_of(steps: Sequence[NDArray[np.float64] | None]) -> Trees:
    """Return the trees of axes, given the width of the node that covers each two neighbouring ranks; None: no tree."""
    if all(one is None for one in steps):
        return NO_TREES
    sizes = np.array([0 if one is None else len(one) for one in steps], dtype=np.int64)
    start = np.where([one is None for one in steps], -1, np.cumsum(sizes) - sizes)
    row = np.concatenate([np.empty(0), *(one for one in steps if one is not None)])
    rows, reach = [row], 1
    while 2 * reach <= sizes.max():
        row = np.concatenate([np.maximum(row[:-reach], row[reach:]), row[-reach:]])
        rows.append(row)  # the ends run over into the next axis, but no query of this axis reads them
        reach *= 2
    return Trees(start.astype(np.int64), np.stack(rows))


@jit(forceinline=True, allocates=False)
def has_tree(trees, axis):
    """Return whether an axis is cut by a tree."""
    return axis < len(trees.start) and trees.start[axis] >= 0


@jit(forceinline=True, allocates=False)
def covering_width(trees, axis, low, high):
    """Return the width of the lowest node that covers the ranks from ``low`` to ``high``."""
    first, gaps = trees.start[axis] + int(low), int(high) - int(low)
    if gaps == 0:
        return 0.0
    row = 0
    while gaps >> (row + 1):
        row += 1
    return max(trees.widest[row, first], trees.widest[row, first + gaps - (1 << row)])


@jit
def covering_widths(trees, axis, low, high):
    """Return the widths of many covering nodes."""
    widths = np.empty(len(low))
    for place in range(len(low)):
        widths[place] = covering_width(trees, axis, low[place], high[place])
    return widths


# The running extent and weight of a set of records, and the smallest cost that boxes can reach for them.


# a tally has one row per quantity and one column per axis; axes with an order come first, then sets
LOW, HIGH, WEIGHT, MEMBERS, PRESSURE, FIRST, LAST = range(7)
ROWS = 7

LEADING = 16  # axes with the largest pressures, the only ones along which a small cell is cut


@jit(forceinline=True, allocates=False)
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
@jit(forceinline=True, allocates=False, plain=_add_with_arrays)
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


def _add_all_with_arrays(tally, bits, values, weights, set_start, trees, rows):
    """Add records as :func:`add_all` does, all at once."""
    numbers = values.shape[1] - len(set_start)
    if len(trees.start) > 0 or len(rows) < 4:
        for row in rows:
            add(tally, bits, values, weights, set_start, trees, row)
        return
    own = values[rows]
    np.minimum(tally[LOW, :numbers], own[:, :numbers].min(axis=0), out=tally[LOW, :numbers])
    np.maximum(tally[HIGH, :numbers], own[:, :numbers].max(axis=0), out=tally[HIGH, :numbers])
    tally[WEIGHT] = np.cumsum(np.vstack([tally[WEIGHT], weights[rows]]), axis=0)[-1]  # one after the other
    for place in range(len(set_start)):
        for code in set(own[:, numbers + place].tolist()):
            bit = set_start[place] + int(code)
            mask = np.uint64(1) << np.uint64(bit & 63)
            if bits[bit >> 6] & mask == 0:
                bits[bit >> 6] |= mask
                tally[MEMBERS, numbers + place] += 1.0


@jit(allocates=False, plain=_add_all_with_arrays)
def add_all(tally, bits, values, weights, set_start, trees, rows):
    """Add some records."""
    for row in rows:
        add(tally, bits, values, weights, set_start, trees, row)


def running_pressures(values, weights, set_start):
    """Return weight × width of the first, the first two, … records along each axis, as :func:`add` would give them."""
    numbers = values.shape[1] - len(set_start)
    widths = np.empty(values.shape)
    ends = values[:, :numbers]
    widths[:, :numbers] = np.maximum.accumulate(ends, axis=0) - np.minimum.accumulate(ends, axis=0)
    for axis in range(numbers, values.shape[1]):
        is_new = np.zeros(len(values))
        is_new[np.unique(values[:, axis], return_index=True)[1]] = 1.0
        widths[:, axis] = np.cumsum(is_new) - 1.0
    return np.cumsum(weights, axis=0, dtype=np.float64) * widths


def least_costs(pressures, boxes):
    """Return :func:`least_cost` of many rows of pressures."""
    totals = np.cumsum(pressures, axis=1)[:, -1]
    ranked = -np.sort(-pressures, axis=1)[:, :LEADING]
    found = []
    for total, ordered, count in zip(totals.tolist(), ranked.tolist(), boxes.tolist(), strict=True):
        found.append(total if count <= 1 else _cut_to_level(total, ordered, count))
    return np.array(found)


def _cut_to_level(total, ordered, boxes):
    """Return the cost of boxes for pressures in decreasing order, as :func:`least_cost` does."""
    if ordered[0] <= 0.0:
        return total
    product, rest, most = 1.0 / boxes, total, len(ordered)
    for cut, pressure in enumerate(ordered, start=1):
        product *= pressure / ordered[0]
        rest -= pressure
        if cut == most or is_level_above(product, ordered[cut] / ordered[0], cut):
            break
    return rest + cut * ordered[0] * math.exp(math.log(product) / cut)


@jit(forceinline=True, allocates=False)
def add_rank(tally, trees, axis, rank):
    """Add the rank of one record along an axis with a tree."""
    if rank < tally[FIRST, axis] or rank > tally[LAST, axis]:
        tally[FIRST, axis] = min(rank, tally[FIRST, axis])
        tally[LAST, axis] = max(rank, tally[LAST, axis])
        tally[LOW, axis] = 0.0
        tally[HIGH, axis] = covering_width(trees, axis, tally[FIRST, axis], tally[LAST, axis])


@jit(forceinline=True, allocates=False)
def width(tally, set_start, axis):
    """Return the width of the records along an axis."""
    if axis >= tally.shape[1] - len(set_start):
        return tally[MEMBERS, axis] - 1.0
    return tally[HIGH, axis] - tally[LOW, axis]


@jit(forceinline=True, allocates=False)
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


@jit(forceinline=True, allocates=False)
def least_cost(tally, set_start, boxes, limit):
    """Return the smallest Σ s_i / c_i with Π c_i = boxes and c_i ≥ 1: the cost of ``boxes`` boxes for pressures s_i.

    The axes with the largest pressures are cut to a common level, the others are not cut (the solution of XK §IV with
    the range of the cell as the upper bound of each width). Only the ``LEADING`` axes may be cut. Infinite if the cost
    is seen to be ``limit`` or more before the pressures are ordered: as 1 / c ≥ 1 − log c, it is at least
    Σ s_i − log(boxes) · max s_i.
    """
    if boxes <= 1:
        return cost(tally, set_start)
    total, largest_pressure = 0.0, 0.0
    for axis in range(tally.shape[1]):
        pressure = tally[WEIGHT, axis] * width(tally, set_start, axis)
        tally[PRESSURE, axis] = pressure
        total += pressure
        largest_pressure = max(largest_pressure, pressure)
    if total - math.log(float(boxes)) * largest_pressure >= limit:
        return np.inf
    if largest_pressure <= 0.0:
        return total
    product, rest, most = 1.0 / boxes, total, min(tally.shape[1], LEADING)
    pressure = move_largest(tally[PRESSURE], 0)
    for cut in range(1, most + 1):
        product *= pressure / largest_pressure
        rest -= pressure
        pressure = move_largest(tally[PRESSURE], cut)
        if cut == most or is_level_above(product, pressure / largest_pressure, cut):
            break
    return rest + cut * largest_pressure * math.exp(math.log(product) / cut)


@jit(forceinline=True, allocates=False)
def is_level_above(product, pressure, cut):
    """Return whether product^(1 ÷ cut) is at least a pressure, without a root; both are shares of the largest one."""
    power = 1.0
    for _ in range(cut):
        power *= pressure
    return product >= power


@jit(forceinline=True, allocates=False)
def move_largest(pressures, place):
    """Exchange the largest of the pressures from a place on with the one at this place, and return it; 0 if none."""
    if place == len(pressures):
        return 0.0
    at, most = place, pressures[place]
    for axis in range(place + 1, len(pressures)):
        if pressures[axis] > most:
            at, most = axis, pressures[axis]
    pressures[at], pressures[place] = pressures[place], most
    return most


# Cuts beside an atom: a value that many records share. One side then has no width and uses little of the budget.


@jit(allocates=False)
def entropy(share):
    """Return the bits that a cut into ``share`` and 1 − ``share`` uses of the budget of log2(records ÷ k) bits."""
    return -(share * math.log2(share) + (1.0 - share) * math.log2(1.0 - share))


@jit
def commonest(keys):
    """Return the most common of some keys, the smallest of equally common ones, and its number."""
    slots = 4
    while slots < 2 * len(keys):
        slots *= 2
    slot_keys, counts = np.empty(slots), np.zeros(slots, np.int64)
    bits = (keys + 0.0).view(np.uint64)  # + 0.0, so that −0.0 and 0.0 have the same bits
    best, value = 0, np.inf
    for place in range(len(keys)):
        key = keys[place]
        hashed = bits[place] * np.uint64(0x9E3779B97F4A7C15)
        slot = int(hashed >> np.uint64(32)) & (slots - 1)
        while counts[slot] > 0 and slot_keys[slot] != key:
            slot = (slot + 1) & (slots - 1)
        slot_keys[slot] = key
        counts[slot] += 1
        if counts[slot] > best or (counts[slot] == best and key < value):
            best, value = counts[slot], key
    return value, best


@jit(allocates=False)
def point_mass_gains(values, weights, set_start, tally, axis, rows, atom):
    """Return the cost saved per bit by a cut below ``atom`` and by one above it; for categories, around it and 0."""
    is_set = axis >= values.shape[1] - len(set_start)
    below, equal, above = 0, 0, 0
    left = left_with = right = right_with = np.float64(0.0)  # weights on a side, without and with the atom
    rest = np.float64(0.0)  # weight of everything else, for categories
    highest, lowest = -np.inf, np.inf
    for row in rows:
        value, weight = values[row, axis], weights[row, axis]
        if value <= atom:
            left_with += weight
        else:
            right += weight
            lowest = min(lowest, value)
            above += 1
        if value < atom:
            left += weight
            highest = max(highest, value)
            below += 1
        else:
            right_with += weight
            equal += value == atom
        if value != atom:
            rest += weight
    whole = width(tally, set_start, axis)
    pressure, count = tally[WEIGHT, axis] * whole, len(rows)
    if is_set:
        return (pressure - rest * (whole - 1.0)) / entropy(equal / count) if 0 < equal < count else 0.0, 0.0
    low, high = tally[LOW, axis], tally[HIGH, axis]
    saved_below = pressure - left * (highest - low) - right_with * (high - atom) if below else 0.0
    saved_above = pressure - left_with * (atom - low) - right * (high - lowest) if above else 0.0
    return (
        saved_below / entropy(below / count) if below else 0.0,
        saved_above / entropy((below + equal) / count) if above else 0.0,
    )
