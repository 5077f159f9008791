"""Trees of cuts that are improved by cutting parts of them again; the boxes remain a subdivision.

A part is the cell of an inner node with everything below it. It is cut with randomly changed weights, so that different
cuts are the most promising each time, and the results of these are compared by their true cost.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to
from sfumato.methods.boxes.cut_kernels import cells, whole_space
from sfumato.methods.boxes.search_branch_kernels import (
    box_cost,
    empty_branch,
    fitness_of,
    lay_best,
    problem_of,
    shift_cuts,
)

MOST = 32  # a part that is cut again has at most this × 2k records
SHAKE = 1.0  # largest standard deviation of the logarithm of a changed weight
TILT = 0.3  # part of it that is common to all records
WAYS = 40.0  # approximate largest number of ways to cut a part that are followed to the end
BROADEST = 8  # largest number of cuts of a cell that are followed
EFFORT = 400  # largest number of visits per record of a part, on average: about 40 ways × 10 levels


@jit
def runs_cost(problem, fitness, order, begins, spaces):
    """Return the cost of all boxes of a run of records; ``begins`` marks their first places, with their ``spaces``."""
    faces, bits = np.empty((2, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    total, first = 0.0, 0
    for last in range(1, len(order) + 1):
        if last == len(order) or begins[last]:
            total += box_cost(problem, fitness, order[first:last], faces, bits, spaces[first])
            first = last
    return total


@jit
def spaces_of(problem, order, begins, cuts, bounds):
    """Return the lower and upper faces of each box, at its first place, (places, 2, axes); no axes for hulls."""
    spaces = np.empty((len(order), 2, bounds.shape[1]))
    if bounds.shape[1] > 0:
        starts = np.append(np.flatnonzero(begins), len(order))
        found = cells(problem.faces, problem.values, order, starts, cuts, bounds)
        for box in range(len(found)):
            spaces[starts[box]] = found[box]
    return spaces


@jit
def space_around(begins, spaces):
    """Return the lower and upper faces of the cell that some boxes fill."""
    bounds = spaces[0].copy()
    for place in np.flatnonzero(begins):
        bounds[0] = np.minimum(bounds[0], spaces[place, 0])
        bounds[1] = np.maximum(bounds[1], spaces[place, 1])
    return bounds


@jit
def cut_around(cuts, first, last):
    """Return the place of the cut that made a cell: its beginning if it is the second side, its end if the first."""
    return first if first > 0 and cuts[first, 3] == last else last


@jit
def outer_cell(begins, cuts, place, most):
    """Return the largest cell around a record's place with at most ``most`` records, as first and last place.

    It is a single box if the next larger cell has too many records.
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
    """Return the weights, each multiplied by a random factor of random spread."""
    shake = SHAKE * generator.random()
    out = weights.copy()
    for axis in range(weights.shape[1]):
        tilt = TILT * shake * generator.standard_normal()
        for row in range(len(weights)):
            out[row, axis] *= np.float64(math.exp(tilt + shake * generator.standard_normal()))
    return out


@jit
def breadth_of(boxes, generator):
    """Return how many cuts of each cell to follow in a part of this many boxes: random, and few if the part is deep."""
    depth = max(math.log2(0.5 * boxes), 1.0)  # levels above the cells that end in two boxes
    return 1 + int(generator.random() * min(0.5 * WAYS ** (1.0 / depth), BROADEST))


@jit(work=lambda *_: np.inf)
def recut(problem, fitness, order, begins, cuts, parts, generator):
    """Cut up to ``parts`` parts of a tree again, in place; a part that does not become cheaper is left as it is."""
    records = len(order)
    spaces = spaces_of(problem, order, begins, cuts, whole_space(problem.faces))
    for _ in range(parts):
        most = 2.0 * problem.k * math.exp(generator.random() * math.log(MOST))
        first, last = outer_cell(begins, cuts, int(generator.random() * records), most)
        count = last - first
        if count < 2 * problem.k:
            continue
        rows = order[first:last].copy()
        part = problem_of(problem, rows, shaken(problem.weights[rows], generator))
        judged, branch = fitness_of(fitness, rows), empty_branch(count)
        before = runs_cost(part, judged, np.arange(count), begins[first:last], spaces[first:last])
        bounds = space_around(begins[first:last], spaces[first:last])
        breadth = breadth_of(count / problem.k, generator)
        effort = np.array([EFFORT * count])
        # false also if the cost is not a number, and then there is no branch
        if not lay_best(part, judged, np.arange(count), breadth, generator, before, branch, effort, bounds) < before:
            continue
        found = spaces_of(part, branch.order, branch.begins, branch.cuts, bounds)
        if runs_cost(part, judged, branch.order, branch.begins, found) < before:  # cheaper, and not only by rounding
            copy_to(spaces[first:last], found)
            copy_to(order[first:last], rows[branch.order])
            copy_to(begins[first:last], branch.begins)
            shift_cuts(branch.cuts, first)
            copy_to(cuts[first + 1 : last], branch.cuts[1:])  # the cut at ``first`` made the part: it is not inside


@jit
def signatures(order):
    """Return a number for every place; equal differences mean equal sets of records, except with probability 2⁻⁶⁴."""
    total = np.zeros(len(order) + 1, np.uint64)
    for place in range(len(order)):
        mixed = np.uint64(order[place] + 1) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total[place + 1] = total[place] + (mixed ^ (mixed >> np.uint64(31)))
    return total


@jit
def inner_cut(begins, cuts, first, last):
    """Return the place of the cut that divides a cell; ``last`` if it is a single box."""
    for place in range(first + 1, last):
        if begins[place] and cuts[place, 2] == first and cuts[place, 3] == last:
            return place
    return last


@jit
def cross_trees(problem, fitness, order, begins, cuts, other_order, other_begins, other_cuts):
    """Copy the cheaper branches of the other tree, in place.

    The trees are compared cell by cell, from the root down, as long as both have the same records in the same cells.
    Only whole branches are copied, so that k and ℓ still hold.
    """
    own, others = signatures(order), signatures(other_order)
    whole = whole_space(problem.faces)
    spaces = spaces_of(problem, order, begins, cuts, whole)
    other_spaces = spaces_of(problem, other_order, other_begins, other_cuts, whole)
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
        cost = runs_cost(problem, fitness, order[first:last], begins[first:last], spaces[first:last])
        other_run = other_order[first:last], other_begins[first:last], other_spaces[first:last]
        if runs_cost(problem, fitness, *other_run) < cost:
            copy_to(order[first:last], other_order[first:last])
            copy_to(begins[first:last], other_begins[first:last])
            copy_to(cuts[first + 1 : last], other_cuts[first + 1 : last])
