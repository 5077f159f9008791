"""Recodings of categories: by a cut of their tree, by pooling rare values, or by joining neighbours (LT §4.2).

A cut is a set of nodes that covers every value once. The loss of a row is (leaves of its node − 1)/(leaves of the
tree − 1): 0 for a value released as it is, 1 for the root.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.methods.recodings.buckets import merge_to_at_least, quantile_ends
from sfumato.methods.recodings.recoding import ValueMap, texts
from sfumato.plan.questions import Distinct
from sfumato.schema.columns import Column
from sfumato.schema.hierarchies import Tree
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TreeBranch(NamedTuple):
    """A node of a tree: its level (0 for values) and its position on that level."""

    level: int
    position: int


class CountedTree:
    """A tree with the number of rows of each value; branches without rows are ignored."""

    def __init__(self, tree: Tree, rows: NDArray[np.int64]) -> None:
        self.tree = tree
        self._rows_before = np.concatenate([[0], np.cumsum(rows)])

    @property
    def root(self) -> TreeBranch:
        return TreeBranch(self.tree.levels - 1, 0)

    def span(self, branch: TreeBranch) -> tuple[int, int]:
        """Return the first leaf of a branch, and the leaf after its last."""
        starts = self.tree.starts[branch.level]
        return int(starts[branch.position]), int(starts[branch.position + 1])

    def rows(self, branch: TreeBranch) -> int:
        first, end = self.span(branch)
        return int(self._rows_before[end] - self._rows_before[first])

    def loss(self, branch: TreeBranch) -> float:
        """Return the loss summed over the rows of a branch."""
        first, end = self.span(branch)
        return self.rows(branch) * (end - first - 1) / max(1, self.tree.size - 1)

    def children(self, branch: TreeBranch) -> list[TreeBranch]:
        """Return the branches one level below that have rows; none below a value."""
        if branch.level == 0:
            return []
        first, end = self.span(branch)
        low, high = np.searchsorted(self.tree.starts[branch.level - 1], [first, end])
        below = [TreeBranch(branch.level - 1, position) for position in range(int(low), int(high))]
        return [child for child in below if self.rows(child)]

    def names(self, cut: Iterable[TreeBranch]) -> list[str | None]:
        """Return the name of the branch that covers each leaf; None for a leaf that no branch covers (without rows)."""
        names: list[str | None] = [None] * self.tree.size
        for branch in cut:
            first, end = self.span(branch)
            names[first:end] = [self.tree.names[branch.level][branch.position]] * (end - first)
        return names

    def level_cut(self, level: int) -> list[TreeBranch]:
        """Return all branches of one level that have rows."""
        branches = [TreeBranch(level, position) for position in range(len(self.tree.names[level]))]
        return [branch for branch in branches if self.rows(branch)]


def cut_with_at_most(counted: CountedTree, most: int) -> list[TreeBranch]:
    """Return a cut of at most ``most`` branches with a small loss.

    It is the lowest level with few enough branches, or a mixed cut if that loses less. The mixed cut starts at the root
    and repeatedly divides the branch whose division saves most per added branch.
    """
    levels = (counted.level_cut(level) for level in range(counted.tree.levels))
    plain = next((cut for cut in levels if 0 < len(cut) <= most), [counted.root])
    mixed = _divide(counted, most)
    return min(plain, mixed, key=lambda cut: sum(map(counted.loss, cut)))


def _divide(counted: CountedTree, most: int) -> list[TreeBranch]:
    cut: list[TreeBranch] = []
    waiting: list[tuple[float, TreeBranch]] = []
    branches = 1

    def wait(branch: TreeBranch) -> None:
        children = counted.children(branch)
        while len(children) == 1:  # going down adds no branch
            branch = children[0]
            children = counted.children(branch)
        if not children:
            cut.append(branch)
            return
        saved = counted.loss(branch) - sum(map(counted.loss, children))
        heapq.heappush(waiting, (-saved / (len(children) - 1), branch))

    wait(counted.root)
    while waiting:
        _, branch = heapq.heappop(waiting)
        children = counted.children(branch)
        if branches + len(children) - 1 > most:
            cut.append(branch)
            continue
        branches += len(children) - 1
        for child in children:
            wait(child)
    return cut


def lowest_cut(counted: CountedTree, k: int) -> list[TreeBranch]:
    """Return the lowest cut in which every branch has at least k rows."""
    cut, waiting = [], [counted.root]
    while waiting:
        branch = waiting.pop()
        children = counted.children(branch)
        if children and all(counted.rows(child) >= k for child in children):
            waiting += children
        else:
            cut.append(branch)
    return cut


# a pool gets the first of these names that is not a value of the column, or the last one with a number
POOL = ("other", "any other", "all others")


def coarsen_to_at_most(
    most: int, column: Column, kind: Kind, distinct: Distinct, *, counts_missing: bool = True
) -> ValueMap:
    """Recode to at most ``most`` different cells: by the column's tree, its order or a pool.

    A missing cell is one of them if ``counts_missing``; otherwise it stays missing and comes on top.
    """
    is_missing = distinct.values.is_null().to_numpy(zero_copy_only=False)
    present = most - int(is_missing.sum()) if counts_missing else most
    tree = tree_for(column, distinct.values)
    if tree is None and kind is not Kind.ORDERED:
        if counts_missing:
            return pool_values(column.name, distinct, _most_frequent(distinct.counts, most))
        keep = is_missing.copy()
        keep[~is_missing] = _most_frequent(distinct.counts[~is_missing], most)
        return pool_values(column.name, distinct, keep)
    if present < 1:
        return leave_empty(column.name, distinct)
    if tree is None:
        return join_values(column.name, distinct, buckets=present)
    return cut_tree(column.name, distinct, tree, cut_with_at_most(_count_rows(column.name, distinct, tree), present))


def coarsen_to_at_least(k: int, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
    """Recode so that every released cell is in at least k rows: by the column's tree, its order or a pool."""
    tree = tree_for(column, distinct.values)
    if tree is not None:
        cut = lowest_cut(_count_rows(column.name, distinct, tree), k)
        return _hide_few_missing(cut_tree(column.name, distinct, tree, cut), k)
    if kind is Kind.ORDERED:
        groups = max(1, int(distinct.counts.sum()) // k)
        return _hide_few_missing(join_values(column.name, distinct, buckets=groups, k=k), k)
    return pool_values(column.name, distinct, _frequent(distinct.counts, k))


def pool_values(name: str, distinct: Distinct, keep: NDArray[np.bool_]) -> ValueMap:
    """Keep some values as they are and pool the others under one name."""
    shown = texts(distinct.values)
    numbered = (f"{POOL[-1]} {number}" for number in range(2, len(shown) + 3))  # one of them is free
    pool = next(pool_name for pool_name in (*POOL, *numbered) if pool_name not in shown)
    cells = [text if kept else pool for text, kept in zip(shown, keep, strict=True)]
    return _map_values(name, distinct, cells, how=f"{int((~keep).sum()):,} rare values pooled")


def _most_frequent(counts: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Mark the values to keep if at most ``most`` cells may be released: all, or the most frequent and one pool."""
    if len(counts) <= most:
        return np.ones(len(counts), dtype=bool)
    keep = np.zeros(len(counts), dtype=bool)
    keep[np.argsort(-counts, kind="stable")[: most - 1]] = True
    return keep


def _frequent(counts: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Mark the values to keep if every cell must be in at least k rows; as few rows as possible are pooled."""
    order = np.argsort(counts, kind="stable")
    rising = np.cumsum(counts[order])
    alone = int((counts < k).sum())
    if alone == 0:
        return np.ones(len(counts), dtype=bool)
    pool = max(alone, int(np.searchsorted(rising, k)) + 1)
    keep = np.ones(len(counts), dtype=bool)
    keep[order[:pool]] = False
    return keep


def cut_tree(name: str, distinct: Distinct, tree: Tree, cut: Sequence[TreeBranch]) -> ValueMap:
    """Replace each value by the branch of the cut that covers it; a missing value stays missing."""
    places = tree.positions(distinct.values, column=name)
    # a missing value has position −1, the last element
    branch_names = [*CountedTree(tree, np.zeros(tree.size, np.int64)).names(cut), None]
    levels = sorted({branch.level for branch in cut})
    how = f"level {levels[0]} of its tree" if len(levels) == 1 else f"levels {levels[0]} to {levels[-1]} of its tree"
    return _map_values(name, distinct, [branch_names[place] for place in places], how=how)


def leave_empty(name: str, distinct: Distinct) -> ValueMap:
    """Release a missing value for every value."""
    return _map_values(name, distinct, [None] * len(distinct.values), how="left empty")


def _count_rows(name: str, distinct: Distinct, tree: Tree) -> CountedTree:
    """Return the tree with the number of rows of each of its values."""
    places = tree.positions(distinct.values, column=name)
    present = places >= 0
    return CountedTree(tree, np.bincount(places[present], distinct.counts[present], tree.size).astype(np.int64))


def join_values(name: str, distinct: Distinct, *, buckets: int, k: int = 1) -> ValueMap:
    """Join neighbouring values of an ordered column to at most ``buckets`` runs of similar size, each of k rows."""
    counts = distinct.counts[: len(distinct.values) - distinct.values.null_count]  # a missing value comes last
    ends = quantile_ends(counts.astype(np.float64), buckets)
    ends = merge_to_at_least(k, ends, np.diff(np.cumsum(counts)[ends - 1], prepend=0).astype(np.float64))
    return join_runs(name, distinct, ends)


def join_runs(name: str, distinct: Distinct, ends: NDArray[np.int64]) -> ValueMap:
    """Join neighbouring values of an ordered column to runs that end at these positions; a missing value stays so."""
    named = [text for text in texts(distinct.values) if text is not None]
    cells: list[str | None] = []
    for start, end in zip(np.append(0, ends)[:-1].tolist(), ends.tolist(), strict=True):
        cells += [named[start] if end - start == 1 else f"{named[start]}–{named[end - 1]}"] * (end - start)
    cells += [None] * (len(distinct.values) - len(named))
    return _map_values(name, distinct, cells, how=f"neighbouring values joined to {len(ends):,} runs")


def _hide_few_missing(coarse: ValueMap, k: int) -> ValueMap:
    """Return the same recoding, but release the rarest cell as missing if fewer than k rows are missing or present."""
    cells: list[str | None] = coarse.cells.to_pylist()
    rows: dict[str | None, int] = {}
    for cell, count in zip(cells, coarse.distinct.counts, strict=True):
        rows[cell] = rows.get(cell, 0) + int(count)
    present = sum(count for cell, count in rows.items() if cell is not None)
    if None not in rows or present == 0 or (rows[None] >= k and present >= k):
        return coarse
    rarest = min((cell for cell in rows if cell is not None), key=lambda cell: rows[cell])
    return replace(coarse, cells=pa.array([None if cell == rarest else cell for cell in cells], pa.string()))


def _map_values(name: str, distinct: Distinct, cells: Sequence[str | None], *, how: str) -> ValueMap:
    return ValueMap(name=name, kind=Kind.NOMINAL, distinct=distinct, cells=pa.array(cells, pa.string()), how=how)
