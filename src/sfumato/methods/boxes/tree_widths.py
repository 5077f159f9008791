"""The widths of the nodes of a generalization tree, by which columns with a tree are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.schema.hierarchy import Tree


def steps_of_categories(tree: Tree, values: pa.Array, column: str) -> NDArray[np.float64]:
    """Return the width of the node that covers each two neighbouring values: its number of values minus one.

    ``values`` are those of the column in the order of the tree, the missing one first. Only the root covers it. Values
    of the tree that do not occur in the column are not counted.
    """
    positions = tree.positions(values, column=column)
    found = tree.covering(np.maximum(positions[:-1], 0), positions[1:])
    low, high = (np.empty(len(positions) - 1, dtype=np.int64) for _ in range(2))
    for level in range(tree.levels):
        here = found.levels == level
        low[here] = tree.starts[level][found.nodes[here]]
        high[here] = tree.starts[level][found.nodes[here] + 1]
    covered = np.searchsorted(positions, high) - np.searchsorted(positions, low)
    is_root = (covered == (positions >= 0).sum()) | (positions[:-1] < 0)
    return np.where(is_root, len(positions), covered) - 1.0
