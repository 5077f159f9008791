"""Trees of cuts that are bettered by cutting parts of them anew: the boxes stay a subdivision.

A part is the cell of an inner node with all below it. It is cut by *shaken* weights, so that other cuts promise most
each time, and what comes of the most promising ones is judged by the true cost.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.search_branches import empty_branch, lay_best
from sfumato.kernels.search_fitness import box_cost, fitness_of, problem_of

MOST = 32  # a part is cut anew if it holds at most this × 2k records
SHAKE = 1.0  # largest standard deviation of the logarithm of a shaken weight
TILT = 0.3  # part of it that all records share
WAYS = 40.0  # ways to cut a part that are followed to the end at most, or nearly so
BROADEST = 8  # cuts of a cell that are followed at most
EFFORT = 400  # times that a record of a part may be looked at, on average; some 40 ways × 10 levels


@jit
def runs_cost(problem, fitness, order, begins):
    """The cost of all boxes of a run of records; ``begins`` marks their first places."""
    faces, bits = np.empty((2, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    total, first = 0.0, 0
    for last in range(1, len(order) + 1):
        if last == len(order) or begins[last]:
            total += box_cost(problem, fitness, order[first:last], faces, bits)
            first = last
    return total


@jit
def cut_around(cuts, first, last):
    """The place of the cut that made a cell: where it begins if it is the second side, where it ends if the first."""
    return first if first > 0 and cuts[first, 3] == last else last


@jit
def outer_cell(begins, cuts, place, most):
    """The largest cell around a record's place with at most ``most`` records, as first and last place.

    It is a single box where the next cell is larger already.
    """
    first, last = place, place + 1
    while not begins[first]:
        first -= 1
    while last < len(begins) and not begins[last]:
        last += 1
    while last - first < len(begins):
        cut = cuts[cut_around(cuts, first, last)]
        if cut[3] - cut[2] > most:
            break
        first, last = int(cut[2]), int(cut[3])
    return first, last


@jit
def shaken(weights, generator):
    """The weights, each multiplied by chance, by a little or much."""
    shake = SHAKE * generator.random()
    out = weights.copy()
    for axis in range(weights.shape[1]):
        tilt = TILT * shake * generator.standard_normal()
        for row in range(len(weights)):
            out[row, axis] *= np.exp(tilt + shake * generator.standard_normal())
    return out


@jit
def breadth_of(boxes, generator):
    """How many cuts of each cell to follow in a part of so many boxes: few where it is deep, at random up to that."""
    depth = max(np.log2(0.5 * boxes), 1.0)  # levels above the cells that end in two boxes
    return 1 + int(generator.random() * min(0.5 * WAYS ** (1.0 / depth), BROADEST))


@jit
def recut(problem, fitness, order, begins, cuts, parts, generator):
    """Cut up to ``parts`` parts of a tree anew, in place; a part that becomes no cheaper stays as it is."""
    records = len(order)
    for _ in range(parts):
        most = 2.0 * problem.k * np.exp(generator.random() * np.log(MOST))
        first, last = outer_cell(begins, cuts, int(generator.random() * records), most)
        count = last - first
        if count < 2 * problem.k:
            continue
        rows = order[first:last].copy()
        part = problem_of(problem, rows, shaken(problem.weights[rows], generator))
        judged, branch = fitness_of(fitness, rows), empty_branch(count)
        before = runs_cost(part, judged, np.arange(count), begins[first:last])
        breadth = breadth_of(count / problem.k, generator)
        effort = np.array([EFFORT * count])
        if lay_best(part, judged, np.arange(count), breadth, generator, before, branch, effort) >= before:
            continue
        if runs_cost(part, judged, branch.order, branch.begins) < before:  # and not only by rounding
            order[first:last], begins[first:last] = rows[branch.order], branch.begins
            branch.cuts[:, 2:] += first
            cuts[first + 1 : last] = branch.cuts[1:]  # the cut at ``first`` made the part and is not its own


@jit
def signatures(order):
    """A number for every place, so that equal differences mean (but for a chance of 2⁻⁶⁴) equal sets of records."""
    total = np.zeros(len(order) + 1, np.uint64)
    for place in range(len(order)):
        mixed = np.uint64(order[place] + 1) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total[place + 1] = total[place] + (mixed ^ (mixed >> np.uint64(31)))
    return total


@jit
def inner_cut(begins, cuts, first, last):
    """The place of the cut that divides a cell; ``last`` where it is a single box."""
    for place in range(first + 1, last):
        if begins[place] and cuts[place, 2] == first and cuts[place, 3] == last:
            return place
    return last


@jit
def cross_trees(problem, fitness, order, begins, cuts, other_order, other_begins, other_cuts):
    """Take over, in place, what the other tree has cut more cheaply.

    The two are held against each other cell by cell, from the root down, as long as both have the same records in the
    same cells; so what is taken is a whole branch, and boxes, k and ℓ stay as they were in one of them.
    """
    own, others = signatures(order), signatures(other_order)
    stack = [(0, len(order))]
    while len(stack) > 0:
        first, last = stack.pop()
        cut = inner_cut(begins, cuts, first, last)
        other_cut = inner_cut(other_begins, other_cuts, first, last)
        if cut == other_cut and own[cut] - own[first] == others[cut] - others[first]:
            if cut < last:
                stack.append((first, cut))
                stack.append((cut, last))
            continue
        cost = runs_cost(problem, fitness, order[first:last], begins[first:last])
        if runs_cost(problem, fitness, other_order[first:last], other_begins[first:last]) < cost:
            order[first:last], begins[first:last] = other_order[first:last], other_begins[first:last]
            cuts[first + 1 : last] = other_cuts[first + 1 : last]
