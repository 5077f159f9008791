"""Groups of at least k rows by clustering: fuzzy c-means, a spanning tree, pairs, and Ward's method (TL §2.3.4).

A spanning tree, pairs and Ward's method need the distances of all pairs of rows. A table of more than ALL_PAIRS rows is
first cut into cells. Groups of 2k rows or more that they leave are divided by MDAV.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Labels = NDArray[np.int64]

ALL_PAIRS = 2000  # largest number of rows of which all distances are computed
CLUSTERS = 8  # largest number of clusters of one step
ROUNDS = 20  # updates of centres and memberships
ROUNDING = 1e-12  # relative: an exchange must save more than rounding errors
FUZZINESS = 1.5  # m: 1 is k-means, and the larger, the more all rows belong to all clusters


def fuzzy_groups(
    matrix: NDArray[np.float64], k: int, generator: np.random.Generator, *, drawn: bool = False
) -> NDArray[np.int64]:
    """Return the group of each row: groups of at least k rows, mostly fewer than 2k.

    Fuzzy c-means minimises Σ_i Σ_c u_ic^m ‖x_i − v_c‖² over centres v and memberships u that sum to 1 for each row.
    Rows join the cluster of their largest membership or, if ``drawn``, one that is drawn with probability u_ic.
    Clusters of fewer than k rows are dissolved, clusters of 2k rows or more are clustered again (Domingo-Ferrer and
    Torra 2003).
    """
    labels, groups = np.zeros(len(matrix), dtype=np.int64), 0
    pending = [np.arange(len(matrix))]
    while pending:
        rows = pending.pop()
        parts = _parts(matrix[rows], k, generator, drawn=drawn) if len(rows) >= 2 * k else [np.arange(len(rows))]
        if len(parts) > 1:
            pending += [rows[part] for part in parts]
        else:
            labels[rows] = groups
            groups += 1
    return labels


def _parts(
    matrix: NDArray[np.float64], k: int, generator: np.random.Generator, *, drawn: bool
) -> list[NDArray[np.int64]]:
    """Divide at least 2k rows into clusters of at least k; two halves along the widest axis if there is one only."""
    count = min(CLUSTERS, len(matrix) // k)
    centres = matrix[generator.choice(len(matrix), count, replace=False)]
    for _ in range(ROUNDS):
        weights = _memberships(matrix, centres) ** FUZZINESS
        centres = (weights.T @ matrix) / weights.sum(axis=0)[:, None]
    shares = _memberships(matrix, centres)
    while True:
        joined = _draw_clusters(shares, generator) if drawn else shares.argmax(axis=1)
        sizes = np.bincount(joined, minlength=shares.shape[1])
        small = np.flatnonzero(sizes < k)
        if not small.size or shares.shape[1] == 1:
            break
        shares = np.delete(shares, small[np.argmin(sizes[small])], axis=1)
    if shares.shape[1] > 1:
        return [np.flatnonzero(joined == cluster) for cluster in range(shares.shape[1])]
    order = np.argsort(matrix[:, int(np.argmax(matrix.var(axis=0)))], kind="stable")
    return [order[: len(order) // 2], order[len(order) // 2 :]]


def _draw_clusters(shares: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw a cluster for each row in proportion to its memberships; one without any joins the first."""
    ends = np.cumsum(shares, axis=1)
    drawn = generator.random((len(shares), 1)) * ends[:, -1:]
    return np.asarray((ends[:, :-1] <= drawn).sum(axis=1) * (ends[:, -1] > 0.0))


