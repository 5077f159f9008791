"""The best box around a point: XK §II and §IV in one formula.

Minimise Σ a_i Δ_i subject to Π 2Δ_i ≥ volume and lo_i ≤ Δ_i ≤ hi_i. The problem is convex in log Δ. Its solution is
Δ_i = clip(c / a_i, lo_i, hi_i), where the number c follows from the volume. XK's loop over t gives the same for hi = ∞.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


VANISHING = 1e-200  # a lower bound below this counts as 0: its products would underflow


def half_widths(
    sensitivity: NDArray[np.float64],
    volume: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the half-widths Δ (N, n) of the best box around each of N points.

    ``sensitivity`` is a (N, n), not negative; ``volume`` is k/ρ at each point; ``low`` and ``high`` (n,) bound Δ, and
    ``high`` is finite (half the column's range). An axis without sensitivity gets its whole range. If even the whole
    ranges have too little volume, they are returned; if the lower bounds have enough, these are returned.
    """
    a, log_volume = np.asarray(sensitivity, dtype=np.float64), np.log(volume)
    low = np.where(low > VANISHING, np.minimum(low, high), 0.0)
    level = _level(a, log_volume, low, high)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.where(a > 0.0, level[:, None] / a, np.inf)
    return np.clip(wanted, low, high)


def _level(
    a: NDArray[np.float64], log_volume: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return c of each point, from the breakpoints a_i·lo_i and a_i·hi_i at which an axis reaches a bound."""
    breaks = np.sort(np.concatenate([a * low, a * high], axis=1), axis=1)  # (N, 2n)
    with np.errstate(divide="ignore", invalid="ignore"):
        at_breaks = np.where(a[:, None, :] > 0.0, breaks[:, :, None] / a[:, None, :], np.inf)
        log_at_breaks = np.log(2.0 * np.clip(at_breaks, low, high)).sum(axis=2)  # −inf where a width is still 0
    # the last breakpoint at which the box is not yet large enough, and the number of axes that grow after it
    reached = (log_at_breaks < log_volume[:, None]).sum(axis=1)
    last = np.clip(reached - 1, 0, breaks.shape[1] - 1)[:, None]
    start, held = (np.take_along_axis(array, last, axis=1)[:, 0] for array in (breaks, log_at_breaks))
    following = np.take_along_axis(breaks, np.clip(last + 1, 0, breaks.shape[1] - 1), axis=1)[:, 0]
    # if the box at ``start`` has no volume yet, measure back from the next breakpoint
    empty = ~np.isfinite(held)
    held_next = np.take_along_axis(log_at_breaks, np.clip(last + 1, 0, breaks.shape[1] - 1), axis=1)[:, 0]
    free = ((a * low <= start[:, None]) & (a * high > start[:, None]) & (a > 0.0)).sum(axis=1)
    from_, volume_from = np.where(empty, following, start), np.where(empty, held_next, held)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        level = np.exp(np.log(from_) + (log_volume - volume_from) / free)
    level = np.where(free > 0, level, start)
    level = np.where(reached == 0, breaks[:, 0], level)
    level[reached == breaks.shape[1]] = breaks[reached == breaks.shape[1], -1]
    return level


def contribution(sensitivity: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ a_i Δ_i of each point; it is n·c(x) if no width is at a bound (XK §II)."""
    total: NDArray[np.float64] = np.einsum("pi,pi->p", sensitivity, widths)
    return total
