"""The best box around a point: XK §II and §IV in one formula.

Minimise Σ a_i Δ_i subject to Π 2Δ_i ≥ volume and lo_i ≤ Δ_i ≤ hi_i. The problem is convex in log Δ. Its solution is
Δ_i = clip(c / a_i, lo_i, hi_i), where the number c follows from the volume. XK's loop over t gives the same for hi =
∞.

Volumes are given as logarithms, because the volume of a box with hundreds of sides is not a floating-point number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


VANISHING = 1e-200  # a lower bound below this counts as 0: its products would underflow
CELLS_AT_ONCE = 1 << 20  # points × axes that are computed together, so that the memory does not grow with the table


def half_widths(
    sensitivity: NDArray[np.float64],
    log_volume: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the half-widths Δ (N, n) of the best box around each of N points.

    ``sensitivity`` is a (N, n), not negative; ``log_volume`` is log(k/ρ) at each point; ``low`` and ``high`` (n,) bound
    Δ, and ``high`` is finite (half the column's range). An axis without sensitivity gets its whole range. If even the
    whole ranges have too little volume, they are returned; if the lower bounds have enough, these are returned.
    """
    a = np.asarray(sensitivity, dtype=np.float64)
    low = np.where(low > VANISHING, np.minimum(low, high), 0.0)
    found = np.empty_like(a)
    step = max(1, CELLS_AT_ONCE // max(1, a.shape[1]))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        level = _level(a[part], log_volume[part], low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            found[part] = np.clip(np.where(a[part] > 0.0, level[:, None] / a[part], np.inf), low, high)
    return found


def _level(
    a: NDArray[np.float64], log_volume: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return c of each point.

    The logarithm of the volume is constant + growing · log c between the breakpoints a_i·lo_i and a_i·hi_i, at which
    axis i starts and stops growing. Cumulative sums over the sorted breakpoints give both coefficients.
    """
    if not (high > 0.0).all():
        return np.asarray((a * high).max(axis=1))  # a side without width leaves no volume, however long the others are
    matters, has_low = a > 0.0, low > 0.0
    with np.errstate(divide="ignore"):
        per_level, at_low, at_high = np.where(matters, np.log(2.0 / a), 0.0), np.log(2.0 * low), np.log(2.0 * high)
    held = np.where(has_low, at_low, 0.0)  # of an axis that does not grow yet; one without lower bound grows from c = 0
    start = np.where(matters, held, at_high).sum(axis=1)
    steps = np.concatenate([np.where(matters, per_level - held, 0.0), np.where(matters, at_high - per_level, 0.0)], 1)
    changes = np.concatenate([matters, matters * -1], axis=1)
    breaks = np.concatenate([a * low, a * high], axis=1)
    order = np.argsort(breaks, axis=1)
    breaks, steps, changes = (np.take_along_axis(array, order, axis=1) for array in (breaks, steps, changes))
    constant, growing = start[:, None] + np.cumsum(steps, axis=1), np.cumsum(changes, axis=1)
    is_empty = (breaks == 0.0) & np.any(matters & ~has_low, axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_at_breaks = np.where(growing > 0, constant + growing * np.log(breaks), constant)
    reached = (is_empty | (log_at_breaks < log_volume[:, None])).sum(axis=1)
    last = np.maximum(reached - 1, 0)[:, None]  # the last breakpoint at which the box is not yet large enough
    at, slope, offset = (np.take_along_axis(array, last, axis=1)[:, 0] for array in (breaks, growing, constant))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        level = np.where(slope > 0, np.exp((log_volume - offset) / slope), at)
    return np.where(reached == 0, breaks[:, 0], np.maximum(level, at))


def contribution(sensitivity: NDArray[np.float64], widths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ a_i Δ_i of each point; it is n·c(x) if no width is at a bound (XK §II)."""
    total: NDArray[np.float64] = np.einsum("pi,pi->p", sensitivity, widths)
    return total