def _memberships(matrix: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return u_ic ∝ ‖x_i − v_c‖^(−2/(m − 1)); a row at a centre belongs to it alone, or to all centres there."""
    squared = ((matrix[:, None, :] - centres) ** 2).sum(axis=2)
    nearest = squared.min(axis=1, keepdims=True)
    ratio = np.where(squared > nearest, nearest / np.where(squared > 0.0, squared, 1.0), 1.0)
    weights = ratio ** (1.0 / (FUZZINESS - 1.0))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def in_cells(grouping: Callable[[Matrix, int], Labels], matrix: Matrix, k: int) -> Labels:
    """Apply a grouping to each cell of a large table, and divide what is too large by MDAV."""
    from sfumato.methods.microaggregate.cell_kernels import cut
    from sfumato.methods.microaggregate.mdav_kernels import mdav

    values, order = np.ascontiguousarray(matrix), np.arange(len(matrix))
    starts = cut(values, order, max(ALL_PAIRS, 2 * k))
    labels, used = np.empty(len(matrix), dtype=np.int64), 0
    for cell in np.split(order, starts[1:-1]):
        for group in rows_by_label(grouping(values[cell], k)) if len(cell) >= 2 * k else [np.arange(len(cell))]:
            rows = cell[group]
            own = mdav(values[rows], k) if len(rows) >= 2 * k else np.zeros(len(rows), dtype=np.int64)
            labels[rows] = used + own
            used += int(own.max(initial=-1)) + 1
    return labels


def spanning_tree_groups(matrix: Matrix, k: int) -> Labels:
    """Cut the longest edges of the minimum spanning tree that leave k rows on both sides (Laszlo and Mukherjee 2005).

    The groups are those parts of the tree that no further edge divides; they can be large.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
    from scipy.spatial.distance import cdist

    # one is added because a distance of 0 would be no edge; it does not change which tree is the shortest
    tree = minimum_spanning_tree(csr_array(cdist(matrix, matrix, "sqeuclidean") + 1.0))
    order, parent = breadth_first_order(tree, 0, directed=False)
    length = np.asarray((tree + tree.T)[order[1:], parent[order[1:]]]).reshape(-1)
    below = np.ones(len(matrix), dtype=np.int64)  # rows that hang on a row, with the row itself
    for row in order[:0:-1]:
        below[parent[row]] += below[row]
    parent[order[0]] = -1
    for row in order[1:][np.argsort(-length, kind="stable")]:
        above = [int(parent[row])]
        while parent[above[-1]] >= 0:
            above.append(int(parent[above[-1]]))
        if below[row] >= k and below[above[-1]] - below[row] >= k:
            below[above] -= below[row]
            parent[row] = -1
    label = np.arange(len(matrix))
    for row in order:
        label[row] = row if parent[row] < 0 else label[parent[row]]
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def pair_groups(matrix: Matrix, k: int) -> Labels:
    """Match rows in pairs, then the pairs in pairs, until all groups have k rows (Domingo-Ferrer and others).

    A matching costs the squared error that it adds. It starts from the cheapest pairs and exchanges partners between
    two pairs until no exchange is cheaper. A row without partner joins the group where that adds least.
    """
    labels = np.arange(len(matrix))
    while True:
        sizes = np.bincount(labels).astype(np.float64)
        small = np.flatnonzero(sizes < k)
        if not small.size or len(sizes) == 1:
            return labels
        centres = np.column_stack([np.bincount(labels, weights=column) / sizes for column in matrix.T])
        joined = np.arange(len(sizes))
        if small.size == 1:
            joined[small[0]] = _partner(centres, sizes, int(small[0]), k)[0]
        else:
            cost = np.array([_costs(centres, sizes, int(group), k)[small] for group in small])
            for one, other in _match(cost):
                joined[small[one]] = small[other]
        labels = np.unique(joined[labels], return_inverse=True)[1].astype(np.int64)


def _match(cost: Matrix) -> Labels:
    """Return disjoint pairs of rows of a symmetric matrix of costs, of which no two can be exchanged for less."""
    left, pairs = np.ones(len(cost), dtype=bool), []
    above = np.triu_indices(len(cost), 1)
    for place in np.argsort(cost[above], kind="stable"):
        one, other = above[0][place], above[1][place]
        if left[one] and left[other]:
            left[[one, other]] = False
            pairs.append((one, other))
    first, second = np.array(pairs, dtype=np.int64).T
    improved = True
    while improved:
        improved = False
        for pair in range(len(first)):
            one, other = first[pair], second[pair]
            now = cost[one, other] + cost[first, second]
            ways = np.array([cost[one, first] + cost[other, second], cost[one, second] + cost[other, first]])
            ways[:, pair] = np.inf
            way, partner = np.unravel_index(np.argmin(ways - now), ways.shape)
            if ways[way, partner] < now[partner] * (1.0 - ROUNDING):
                third, fourth = (first[partner], second[partner])[:: 1 if way == 0 else -1]
                first[pair], second[pair], first[partner], second[partner] = one, third, other, fourth
                improved = True
    return np.column_stack([first, second])


def ward_groups(matrix: Matrix, k: int) -> Labels:
    """Join the two groups that add least to the squared error, never two of k rows or more, until all have k rows.

    It starts with the two rows that are farthest apart, each with its nearest k − 1 rows, and all others alone
    (Domingo-Ferrer and Mateo-Sanz 2002).
    """
    labels = _two_extremes(matrix, k)
    sizes = np.bincount(labels).astype(np.float64)
    centres = np.column_stack([np.bincount(labels, weights=column) / sizes for column in matrix.T])
    cheapest = np.full(len(sizes), np.inf)
    partner = np.zeros(len(sizes), dtype=np.int64)
    for group in range(len(sizes)):
        partner[group], cheapest[group] = _partner(centres, sizes, group, k)
    while (sizes[sizes > 0.0] < k).any():
        one = int(np.argmin(cheapest))
        other = int(partner[one])
        total = sizes[one] + sizes[other]
        centres[one] = (sizes[one] * centres[one] + sizes[other] * centres[other]) / total
        sizes[one], sizes[other], cheapest[other] = total, 0.0, np.inf
        labels[labels == other] = one
        stale = np.flatnonzero((sizes > 0.0) & ((partner == one) | (partner == other)))
        for group in (*stale.tolist(), one):
            partner[group], cheapest[group] = _partner(centres, sizes, group, k)
        cost = _costs(centres, sizes, one, k)
        nearer = cost < cheapest
        cheapest[nearer], partner[nearer] = cost[nearer], one
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)


