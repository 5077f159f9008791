"""How far the distribution of a sensitive column in each group is from its distribution in the table.

Every function returns one number per group, from 0 (the group is like the table); the largest one is that of the
table. The distances are the earth mover's distances of t-closeness (Li, Li, Venkatasubramanian 2007, §3.3): equal,
ordered and hierarchical. p is the share of a value in the group, and q its share in the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.disclosure.sensitive_counts import SensitiveCounts
    from sfumato.schema.hierarchy import Tree


def equal_distances(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return ½ Σ |p − q|, the distance if all values are equally far apart; from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.disclosure.sensitive_counts import SensitiveCounts
    >>> groups, values = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    >>> equal_distances(SensitiveCounts.of(groups, values, 2)).tolist()  # q = ¾, ¼
    [0.25, 0.25]
    """
    more = np.maximum(counts.shares - counts.overall[counts.value], 0.0)  # what is more than q equals what is less
    return _summed(counts, more)


def ordered_distances(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return Σᵢ |P(i) − Q(i)| / (m − 1) of the cumulative shares of m ordered values; from 0 to 1.

    A value that differs from another by one rank is 1/(m − 1) away from it; only values that occur in the table count.

    Between two values that a group has, its P is constant and Q increases, so that the sum has two parts, which prefix
    sums of Q give: the work grows with the pairs that occur, not with groups times values.
    """
    occurring = np.flatnonzero(counts.totals)
    m = len(occurring)
    if m < 2:
        return np.zeros(len(counts.starts))
    below = np.cumsum(counts.overall[occurring])
    summed = np.concatenate([[0.0], np.cumsum(below)])
    first = np.searchsorted(occurring, counts.value)
    last = np.append(first[1:], m)
    ends = np.append(counts.starts[1:], len(first)) - 1
    last[ends] = m
    rows = np.cumsum(counts.count)
    reached = (rows - (rows - counts.count)[counts.starts][counts.group]) / counts.sizes[counts.group]
    crossing = np.clip(np.searchsorted(below, reached), first, last)
    gaps = reached * (2 * crossing - first - last) + summed[first] + summed[last] - 2.0 * summed[crossing]
    return np.asarray((_summed(counts, gaps) + summed[first[counts.starts]]) / (m - 1))


def tree_distances(counts: SensitiveCounts, leaves: NDArray[np.int64], tree: Tree) -> NDArray[np.float64]:
    """Return the hierarchical distance: values whose lowest common node is on level h of H are h/H apart; 0 to 1.

    ``leaves`` are the positions of the values among the leaves of the tree, −1 for a missing value, which only the root
    covers. At every node, what one child has too much covers what another child has too little of, at the price of the
    node's level.
    """
    order = np.lexsort((leaves[counts.value], counts.group))
    group, value, share = counts.group[order], counts.value[order], counts.shares[order]
    distances, top = np.zeros(len(counts.starts)), tree.levels - 1
    node, overall = _nodes(tree, 0, leaves), counts.overall
    here, shares = node[value], share
    for level in range(1, tree.levels):
        more = np.maximum(shares - np.bincount(node, weights=overall)[here], 0.0)
        parent_of = np.zeros(int(node.max()) + 1, dtype=np.int64)
        above = _nodes(tree, level, leaves)
        parent_of[node] = above
        parent = parent_of[here]
        starts = np.flatnonzero((np.diff(group, prepend=-1) != 0) | (np.diff(parent, prepend=-1) != 0))
        more, shares = np.add.reduceat(more, starts), np.add.reduceat(shares, starts)
        group, here, node = group[starts], parent[starts], above
        less = more - (shares - np.bincount(node, weights=overall)[here])
        distances += np.bincount(group, weights=np.minimum(more, less) * level / top, minlength=len(distances))
    return distances


def basic_beta(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return max (p − q)/q, at least 0: basic β-likeness holds if it is at most β (Cao and Karras 2012)."""
    return np.maximum.reduceat(np.maximum(_gains(counts), 0.0), counts.starts)


def enhanced_beta(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return the smallest β of enhanced β-likeness, (p − q)/q ≤ min(β, −ln q); infinite if no β suffices."""
    gains = _gains(counts)
    allowed = -np.log(counts.overall[counts.value])
    fitting = np.where(gains <= allowed * (1.0 + 1e-12) + 1e-12, np.maximum(gains, 0.0), np.inf)
    return np.maximum.reduceat(fitting, counts.starts)


def disclosure_delta(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return max |ln(p/q)| over the values that occur in the group: δ-disclosure privacy holds if it is below δ.

    A value that does not occur in a group (p = 0) is left out, because otherwise every small group would have an
    infinite δ (Brickell and Shmatikov 2008).
    """
    return np.maximum.reduceat(np.abs(np.log(counts.shares / counts.overall[counts.value])), counts.starts)


def _gains(counts: SensitiveCounts) -> NDArray[np.float64]:
    return np.asarray(counts.shares / counts.overall[counts.value] - 1.0)


def _summed(counts: SensitiveCounts, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.add.reduceat(terms, counts.starts))


def _nodes(tree: Tree, level: int, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the node of each leaf on a level; a missing value (−1) has a node of its own below the root."""
    nodes = np.searchsorted(tree.starts[level], leaves, side="right") - 1
    return np.where(leaves < 0, 0 if level == tree.levels - 1 else len(tree.names[level]), nodes)
