"""Boxes by a kd partition with a small weighted sum of widths (a constructive version of XK §II).

The cost of a cell is Σ_i (Σ_p a_i(p)) · width_i, the contribution of its records to the uncertainty of the kept
statistics. Cells are cut where this reduces the cost most:

- a large cell is cut along the axis with the largest pressure a_i · width_i, at the multiple of k nearest to its
  median, or beside a value that many records share (one side then has no width and uses little of the budget);
- a small cell (at most ``lookahead`` × k records) tries every cut along the axes with the largest pressure, and
  estimates the cost of a side of c · k records by the smallest cost that c boxes can reach in it.

The width of numbers is their range or, if boxes are cells, that of the cell; the width of a set of categories is its
number of values − 1; the width along an axis with a tree is that of the covering node. A cut may separate equal values:
leaves are counted in records, so ties never make a leaf smaller than k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to, select, smallest, sort
from sfumato.methods.boxes.cut_kernels import (
    HULLS,
    CellFaces,
    active_axes,
    child_gain,
    commonest_first,
    cut_faces,
    may_cut,
    move_child_before,
)
from sfumato.methods.boxes.tally_kernels import (
    HIGH,
    LEADING,
    LOW,
    NO_TREES,
    ROWS,
    WEIGHT,
    Trees,
    add,
    add_all,
    clear,
    commonest,
    has_tree,
    leading,
    least_cost,
    least_costs,
    point_mass_gains,
    running_pressures,
    width,
)

SAMPLE = 4096  # records that represent a larger cell when its axis is chosen
POINT_MASS_SAMPLE = 256  # records among which a shared value is searched
POINT_MASS_AXES = 32  # axes with the largest pressures, the only ones along which a shared value is searched
POINT_MASS_SHARE = 0.15  # share of them from which on a cut beside the value is considered


NOBODY = np.zeros(0, np.int64)  # people are not told apart: every record is another person


class PartitionProblem(NamedTuple):
    """The records to be partitioned. Rows are records, columns are axes."""

    values: NDArray[np.float64]  # numbers, or the rank of a category (0, 1, …)
    weights: NDArray[np.float32]  # sensitivity a_i of each record, per unit of width
    set_start: NDArray[np.int64]  # first bit of each categorical axis among all sets; these axes come last
    set_words: int  # number of 64-bit words for all sets
    scale: NDArray[np.float64]  # range of the axis, by which the median rule divides
    protected: NDArray[np.float64]  # columns whose diversity is protected, categories as codes
    separation: NDArray[np.float64]  # smallest difference that counts as a different value; 0: any difference
    k: int
    l: int
    lookahead: int
    median: bool  # whether to use the Mondrian rule: cut the axis with the widest range ÷ scale at its median
    faces: CellFaces = HULLS  # where boxes may end, if they are cells
    trees: Trees = NO_TREES  # of axes whose values are ranks in a tree; they come before the sets
    people: NDArray[np.int64] = NOBODY  # person of each record, if a box needs k people


@jit(forceinline=True, allocates=False)
def is_category(problem, axis):
    """Return whether an axis is a set, or is cut by a tree."""
    return axis >= problem.values.shape[1] - len(problem.set_start) or has_tree(problem.trees, axis)


@jit(forceinline=True, allocates=False)
def is_apart(value, last, separation):
    """Return whether a value is above the last one by ``separation``, which 0.3 − 0.2 is not where it is 0.1.

    Both values and their difference are rounded, by 2⁻⁵² of the larger one at most; the claim allows twice as much.
    """
    return value > last and value - last >= separation - 2.0**-51 * max(abs(value), abs(last))


@jit
def enough_people(problem, rows):
    """Return whether the records are those of at least k people; it ends at the k-th of them."""
    if len(problem.people) == 0:
        return len(rows) >= problem.k
    found = np.empty(problem.k, np.int64)
    count = 0
    for row in rows:
        person, is_new = problem.people[row], True
        for place in range(count):
            if found[place] == person:
                is_new = False
                break
        if is_new:
            found[count] = person
            count += 1
            if count == problem.k:
                return True
    return False


@jit(forceinline=True, allocates=False)
def is_checked(problem):
    """Return whether a box needs more than k records: values that differ, or k people."""
    return len(problem.people) > 0 or (problem.l > 1 and problem.protected.shape[1] > 0)


@jit
def diverse(problem, rows):
    """Return whether the records are those of k people and have l values of each protected column, far enough apart.

    Values are pairwise ``separation`` apart. They are chosen greedily from the smallest up, which gives the largest
    possible number of them (XK §IV).
    """
    if not enough_people(problem, rows):
        return False
    for column in range(problem.protected.shape[1]):
        last = -np.inf
        for found in range(problem.l):
            best = np.inf
            for row in rows:
                value = problem.protected[row, column]
                if value < best and (found == 0 or is_apart(value, last, problem.separation[column])):
                    best = value
            if best == np.inf:
                return False
            last = best
    return True


@jit
def both_diverse(problem, rows, position):
    """Return whether both sides of a cut are diverse."""
    if not is_checked(problem):
        return True
    return diverse(problem, rows[:position]) and diverse(problem, rows[position:])


@jit
def both_diverse_in_order(problem, rows, order, position):
    """Return whether both sides of a cut of the rows in this order are diverse."""
    return both_diverse(problem, rows[order], position)


@jit(forceinline=True, allocates=False)
def open_tally(tally, bits, bounds):
    """Remove all records; the widths are those of a cell with these bounds, if there are any."""
    clear(tally, bits)
    for axis in range(bounds.shape[1]):
        tally[LOW, axis], tally[HIGH, axis] = bounds[0, axis], bounds[1, axis]


@jit
def coarse_cut(problem, rows, keys, tally, bits, bounds):
    """Cut a large cell: order ``rows`` and return position and axis of the cut; position 0 if no cut helps."""
    values, weights, set_start = problem.values, problem.weights, problem.set_start
    count, axes = len(rows), values.shape[1]
    exact = problem.median or count <= 2 * SAMPLE
    step = 1 if exact else count // SAMPLE
    sample = rows[::step].copy()
    open_tally(tally, bits, bounds)
    add_all(tally, bits, values, weights, set_start, problem.trees, sample)
    chosen, best, atom, above, beside = -1, 0.0, 0.0, False, False
    low, high, open_axis = 0.0, 0.0, -1
    few = sample[:: max(1, len(sample) // POINT_MASS_SAMPLE)]
    may_share = leading(pressures_of(tally, set_start), POINT_MASS_AXES)
    for axis in range(axes):
        extent = width(tally, set_start, axis)
        if problem.median:
            gain = extent / problem.scale[axis] if problem.scale[axis] > 0.0 else 0.0
        else:
            gain = 0.5 * tally[WEIGHT, axis] * extent  # a cut at the median halves the width and uses one bit
        if has_tree(problem.trees, axis) and not problem.median:
            if gain > 0.0:
                open_axis = axis
                gain, child_low, child_high = child_gain(values, weights, problem.trees, axis, sample, problem.k / step)
                if gain > best:
                    chosen, best, low, high = axis, gain, child_low, child_high
            continue
        if gain > best:
            chosen, best, beside = axis, gain, False
        if problem.median or not may_share[axis]:
            continue
        some = np.empty(len(few))
        for place in range(len(few)):
            some[place] = values[few[place], axis]
        value, shared = commonest(some)
        if shared < POINT_MASS_SHARE * len(few):
            continue
        gains = point_mass_gains(values, weights, set_start, tally, axis, sample, value)
        for side in range(2):
            if gains[side] > best:
                chosen, best, atom, above, beside = axis, gains[side], value, side == 1, True
    if chosen < 0:
        return 0, open_axis
    for place in range(count):
        keys[place] = values[rows[place], chosen]
    if has_tree(problem.trees, chosen) and not problem.median:
        position = move_child_before(keys[:count], rows, low, high)
        return (position if position >= problem.k and count - position >= problem.k else 0), chosen
    if beside:
        position = move_before(problem, rows, keys[:count], chosen, atom, above)
        if position >= problem.k and count - position >= problem.k:
            return position, chosen
    return median_cut(problem, rows, keys[:count]), chosen


@jit(allocates=False)
def move_before(problem, rows, keys, axis, atom, above):
    """Move the records on the first side of a cut beside ``atom`` to the front; return their number."""
    is_set = axis >= problem.values.shape[1] - len(problem.set_start)
    position = 0
    for place in range(len(rows)):
        value = keys[place]
        if (value == atom) if is_set else (value < atom or (above and value == atom)):
            keys[place], keys[position] = keys[position], value
            rows[place], rows[position] = rows[position], rows[place]
            position += 1
    return position


@jit(allocates=False)
def median_cut(problem, rows, keys):
    """Cut at the multiple of k nearest to the median, or at the nearest change of value if that splits equal values."""
    count, k = len(rows), problem.k
    if problem.median:
        select(keys, rows, count // 2)
        return count // 2
    position = k * (count // k // 2)
    select(keys, rows, position)
    value = smallest(keys[position:])
    below, equal = 0, 0
    for key in keys:
        if key < value:
            below += 1
        elif key == value:
            equal += 1
    moved = 0
    if equal > 1 and below != position:
        if below >= k and count - below >= k:
            moved = below
        upper = below + equal
        if upper >= k and count - upper >= k and (moved == 0 or upper - position < position - moved):
            moved = upper
    if moved:
        select(keys, rows, moved)
        return moved
    return position


@jit
def pressures_of(tally, set_start):
    """Return weight × width of each axis."""
    pressures = np.empty(tally.shape[1])
    for axis in range(len(pressures)):
        pressures[axis] = tally[WEIGHT, axis] * width(tally, set_start, axis)
    return pressures


def _cut_along_with_arrays(problem, own, rows, local, order, keys, costs, tally, bits, best):
    """Find the best cut as :func:`cut_along` does, with the costs of all cuts at once."""
    if len(problem.trees.start) > 0 or own.bounds.shape[1] > 0:
        return cut_in_turn(problem, own, rows, local, order, keys, costs, tally, bits, best)
    count, k, at = len(keys), problem.k, 0
    values, weights, is_set = own.values[order], own.weights[order], is_category(problem, own.axis[local])
    listed = keys.tolist()
    tried = np.array([place for place in range(k, count - k + 1) if may_cut(listed, k, place, is_set)], np.int64)
    if len(tried) == 0:
        return 0, best
    before = running_pressures(values, weights, own.set_start)[tried - 1]
    after = running_pressures(values[::-1], weights[::-1], own.set_start)[count - tried - 1]
    total = least_costs(before, tried // k) + least_costs(after, (count - tried) // k)
    for place, cost in zip(tried[::-1].tolist(), total[::-1].tolist(), strict=True):
        if cost < best and both_diverse(problem, rows[order], place):
            best, at = cost, place
    return at, best


@jit(forceinline=True, allocates=False)
def cut_in_turn(problem, own, rows, local, order, keys, costs, tally, bits, best):
    """Return position and cost of the best cut of the sorted records along an axis; position 0 if none is below."""
    values, weights, set_start, trees = own.values, own.weights, own.set_start, problem.trees
    count, k, at, axis = len(keys), problem.k, 0, own.axis[local]
    is_set, is_cell = is_category(problem, axis), local < own.bounds.shape[1]
    checked = is_checked(problem)
    open_tally(tally, bits, own.bounds)
    for position in range(1, count - k + 1):
        add(tally, bits, values, weights, set_start, trees, order[position - 1])
        costs[position] = np.inf
        if may_cut(keys, k, position, is_set):
            if is_cell:
                tally[HIGH, local] = cut_faces(problem.faces, axis, keys[position - 1], keys[position])[0]
            costs[position] = least_cost(tally, set_start, position // k, best)
    open_tally(tally, bits, own.bounds)
    for position in range(count - 1, k - 1, -1):
        add(tally, bits, values, weights, set_start, trees, order[position])
        if position > count - k or costs[position] >= best:
            continue
        if is_cell:
            tally[LOW, local] = cut_faces(problem.faces, axis, keys[position - 1], keys[position])[1]
        cost = costs[position] + least_cost(tally, set_start, (count - position) // k, best - costs[position])
        if cost < best and (not checked or both_diverse_in_order(problem, rows, order, position)):
            best, at = cost, position
    return at, best


@jit(forceinline=True, allocates=False, plain=_cut_along_with_arrays)
def cut_along(problem, own, rows, local, order, keys, costs, tally, bits, best):
    """Return position and cost of the best cut of the sorted records along an axis; position 0 if none is below."""
    return cut_in_turn(problem, own, rows, local, order, keys, costs, tally, bits, best)


@jit
def fine_cut(problem, rows, keys, costs, best_rows, tally, bits, bounds):
    """Cut a small cell: try all cuts along the leading axes, order ``rows`` by the best; position 0 if none helps."""
    count = len(rows)
    open_tally(tally, bits, bounds)
    add_all(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, rows)
    pressures = pressures_of(tally, problem.set_start)
    own = active_axes(problem, rows, pressures, bounds)
    orders = np.empty((2, count), np.int64)
    tally = np.empty((ROWS, len(own.axis)))
    at, chosen = best_cut(problem, own, rows, leading(pressures, LEADING), orders, keys, costs, tally, bits)
    if chosen >= 0:
        for place in range(count):
            best_rows[place] = rows[orders[1, place]]
        copy_to(rows, best_rows)
    return at, chosen


@jit(allocates=False)
def best_cut(problem, own, rows, tried, orders, keys, costs, tally, bits):
    """Write the order of the rows by the best cut to ``orders[1]``; return its position and axis, −1 if none helps."""
    order, best_order = orders[0], orders[1]
    for place in range(len(order)):
        order[place] = place
    best, chosen, at = np.inf, -1, 0
    for local in range(len(own.axis)):
        axis = own.axis[local]
        if not tried[axis]:
            continue
        for place in range(len(order)):
            keys[place] = own.values[order[place], local]
        sort(keys, order)
        if has_tree(problem.trees, axis):
            commonest_first(problem.trees, axis, keys, order)
        position, cost = cut_along(problem, own, rows, local, order, keys, costs, tally, bits, best)
        if position > 0:
            best, chosen, at = cost, axis, position
            copy_to(best_order, order)
    return at, chosen


@jit
def next_cut(problem, rows, keys, costs, best_rows, tally, bits, bounds):
    """Cut a cell: order ``rows`` and return position and axis of the cut; position 0 if no cut helps or is allowed."""
    if problem.median or len(rows) > problem.lookahead * problem.k:
        position, axis = coarse_cut(problem, rows, keys, tally, bits, bounds)
        if axis < 0 or (position and both_diverse(problem, rows, position)):
            return position, axis
    return fine_cut(problem, rows, keys, costs, best_rows, tally, bits, bounds)


@jit(
    work=lambda problem, order, begins, cuts, bounds, first, last, enough: (
        80.0 * (last - first) * problem.values.shape[1]
    ),
    seconds=8.0,
)
def split(problem, order, begins, cuts, bounds, first, last, enough):
    """Cut the cell order[first:last] down to cells of at most ``enough`` records, or to leaves.

    Reorders ``order`` so that cells are contiguous, marks their first places in ``begins``, and records in ``cuts`` (if
    it has rows) axis, value and range of each cut, at the place where its second side begins. ``bounds`` are the lower
    and upper faces of the cell, if boxes are cells; without columns, the widths are those of the records.
    """
    axes = problem.values.shape[1]
    tally, bits = np.empty((ROWS, axes)), np.empty(problem.set_words, np.uint64)
    keys, costs = np.empty(last - first), np.empty(last - first + 1)
    best_rows = np.empty(last - first, order.dtype)
    stack = [(first, last, bounds)]
    while len(stack) > 0:
        first, last, bounds = stack.pop()
        count = last - first
        begins[first] = True
        if count < 2 * problem.k or count <= enough:
            continue
        rows = order[first:last]
        position, axis = next_cut(problem, rows, keys[:count], costs, best_rows[:count], tally, bits, bounds)
        if position == 0:
            continue
        if len(cuts) > 0:
            note_cut(problem, rows, cuts, first, last, position, axis)
        below, above = divided(problem, rows, bounds, position, axis)
        stack.append((first, first + position, below))
        stack.append((first + position, last, above))


@jit
def divided(problem, rows, bounds, position, axis):
    """Return the bounds of both sides of a cut; those of hulls have no columns."""
    if axis >= bounds.shape[1]:
        return bounds, bounds
    below, above = bounds.copy(), bounds.copy()
    left, right = beside(problem, rows, position, axis)
    below[1, axis], above[0, axis] = cut_faces(problem.faces, axis, left, right)
    return below, above


@jit(allocates=False)
def beside(problem, rows, position, axis):
    """Return the largest value before a cut and the smallest after it."""
    left, right = -np.inf, np.inf
    for row in rows[:position]:
        left = max(left, problem.values[row, axis])
    for row in rows[position:]:
        right = min(right, problem.values[row, axis])
    return left, right


@jit(allocates=False)
def note_cut(problem, rows, cuts, first, last, position, axis):
    """Record a cut half-way between the two sides."""
    left, right = beside(problem, rows, position, axis)
    cut = cuts[first + position]
    cut[0], cut[1], cut[2], cut[3] = axis, 0.5 * (left + right), first, last