def _two_extremes(matrix: Matrix, k: int) -> Labels:
    """Return groups: the k rows at each of two ends, and every other row by itself."""
    first = int(np.argmax(((matrix - matrix.mean(axis=0)) ** 2).sum(axis=1)))
    apart = ((matrix - matrix[first]) ** 2).sum(axis=1)
    near = np.argsort(apart, kind="stable")[:k]
    left = np.setdiff1d(np.arange(len(matrix)), near)
    last = left[int(np.argmax(apart[left]))]
    others = left[np.argsort(((matrix[left] - matrix[last]) ** 2).sum(axis=1), kind="stable")[:k]]
    label = np.arange(len(matrix))
    label[near], label[others] = near[0], others[0]
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _costs(centres: Matrix, sizes: Matrix, group: int, k: int) -> Matrix:
    """Return the squared error that joining a group with each other one adds; infinite if they must not be joined."""
    apart = ((centres - centres[group]) ** 2).sum(axis=1) * sizes[group] * sizes
    cost = apart / np.maximum(sizes + sizes[group], 1.0)
    cost[(sizes == 0.0) | ((sizes >= k) & (sizes[group] >= k))] = np.inf
    cost[group] = np.inf
    return np.asarray(cost)


def _partner(centres: Matrix, sizes: Matrix, group: int, k: int) -> tuple[int, float]:
    """Return the group that is cheapest to join with, and the cost."""
    cost = _costs(centres, sizes, group, k)
    best = int(np.argmin(cost))
    return best, float(cost[best])
