"""The cost of a box in a search, and the search for the best cuts of a small part of a tree.

The uncertainty of a mean is linear in the widths of the boxes. That of a variance or a correlation is not: its upper
end is attained at certain moments (E, S), and near them it increases by the average over the records of the largest
value of a quadratic form on their boxes (XK §V). The exact width is therefore a sum over boxes of the largest values of
forms, and a search can track it as cheaply as the first-order width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import copy_to
from sfumato.methods.boxes.cut_kernels import cut_faces, may_cut, sort_along
from sfumato.methods.boxes.partition_kernels import (
    PartitionProblem,
    both_diverse,
    divided,
    is_category,
    note_cut,
    open_tally,
)
from sfumato.methods.boxes.tally_kernels import (
    HIGH,
    LOW,
    ROWS,
    WEIGHT,
    add,
    covering_width,
    has_tree,
    least_cost,
    width,
)


class Fitness(NamedTuple):
    """The cost of boxes: Σ_i (Σ_p a_i) · width_i + Σ_p sampling · Σ_forms (largest on the box − at the record)."""

    weights: NDArray[np.float32]  # a_i of each record, for the part that is linear in the widths
    sampling: NDArray[np.float64]  # sampling weight of each record
    offset: NDArray[np.float64]  # sampling × the sum of all forms at the record itself
    columns: NDArray[np.int64]  # the two numeric axes of each form; the same axis twice if it has one
    forms: NDArray[np.float64]  # centre x, y and coefficients 1, x, y, x², xy, y² about it


@jit
def highest_on_line(constant, slope, bend, low, high):
    """Return the largest value of constant + slope·t + bend·t² for t from ``low`` to ``high``."""
    best = max(constant + low * (slope + bend * low), constant + high * (slope + bend * high))
    if bend < 0.0 and 2.0 * bend * high < -slope < 2.0 * bend * low:
        best = constant - 0.25 * slope * slope / bend
    return best


@jit
def highest(form, low_x, high_x, low_y, high_y):
    """Return the largest value of a quadratic form on a rectangle: on its sides, or inside if the form is concave."""
    low_x, high_x, low_y, high_y = low_x - form[0], high_x - form[0], low_y - form[1], high_y - form[1]
    one, x, y, xx, xy, yy = form[2], form[3], form[4], form[5], form[6], form[7]
    best = -np.inf
    for at in (low_y, high_y):
        best = max(best, highest_on_line(one + at * (y + yy * at), x + xy * at, xx, low_x, high_x))
    for at in (low_x, high_x):
        best = max(best, highest_on_line(one + at * (x + xx * at), y + xy * at, yy, low_y, high_y))
    bend = 4.0 * xx * yy - xy * xy
    if xx < 0.0 and bend > 0.0:
        top_x, top_y = (xy * y - 2.0 * yy * x) / bend, (xy * x - 2.0 * xx * y) / bend
        if low_x < top_x < high_x and low_y < top_y < high_y:
            best = max(best, one + 0.5 * (x * top_x + y * top_y))
    return best


@jit
def cost_of_widths(values, weights, numbers, trees, rows, faces, bounds):
    """Return the part of the axes with an order; write the faces of the box to ``faces`` (2, axes).

    They are those of the records or, if boxes are cells, the given ``bounds``.
    """
    total = 0.0
    for axis in range(numbers):
        low = values[rows[0], axis]
        high = low
        weight = np.float64(0.0)
        for place in range(len(rows)):
            value = values[rows[place], axis]
            low = min(low, value)
            high = max(high, value)
            weight += weights[rows[place], axis]
        if axis < bounds.shape[1]:
            low, high = bounds[0, axis], bounds[1, axis]
        faces[0, axis] = low
        faces[1, axis] = high
        total += weight * (covering_width(trees, axis, low, high) if has_tree(trees, axis) else high - low)
    return total


@jit
def cost_of_sets(values, weights, set_start, rows, bits):
    """Return the part of the categorical axes: the width of a set is its number of values − 1."""
    numbers = values.shape[1] - len(set_start)
    total = 0.0
    bits[:] = 0
    for number in range(len(set_start)):
        weight, members = np.float64(0.0), 0
        for place in range(len(rows)):
            row = rows[place]
            bit = set_start[number] + int(values[row, numbers + number])
            mask = np.uint64(1) << np.uint64(bit & 63)
            if bits[bit >> 6] & mask == 0:
                bits[bit >> 6] |= mask
                members += 1
            weight += weights[row, numbers + number]
        total += weight * (members - 1)
    return total


@jit
def cost_of_forms(forms, columns, sampling, offset, rows, faces):
    """Return the part of the quadratic forms, from the faces of the box."""
    weight, at_records, largest = 0.0, 0.0, 0.0
    for place in range(len(rows)):
        weight += sampling[rows[place]]
        at_records += offset[rows[place]]
    for number in range(len(forms)):
        x, y = columns[number, 0], columns[number, 1]
        largest += highest(forms[number], faces[0, x], faces[1, x], faces[0, y], faces[1, y])
    return weight * largest - at_records


@jit
def box_cost(problem, fitness, rows, faces, bits, bounds):
    """Return the cost of a box around these records, or of a cell; ``faces`` and ``bits`` are work arrays."""
    values, weights, set_start = problem.values, fitness.weights, problem.set_start
    total = cost_of_widths(values, weights, values.shape[1] - len(set_start), problem.trees, rows, faces, bounds)
    if len(set_start) > 0:
        total += cost_of_sets(values, weights, set_start, rows, bits)
    if len(fitness.forms) > 0:
        total += cost_of_forms(fitness.forms, fitness.columns, fitness.sampling, fitness.offset, rows, faces)
    return total


@jit
def box_costs(problem, fitness, order, starts):
    """Return the cost of each box around its records, order[starts[g]:starts[g + 1]]."""
    return cell_costs(problem, fitness, order, starts, np.empty((len(starts) - 1, 2, 0)))


@jit
def cell_costs(problem, fitness, order, starts, bounds):
    """Return the cost of each box; ``bounds`` are the faces of the boxes if they are cells, else without columns."""
    faces, bits = np.empty((2, problem.values.shape[1])), np.empty(problem.set_words, np.uint64)
    costs = np.empty(len(starts) - 1)
    for box in range(len(starts) - 1):
        costs[box] = box_cost(problem, fitness, order[starts[box] : starts[box + 1]], faces, bits, bounds[box])
    return costs


@jit
def problem_of(problem, rows, weights):
    """Return the problem for some of the records, with the given weights."""
    return PartitionProblem(
        problem.values[rows],
        weights,
        problem.set_start,
        problem.set_words,
        problem.scale,
        problem.protected[rows],
        problem.separation,
        problem.k,
        problem.l,
        problem.lookahead,
        problem.median,
        problem.faces,
        problem.trees,
        problem.people[rows] if len(problem.people) > 0 else problem.people,
    )


@jit
def fitness_of(fitness, rows):
    """Return the fitness for some of the records."""
    return Fitness(fitness.weights[rows], fitness.sampling[rows], fitness.offset[rows], fitness.columns, fitness.forms)


# A search for the best cuts of a small part of a tree: several cuts of each cell are followed to the end.
#
# The greedy kernel takes the most promising cut. Here the few most promising cuts are tried one after the other, each
# with all further cuts, and the true cost of the boxes decides. A cell that ends in two boxes tries every possible
# cut. ``bounds`` are the lower and upper faces of the cell along the numeric axes; without columns, boxes are hulls.


ANYWHERE = 0.1  # share of cells that are cut at any position, not only at multiples of k, and may get fewer boxes
NOISE = 0.1  # largest relative noise of the estimated cost of a cut, so that similar cuts are tried in random order


class CutBranch(NamedTuple):
    """A run of boxes and the cuts between them, in the format of ``partition_kernels.split``."""

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
def shift_cuts(cuts, places):
    """Let the places of some cuts begin later."""
    for cut in range(len(cuts)):
        cuts[cut, 2] += places
        cuts[cut, 3] += places


@jit
def lay_one(problem, fitness, rows, branch, bounds):
    """Make one box of the rows; return its cost."""
    copy_to(branch.order, rows)
    branch.begins[:] = False
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
                copy_to(branch.order, own)
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
                costs[position] = least_cost(tally, set_start, position // k, promise[breadth - 1])
        open_tally(tally, bits, bounds)
        for position in range(count - 1, k - 1, -1):
            add(tally, bits, values, weights, set_start, problem.trees, own[position])
            if position > count - k or costs[position] >= promise[breadth - 1]:
                continue
            if is_cell:
                tally[LOW, axis] = cut_faces(problem.faces, axis, keys[position - 1], keys[position])[1]
            limit = promise[breadth - 1] - costs[position]
            cost = costs[position] + least_cost(tally, set_start, (count - position) // k, limit)
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
            shift_cuts(right.cuts, place)
            note_cut(problem, own, tried.cuts, 0, count, place, axis_of[number])
            copy_to(branch.order, tried.order)
            copy_to(branch.begins, tried.begins)
            copy_to(branch.cuts, tried.cuts)
    return best if best < enough else np.inf
