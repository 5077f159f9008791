"""Where to cut a generalization tree: as low as the promise allows, and not at one level everywhere (LT §4.2).

A cut is a set of nodes that covers every value once. A row loses (leaves of its node − 1)/(leaves of the tree − 1): 0
for a value shown as it is, 1 for the root.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from sfumato.schema.hierarchy import Tree

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Branch(NamedTuple):
    """A node: its level (0 for values) and its position there."""

    level: int
    position: int


class CountedTree:
    """A tree with the number of rows that hold each value; branches without rows do not count."""

    def __init__(self, tree: Tree, rows: NDArray[np.int64]) -> None:
        self.tree = tree
        self._rows_before = np.concatenate([[0], np.cumsum(rows)])

    @property
    def root(self) -> Branch:
        return Branch(self.tree.levels - 1, 0)

    def span(self, branch: Branch) -> tuple[int, int]:
        """First leaf, and the one after the last."""
        starts = self.tree.starts[branch.level]
        return int(starts[branch.position]), int(starts[branch.position + 1])

    def rows(self, branch: Branch) -> int:
        first, end = self.span(branch)
        return int(self._rows_before[end] - self._rows_before[first])

    def loss(self, branch: Branch) -> float:
        """Loss summed over its rows."""
        first, end = self.span(branch)
        return self.rows(branch) * (end - first - 1) / max(1, self.tree.size - 1)

    def children(self, branch: Branch) -> list[Branch]:
        """The branches one level below that have rows; none below a value."""
        if branch.level == 0:
            return []
        first, end = self.span(branch)
        low, high = np.searchsorted(self.tree.starts[branch.level - 1], [first, end])
        below = [Branch(branch.level - 1, position) for position in range(int(low), int(high))]
        return [child for child in below if self.rows(child)]

    def words(self, cut: Iterable[Branch]) -> list[str | None]:
        """The name of the branch that covers each leaf; None for a leaf without rows that none covers."""
        words: list[str | None] = [None] * self.tree.size
        for branch in cut:
            first, end = self.span(branch)
            words[first:end] = [self.tree.names[branch.level][branch.position]] * (end - first)
        return words

    def level_cut(self, level: int) -> list[Branch]:
        """All branches of one level that have rows."""
        branches = [Branch(level, position) for position in range(len(self.tree.names[level]))]
        return [branch for branch in branches if self.rows(branch)]


def cut_with_at_most(counted: CountedTree, most: int) -> list[Branch]:
    """A cut of at most ``most`` branches that loses little.

    The lowest level that is narrow enough, or a mixed cut where that loses less: from the root down, the branch whose
    division saves most for each branch it adds is divided next.
    """
    levels = (counted.level_cut(level) for level in range(counted.tree.levels))
    plain = next((cut for cut in levels if 0 < len(cut) <= most), [counted.root])
    mixed = _divided(counted, most)
    return min(plain, mixed, key=lambda cut: sum(map(counted.loss, cut)))


def _divided(counted: CountedTree, most: int) -> list[Branch]:
    cut: list[Branch] = []
    waiting: list[tuple[float, Branch]] = []
    branches = 1

    def wait(branch: Branch) -> None:
        children = counted.children(branch)
        while len(children) == 1:  # nothing is added by going down here
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


def lowest_cut(counted: CountedTree, k: int) -> list[Branch]:
    """The lowest cut in which every branch has at least k rows."""
    cut, waiting = [], [counted.root]
    while waiting:
        branch = waiting.pop()
        children = counted.children(branch)
        if children and all(counted.rows(child) >= k for child in children):
            waiting += children
        else:
            cut.append(branch)
    return cut
