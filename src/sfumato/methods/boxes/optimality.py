"""How close the boxes come to the theoretical optimum (XK §II): the density of records, and the best boxes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.plan.plan import Evidence, Optimality
from sfumato.table.intervals import Intervals, interval_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.methods.boxes.axes import Axes, NumberAxis
    from sfumato.methods.boxes.diversity import DiversityRule
    from sfumato.methods.boxes.sensitivities import Sensitivities
    from sfumato.table.table import Table


NEIGHBOURS = 12


def log_density(
    records: NDArray[np.float64], points: NDArray[np.float64], neighbours: int = NEIGHBOURS
) -> NDArray[np.float64]:
    """Estimate the logarithm of the records per unit of volume: (m − 1) ÷ the volume of the ball with m neighbours.

    Distances are computed after whitening, so that the ball follows the shape of the data. Points that coincide with
    more than m records have no finite density; they get the density of the smallest ball with a volume above 0.
    """
    from sfumato.kernels.neighbours import nearest

    count, axes = records.shape
    near = min(neighbours, count)
    covariance = np.atleast_2d(np.cov(records.T, bias=True))
    spread, directions = np.linalg.eigh(covariance)
    widest = float(spread.max())
    spread = np.sqrt(np.maximum(spread, 1e-24 * widest)) if widest > 0.0 else np.ones(axes)
    whiten = directions / spread
    distances = nearest(points @ whiten, records @ whiten, near).distance[:, -1]
    positive = distances[distances > 0.0]
    distances = np.maximum(distances, positive.min() if positive.size else 1.0)
    log_ball = axes / 2 * math.log(math.pi) - math.lgamma(axes / 2 + 1)
    return np.asarray(math.log(max(near - 1, 1)) - log_ball - axes * np.log(distances) - np.log(spread).sum())


def normal_scores(records: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each column mapped to normal scores by its ranks, and the logarithm of the volume per volume at a record.

    Balls in a skewed column reach from its dense into its sparse part, so that its density would be estimated too low
    and the optimum told up to 2.7 times too high. Of scores it is told 6 to 35 % too low, which is the safe side.
    """
    from scipy.special import ndtri

    count = len(records)
    rank = np.arange(count)
    score = ndtri((rank + 0.5) / count)
    reach = np.clip(np.minimum(rank, count - 1 - rank), 1, NEIGHBOURS)  # as many records on both sides
    before, after = np.maximum(rank - reach, 0), np.minimum(rank + reach, count - 1)
    scores, log_slope = np.empty_like(records), np.zeros(count)
    for axis, column in enumerate(records.T):
        order = np.argsort(column, kind="stable")
        gap = column[order][after] - column[order][before]
        smallest = gap[gap > 0.0].min() if (gap > 0.0).any() else 1.0
        scores[order, axis] = score
        log_slope[order] += np.log(score[after] - score[before]) - np.log(np.maximum(gap, smallest))
    return scores, log_slope


