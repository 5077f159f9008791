"""The width of the tree node that covers a range of values, in constant time.

The values of a column with a generalization tree are ranked depth-first, so each node covers a range of ranks. The node
that covers the ranks from ``low`` to ``high`` is the widest of the nodes that cover two neighbouring ranks between
them. The tree is therefore given by one number per pair of neighbours, and its covering nodes by a table of the largest
number in every run of 1, 2, 4, … of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit


class Trees(NamedTuple):
    """The trees of all axes. Both arrays are empty if there are none."""

    start: NDArray[np.int64]  # first column of each axis in ``widest``; −1 for an axis without a tree
    widest: NDArray[np.float64]  # (j, i): width of the node that covers 2^j + 1 ranks, from i − start on


NO_TREES = Trees(np.empty(0, dtype=np.int64), np.empty((0, 0)))


def trees_of(steps: Sequence[NDArray[np.float64] | None]) -> Trees:
    """Return the trees of axes, given the width of the node that covers each two neighbouring ranks; None: no tree."""
    if all(one is None for one in steps):
        return NO_TREES
    sizes = np.array([0 if one is None else len(one) for one in steps], dtype=np.int64)
    start = np.where([one is None for one in steps], -1, np.cumsum(sizes) - sizes)
    row = np.concatenate([np.empty(0), *(one for one in steps if one is not None)])
    rows, reach = [row], 1
    while 2 * reach <= sizes.max():
        row = np.concatenate([np.maximum(row[:-reach], row[reach:]), row[-reach:]])
        rows.append(row)  # the ends run over into the next axis, but no query of this axis reads them
        reach *= 2
    return Trees(start.astype(np.int64), np.stack(rows))


@jit(forceinline=True)
def has_tree(trees, axis):
    """Return whether an axis is cut by a tree."""
    return axis < len(trees.start) and trees.start[axis] >= 0


@jit
def covering_width(trees, axis, low, high):
    """Return the width of the lowest node that covers the ranks from ``low`` to ``high``."""
    first, gaps = trees.start[axis] + int(low), int(high) - int(low)
    if gaps == 0:
        return 0.0
    row = 0
    while gaps >> (row + 1):
        row += 1
    return max(trees.widest[row, first], trees.widest[row, first + gaps - (1 << row)])


@jit
def covering_widths(trees, axis, low, high):
    """Return the widths of many covering nodes."""
    widths = np.empty(len(low))
    for place in range(len(low)):
        widths[place] = covering_width(trees, axis, low[place], high[place])
    return widths
