"""The widths of the nodes of generalization trees, by which columns with a tree are cut.

Values are ranked in the order of the tree, the missing one first. A tree is given to the kernels by its *steps*: the
width of the node that covers each two neighbouring ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.schema.tree_ends import Ends, node_ends

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.columns import Column
    from sfumato.schema.hierarchy import Tree
    from sfumato.table.table import Table


def steps_of_categories(tree: Tree, values: pa.Array, column: str) -> NDArray[np.float64]:
    """Return the steps of categories: the number of values below a node minus one.

    ``values`` are those of the column by rank. Only the root covers the missing one. Values of the tree that do not
    occur in the column are not counted.
    """
    positions = tree.positions(values, column=column)
    found = tree.covering(np.maximum(positions[:-1], 0), positions[1:])
    low, high = np.empty((2, len(positions) - 1), dtype=np.int64)
    for level in range(tree.levels):
        here = found.levels == level
        low[here], high[here] = (tree.starts[level][found.nodes[here] + side] for side in (0, 1))
    covered = np.searchsorted(positions, high) - np.searchsorted(positions, low)
    is_root = (found.levels == tree.levels - 1) | (positions[:-1] < 0)
    return np.where(is_root, len(positions), covered) - 1.0


@dataclass(frozen=True, repr=False)
class NumberNodes:
    """The tree of a numeric column: a box is released as the interval of the node that covers it."""

    values: pa.Array  # by rank
    tree: Tree
    positions: NDArray[np.int64]  # place of each rank among the leaves; −1 for the missing value
    ends: tuple[Ends, ...]  # of the nodes of each level
    steps: NDArray[np.float64]  # lengths of the intervals of covering nodes

    @classmethod
    def of(cls, column: Column, tree: Tree, values: pa.Array) -> NumberNodes:
        """Rank the values of a column by its tree."""
        positions = tree.positions(values, column=column.name)
        order = np.argsort(positions, kind="stable")
        positions, ends = positions[order], tuple(node_ends(column, tree, values))
        nodes = cls(values.take(pa.array(order)), tree, positions, ends, np.empty(0))
        low, high = nodes.intervals(np.arange(len(order) - 1), np.arange(1, len(order)))
        steps = high - low
        if len(steps) and positions[0] < 0:  # a box with missing and other numbers costs as much as two ranges
            span = float(ends[-1][1][0] - ends[-1][0][0])
            steps[0] = 2.0 * (span if span > 0.0 else 1.0)
        return cls(nodes.values, tree, positions, ends, steps)

    def ranks(self, rows: Table, name: str) -> NDArray[np.float64]:
        """Return the rank of each row's value."""
        coded = rows.coded(name)
        rank = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        ranks: NDArray[np.float64] = rank.astype(np.float64)[coded.codes]
        return ranks

    def intervals(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> Ends:
        """Return the ends of the node that covers the values from a first to a last rank, neither missing."""
        found = self.tree.covering(np.maximum(self.positions[first], 0), np.maximum(self.positions[last], 0))
        low, high = np.empty((2, len(first)))
        for level, (lower, upper) in enumerate(self.ends):
            here = found.levels == level
            low[here], high[here] = lower[found.nodes[here]], upper[found.nodes[here]]
        return low, high
