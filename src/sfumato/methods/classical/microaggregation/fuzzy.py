"""Groups by fuzzy c-means, clustered again until they are small (Domingo-Ferrer and Torra 2003).

Fuzzy c-means minimises Σ_i Σ_c u_ic^m ‖x_i − v_c‖² over centres v and memberships u that sum to 1 for each row. Rows
join the cluster of their largest membership. Clusters of fewer than k rows are dissolved, clusters of 2k rows or more
are clustered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLUSTERS = 8  # largest number of clusters of one step
ROUNDS = 20  # updates of centres and memberships
FUZZINESS = 1.5  # m: 1 is k-means, and the larger, the more all rows belong to all clusters


def fuzzy_groups(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the group of each row: groups of at least k rows, mostly fewer than 2k."""
    labels, groups = np.zeros(len(matrix), dtype=np.int64), 0
    pending = [np.arange(len(matrix))]
    while pending:
        rows = pending.pop()
        parts = _parts(matrix[rows], k, generator) if len(rows) >= 2 * k else [np.arange(len(rows))]
        if len(parts) > 1:
            pending += [rows[part] for part in parts]
        else:
            labels[rows] = groups
            groups += 1
    return labels


def _parts(matrix: NDArray[np.float64], k: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Divide at least 2k rows into clusters of at least k; two halves along the widest axis if there is one only."""
    count = min(CLUSTERS, len(matrix) // k)
    centres = matrix[generator.choice(len(matrix), count, replace=False)]
    for _ in range(ROUNDS):
        weights = _memberships(matrix, centres) ** FUZZINESS
        centres = (weights.T @ matrix) / weights.sum(axis=0)[:, None]
    shares = _memberships(matrix, centres)
    while True:
        nearest = shares.argmax(axis=1)
        sizes = np.bincount(nearest, minlength=shares.shape[1])
        small = np.flatnonzero(sizes < k)
        if not small.size or shares.shape[1] == 1:
            break
        shares = np.delete(shares, small[np.argmin(sizes[small])], axis=1)
    if shares.shape[1] > 1:
        return [np.flatnonzero(nearest == cluster) for cluster in range(shares.shape[1])]
    order = np.argsort(matrix[:, int(np.argmax(matrix.var(axis=0)))], kind="stable")
    return [order[: len(order) // 2], order[len(order) // 2 :]]


def _memberships(matrix: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return u_ic ∝ ‖x_i − v_c‖^(−2/(m − 1)); a row at a centre belongs to it alone, or to all centres there."""
    squared = ((matrix[:, None, :] - centres) ** 2).sum(axis=2)
    nearest = squared.min(axis=1, keepdims=True)
    ratio = np.where(squared > nearest, nearest / np.where(squared > 0.0, squared, 1.0), 1.0)
    weights = ratio ** (1.0 / (FUZZINESS - 1.0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
