"""The partition of the space into boxes of at least k records: the kernel, run on all cores."""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.kernels.partition import PartitionProblem
    from sfumato.methods.boxes.axes import Axes
    from sfumato.methods.boxes.diversity import Protected

SHARE = 6  # cells per core, so that no core waits long for the others
NEAR, FAR = 8, 32  # a cell of fewer than this × k records tries every cut; small tables use the larger look-ahead
EFFORT = 40_000_000  # limit of rows × axes² × look-ahead


@dataclass(frozen=True, repr=False)
class Leaves:
    """The boxes, as runs of rows: box g contains the rows order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    cuts: NDArray[np.float64]  # axis, value, first and last place of the cut where a box starts; empty if not recorded

    @property
    def count(self) -> int:
        """Number of boxes."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of records in each box."""
        return np.diff(self.starts)


def partition(
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    axes: Axes,
    *,
    k: int,
    protected: Protected,
    median: bool,
    note_cuts: bool,
) -> Leaves:
    """Return boxes of at least k records with a small weighted sum of widths; deterministic."""
    rows = len(values)
    line = None if median else _only_axis(values, weights, axes, protected)
    if line is not None and rows >= k:
        return _along_line(values[:, line], weights[:, line], line, k, note_cuts=note_cuts)
    problem = problem_of(values, weights, axes, k=k, protected=protected, median=median)
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    cuts = np.empty((rows if note_cuts else 0, 4))
    cores = os.cpu_count() or 1
    split = _splitter(problem, protected)
    split(order, begins, cuts, 0, rows, max(rows // (SHARE * cores), problem.lookahead * k))
    cells = np.append(np.flatnonzero(begins), rows).tolist()
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda cell: split(order, begins, cuts, *cell, 0), pairwise(cells)))
    return Leaves(order, np.append(np.flatnonzero(begins), rows), cuts)


def _splitter(problem: PartitionProblem, protected: Protected) -> Callable[..., None]:
    """Return the kernel that cuts a cell: if boxes must be diverse, the one that takes this into account."""
    from sfumato.kernels import diverse_partition, partition

    if protected.is_needed and not problem.median:
        return functools.partial(diverse_partition.split, diverse_partition.DiverseProblem(problem, protected.apart))
    return functools.partial(partition.split, problem)


def _only_axis(
    values: NDArray[np.float64], weights: NDArray[np.float32], axes: Axes, protected: Protected
) -> int | None:
    """Return the only axis that causes cost, if it is numeric and boxes need no diversity; None otherwise."""
    if protected.is_needed:
        return None
    costly = (axis for axis in range(values.shape[1]) if weights[:, axis].any() and np.ptp(values[:, axis]) > 0.0)
    first, second = next(costly, None), next(costly, None)  # two are enough to know: the others are not looked at
    return first if second is None and first is not None and first < len(axes.numbers) else None


def _along_line(
    values: NDArray[np.float64], weights: NDArray[np.float32], axis: int, k: int, *, note_cuts: bool
) -> Leaves:
    """Return the cheapest boxes along one axis."""
    from sfumato.kernels.line_partition import cheapest_ends, note_line_cuts

    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.concatenate([[0], cheapest_ends(ordered, weights[order].astype(np.float64), k)])
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
) -> PartitionProblem:
    """Return the input of the kernels."""
    from sfumato.kernels.partition import PartitionProblem

    sizes = np.array([axis.size for axis in axes.sets], dtype=np.int64)
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
        lookahead=int(np.clip(EFFORT // (len(values) * len(axes.all) ** 2), NEAR, FAR)),
        median=median,
    )
