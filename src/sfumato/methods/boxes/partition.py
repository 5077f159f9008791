"""The partition of the space into boxes of at least k records: the kernel, run on all cores."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.leaves import Leaves

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.kernels.faces import CellFaces
    from sfumato.kernels.partition import PartitionProblem
    from sfumato.methods.boxes.axes import Axes
    from sfumato.methods.boxes.diversity import Protected

SHARE = 6  # cells per core, so that no core waits long for the others
NEAR, FAR = 8, 32  # a cell of fewer than this × k records tries every cut; small tables use the larger look-ahead
NEAR_NODES = 4  # the same where axes have trees, whose reachable cost is harder to foresee
EFFORT = 40_000_000  # limit of rows × axes² × look-ahead


def partition(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    *,
    k: int,
    protected: Protected,
    median: bool,
    note_cuts: bool,
    faces: CellFaces | None = None,
) -> Leaves:
    """Return boxes of at least k records with a small weighted sum of widths; deterministic.

    The widths are those of the records or, if ``faces`` are given, those of the cells. The median rule uses the records
    in any case.
    """
    from sfumato.kernels.faces import whole_space

    rows = len(values)
    line = None if median else _only_axis(values, weights, axes, protected)
    if line is not None and rows >= k:
        return _along_line(values[:, line], weights[:, line], line, k, note_cuts=note_cuts, faces=faces)
    problem = problem_of(values, weights, axes, k=k, protected=protected, median=median, faces=faces)
    if axes.have_trees and not (median or note_cuts):
        from sfumato.methods.boxes.tree_partition import partition_by_trees

        return partition_by_trees(problem)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    cuts = np.empty((rows if note_cuts else 0, 4))
    cores = os.cpu_count() or 1
    whole = whole_space(problem.faces) if faces is not None and not median else np.empty((2, 0))
    split = _splitter(problem, protected, are_plain_hulls=faces is None and not axes.have_trees)
    split(order, begins, cuts, whole, 0, rows, max(rows // (SHARE * cores), problem.lookahead * k))
    parts = Leaves(order, np.append(np.flatnonzero(begins), rows), cuts)
    bounds = cell_bounds(problem, parts, whole)
    with ThreadPoolExecutor(cores) as pool:
        ends = pairwise(parts.starts.tolist())
        list(pool.map(lambda part, ends: split(order, begins, cuts, part, *ends, 0), bounds, ends))
    return Leaves(order, np.append(np.flatnonzero(begins), rows), cuts)


def _splitter(problem: PartitionProblem, protected: Protected, *, are_plain_hulls: bool) -> Callable[..., None]:
    """Return the kernel that cuts a cell: if hulls must be diverse, the one that takes this into account."""
    from sfumato.kernels import diverse_partition, partition

    if protected.is_needed and are_plain_hulls and not problem.median:
        return functools.partial(diverse_partition.split, diverse_partition.DiverseProblem(problem, protected.apart))
    return functools.partial(partition.split, problem)


def cell_bounds(problem: PartitionProblem, leaves: Leaves, whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the lower and upper faces of each box, (boxes, 2, numeric axes), given those of the whole space.

    Without columns in ``whole`` boxes are hulls, and the result has no columns either.
    """
    from sfumato.kernels.faces import cells

    found: NDArray[np.float64] = cells(problem.faces, problem.values, leaves.order, leaves.starts, leaves.cuts, whole)
    return found


def _only_axis(
    values: NDArray[np.float64], weights: NDArray[np.float32], axes: Axes, protected: Protected
) -> int | None:
    """Return the only axis that causes cost, if it is numeric and boxes need no diversity; None otherwise."""
    if axes.have_trees or protected.is_needed:
        return None
    costly = (axis for axis in range(values.shape[1]) if weights[:, axis].any() and np.ptp(values[:, axis]) > 0.0)
    first, second = next(costly, None), next(costly, None)  # two are enough to know: the others are not looked at
    return first if second is None and first is not None and first < len(axes.numbers) else None


def _along_line(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axis: int,
    k: int,
    *,
    note_cuts: bool,
    faces: CellFaces | None,
) -> Leaves:
    """Return the cheapest boxes along one axis."""
    from sfumato.kernels.faces import line_faces
    from sfumato.kernels.line_partition import cheapest_ends, note_line_cuts

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    lower, upper = (ordered, ordered) if faces is None else line_faces(faces, axis, ordered)
    starts = np.concatenate([[0], cheapest_ends(lower, upper, weights[order].astype(np.float64), k)])
    cuts = np.empty((len(order) if note_cuts else 0, 4))
    if note_cuts:
        note_line_cuts(ordered, starts, axis, cuts)
    return Leaves(order, starts, cuts)


def problem_of(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    *,
    k: int,
    protected: Protected,
    median: bool = False,
    faces: CellFaces | None = None,
) -> PartitionProblem:
    """Return the input of the kernels."""
    from sfumato.kernels.covering import trees_of
    from sfumato.kernels.faces import HULLS
    from sfumato.kernels.partition import PartitionProblem

    sizes = np.array([axis.size for axis in axes.sets if axis.steps is None], dtype=np.int64)
    return PartitionProblem(
        values=values,
        weights=weights,
        set_start=np.cumsum(sizes) - sizes,
        set_words=int(sizes.sum()) // 64 + 1,
        scale=np.array([axis.extent for axis in axes.all]),
        protected=protected.values,
        separation=protected.separation,
        k=k,
        l=protected.l,
        lookahead=NEAR_NODES
        if axes.have_trees
        else int(np.clip(EFFORT // (len(values) * len(axes.all) ** 2), NEAR, FAR)),
        median=median,
        trees=trees_of([axis.steps for axis in axes.all]),
        faces=HULLS if faces is None else faces,
    )
