"""The partition of a table with columns that are cut by their trees: cuts, then a second look at the costly boxes.

Splitting off the children of a node leaves records over whose children are too few for a box. They remain at the
node, in boxes that cost more than others. The records of the costliest boxes are therefore partitioned once more, all
together: records that were left over in different cells often fit together.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.leaves import Leaves

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.partition import PartitionProblem

CELL = 12  # a cell of at most this × k records is cut to the end in several ways
BREADTH = 2  # number of axes whose commonest child is tried in each cell
TREE_EFFORT = 100_000_000  # limit of records visited × axes², within the following numbers of visits per record
LEAST_VISITS, MOST_VISITS = 8, 60
COSTLY = (0.6, 0.8)  # quantiles of the cost per record from which on boxes are partitioned again, one after the other


def partition_by_trees(problem: PartitionProblem) -> Leaves:
    """Return boxes of at least k records with a small weighted sum of widths; deterministic."""
    leaves = _cut(problem)
    costs = _costs(problem, leaves)
    for quantile in COSTLY:
        per_record = costs / leaves.sizes
        costly = per_record > np.quantile(np.repeat(per_record, leaves.sizes), quantile)
        if costly.sum() < 2:
            break
        rows = leaves.order[np.repeat(costly, leaves.sizes)]
        part = _part(problem, rows)
        again = _cut(part)
        new_costs = _costs(part, again)
        if new_costs.sum() < costs[costly].sum():
            order = np.concatenate([leaves.order[np.repeat(~costly, leaves.sizes)], rows[again.order]])
            sizes = np.concatenate([leaves.sizes[~costly], again.sizes])
            leaves = Leaves(order, np.concatenate([[0], np.cumsum(sizes)]), np.empty((0, 4)))
            costs = np.concatenate([costs[~costly], new_costs])
    return leaves


def _cut(problem: PartitionProblem) -> Leaves:
    """Cut all records: greedily down to small cells, and each of these in the best of several ways."""
    from sfumato.kernels.node_branches import follow
    from sfumato.kernels.partition import split

    rows, axes = problem.values.shape
    order, begins = np.arange(rows), np.zeros(rows, dtype=np.bool_)
    split(problem, order, begins, np.empty((0, 4)), np.empty((2, 0)), 0, rows, CELL * problem.k)
    visits = int(np.clip(TREE_EFFORT // (rows * axes**2), LEAST_VISITS, MOST_VISITS))

    def finish(cell: tuple[int, int]) -> None:
        first, last = cell
        effort = np.array([visits * (last - first)])
        follow(problem, order[first:last], begins[first:last], BREADTH, np.inf, effort)

    cells = np.append(np.flatnonzero(begins), rows).tolist()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(finish, pairwise(cells)))
    return Leaves(order, np.append(np.flatnonzero(begins), rows), np.empty((0, 4)))


def _costs(problem: PartitionProblem, leaves: Leaves) -> NDArray[np.float64]:
    from sfumato.kernels.node_branches import costs_of

    costs: NDArray[np.float64] = costs_of(problem, leaves.order, leaves.starts)
    return costs


def _part(problem: PartitionProblem, rows: NDArray[np.int64]) -> PartitionProblem:
    return problem._replace(
        values=problem.values[rows], weights=problem.weights[rows], protected=problem.protected[rows]
    )
