"""Counts of a sensitive column in each group, and what follows from them: ℓ-diversity and t-closeness.

Only pairs of group and value that occur are listed, so the counts never take more memory than the column. Counts of
several parts of a table can be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.coding import Coded
from sfumato.table.group_counts import members_of
from sfumato.table.groups import GroupKeys, KeyedGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.hierarchies import Tree

DENSE = 8  # up to this number of possible pairs per row, counting all of them is faster than sorting the rows


@dataclass(frozen=True, eq=False, repr=False)
class SensitiveCounts:
    """Number of rows of each pair of group and value; pairs are sorted by group, then by value.

    Groups are numbered 0, 1, …, and each has at least one row. Values are numbered 0, 1, … in their order, if they have
    one.
    """

    group: NDArray[np.int64]  # (pairs,)
    value: NDArray[np.int64]  # (pairs,)
    count: NDArray[np.int64]  # (pairs,), at least 1
    values: int  # number of values, including those that do not occur
    of_table: NDArray[np.int64] | None = None  # rows of each value in the table, if these groups are a share of it

    @classmethod
    def of(
        cls, labels: NDArray[np.int64], codes: NDArray[np.integer], values: int, rows: NDArray[np.int64] | None = None
    ) -> SensitiveCounts:
        """Count the rows of each pair, given dense group labels and the code of each value.

        With ``rows``, each entry stands for that number of rows.
        """
        pairs = labels * values + codes
        possible = (int(labels.max(initial=-1)) + 1) * values
        if possible <= DENSE * len(pairs) + 1024:
            counts = np.bincount(pairs, weights=rows, minlength=possible).astype(np.int64)
            occurring = np.flatnonzero(counts)
            return cls(occurring // values, occurring % values, counts[occurring], values)
        occurring, place = np.unique(pairs, return_inverse=True)
        counts = np.bincount(place, weights=rows).astype(np.int64)
        return cls(occurring // values, occurring % values, counts, values)

    def regrouped(self, labels: NDArray[np.int64]) -> SensitiveCounts:
        """Return the counts after groups were joined, given the new group of each."""
        counts = SensitiveCounts.of(labels[self.group], self.value, self.values, self.count)
        return counts if self.of_table is None else replace(counts, of_table=self.of_table)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Position of the first pair of each group."""
        return np.flatnonzero(np.diff(self.group, prepend=-1))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Number of rows of each group."""
        return np.asarray(np.add.reduceat(self.count, self.starts))

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Number of rows of each value in the table."""
        if self.of_table is not None:
            return self.of_table
        return np.bincount(self.value, weights=self.count, minlength=self.values).astype(np.int64)

    @cached_property
    def shares(self) -> NDArray[np.float64]:
        """Share of the value among the rows of the group, of each pair."""
        return self.count / self.sizes[self.group]

    @cached_property
    def overall(self) -> NDArray[np.float64]:
        """Share of each value among all rows of the table."""
        return self.totals / max(1, int(self.totals.sum()))

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return int(self.count.sum())


@dataclass(frozen=True, eq=False, repr=False)
class KeyedCounts:
    """Counts of one part of a table, whose groups have keys and whose values are known, so that parts can be merged."""

    keys: GroupKeys
    values: pa.Array  # the values that ``counts.value`` refers to; missing is one of them
    counts: SensitiveCounts

    @classmethod
    def of(cls, groups: KeyedGroups, coded: Coded) -> KeyedCounts:
        """Count the values of a coded column in each group."""
        return cls(groups.keys, coded.values, SensitiveCounts.of(groups.labels, coded.codes, coded.size))

    def merge(self, other: KeyedCounts) -> KeyedCounts:
        """Add up the counts of groups with the same key and of equal values."""
        groups = KeyedGroups.of_keys(self.keys.followed_by(other.keys))
        both = pa.concat_arrays([self.values, other.values.cast(self.values.type)])
        coded = both.dictionary_encode(null_encoding="encode")
        place = coded.indices.to_numpy()
        ours, theirs = self.counts, other.counts
        labels = groups.labels[np.concatenate([ours.group, theirs.group + len(self.keys)])]
        codes = place[np.concatenate([ours.value, theirs.value + len(self.values)])]
        rows = np.concatenate([ours.count, theirs.count])
        merged = SensitiveCounts.of(labels, codes, len(coded.dictionary), rows)
        return KeyedCounts(groups.keys, coded.dictionary, merged)

    def split(self, shares: int) -> list[KeyedCounts]:
        """Return the groups of each share."""
        return [self._take(own) for own in self.keys.shares(shares)]

    def _take(self, groups: NDArray[np.int64]) -> KeyedCounts:
        """Return some groups, given in ascending order, so that their pairs stay sorted."""
        counts = self.counts
        kept, place = members_of(groups, counts.group, len(self.keys))
        taken = SensitiveCounts(place, counts.value[kept], counts.count[kept], counts.values)
        return KeyedCounts(self.keys.take(groups), self.values, taken)

    @property
    def totals(self) -> ValueTotals:
        """Number of rows of each value."""
        return ValueTotals(self.values, self.counts.totals)

    def within(self, table: ValueTotals) -> KeyedCounts:
        """Return the same groups, as a share of a table with these values."""
        known = table.values.cast(self.values.type)
        place = pc.index_in(self.values, value_set=known, skip_nulls=False).to_numpy()
        counts = self.counts
        coded = SensitiveCounts.of(counts.group, place[counts.value], len(known), counts.count)
        return KeyedCounts(self.keys, known, replace(coded, of_table=table.counts))

    def in_order(self, order: Sequence[str] = ()) -> SensitiveCounts:
        """Return the counts with values numbered in the given order, or else sorted; a missing value comes last."""
        places = pc.index_in(self.values.cast(pa.string()), pa.array(order, pa.string())) if order else self.values
        rank = np.empty(len(self.values), dtype=np.int64)
        rank[pc.sort_indices(places).to_numpy()] = np.arange(len(self.values))
        counts = self.counts
        ordered = SensitiveCounts.of(counts.group, rank[counts.value], counts.values, counts.count)
        if counts.of_table is None:
            return ordered
        totals = np.empty_like(counts.of_table)
        totals[rank] = counts.of_table
        return replace(ordered, of_table=totals)


