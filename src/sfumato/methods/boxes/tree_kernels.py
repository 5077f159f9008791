"""A small cell with trees, cut to the end: several promising cuts of each cell are followed, and the true cost decides.

The width of a node falls in jumps, so the cost that a cell can reach is hard to estimate. It is cheaper to try.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to
from sfumato.methods.boxes.cut_kernels import child_gain, move_child_before
from sfumato.methods.boxes.partition_kernels import both_diverse, next_cut
from sfumato.methods.boxes.tally_kernels import ROWS, WEIGHT, add, clear, has_tree, width


@jit
def promising_children(problem, rows, axis_of, low_of, high_of):
    """Fill in the children that save most per bit, one per axis and the best first; return their number."""
    promise, found = np.full(len(axis_of), -np.inf), 0
    for axis in range(problem.values.shape[1]):
        if not has_tree(problem.trees, axis):
            continue
        gain, low, high = child_gain(problem.values, problem.weights, problem.trees, axis, rows, problem.k)
        if gain <= 0.0 or gain <= promise[-1]:
            continue
        rank = len(axis_of) - 1
        while rank > 0 and promise[rank - 1] < gain:
            promise[rank], axis_of[rank] = promise[rank - 1], axis_of[rank - 1]
            low_of[rank], high_of[rank] = low_of[rank - 1], high_of[rank - 1]
            rank -= 1
        promise[rank], axis_of[rank], low_of[rank], high_of[rank] = gain, axis, low, high
        found = min(found + 1, len(axis_of))
    return found


@jit
def one_box(problem, rows, begins, tally, bits):
    """Make one box of the rows; return its cost."""
    begins[:] = False
    begins[0] = True
    clear(tally, bits)
    for row in rows:
        add(tally, bits, problem.values, problem.weights, problem.set_start, problem.trees, row)
    total = 0.0
    for axis in range(tally.shape[1]):
        total += tally[WEIGHT, axis] * width(tally, problem.set_start, axis)
    return total


@jit
def costs_of(problem, order, starts):
    """Return the cost of each box; box g contains the records order[starts[g]:starts[g + 1]]."""
    tally, bits = np.empty((ROWS, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    costs, begins = np.empty(len(starts) - 1), np.empty(len(order), np.bool_)
    for box in range(len(costs)):
        rows = order[starts[box] : starts[box + 1]]
        costs[box] = one_box(problem, rows, begins[: len(rows)], tally, bits)
    return costs


@jit
def split_off(problem, rows, keys, axis, low, high):
    """Move a child to the front; return the position of the cut, 0 if it is not allowed."""
    for place in range(len(rows)):
        keys[place] = problem.values[rows[place], axis]
    position = move_child_before(keys, rows, low, high)
    if min(position, len(rows) - position) < problem.k or not both_diverse(problem, rows, position):
        return 0
    return position


@jit(
    work=lambda problem, rows, begins, breadth, enough, effort: 20.0 * effort[0] * problem.values.shape[1], seconds=4.0
)
def follow(problem, rows, begins, breadth, enough, effort):
    """Make the cheapest boxes that are found: reorder the rows, mark in ``begins`` where boxes begin, return the cost.

    In each cell the greedy cut is tried first, and then up to ``breadth`` children are split off in turn. Boxes that
    cannot cost less than ``enough`` are abandoned; the cost is then infinite and the rows are unchanged. ``effort[0]``
    is the number of records that may still be visited. When it is used up, only the greedy cut of each cell is tried.
    """
    count = len(rows)
    effort[0] -= count
    tally, bits = np.empty((ROWS, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    if count < 2 * problem.k:
        return one_box(problem, rows, begins, tally, bits)
    own, keys, costs, spare = rows.copy(), np.empty(count), np.empty(count + 1), np.empty_like(rows)
    position, axis = next_cut(problem, own, keys, costs, spare, tally, bits, np.empty((2, 0)))
    if position == 0:
        return one_box(problem, rows, begins, tally, bits)
    start, tried, best = rows.copy(), np.empty(count, np.bool_), enough
    axis_of, low_of, high_of = np.empty(breadth, np.int64), np.empty(breadth), np.empty(breadth)
    found = promising_children(problem, rows, axis_of, low_of, high_of) if effort[0] > 0 else 0
    for number in range(found + 1):
        if number > 0:
            if effort[0] <= 0 or best <= 0.0:
                break
            if axis_of[number - 1] == axis and count > problem.lookahead * problem.k:
                continue  # the same child that the greedy cut splits off
            copy_to(own, start)
            position = split_off(problem, own, keys, axis_of[number - 1], low_of[number - 1], high_of[number - 1])
        if position == 0:
            continue
        cost = follow(problem, own[:position], tried[:position], breadth, best, effort)
        if cost < best:
            cost += follow(problem, own[position:], tried[position:], breadth, best - cost, effort)
        if cost < best:
            best = cost
            copy_to(rows, own)
            copy_to(begins, tried)
    return best if best < enough else np.inf
