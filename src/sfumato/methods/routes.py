"""Routing of rows to blocks by a tree of cuts, which is grown on a sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Routes:
    """A binary tree of cuts in depth-first order; a leaf is a block.

    Node t sends a row to node t + 1 if its coordinate along ``axis[t]`` is at most ``threshold[t]``, else to node
    ``other[t]``. A leaf has axis −1, and ``other[t]`` is its block.
    """

    axis: NDArray[np.int64]
    threshold: NDArray[np.float64]
    other: NDArray[np.int64]

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int((self.axis < 0).sum())

    def of(self, places: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the block of each row."""
        node = np.zeros(len(places), dtype=np.int64)
        rows = np.arange(len(places))
        while True:
            inner = self.axis[node] >= 0
            if not inner.any():
                return self.other[node]
            at = node[inner]
            below = places[rows[inner], self.axis[at]] <= self.threshold[at]
            node[inner] = np.where(below, at + 1, self.other[at])


def one_block() -> Routes:
    """Return routes that send every row to block 0."""
    return Routes(np.array([-1]), np.zeros(1), np.zeros(1, dtype=np.int64))


def grown_routes(
    places: NDArray[np.float64], most: float, cut_of: Callable[[NDArray[np.int64]], tuple[int, float] | None]
) -> Routes:
    """Cut sampled rows until no block has more than ``most`` of them; ``places`` has one column per axis.

    ``cut_of`` returns axis and threshold of the cut of a block with these rows; None if it must not be cut.
    """
    axis: list[int] = []
    threshold: list[float] = []
    other: list[int] = []
    blocks = 0
    pending: list[tuple[NDArray[np.int64], int]] = [(np.arange(len(places)), -1)]
    while pending:
        rows, parent = pending.pop()
        if parent >= 0:
            other[parent] = len(axis)
        cut = cut_of(rows) if len(rows) > most else None
        if cut is None:
            axis.append(-1)
            threshold.append(0.0)
            other.append(blocks)
            blocks += 1
            continue
        axis.append(cut[0])
        threshold.append(cut[1])
        other.append(-1)
        below = places[rows, cut[0]] <= cut[1]
        pending.append((rows[~below], len(axis) - 1))
        pending.append((rows[below], -1))
    return Routes(np.array(axis), np.array(threshold), np.array(other))