@dataclass(frozen=True, eq=False, repr=False)
class ValueTotals:
    """The values of a sensitive column in the whole table, a missing one too, and the rows of each."""

    values: pa.Array
    counts: NDArray[np.int64]

    def merge(self, other: ValueTotals) -> ValueTotals:
        """Return the rows of both."""
        both = pa.concat_arrays([self.values, other.values.cast(self.values.type)])
        coded = both.dictionary_encode(null_encoding="encode")
        rows = np.bincount(coded.indices.to_numpy(), weights=np.concatenate([self.counts, other.counts]))
        return ValueTotals(coded.dictionary, rows.astype(np.int64))


# ℓ-diversity of groups, from counts of a sensitive column in each group (Machanavajjhala et al. 2007).
#
# Every function returns one number per group; the table as a whole is as diverse as its least diverse group.


def distinct_values(counts: SensitiveCounts) -> NDArray[np.int64]:
    """Return the number of different values in each group: distinct ℓ-diversity holds if it is at least ℓ.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.plan.claims.sensitive_groups import SensitiveCounts
    >>> groups, values = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 1, 0, 1, 2, 2])
    >>> distinct_values(SensitiveCounts.of(groups, values, 3)).tolist()
    [2, 3]
    """
    return np.bincount(counts.group)


def effective_values(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return exp(−Σ p ln p) of each group: entropy ℓ-diversity holds if it is at least ℓ.

    It is the number of equally frequent values that would have the same entropy, from 1 to :func:`distinct_values`.
    """
    return np.asarray(np.exp(-np.add.reduceat(counts.shares * np.log(counts.shares), counts.starts)))


def largest_share(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return the share of the most frequent value of each group: (α, k)-anonymity holds if it is at most α."""
    return np.maximum.reduceat(counts.shares, counts.starts)


def recursive_c(counts: SensitiveCounts, l: int) -> NDArray[np.float64]:
    """Return r₁ / (r_ℓ + … + r_m) of each group, where r₁ ≥ … ≥ r_m are the counts of its values.

    Recursive (c, ℓ)-diversity holds if c is greater than this number: the most frequent value is rarer than c times all
    values from the ℓ-th most frequent one on. It is infinite in groups with fewer than ℓ values.
    """
    ratios = np.full(len(counts.starts), np.inf)
    rank, ratio, group = _ratios(counts)
    here = rank == l - 1
    ratios[group[here]] = ratio[here]
    return ratios


def recursive_profile(counts: SensitiveCounts) -> dict[int, float]:
    """Return the largest :func:`recursive_c` of all groups for each ℓ from 2 up to the fewest values of a group."""
    fewest = int(distinct_values(counts).min(initial=counts.values)) if len(counts.starts) else 0
    rank, ratio, _ = _ratios(counts)
    worst = ratio[rank < fewest].reshape(-1, max(1, fewest)).max(axis=0, initial=0.0)
    return {place + 1: float(worst[place]) for place in range(1, fewest)}


def _ratios(counts: SensitiveCounts) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Return rank, r₁ / (r_rank + … + r_m) and group of each pair, by group and from the most frequent value on."""
    order = np.lexsort((-counts.count, counts.group))
    sorted_counts = counts.count[order]
    so_far = np.cumsum(sorted_counts)
    end = np.cumsum(counts.sizes)
    rest = end[counts.group] - so_far + sorted_counts
    rank = np.arange(len(order)) - counts.starts[counts.group]
    return rank, sorted_counts[counts.starts][counts.group] / rest, counts.group


# How far the distribution of a sensitive column in each group is from its distribution in the table.
#
# Every function returns one number per group, from 0 (the group is like the table); the largest one is that of the
# table. The distances are the earth mover's distances of t-closeness (Li, Li, Venkatasubramanian 2007, §3.3): equal,
# ordered and hierarchical. p is the share of a value in the group, and q its share in the table.


def equal_distances(counts: SensitiveCounts) -> NDArray[np.float64]:
    """Return ½ Σ |p − q|, the distance if all values are equally far apart; from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sfumato.plan.claims.sensitive_groups import SensitiveCounts
    >>> groups, values = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])
    >>> equal_distances(SensitiveCounts.of(groups, values, 2)).tolist()  # q = ¾, ¼
    [0.25, 0.25]
    """
    more = np.maximum(counts.shares - counts.overall[counts.value], 0.0)  # what is more than q equals what is less
    return _sum(counts, more)


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
    return np.asarray((_sum(counts, gaps) + summed[first[counts.starts]]) / (m - 1))


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


def _sum(counts: SensitiveCounts, terms: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.add.reduceat(terms, counts.starts))


def _nodes(tree: Tree, level: int, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the node of each leaf on a level; a missing value (−1) has a node of its own below the root."""
    nodes = np.searchsorted(tree.starts[level], leaves, side="right") - 1
    return np.where(leaves < 0, 0 if level == tree.levels - 1 else len(tree.names[level]), nodes)
