"""Cuts of a generalization tree: as low as the promise allows, and not necessarily at one level (LT §4.2).

A cut is a set of nodes that covers every value once. The loss of a row is (leaves of its node − 1)/(leaves of the
tree − 1): 0 for a value released as it is, 1 for the root.
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
    """A node of a tree: its level (0 for values) and its position on that level."""

    level: int
    position: int


class CountedTree:
    """A tree with the number of rows of each value; branches without rows are ignored."""

    def __init__(self, tree: Tree, rows: NDArray[np.int64]) -> None:
        self.tree = tree
        self._rows_before = np.concatenate([[0], np.cumsum(rows)])

    @property
    def root(self) -> Branch:
        return Branch(self.tree.levels - 1, 0)

    def span(self, branch: Branch) -> tuple[int, int]:
        """Return the first leaf of a branch, and the leaf after its last."""
        starts = self.tree.starts[branch.level]
        return int(starts[branch.position]), int(starts[branch.position + 1])

    def rows(self, branch: Branch) -> int:
        first, end = self.span(branch)
        return int(self._rows_before[end] - self._rows_before[first])

    def loss(self, branch: Branch) -> float:
        """Return the loss summed over the rows of a branch."""
        first, end = self.span(branch)
        return self.rows(branch) * (end - first - 1) / max(1, self.tree.size - 1)

    def children(self, branch: Branch) -> list[Branch]:
        """Return the branches one level below that have rows; none below a value."""
        if branch.level == 0:
            return []
        first, end = self.span(branch)
        low, high = np.searchsorted(self.tree.starts[branch.level - 1], [first, end])
        below = [Branch(branch.level - 1, position) for position in range(int(low), int(high))]
        return [child for child in below if self.rows(child)]

    def names(self, cut: Iterable[Branch]) -> list[str | None]:
        """Return the name of the branch that covers each leaf; None for a leaf that no branch covers (without rows)."""
        names: list[str | None] = [None] * self.tree.size
        for branch in cut:
            first, end = self.span(branch)
            names[first:end] = [self.tree.names[branch.level][branch.position]] * (end - first)
        return names

    def level_cut(self, level: int) -> list[Branch]:
        """Return all branches of one level that have rows."""
        branches = [Branch(level, position) for position in range(len(self.tree.names[level]))]
        return [branch for branch in branches if self.rows(branch)]


def cut_with_at_most(counted: CountedTree, most: int) -> list[Branch]:
    """Return a cut of at most ``most`` branches with a small loss.

    It is the lowest level with few enough branches, or a mixed cut if that loses less. The mixed cut starts at the root
    and repeatedly divides the branch whose division saves most per added branch.
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


def lowest_cut(counted: CountedTree, k: int) -> list[Branch]:
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
