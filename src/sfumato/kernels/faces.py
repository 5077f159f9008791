"""The faces of boxes: at their records, or at the cuts between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit
from sfumato.kernels.sorting import largest, smallest


@jit
def hulls(values, order, starts):
    """Return the smallest and largest value of each column in each leaf."""
    leaves, axes = len(starts) - 1, values.shape[1]
    low, high = np.full((leaves, axes), np.inf), np.full((leaves, axes), -np.inf)
    for leaf in range(leaves):
        for place in range(starts[leaf], starts[leaf + 1]):
            for axis in range(axes):
                value = values[order[place], axis]
                low[leaf, axis] = min(low[leaf, axis], value)
                high[leaf, axis] = max(high[leaf, axis], value)
    return low, high


class CellFaces(NamedTuple):
    """Where boxes may end along each numeric axis, if they are cells; see ``methods.boxes.cell_faces``.

    All arrays but ``offset`` and ``first_number`` have one entry per value that occurs, axis by axis in increasing
    order: axis i has the entries offset[i] to offset[i + 1]. They are empty if boxes are hulls.
    """

    offset: NDArray[np.int64]
    first_number: NDArray[np.int64]  # for each axis, 1 if its first value stands for missing numbers, else 0
    support: NDArray[np.float64]  # the values
    upper: NDArray[np.float64]  # upper face of a box that ends with the value
    lower: NDArray[np.float64]  # lower face of a box that begins with the value
    split_upper: NDArray[np.float64]  # the same, if the records that share the value are in both boxes
    split_lower: NDArray[np.float64]


HULLS = CellFaces(np.zeros(1, np.int64), np.empty(0, np.int64), *(np.empty(0) for _ in range(5)))


@jit
def cut_faces(faces, axis, left, right):
    """Return the upper face of one side and the lower face of the other, given the values next to the cut."""
    first, last = faces.offset[axis], faces.offset[axis + 1]
    support = faces.support[first:last]
    before = np.searchsorted(support, left)
    if left == right:
        return faces.split_upper[first + before], faces.split_lower[first + before]
    place = before
    if before >= faces.first_number[axis]:  # a cut beside missing numbers leaves all numbers to the other side
        middle = np.searchsorted(support, 0.5 * left + 0.5 * right, side="right") - 1
        place = max(before, min(middle, np.searchsorted(support, right) - 1))
    return faces.upper[first + place], faces.lower[first + place + 1]


@jit
def line_faces(faces, axis, ordered):
    """Return the lower face of a box that begins with each sorted value, and the upper face of one that ends there."""
    count = len(ordered)
    lower, upper = np.empty(count), np.empty(count)
    first, last = faces.offset[axis], faces.offset[axis + 1]
    lower[0], upper[count - 1] = faces.lower[first], faces.upper[last - 1]
    for place in range(1, count):
        upper[place - 1], lower[place] = cut_faces(faces, axis, ordered[place - 1], ordered[place])
    return lower, upper


@jit
def whole_space(faces):
    """Return the lower and the upper face of the whole space, one column per axis."""
    axes = len(faces.offset) - 1
    bounds = np.empty((2, axes))
    for axis in range(axes):
        bounds[0, axis] = faces.lower[faces.offset[axis]]
        bounds[1, axis] = faces.upper[faces.offset[axis + 1] - 1]
    return bounds


@jit
def smallest_faces(faces):
    """Return the smallest face of a number along each axis; missing numbers are below it."""
    axes = len(faces.offset) - 1
    smallest = np.empty(axes)
    for axis in range(axes):
        place = faces.offset[axis] + faces.first_number[axis]
        smallest[axis] = faces.lower[min(place, faces.offset[axis + 1] - 1)]
    return smallest


@jit
def cells(faces, values, order, starts, cuts, bounds):
    """Return the lower and upper faces of leaves that subdivide a space with these bounds, (leaves, 2, axes).

    Each cut divides the space of the leaves on its sides. The numeric axes come first; a cut between categories does
    not change their faces. Without columns in ``bounds``, boxes are hulls and nothing is computed.
    """
    axes = bounds.shape[1]
    found = np.empty((len(starts) - 1, 2, axes))
    found[:] = bounds
    if axes == 0:
        return found
    low, high = hulls(values[:, :axes], order, starts)
    for leaf in range(1, len(starts) - 1):
        cut = cuts[starts[leaf]]
        axis = int(cut[0])
        if axis >= axes:
            continue
        first, last = np.searchsorted(starts, cut[2]), np.searchsorted(starts, cut[3])
        upper, lower = cut_faces(faces, axis, largest(high[first:leaf, axis]), smallest(low[leaf:last, axis]))
        for other in range(first, leaf):
            found[other, 1, axis] = min(found[other, 1, axis], upper)
        for other in range(leaf, last):
            found[other, 0, axis] = max(found[other, 0, axis], lower)
    return found