# The best box around a point: XK §II and §IV in one formula.
#
# Minimise Σ a_i Δ_i subject to Π 2Δ_i ≥ volume and lo_i ≤ Δ_i ≤ hi_i. The problem is convex in log Δ. Its solution is
# Δ_i = clip(c / a_i, lo_i, hi_i), where the number c follows from the volume. XK's loop over t gives the same for hi
# = ∞.
#
# Volumes are given as logarithms, because the volume of a box with hundreds of sides is not a floating-point number.


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
    widths = np.empty_like(a)
    step = max(1, CELLS_AT_ONCE // max(1, a.shape[1]))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        level = _level(a[part], log_volume[part], low, high)
        with np.errstate(divide="ignore", invalid="ignore"):
            widths[part] = np.clip(np.where(a[part] > 0.0, level[:, None] / a[part], np.inf), low, high)
    return widths


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
    return np.asarray(np.einsum("pi,pi->p", sensitivity, widths))


RECORDS = 10_000  # records used; evenly spaced in a larger table, so that the time does not grow with it
CELLS = 1_000_000  # records × columns used; a table of many columns uses fewer records
POINTS = 1_000  # points at which the best box is computed
DISTINCT = 0.9  # share of the sampled values that must be different for a meaningful density


@dataclass(frozen=True, repr=False)
class OptimalityInput:
    """What the comparison with the optimum needs: a sample of records with their boxes.

    The comparison takes longer than a small release and is rarely read, so it is computed on request. Until then the
    sampled rows of the original are kept in memory, and only there: see :class:`.Diagnostics`.
    """

    axes: Axes
    sensitivities: Sensitivities
    diversity: DiversityRule
    k: int
    rows: Table  # sampled rows of the original
    half: NDArray[np.float64]  # half-widths of their boxes, by numeric axis
    released_rows: int

    @classmethod
    def of(
        cls, axes: Axes, sensitivities: Sensitivities, diversity: DiversityRule, k: int, evidence: Evidence
    ) -> OptimalityInput:
        """Sample the records evenly in the order of the original, so that the sample is the same at each call."""
        total, names = evidence.released.rows, [axis.name for axis in axes.numbers]
        wanted = min(RECORDS, max(POINTS, CELLS // max(1, len(axes.all))), total)
        place = np.full(evidence.original.rows, -1, dtype=np.int64)
        place[evidence.origin] = np.arange(total)
        chosen = place[place >= 0][np.linspace(0, total - 1, wanted).astype(np.int64)]
        ends = evidence.released.select([end for name in names for end in interval_names(name)]).take(chosen)
        half = np.empty((wanted, len(names)))
        for position, name in enumerate(names):
            interval = Intervals.of(ends, name)
            half[:, position] = np.nan_to_num((interval.high - interval.low) / 2.0)
        rows = evidence.original.take(evidence.origin[chosen])
        return cls(axes, sensitivities, diversity, k, rows, half, total)

    def __call__(self) -> Optimality | None:
        """Compare the width reached with the optimum for the numeric axes that matter; None if there are none.

        Along one column it is exact. Of several it is asymptotic: it assumes that records have a density. If values
        repeat or are missing, it does not apply and is NaN.
        """
        numbers = self.axes.numbers
        if not numbers:
            return None
        weights = _per_unit_of_sampling(self.sensitivities, self.rows)[:, : len(numbers)]
        places = np.column_stack([axis.coordinates(self.rows) for axis in numbers])
        achieved = float(contribution(weights, self.half).mean())
        matters = (weights.mean(axis=0) > 0.0) & (places.max(axis=0) > places.min(axis=0))
        if not matters.any():
            return Optimality(achieved=achieved, asymptotic=0.0, shrunk=0.0, records=len(places))
        reason = _why_no_bound([axis for axis, one in zip(numbers, matters, strict=True) if one], places[:, matters])
        if reason:
            nan = np.nan
            return Optimality(achieved=achieved, asymptotic=nan, shrunk=nan, reason=reason, records=len(places))
        apart = np.array([self.diversity.epsilon.get(axis.name, 0.0) for axis in numbers])[matters]
        if matters.sum() == 1:
            shrunk = self._best_along_line(places[:, matters][:, 0], weights[:, matters][:, 0])
            asymptotic = shrunk * (self.k + 1) / (self.k - 1)
        else:
            asymptotic = self._asymptotic(places[:, matters], weights[:, matters], self.diversity.l * apart / 2.0)
            shrunk = asymptotic * (self.k - 1) / (self.k + 1)
        return Optimality(achieved=achieved, asymptotic=asymptotic, shrunk=shrunk, records=len(places))

    def _best_along_line(self, places: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
        """Return the mean contribution of the best runs of k to 2k − 1 records, by dynamic programming.

        Along one column this is the optimum itself, of which no density needs to be estimated. Boxes of a sample with
        k records are wider than those of all records, by the share of the sample.
        """
        order = np.argsort(places, kind="stable")
        value, total = places[order], np.concatenate([[0.0], np.cumsum(weights[order])])
        best = np.full(len(value) + 1, np.inf)
        best[0] = 0.0
        for end in range(self.k, len(value) + 1):
            begin = np.arange(max(0, end - 2 * self.k + 1), end - self.k + 1)
            width = (value[end - 1] - value[begin]) / 2.0
            best[end] = np.min(best[begin] + (total[end] - total[begin]) * width)
        return float(best[-1] / len(value)) * len(value) / self.released_rows

    def _asymptotic(self, places: NDArray[np.float64], weights: NDArray[np.float64], low: NDArray[np.float64]) -> float:
        """Return the mean contribution of the best boxes around some of the records."""
        some = np.linspace(0, len(places) - 1, min(POINTS, len(places))).astype(np.int64)
        scores, log_slope = normal_scores(places)
        log_per_volume = log_density(scores, scores[some]) + log_slope[some]
        log_records_per_volume = log_per_volume + np.log(self.released_rows / len(places))
        high = (places.max(axis=0) - places.min(axis=0)) / 2.0
        widths = half_widths(weights[some], np.log(self.k) - log_records_per_volume, low, high)
        return float(contribution(weights[some], widths).mean())


def _per_unit_of_sampling(sensitivities: Sensitivities, rows: Table) -> NDArray[np.float64]:
    """Return sensitivities for sampling weights scaled to mean 1, so that their scale does not matter."""
    weights = sensitivities.of(rows).astype(np.float64)
    if sensitivities.weight is None:
        return weights
    mean = float(np.nan_to_num(rows.numbers(sensitivities.weight)).mean())
    return weights / mean if mean > 0.0 else weights


def _why_no_bound(axes: Sequence[NumberAxis], places: NDArray[np.float64]) -> str:
    """Return why no optimum is known for these columns; empty if one is known."""
    ranked = [axis.name for axis in axes if axis.nodes is not None]
    if ranked:
        return f"the tree decides where {', '.join(map(repr, ranked))} can be cut"
    missing = [axis.name for axis in axes if axis.has_missing]
    if missing:
        return f"values are missing in {', '.join(map(repr, missing))}"
    tied = [
        axis.name
        for axis, column in zip(axes, places.T, strict=True)
        if len(np.unique(column)) < DISTINCT * len(column)
    ]
    return f"values repeat in {', '.join(map(repr, tied))}, which the theory does not cover" if tied else ""
