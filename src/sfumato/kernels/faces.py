"""The faces of boxes: at their records, or at the cuts between them."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit


@jit
def hulls(values, order, starts):
    """Return the smallest and largest value of each column in each leaf."""
    leaves, axes = len(starts) - 1, values.shape[1]
    low, high = np.full((leaves, axes), np.inf), np.full((leaves, axes), -np.inf)
    for leaf in range(leaves):
        for place in range(starts[leaf], starts[leaf + 1]):
            for axis in range(axes):
                value = values[order[place], axis]
                low[leaf, axis] = min(low[leaf, axis], value)
                high[leaf, axis] = max(high[leaf, axis], value)
    return low, high


@jit
def cells(cuts, starts, low, high):
    """Shrink the outer faces ``low`` and ``high`` of each leaf to the cuts around it (a true subdivision).

    The faces are those of the numeric axes, which come first; a cut between categories does not change them.
    """
    for leaf in range(1, len(starts) - 1):
        cut = cuts[starts[leaf]]
        axis, value = int(cut[0]), cut[1]
        if axis >= low.shape[1]:
            continue
        for other in range(np.searchsorted(starts, cut[2]), leaf):
            high[other, axis] = min(high[other, axis], value)
        for other in range(leaf, np.searchsorted(starts, cut[3])):
            low[other, axis] = max(low[other, axis], value)
