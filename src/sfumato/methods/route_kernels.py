"""Rows that follow a tree of cuts to their block."""

from __future__ import annotations

from sfumato.kernels.jit import jit


@jit(allocates=False, work=lambda axis, threshold, other, places, block: 2.0 * len(block) * len(axis) ** 0.5)
def follow_cuts(axis, threshold, other, places, block):
    """Write the block of each row, given its coordinates: a row that is not above a threshold goes to the next node."""
    for row in range(len(places)):
        node = 0
        while axis[node] >= 0:
            node = node + 1 if places[row, axis[node]] <= threshold[node] else other[node]
        block[row] = other[node]
