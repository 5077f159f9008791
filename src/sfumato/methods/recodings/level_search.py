"""The best combination of levels, one level per column: one search for every loss and every promise.

What is lost and what must hold is an :class:`Objective`. Coarser levels only join groups. So if a combination breaks a
promise about the sizes of groups, every finer one breaks it too, and need not be counted (predictive tagging). Two more
facts bound the search: a combination never loses less than the sum of the floors of its columns, which are known
without counting; and a counted combination tells how little the coarser ones can lose (``Evaluation.above``).

The search takes the combination with the smallest sum that is still open, goes up from it, and finds by bisection where
the promise begins to hold. It ends when no open combination can lose less than the best one: the result is then the
best of all combinations. If the time ends first, it is the best that was counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sfumato.methods.recodings.groupings import Groupings

if TYPE_CHECKING:
    from numpy.typing import NDArray

Levels = tuple[int, ...]  # a level of each column


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What was counted for one combination of levels."""

    holds: bool  # whether the promises hold
    loss: float  # of the rows that would be released and suppressed; infinite if the promises do not hold
    above: float = 0.0  # no coarser combination loses less than this


class Objective(Protocol):
    """What a search minimises, and what must hold."""

    @property
    def order(self) -> Sequence[NDArray[np.float64]]:
        """A number per column and level, which grows with the level; combinations with a small sum are tried first."""
        ...

    @property
    def has_floors(self) -> bool:
        """Whether the sum of ``order`` is the least that a combination can lose."""
        ...

    @property
    def is_monotone(self) -> bool:
        """Whether promises that hold for a combination hold for all coarser ones."""
        ...

    def evaluate(self, levels: Levels) -> Evaluation:
        """Count one combination."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class SumOfLosses:
    """The objective of a loss that is the sum of those of the columns, with a promise that coarser levels keep."""

    order: Sequence[NDArray[np.float64]]
    promise: Callable[[Levels], bool]

    @property
    def has_floors(self) -> bool:
        return True

    @property
    def is_monotone(self) -> bool:
        return True

    def evaluate(self, levels: Levels) -> Evaluation:
        loss = sum(float(of_column[level]) for of_column, level in zip(self.order, levels, strict=True))
        holds = self.promise(levels)
        return Evaluation(holds=holds, loss=loss if holds else math.inf)


@dataclass(frozen=True, kw_only=True)
class BestLevels:
    """The best combination of levels that a search counted."""

    levels: Levels | None  # None: the promises hold for none
    loss: float
    counted: int  # combinations that were counted
    is_best: bool  # whether all others were ruled out; False if the time was over first, or levels were left out


class Clock:
    """A limit of time that starts now; None is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._start, self._seconds = time.monotonic(), math.inf if seconds is None else seconds

    @property
    def share(self) -> float:
        """Share of the time that is over, from 0; 1 and more if all of it is."""
        return (time.monotonic() - self._start) / self._seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.share > 1.0


def search_levels(
    objective: Objective,
    *,
    among: Sequence[Sequence[int]] | None = None,
    below: float = math.inf,
    clock: Clock | None = None,
) -> BestLevels:
    """Return the combination with the smallest loss ``below`` this for which the promises hold.

    ``among`` are the levels of each column whose combinations are searched; all if not given.
    """
    lattice, clock = _Lattice(objective.order, among), clock or Clock(None)
    best, loss, counted = None, below, 0
    while (start := lattice.most_promising(loss if objective.has_floors else math.inf)) is not None:
        limit = loss if objective.has_floors else math.inf
        path = lattice.path_up(start, limit) if objective.is_monotone else [start]
        low, high = -1, len(path)  # the promises break at low and hold at high
        while high - low > 1:
            if clock.is_over and best is not None:
                return BestLevels(levels=lattice.levels(best), loss=loss, counted=counted, is_best=False)
            middle = (low + high) // 2
            at = path[middle]
            if not lattice.is_open(at):  # it holds: if it did not, the start of the path would be ruled out
                high = middle
                continue
            evaluation, counted = objective.evaluate(lattice.levels(at)), counted + 1
            lattice.close(at)
            if not evaluation.holds:
                low = middle
                if objective.is_monotone:
                    lattice.rule_out_below(at)
                continue
            high = middle
            # of combinations that lose the same (values that no sampled row has cost nothing), the finest is the best
            if evaluation.loss < loss or (evaluation.loss == loss and objective.has_floors and best in path):
                best, loss = at, evaluation.loss
            if evaluation.above >= loss:
                lattice.rule_out_above(at)
    levels = None if best is None else lattice.levels(best)
    return BestLevels(levels=levels, loss=loss if levels is not None else math.inf, counted=counted, is_best=True)


