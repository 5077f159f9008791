"""The best combination of levels: an exact search of the lattice of all combinations (global recoding).

Coarser levels only join groups. So if a combination breaks a promise about the sizes of groups, every finer one breaks
it too, and need not be tried (predictive tagging). The search takes the best combination that may still hold, goes up
from it until the loss is no longer better than the best known one, and finds by bisection where the promise begins to
hold. It ends when no combination with a smaller loss is left, so the result is the best one, and with it monotone in
the promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.recodings.value_groupings import Groupings

if TYPE_CHECKING:
    from numpy.typing import NDArray

Levels = tuple[int, ...]  # a level of each column


def best_levels(
    losses: Sequence[NDArray[np.float64]], holds: Callable[[Levels], bool], *, below: float = math.inf
) -> Levels | None:
    """Return the combination with the smallest loss ``below`` this for which the promise holds; None if there is none.

    ``losses[j][level]`` grows with the level, and so does whether the promise holds.
    """
    lattice = Lattice(losses)
    best: int | None = None
    while (start := lattice.most_promising(below)) is not None:
        path = lattice.path_up(start, below)
        low, high = -1, len(path)  # the promise breaks at low and holds at high
        while high - low > 1:
            middle = (low + high) // 2
            if holds(lattice.levels(path[middle])):
                high = middle
            else:
                low = middle
                lattice.rule_out_below(path[middle])
        if high < len(path):
            best = path[high]
            below = float(lattice.loss[best])
    return None if best is None else lattice.levels(best)


class Lattice:
    """All combinations of levels, and which of them may still be the best."""

    def __init__(self, losses: Sequence[NDArray[np.float64]]) -> None:
        sizes = [len(column) for column in losses]
        self._steps = np.array([math.prod(sizes[place + 1 :]) for place in range(len(sizes))], dtype=np.int64)
        self._nodes = np.indices(sizes, dtype=np.int16).reshape(len(sizes), -1)
        self._losses = losses
        self.loss = np.zeros(self._nodes.shape[1])
        for column, level in zip(losses, self._nodes, strict=True):
            self.loss += column[level]
        self._order = np.argsort(self.loss, kind="stable")
        self._open = np.ones(len(self.loss), dtype=bool)
        self._next = 0

    def position(self, levels: Levels) -> int:
        return int(self._steps @ np.array(levels))

    def levels(self, position: int) -> Levels:
        return tuple(self._nodes[:, position].tolist())

    def most_promising(self, below: float) -> int | None:
        """Return the combination with the smallest loss that may still hold; None if none has a loss ``below`` this."""
        while self._next < len(self._order) and not self._open[self._order[self._next]]:
            self._next += 1
        if self._next == len(self._order) or not self.loss[self._order[self._next]] < below:
            return None
        return int(self._order[self._next])

    def path_up(self, start: int, below: float) -> list[int]:
        """Return ever coarser combinations with a loss ``below`` this, each step the one that loses least."""
        path, levels, loss = [start], list(self.levels(start)), float(self.loss[start])
        while True:
            steps = [
                (float(column[level + 1] - column[level]), place)
                for place, (column, level) in enumerate(zip(self._losses, levels, strict=True))
                if level + 1 < len(column)
            ]
            if not steps:
                return path
            more, place = min(steps)
            levels[place] += 1
            loss += more
            position = self.position(tuple(levels))
            if not self.loss[position] < below:
                return path
            path.append(position)

    def is_open(self, position: int) -> bool:
        """Return whether a combination may still be the best."""
        return bool(self._open[position])

    def close(self, position: int) -> None:
        """Mark one combination as counted."""
        self._open[position] = False

    def rule_out_above(self, position: int) -> None:
        """Mark a combination and all coarser ones as no better than the best."""
        coarser = np.flatnonzero(self._open)
        for level in self._nodes:
            coarser = coarser[level[coarser] >= level[position]]
        self._open[coarser] = False

    def rule_out_below(self, position: int) -> None:
        """Mark a combination and all finer ones as broken."""
        finer = np.flatnonzero(self._open)
        for level in self._nodes:
            finer = finer[level[finer] <= level[position]]
        self._open[finer] = False


def chosen_levels(columns: Sequence[Groupings], most: int) -> list[list[int]] | None:
    """Return the levels of each column whose combinations are searched: all, or fewer if there are more than ``most``.

    The column with most levels gives up the one that differs least in loss from its neighbours. None if even two levels
    per column are too many combinations.
    """
    if 2 ** sum(len(column.levels) > 1 for column in columns) > most:
        return None
    kept = [list(range(len(column.levels))) for column in columns]
    losses = [[column.loss(level) for level in column.levels] for column in columns]
    while math.prod(map(len, kept)) > most:
        place = max(range(len(kept)), key=lambda place: len(kept[place]))
        inner = range(1, len(kept[place]) - 1)
        known = [losses[place][level] for level in kept[place]]
        del kept[place][min(inner, key=lambda at: known[at + 1] - known[at - 1])]
    return kept
