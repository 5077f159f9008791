"""The best way found to cut a small part of a tree: several cuts of each cell are followed to the end.

The greedy kernel takes the cut that promises most. Here the few most promising ones are taken in turn, each with all
that follows from it, and the true cost of the boxes decides; a cell that ends in two boxes tries every cut there is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.partition import both_diverse, may_cut, note_cut, sort
from sfumato.kernels.search_fitness import box_cost, highest
from sfumato.kernels.tally import HIGH, LOW, WEIGHT, add, clear, least_cost, width

ANYWHERE = 0.1  # how often cuts are not held to multiples of k, so that a part may end in fewer boxes
NOISE = 0.1  # the promise of a cut is raised by up to this share, so that equals come in any order


class Branch(NamedTuple):
    """A run of boxes and the cuts between them, as ``kernels.partition.split`` lays them."""

    order: NDArray[np.int64]
    begins: NDArray[np.bool_]
    cuts: NDArray[np.float64]


@jit
def empty_branch(records):
    """Room for so many records."""
    return Branch(np.empty(records, np.int64), np.zeros(records, np.bool_), np.zeros((records, 4)))


@jit
def side(branch, first, last):
    """The part of a branch between two places, to be written into; its cuts count from its own first place."""
    return Branch(branch.order[first:last], branch.begins[first:last], branch.cuts[first:last])


@jit
def lay_one(problem, fitness, rows, branch):
    """Lay one box; its cost."""
    branch.order[:], branch.begins[:] = rows, False
    branch.begins[0] = True
    return box_cost(
        problem, fitness, rows, np.empty((2, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    )


@jit
def sort_along(values, rows, axis, own, keys):
    """Put the rows into ``own`` and their values along an axis into ``keys``, sorted; always alike where values are."""
    for place in range(len(rows)):
        own[place] = rows[place]
        keys[place] = values[rows[place], axis]
    sort(keys, own)


@jit
def growing_costs(problem, fitness, rows, tally, bits, costs):
    """The cost of a box around the first 1, 2, … of the rows, as far as a box of two may grow."""
    clear(tally, bits)
    total_weight, at_records = 0.0, 0.0
    for place in range(len(rows) - problem.k):
        row = rows[place]
        add(tally, bits, problem.values, fitness.weights, problem.set_start, row)
        cost = 0.0
        for axis in range(tally.shape[1]):
            cost += tally[WEIGHT, axis] * width(tally, problem.set_start, axis)
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
def lay_two(problem, fitness, rows, branch):
    """Lay the two cheapest boxes that any cut makes of the rows, or one where none is allowed; their cost."""
    count, axes, k = len(rows), problem.values.shape[1], problem.k
    tally, bits = np.empty((5, axes)), np.empty(problem.set_words, np.uint64)
    own, keys, left, right = np.empty_like(rows), np.empty(count), np.empty(count + 1), np.empty(count + 1)
    best, chosen, at = np.inf, -1, 0
    for axis in range(axes):
        sort_along(problem.values, rows, axis, own, keys)
        if keys[0] == keys[count - 1]:
            continue
        growing_costs(problem, fitness, own, tally, bits, left)
        growing_costs(problem, fitness, own[::-1], tally, bits, right)
        for position in range(k, count - k + 1):
            cost = left[position] + right[count - position]
            if cost < best and both_diverse(problem, own, position):
                best, chosen, at = cost, axis, position
                branch.order[:] = own
    if chosen < 0:
        return lay_one(problem, fitness, rows, branch)
    branch.begins[:] = False
    branch.begins[0] = branch.begins[at] = True
    note_cut(problem, branch.order, branch.cuts, 0, count, at, chosen)
    return best


@jit
def promising_cuts(problem, rows, generator, axis_of, place_of):
    """Fill in the cuts with the least cost that boxes could reach on both sides, best first; how many there are."""
    values, weights, set_start, k = problem.values, problem.weights, problem.set_start, problem.k
    count, axes, breadth = len(rows), values.shape[1], len(axis_of)
    tally, bits = np.empty((5, axes)), np.empty(problem.set_words, np.uint64)
    own, keys, costs = np.empty_like(rows), np.empty(count), np.empty(count + 1)
    promise, found = np.full(breadth, np.inf), 0
    anywhere = generator.random() < ANYWHERE
    for axis in range(axes):
        sort_along(values, rows, axis, own, keys)
        if keys[0] == keys[count - 1]:
            continue
        clear(tally, bits)
        for position in range(1, count - k + 1):
            add(tally, bits, values, weights, set_start, own[position - 1])
            costs[position] = np.inf
            if (anywhere and position >= k) or may_cut(keys, k, position, axis >= axes - len(set_start)):
                costs[position] = least_cost(tally, set_start, position // k)
        clear(tally, bits)
        for position in range(count - 1, k - 1, -1):
            add(tally, bits, values, weights, set_start, own[position])
            if position > count - k or costs[position] >= promise[breadth - 1]:
                continue
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
def lay_best(problem, fitness, rows, breadth, generator, enough, branch, effort):
    """Lay the cheapest boxes found when ``breadth`` cuts of every cell are followed; their cost.

    What cannot cost less than ``enough`` is left early; the branch is then of no use, and the cost infinite. The
    weights of the problem say what promises much, the fitness what it comes to. ``effort[0]`` is the number of records
    that may still be looked at: when it is spent, only the best cut of a cell is followed. Without it, ties that make
    cuts very uneven would make the work grow with the breadth to the power of the number of boxes.
    """
    count = len(rows)
    effort[0] -= count
    if count < 2 * problem.k:
        return lay_one(problem, fitness, rows, branch)
    if count < 3 * problem.k:
        return lay_two(problem, fitness, rows, branch)
    axis_of, place_of = np.empty(breadth, np.int64), np.empty(breadth, np.int64)
    found = promising_cuts(problem, rows, generator, axis_of, place_of)
    if found == 0:
        return lay_one(problem, fitness, rows, branch)
    own, keys, tried, best = np.empty_like(rows), np.empty(count), empty_branch(count), enough
    for number in range(found):
        if number > 0 and effort[0] <= 0:
            break
        place = place_of[number]
        sort_along(problem.values, rows, axis_of[number], own, keys)
        left, right = side(tried, 0, place), side(tried, place, count)
        cost = lay_best(problem, fitness, own[:place], breadth, generator, best, left, effort)
        if cost < best:
            cost += lay_best(problem, fitness, own[place:], breadth, generator, best - cost, right, effort)
        if cost < best:
            best = cost
            right.cuts[:, 2:] += place
            note_cut(problem, own, tried.cuts, 0, count, place, axis_of[number])
            branch.order[:], branch.begins[:], branch.cuts[:] = tried.order, tried.begins, tried.cuts
    return best if best < enough else np.inf
