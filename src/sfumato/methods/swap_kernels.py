"""Pairs of ranks that are at most a window apart, for rank swapping (Moore 1996), in time proportional to the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.jit import jit

if TYPE_CHECKING:
    from numpy.typing import NDArray


def rank_partners(uniform: NDArray[np.float64], window: int) -> NDArray[np.int64]:
    """Return the partner of each rank: another one at most ``window`` away, or itself if none of those was left.

    Ranks are processed in order. Each that has no partner yet chooses one, uniformly, among the higher ranks within the
    window that have none. ``uniform`` is one random number below 1 per rank.
    """
    partner = np.arange(len(uniform))
    _pair(uniform, window, partner)
    return partner


@jit
def _pair(uniform, window, partner):
    rows = len(uniform)
    free = np.empty(rows, dtype=np.int64)  # ranks within the window above the current one that have no partner
    place = np.full(rows, -1)  # of a rank among the free ones
    count, following = 0, 0
    for rank in range(rows):
        while following < rows and following <= rank + window:
            free[count], place[following] = following, count
            count += 1
            following += 1
        if place[rank] < 0:
            continue
        count = _removed(free, place, count, rank)
        if count == 0:
            continue
        other = free[min(int(uniform[rank] * count), count - 1)]
        count = _removed(free, place, count, other)
        partner[rank], partner[other] = other, rank


@jit(forceinline=True)
def _removed(free, place, count, rank):
    """Remove a rank by putting the last one in its place; return how many are left."""
    last = free[count - 1]
    free[place[rank]], place[last] = last, place[rank]
    place[rank] = -1
    return count - 1
