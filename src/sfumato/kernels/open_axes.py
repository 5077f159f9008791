"""The records of a small cell along the axes on which they differ, copied so that they lie together in memory.

In a table of many columns the records of a small cell are equal in most of them, for example in amounts that are
mostly zero. Such an axis has no pressure in the cell, and none in any part of it, so it adds exactly 0 to every cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit


class ActiveAxes(NamedTuple):
    """A part of a problem: some records and some axes."""

    axis: NDArray[np.int64]  # number of each axis in the problem
    values: NDArray[np.float64]  # (records, axes)
    weights: NDArray[np.float32]
    set_start: NDArray[np.int64]  # of the axes that are sets, which come last
    bounds: NDArray[np.float64]  # faces of the cell along the first axes, if boxes are cells


@jit
def active_axes(problem, rows, pressures, bounds):
    """Return the records along the axes with pressure; along all axes if some have trees, which are known by number."""
    numbers = problem.values.shape[1] - len(problem.set_start)
    is_active = pressures > 0.0
    if len(problem.trees.start) > 0:
        is_active[:] = True
    axis = np.flatnonzero(is_active)
    active_numbers, active_faces = 0, 0  # axes with trees are numbers, and have no faces
    for one in axis:
        active_numbers += one < numbers
        active_faces += one < bounds.shape[1]
    values = np.empty((len(rows), len(axis)))
    weights = np.empty((len(rows), len(axis)), np.float32)
    for place in range(len(rows)):
        row = rows[place]
        for local in range(len(axis)):
            values[place, local] = problem.values[row, axis[local]]
            weights[place, local] = problem.weights[row, axis[local]]
    set_start = np.empty(len(axis) - active_numbers, np.int64)
    for local in range(len(set_start)):
        set_start[local] = problem.set_start[axis[active_numbers + local] - numbers]
    faces = np.empty((2, active_faces))
    for local in range(faces.shape[1]):
        faces[0, local], faces[1, local] = bounds[0, axis[local]], bounds[1, axis[local]]
    return ActiveAxes(axis, values, weights, set_start, faces)
