"""A search for the best cuts of a small part of a tree: several cuts of each cell are followed to the end.

The greedy kernel takes the most promising cut. Here the few most promising cuts are tried one after the other, each
with all further cuts, and the true cost of the boxes decides. A cell that ends in two boxes tries every possible cut.
``bounds`` are the lower and upper faces of the cell along the numeric axes; without columns, boxes are hulls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.faces import cut_faces
from sfumato.kernels.jit import jit
from sfumato.kernels.node_cuts import sort_along
from sfumato.kernels.partition import both_diverse, divided, is_category, may_cut, note_cut, open_tally
from sfumato.kernels.search_fitness import box_cost, highest
from sfumato.kernels.tally import HIGH, LOW, ROWS, WEIGHT, add, least_cost, width

ANYWHERE = 0.1  # share of cells that are cut at any position, not only at multiples of k, and may get fewer boxes
NOISE = 0.1  # largest relative noise of the estimated cost of a cut, so that similar cuts are tried in random order


class CutBranch(NamedTuple):
    """A run of boxes and the cuts between them, in the format of ``kernels.partition.split``."""

    order: NDArray[np.int64]
    begins: NDArray[np.bool_]
    cuts: NDArray[np.float64]


@jit
def empty_branch(records):
    """Return an empty branch with space for this many records."""
    return CutBranch(np.empty(records, np.int64), np.zeros(records, np.bool_), np.zeros((records, 4)))


@jit
def side(branch, first, last):
    """Return a view of a branch between two places; the places of its cuts are relative to its first place."""
    return CutBranch(branch.order[first:last], branch.begins[first:last], branch.cuts[first:last])


@jit
def lay_one(problem, fitness, rows, branch, bounds):
    """Make one box of the rows; return its cost."""
    branch.order[:], branch.begins[:] = rows, False
    branch.begins[0] = True
    faces, bits = np.empty((2, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    return box_cost(problem, fitness, rows, faces, bits, bounds)


@jit
def growing_costs(problem, fitness, rows, keys, axis, tally, bits, bounds, costs):
    """Compute the cost of a box around the first 1, 2, … rows, as long as k rows are left for the other box.

    ``keys`` are the values of the rows along the axis that is cut, increasing or decreasing.
    """
    is_cell, rising = axis < bounds.shape[1], keys[0] < keys[-1]
    open_tally(tally, bits, bounds)
    total_weight, at_records = 0.0, 0.0
    for place in range(len(rows) - problem.k):
        row = rows[place]
        add(tally, bits, problem.values, fitness.weights, problem.set_start, problem.trees, row)
        if is_cell and rising:
            tally[HIGH, axis] = cut_faces(problem.faces, axis, keys[place], keys[place + 1])[0]
        elif is_cell:
            tally[LOW, axis] = cut_faces(problem.faces, axis, keys[place + 1], keys[place])[1]
        cost = 0.0
        for other in range(tally.shape[1]):
            cost += tally[WEIGHT, other] * width(tally, problem.set_start, other)
        if len(fitness.forms) > 0:
            total_weight += fitness.sampling[row]
            at_records += fitness.offset[row]
            for number in range(len(fitness.forms)):
                x, y = fitness.columns[number, 0], fitness.columns[number, 1]
                ends = tally[LOW, x], tally[HIGH, x], tally[LOW, y], tally[HIGH, y]
                cost += total_weight * highest(fitness.forms[number], *ends)
            cost -= at_records
        costs[place + 1] = cost


@jit
def lay_two(problem, fitness, rows, branch, bounds):
    """Make the two cheapest boxes that any cut gives, or one box if no cut is allowed; return their cost."""
    count, axes, k = len(rows), problem.values.shape[1], problem.k
    tally, bits = np.empty((ROWS, axes)), np.empty(problem.set_words, np.uint64)
    own, keys, left, right = np.empty_like(rows), np.empty(count), np.empty(count + 1), np.empty(count + 1)
    best, chosen, at = np.inf, -1, 0
    for axis in range(axes):
        sort_along(problem, rows, axis, own, keys)
        if keys[0] == keys[count - 1]:  # all are equal, also where the commonest come first
            continue
        growing_costs(problem, fitness, own, keys, axis, tally, bits, bounds, left)
        growing_costs(problem, fitness, own[::-1], keys[::-1], axis, tally, bits, bounds, right)
        for position in range(k, count - k + 1):
            cost = left[position] + right[count - position]
            if cost < best and both_diverse(problem, own, position):
                best, chosen, at = cost, axis, position
                branch.order[:] = own
    if chosen < 0:
        return lay_one(problem, fitness, rows, branch, bounds)
    branch.begins[:] = False
    branch.begins[0] = branch.begins[at] = True
    note_cut(problem, branch.order, branch.cuts, 0, count, at, chosen)
    return best


@jit
def promising_cuts(problem, rows, generator, axis_of, place_of, bounds):
    """Fill in the cuts with the smallest cost that boxes could reach on both sides, best first; return their number."""
    values, weights, set_start, k = problem.values, problem.weights, problem.set_start, problem.k
    count, axes, breadth = len(rows), values.shape[1], len(axis_of)
    tally, bits = np.empty((ROWS, axes)), np.empty(problem.set_words, np.uint64)
    own, keys, costs = np.empty_like(rows), np.empty(count), np.empty(count + 1)
    promise, found = np.full(breadth, np.inf), 0
    anywhere = generator.random() < ANYWHERE
    for axis in range(axes):
        sort_along(problem, rows, axis, own, keys)
        if keys[0] == keys[count - 1]:  # all are equal, also where the commonest come first
            continue
        is_cell = axis < bounds.shape[1]
        open_tally(tally, bits, bounds)
        for position in range(1, count - k + 1):
            add(tally, bits, values, weights, set_start, problem.trees, own[position - 1])
            costs[position] = np.inf
            if (anywhere and position >= k) or may_cut(keys, k, position, is_category(problem, axis)):
                if is_cell:
                    tally[HIGH, axis] = cut_faces(problem.faces, axis, keys[position - 1], keys[position])[0]
                costs[position] = least_cost(tally, set_start, position // k)
        open_tally(tally, bits, bounds)
        for position in range(count - 1, k - 1, -1):
            add(tally, bits, values, weights, set_start, problem.trees, own[position])
            if position > count - k or costs[position] >= promise[breadth - 1]:
                continue
            if is_cell:
                tally[LOW, axis] = cut_faces(problem.faces, axis, keys[position - 1], keys[position])[1]
            cost = costs[position] + least_cost(tally, set_start, (count - position) // k)
            cost *= 1.0 + NOISE * generator.random()
            if cost < promise[breadth - 1] and both_diverse(problem, own, position):
                rank = breadth - 1
                while rank > 0 and promise[rank - 1] > cost:
                    promise[rank], axis_of[rank], place_of[rank] = (
                        promise[rank - 1],
                        axis_of[rank - 1],
                        place_of[rank - 1],
                    )
                    rank -= 1
                promise[rank], axis_of[rank], place_of[rank] = cost, axis, position
                found = min(found + 1, breadth)
    return found


@jit
def lay_best(problem, fitness, rows, breadth, generator, enough, branch, effort, bounds):
    """Make the cheapest boxes that are found when ``breadth`` cuts of every cell are followed; return their cost.

    Branches that cannot cost less than ``enough`` are abandoned; the cost is then infinite and the branch invalid. The
    weights of the problem give the estimated cost of a cut, the fitness gives the true cost. ``effort[0]`` is the
    number of records that may still be visited; when it is used up, only the best cut of a cell is followed. Without
    this limit, ties that make cuts very uneven would let the work grow as the breadth to the power of the boxes.
    """
    count = len(rows)
    effort[0] -= count
    if count < 2 * problem.k:
        return lay_one(problem, fitness, rows, branch, bounds)
    if count < 3 * problem.k:
        return lay_two(problem, fitness, rows, branch, bounds)
    axis_of, place_of = np.empty(breadth, np.int64), np.empty(breadth, np.int64)
    found = promising_cuts(problem, rows, generator, axis_of, place_of, bounds)
    if found == 0:
        return lay_one(problem, fitness, rows, branch, bounds)
    own, keys, tried, best = np.empty_like(rows), np.empty(count), empty_branch(count), enough
    for number in range(found):
        if number > 0 and effort[0] <= 0:
            break
        place = place_of[number]
        sort_along(problem, rows, axis_of[number], own, keys)
        left, right = side(tried, 0, place), side(tried, place, count)
        below, above = divided(problem, own, bounds, place, axis_of[number])
        cost = lay_best(problem, fitness, own[:place], breadth, generator, best, left, effort, below)
        if cost < best:
            cost += lay_best(problem, fitness, own[place:], breadth, generator, best - cost, right, effort, above)
        if cost < best:
            best = cost
            right.cuts[:, 2:] += place
            note_cut(problem, own, tried.cuts, 0, count, place, axis_of[number])
            branch.order[:], branch.begins[:], branch.cuts[:] = tried.order, tried.begins, tried.cuts
    return best if best < enough else np.inf
