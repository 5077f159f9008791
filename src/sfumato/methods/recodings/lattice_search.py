"""The best combination of levels for a loss that depends on the groups, or on the rows that are suppressed.

As in :mod:`level_lattice`, coarser levels only join groups. Two facts bound the search:

- a combination never loses less than the sum of the ``floors`` of its columns, which are known without counting;
- what a counted combination tells about all coarser ones (``Judged.above``).

The search takes the combination with the smallest floor that is still open, goes up from it, and finds by bisection
where the promise begins to hold. It ends when no open combination can lose less than the best one: the result is then
the best of all combinations. If the time ends first, it is the best that was counted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.methods.recodings.level_lattice import Lattice, Levels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was counted for one combination of levels."""

    holds: bool  # whether the promises hold
    loss: float  # of the rows that would be released and suppressed; infinite if the promises do not hold
    above: float = 0.0  # no coarser combination loses less than this


@dataclass(frozen=True, kw_only=True)
class FoundLevels:
    """The best combination of levels that was found."""

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
    order: Sequence[NDArray[np.float64]],
    judge: Callable[[Levels], Judged],
    *,
    has_floors: bool,
    is_monotone: bool,
    clock: Clock,
) -> FoundLevels:
    """Return the combination with the smallest loss for which the promises hold.

    ``order[j][level]`` grows with the level; combinations with a small sum are tried first. If ``has_floors``, the sum
    is also the least that a combination can lose. If ``is_monotone``, promises that hold for a combination hold for all
    coarser ones.
    """
    lattice = Lattice(order)
    best, loss, counted = None, math.inf, 0
    while (start := lattice.most_promising(loss if has_floors else math.inf)) is not None:
        path = lattice.path_up(start, loss if has_floors else math.inf) if is_monotone else [start]
        low, high = -1, len(path)  # the promises break at low and hold at high
        while high - low > 1:
            if clock.is_over and best is not None:
                return FoundLevels(levels=lattice.levels(best), loss=loss, counted=counted, is_best=False)
            middle = (low + high) // 2
            at = path[middle]
            if not lattice.is_open(at):  # it holds: if it did not, the start of the path would be ruled out
                high = middle
                continue
            found, counted = judge(lattice.levels(at)), counted + 1
            lattice.close(at)
            if not found.holds:
                low = middle
                if is_monotone:
                    lattice.rule_out_below(at)
                continue
            high = middle
            if found.loss < loss:
                best, loss = at, found.loss
            if found.above >= loss:
                lattice.rule_out_above(at)
    levels = None if best is None else lattice.levels(best)
    return FoundLevels(levels=levels, loss=loss, counted=counted, is_best=True)


def descend(
    start: Levels, order: Sequence[NDArray[np.float64]], judge: Callable[[Levels], Judged], clock: Clock
) -> FoundLevels:
    """Lower one level after the other, the one that saves most first, as long as the loss falls.

    For more combinations than can be listed. The loss of ``start`` may be infinite.
    """
    levels, counted = list(start), 1
    loss = judge(start).loss
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
            found, counted = judge(tried), counted + 1
            if found.loss < loss:
                levels, loss, moved = list(tried), found.loss, True
                break
            if clock.is_over:
                break
    held = loss < math.inf
    return FoundLevels(levels=tuple(levels) if held else None, loss=loss, counted=counted, is_best=False)