def descend(start: Levels, objective: Objective, clock: Clock) -> BestLevels:
    """Lower one level after the other, the one that saves most first, as long as the loss falls.

    For more combinations than can be listed. The loss of ``start`` may be infinite.
    """
    levels, counted, order = list(start), 1, objective.order
    loss = objective.evaluate(start).loss
    moved = True
    while moved and not clock.is_over:
        moved = False
        saves = [
            (float(order[place][level - 1] - order[place][level]), place)
            for place, level in enumerate(levels)
            if level > 0
        ]
        for _, place in sorted(saves):
            tried = tuple(level - (other == place) for other, level in enumerate(levels))
            evaluation, counted = objective.evaluate(tried), counted + 1
            if evaluation.loss < loss:
                levels, loss, moved = list(tried), evaluation.loss, True
                break
            if clock.is_over:
                break
    held = loss < math.inf
    return BestLevels(levels=tuple(levels) if held else None, loss=loss, counted=counted, is_best=False)


class _Lattice:
    """Combinations of levels, and which of them may still be the best."""

    def __init__(self, order: Sequence[NDArray[np.float64]], among: Sequence[Sequence[int]] | None) -> None:
        self._among = among or [range(len(of_column)) for of_column in order]
        self._losses = [of_column[list(some)] for of_column, some in zip(order, self._among, strict=True)]
        sizes = [len(of_column) for of_column in self._losses]
        self._steps = np.array([math.prod(sizes[place + 1 :]) for place in range(len(sizes))], dtype=np.int64)
        self._nodes = np.indices(sizes, dtype=np.int16).reshape(len(sizes), -1)
        self.loss = np.zeros(self._nodes.shape[1])
        for of_column, node in zip(self._losses, self._nodes, strict=True):
            self.loss += of_column[node]
        self._order = np.argsort(self.loss, kind="stable")
        self._open = np.ones(len(self.loss), dtype=bool)
        self._next = 0

    def levels(self, position: int) -> Levels:
        return tuple(some[at] for some, at in zip(self._among, self._nodes[:, position].tolist(), strict=True))

    def most_promising(self, below: float) -> int | None:
        """Return the combination with the smallest loss that may still hold; None if none has a loss ``below`` this."""
        while self._next < len(self._order) and not self._open[self._order[self._next]]:
            self._next += 1
        if self._next == len(self._order) or not self.loss[self._order[self._next]] < below:
            return None
        return int(self._order[self._next])

    def path_up(self, start: int, below: float) -> list[int]:
        """Return ever coarser combinations with a loss ``below`` this, each step the one that loses least."""
        path, nodes = [start], self._nodes[:, start].tolist()
        while True:
            steps = [
                (float(of_column[node + 1] - of_column[node]), place)
                for place, (of_column, node) in enumerate(zip(self._losses, nodes, strict=True))
                if node + 1 < len(of_column)
            ]
            if not steps:
                return path
            nodes[min(steps)[1]] += 1
            position = int(self._steps @ np.array(nodes))
            if not self.loss[position] < below:
                return path
            path.append(position)

    def is_open(self, position: int) -> bool:
        """Whether a combination may still be the best."""
        return bool(self._open[position])

    def close(self, position: int) -> None:
        """Mark one combination as counted."""
        self._open[position] = False

    def rule_out_above(self, position: int) -> None:
        """Mark a combination and all coarser ones as no better than the best."""
        coarser = np.flatnonzero(self._open)
        for node in self._nodes:
            coarser = coarser[node[coarser] >= node[position]]
        self._open[coarser] = False

    def rule_out_below(self, position: int) -> None:
        """Mark a combination and all finer ones as broken."""
        finer = np.flatnonzero(self._open)
        for node in self._nodes:
            finer = finer[node[finer] <= node[position]]
        self._open[finer] = False


def choose_levels(columns: Sequence[Groupings], most: int) -> list[list[int]] | None:
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
