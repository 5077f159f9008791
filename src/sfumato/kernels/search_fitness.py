"""The cost of a box in a search: a weighted sum of its widths, and a second-order part that the widths do not include.

The uncertainty of a mean is linear in the widths of the boxes. That of a variance or a correlation is not: its upper
end is attained at certain moments (E, S), and near them it increases by the average over the records of the largest
value of a quadratic form on their boxes (XK §V). The exact width is therefore a sum over boxes of the largest values of
forms, and a search can track it as cheaply as the first-order width.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.covering import covering_width, has_tree
from sfumato.kernels.jit import jit
from sfumato.kernels.partition import PartitionProblem


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
    )


@jit
def fitness_of(fitness, rows):
    """Return the fitness for some of the records."""
    return Fitness(fitness.weights[rows], fitness.sampling[rows], fitness.offset[rows], fitness.columns, fitness.forms)
