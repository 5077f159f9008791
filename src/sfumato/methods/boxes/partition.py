"""Cut the space into boxes of at least k records: the kernel, on all cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.axes import Axes, SetAxis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.boxes.diversity import Protected

CELL = 16_384  # records in the cells that are handed to the cores
FAR, NEAR = 32, 16  # how many × k records a cell may hold to try every cut; large tables afford less
MANY = 200_000  # rows of a large table


@dataclass(frozen=True, repr=False)
class Leaves:
    """The boxes, as runs of rows: box g holds the rows order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    cuts: NDArray[np.float64]  # axis, value, first and last place of the cut at which a box starts; empty if not noted

    @property
    def count(self) -> int:
        """Number of boxes."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records in each box."""
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
    """Boxes of at least k records with a small weighted sum of widths; the same for the same input."""
    from sfumato.kernels import partition as kernel

    rows = len(values)
    sizes = np.array([axis.size if isinstance(axis, SetAxis) else 0 for axis in axes.all], dtype=np.int64)
    ends = np.cumsum(sizes)
    problem = kernel.Problem(
        values=values,
        weights=weights,
        set_start=np.where(sizes > 0, ends - sizes, -1),
        set_words=int(ends[-1]) // 64 + 1 if len(ends) else 1,
        scale=np.array([axis.extent for axis in axes.all]),
        protected=protected.values,
        separation=protected.separation,
        k=k,
        l=protected.l,
        lookahead=FAR if rows <= MANY else NEAR,
        median=median,
    )
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    cuts = np.empty((rows if note_cuts else 0, 4))
    kernel.split(problem, order, begins, cuts, 0, rows, CELL)
    starts = np.append(np.flatnonzero(begins), rows)
    cores = os.cpu_count() or 1
    shares = np.linspace(0, len(starts) - 1, min(len(starts) - 1, 8 * cores) + 1).astype(int)
    with ThreadPoolExecutor(cores) as pool:
        jobs = [
            pool.submit(kernel.split_cells, problem, order, begins, cuts, starts, first, last)
            for first, last in zip(shares[:-1], shares[1:], strict=True)
        ]
        for job in jobs:
            job.result()
    return Leaves(order, np.append(np.flatnonzero(begins), rows), cuts)
