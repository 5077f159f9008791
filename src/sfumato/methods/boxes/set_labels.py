"""The released labels of categorical columns that have a tree: the node that covers the values in a box."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.methods.set_labels import SetLabels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import SetAxis
    from sfumato.methods.leaves import Leaves


def nodes(leaves: Leaves, ranks: NDArray[np.float64], axis: SetAxis) -> SetLabels:
    """Return the lowest node of the column's tree that covers each box; the root also covers a missing value."""
    assert axis.tree is not None
    positions = axis.tree.positions(axis.values, column=axis.name)[ranks.astype(np.int64)][leaves.order]
    first = np.minimum.reduceat(positions, leaves.starts[:-1])  # −1 if a value is missing
    last = np.maximum.reduceat(positions, leaves.starts[:-1])
    covering = axis.tree.covering(np.maximum(first, 0), np.maximum(last, 0))
    labels = [node for level in axis.tree.names for node in level]
    offsets = np.cumsum([0, *map(len, axis.tree.names)])
    label_of = offsets[covering.levels] + covering.nodes
    label_of[first < 0] = len(labels) - 1  # the root, even if a node below it covers all values but the missing one
    label_of[last < 0] = len(labels)
    return SetLabels(pa.array([*labels, None], pa.string()), label_of)


def covered(axis: SetAxis) -> Mapping[str | None, frozenset[str | None]]:
    """Return the values below each node of the column's tree, by the node's name."""
    assert axis.tree is not None
    below: dict[str, set[str | None]] = {}
    for level in range(axis.tree.levels):
        for value, node in axis.tree.level(level).items():
            below.setdefault(node, set()).add(value)
    below[axis.tree.names[-1][0]].add(None)
    return {node: frozenset(values) for node, values in below.items()}
