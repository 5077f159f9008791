"""Cells of k to 2k − 1 rows: repeated cuts at the median of the axis with the largest range (TL Figure 4-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


def median_cells(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Return the cell of each row, numbered from 0; a table of fewer than 2k rows is one cell.

    Cells are cut by rank (the lower half has ⌊rows/2⌋ rows), so equal values never make a cell smaller than k.
    """
    labels = np.zeros(len(scores), dtype=np.int64)
    if len(scores):
        _cut(np.ascontiguousarray(scores), k, np.arange(len(scores)), labels)
    return labels


@jit(work=lambda scores, k, order, labels: 10.0 * scores.size)
def _cut(scores, k, order, labels):
    """Process a stack of ranges of ``order``, each a cell that may still have to be cut."""
    axes = scores.shape[1]
    starts, ends = np.empty(128, dtype=np.int64), np.empty(128, dtype=np.int64)
    starts[0], ends[0] = 0, len(order)
    waiting, cells = 1, 0
    while waiting > 0:
        waiting -= 1
        start, end = starts[waiting], ends[waiting]
        if end - start < 2 * k or axes == 0:
            for place in range(start, end):
                labels[order[place]] = cells
            cells += 1
            continue
        axis, widest = 0, -1.0
        for column in range(axes):
            low = high = scores[order[start], column]
            for place in range(start + 1, end):
                value = scores[order[place], column]
                low, high = min(low, value), max(high, value)
            if high - low > widest:
                axis, widest = column, high - low
        values = np.empty(end - start)
        for place in range(start, end):
            values[place - start] = scores[order[place], axis]
        order[start:end] = order[start:end][np.argsort(values, kind="mergesort")]
        middle = start + (end - start) // 2
        # each cut halves a cell, so the stack never contains more than log2(rows) + 1 cells
        starts[waiting], ends[waiting] = middle, end
        starts[waiting + 1], ends[waiting + 1] = start, middle
        waiting += 2
