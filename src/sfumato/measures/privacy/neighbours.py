"""Nearest rows in tables of any size: exact if that is affordable, else approximate with a measured recall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import Neighbours, nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT_PAIRS = 2 * 10**10  # largest number of pairs for an exact search: some minutes on two processors
CELL_ROWS = 1000  # average number of points per cell
PROBED = 24  # cells that are searched for each query
LEARNT_ROWS = 50_000  # points to which the cells are fitted
CHECKED = 200  # queries whose neighbours are also found exactly, to measure the recall


@dataclass(frozen=True, repr=False)
class FoundNeighbours:
    """Neighbours, and the share of the true neighbours that were found (1 if the search was exact)."""

    neighbours: Neighbours
    recall: float


def find(
    queries: NDArray[np.float64], points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> FoundNeighbours:
    """Return the ``k`` nearest points of each query, exactly if that is not too much work."""
    if len(queries) * len(points) <= EXACT_PAIRS:
        return FoundNeighbours(nearest(queries, points, k), 1.0)
    return find_in_cells(queries, points, k, generator)


def find_in_cells(
    queries: NDArray[np.float64], points: NDArray[np.float64], k: int, generator: np.random.Generator
) -> FoundNeighbours:
    """Search only the cells nearest to the query's cell; cells are given by k-means centres.

    The queries of one cell have the same candidates, so each cell needs one exact search among few points.
    """
    centres = _centres(points, generator)
    members = _members(nearest(points, centres, 1).index[:, 0], len(centres))
    asking_in = _members(nearest(queries, centres, 1).index[:, 0], len(centres))
    probed = nearest(centres, centres, min(PROBED, len(centres))).index
    distance, index = np.full((len(queries), k), np.inf), np.full((len(queries), k), -1, dtype=np.int64)
    for cell, asking in enumerate(asking_in):
        if asking.size:
            candidates = np.concatenate([members[other] for other in probed[cell]])
            part = nearest(queries[asking], points[candidates], k)
            distance[asking] = part.distance
            index[asking] = np.where(part.index >= 0, candidates[part.index], -1)
    return FoundNeighbours(Neighbours(distance, index), _recall(queries, points, index, generator))


def _centres(points: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    from sklearn.cluster import MiniBatchKMeans

    cells = max(2, len(points) // CELL_ROWS)
    learnt = points if len(points) <= LEARNT_ROWS else points[generator.choice(len(points), LEARNT_ROWS, replace=False)]
    model = MiniBatchKMeans(cells, batch_size=4096, n_init=1, max_iter=20, random_state=int(generator.integers(2**31)))
    return np.asarray(model.fit(learnt).cluster_centers_)


def _members(cell: NDArray[np.int64], cells: int) -> list[NDArray[np.int64]]:
    return np.split(np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=cells))[:-1])


def _recall(
    queries: NDArray[np.float64], points: NDArray[np.float64], index: NDArray[np.int64], generator: np.random.Generator
) -> float:
    """Return the share of the true neighbours of a few random queries that were found."""
    checked = generator.choice(len(queries), min(CHECKED, len(queries)), replace=False)
    true = nearest(queries[checked], points, index.shape[1]).index
    return float((true[:, :, None] == index[checked][:, None, :]).any(axis=2).mean())
