"""All coefficients of Cox's proportional hazards, and all log-rank statistics, of records in boxes.

Ties are Breslow's: an event i at the time t_i is compared with all who are at risk then, t_j ≥ t_i. With s = v·z and
the weights w e^η of those at risk, −v·U = Σ_i d_i (A_i − s_i), where A_i = N_i / D_i is the mean of s at risk. Around
a number a_i it is A_i = a_i + Q_i / D_i with Q_i = Σ_j w_j e^{η_j} (s_j − a_i), which is 0 at the midpoints. For fixed
c_i near d_i / D_i the sum

    Σ_i d_i (a_i − s_i) + Σ_i c_i Q_i = Σ_j [d_j (a_j − s_j) + w_j e^{η_j} (s_j C_j − B_j)]

has one term per record, with C_j and B_j the sums of c_i and c_i a_i over the events up to t_j. Each term has its own
smallest value in its box, as in :mod:`.score_equation`. What is left, Σ_i (d_i / D_i − c_i) Q_i, is a product of two
small numbers, and both are bounded for each event.

If times are intervals, it is open for some pairs whether j is at risk at the event i. Such a pair counts with some
number from 0 to 1, which is a half in the sums above, and at most a half more or less. The likelihood is log-concave
for any such numbers, and moves continuously with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EPS
from sfumato.statistics.bounds.score_equation import Facet, LikelihoodBoxes, divide_boxes

Array = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class AtRisk:
    """Who is at risk at which event, for certain and possibly, if times lie between two ends.

    Sums take less time if the records are sorted from late to early.
    """

    start: Array  # (G,)
    end: Array  # (G,)
    events: Places  # (E,), the records that may have an event
    alone: NDArray[np.bool_]  # (G,), one record each: it is at risk at its own event, whenever that is

    @cached_property
    def is_known(self) -> bool:
        """Whether it is certain for every pair."""
        return bool((self.start == self.end).all())

    @cached_property
    def _own(self) -> NDArray[np.bool_]:
        return self.alone & (self.start < self.end)

    @cached_property
    def _first(self) -> list[tuple[Places | slice, Places]]:
        """The records from late to early, and how many of them are at risk at each event: certainly, and possibly."""
        return [self._places(self.start, self.end[self.events]), self._places(self.end, self.start[self.events])]

    @cached_property
    def _last(self) -> list[tuple[Places | slice, Places]]:
        """The events from early to late, and how many of them find each record at risk: certainly, and possibly."""
        start, end = -self.start[self.events][::-1], -self.end[self.events][::-1]
        return [self._places(end, -self.start), self._places(start, -self.end)]

    @staticmethod
    def _places(own: Array, others: Array) -> tuple[Places | slice, Places]:
        """Return an order from the largest to the smallest, and how many are not below each of the others."""
        order = slice(None) if (own[:-1] >= own[1:]).all() else np.argsort(-own, kind="stable")
        return order, np.searchsorted(-own[order], -others, side="right")

    def over_records(self, certain: Array, possible: Array | None = None) -> tuple[Array, Array]:
        """Return for each event the sums over those who are certainly at risk, and over those who may be."""
        (order, count), (other, most) = self._first
        sure = _totals(certain[order])[count]
        if self._own.any():
            sure += certain[self.events] * _column(self._own[self.events], certain)
        if possible is None and self.is_known:
            return sure, sure
        return sure, _totals((certain if possible is None else possible)[other])[most]

    def over_events(self, values: Array) -> tuple[Array, Array]:
        """Return for each record the sums over the events that certainly find it at risk, and over those that may."""
        (order, count), (other, most) = self._last
        sure = _totals(values[::-1][order])[count]
        if self._own.any():
            own = self._own[self.events]
            sure[self.events[own]] += values[own]
        return (sure, sure) if self.is_known else (sure, _totals(values[::-1][other])[most])


def _totals(values: Array) -> Array:
    """Return the sums of the first 0, 1, 2, … values."""
    found = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=found[1:])
    return found


def _column(values: NDArray[np.generic], like: Array) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1, *[1] * (like.ndim - 1))


@dataclass(frozen=True, eq=False, repr=False)
class RiskBoxes(LikelihoodBoxes):
    """Records of proportional hazards: boxes of the design, and limits of the times and of the events."""

    start: Array  # (G,)
    end: Array
    event: Array  # from 0 to 1: the midpoint of what is known
    event_half: Array
    alone: NDArray[np.bool_]
    owner: Places | None = None  # the record of each piece, if boxes are divided
    piece_middle: Array | None = None
    piece_half: Array | None = None

    @cached_property
    def at_risk(self) -> AtRisk:
        """The risk sets of all choices."""
        return AtRisk(self.start, self.end, np.flatnonzero(self.event + self.event_half > 0.0), self.alone)

    @cached_property
    def _midway(self) -> AtRisk:
        middle = (self.start + self.end) / 2.0
        return replace(self.at_risk, start=middle, end=middle)

    @cached_property
    def _most(self) -> Array:
        return self.weight + self.extra

    def _hazards(self, beta: Array) -> tuple[Array, Array, Array, Array]:
        """Return w e^η, the logarithm of D of the events, their mean z, and d / D, all at the midpoints."""
        eta = self.middle @ beta + self.offset
        top = float(eta.max())
        hazard = self.likely * np.exp(eta - top)
        totals = np.maximum(self._midway.over_records(hazard)[0], 1e-300)
        means = self._midway.over_records(hazard[:, None] * self.middle)[0] / totals[:, None]
        events = self.at_risk.events
        return hazard, np.log(totals) + top, means, self.likely[events] * self.event[events] / totals

    def likelihood(self, beta: Array) -> float:
        events = self.at_risk.events
        eta = self.middle[events] @ beta + self.offset[events]
        return float((self.likely * self.event)[events] @ (eta - self._hazards(beta)[1]))

    def residuals(self, beta: Array) -> Array:
        hazard, _, means, rate = self._hazards(beta)
        own = np.zeros_like(self.middle)
        own[self.at_risk.events] = means
        past = self._midway.over_events(rate[:, None] * means)[0]
        share = np.divide(hazard, self.likely, out=np.zeros_like(hazard), where=self.likely > 0.0)[:, None]
        expected = self._midway.over_events(rate)[0][:, None]
        return self.event[:, None] * (self.middle - own) - share * (expected * self.middle - past)

    def information(self, beta: Array) -> Array:
        hazard, _, means, rate = self._hazards(beta)
        expected = hazard * self._midway.over_events(rate)[0]
        events = (self.likely * self.event)[self.at_risk.events]
        return np.asarray(self.middle.T @ (expected[:, None] * self.middle) - means.T @ (events[:, None] * means))

    def rounding(self, beta: Array) -> Array:
        inverse = np.linalg.inv(self.information(beta))
        hazard, _, _, rate = self._hazards(beta)
        size = self._most @ ((1.0 + self.event)[:, None] * np.abs(self.middle @ inverse))
        size = size + (hazard * self._midway.over_events(rate)[0]) @ np.abs(self.middle @ inverse)
        return 1e-9 * np.sqrt(np.maximum(np.diag(inverse), 0.0)) + 256.0 * len(hazard) * EPS * np.asarray(size)

    def divided(self) -> RiskBoxes:
        middle, half, owner = divide_boxes(self.middle, self.half)
        return (
            self if len(owner) == len(self.middle) else replace(self, owner=owner, piece_middle=middle, piece_half=half)
        )

    def least_terms(self, betas: Array, aims: Array) -> Array:
        return _Slope.of(self, betas, aims).least(self)

    def least_in_cells(self, betas: Array, facet: Facet, aims: Array, extent: Array) -> tuple[Array, Array]:
        free, tied = list(facet.free), [facet.tied]
        if not free:
            centre = self.least_terms(betas, aims)
            return centre, centre
        ratio = facet.normal[free] / facet.normal[facet.tied]
        moved = self.middle[:, free] - self.middle[:, tied] * ratio
        spread = self.half[:, free] + self.half[:, tied] * np.abs(ratio)
        least = _Slope.of(self, betas, aims, _Cells(moved, spread, extent)).least(self)
        centre, rest = least.copy(), np.flatnonzero(~(least > 0.0))
        if len(rest):
            centre[rest] = self.least_terms(betas[rest], aims[rest])
        return centre, least


@dataclass(frozen=True, eq=False, repr=False)
class _Cells:
    """Cells of coefficients: the change of η is ``moved`` ± ``spread``, times a δ of at most ``extent``."""

    moved: Array  # (G, p − 1)
    spread: Array
    extent: Array  # (cells, p − 1)


@dataclass(frozen=True, eq=False, repr=False)
class _Slope:
    """Bounds of −v·U around some coefficients, for all choices; arrays of records or events × cells."""

    betas: Array
    aims: Array
    cells: _Cells | None
    s: Array  # v·z at the midpoints, and how far it can be away
    ds: Array
    eta: Array
    deta: Array  # how far η can be from it, in the whole cell

    @classmethod
    def of(cls, boxes: RiskBoxes, betas: Array, aims: Array, cells: _Cells | None = None) -> _Slope:
        """Return the directions and the linear predictors; η is shifted, which changes nothing."""
        eta = boxes.middle @ betas.T + boxes.offset[:, None]
        deta = boxes.half @ np.abs(betas).T
        if cells is not None:
            deta = deta + (np.abs(cells.moved) + cells.spread) @ cells.extent.T
        s, ds = boxes.middle @ aims.T, boxes.half @ np.abs(aims).T
        return cls(betas, aims, cells, s, ds, eta - eta.max(axis=0), deta * (1.0 + 4.0 * EPS))

    @cached_property
    def hazard(self) -> Array:
        """e^η at the midpoints."""
        return np.asarray(np.exp(self.eta))

    @cached_property
    def highest(self) -> Array:
        """The largest e^η."""
        return np.asarray(np.exp(self.eta + self.deta) * (1.0 + 8.0 * EPS))

    def least(self, boxes: RiskBoxes) -> Array:
        """Return the lower bounds, one per cell; −∞ if there is none."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            means, rate, left = self._events(boxes)
            past = _Past.of(boxes, means, rate, self.s, self.ds)
            least, size = self._records(boxes, means, past)
            if self.cells is not None:
                least = least - self._largest_change(boxes, past)
            found = least - left - 64.0 * len(boxes.weight) * EPS * size
        return np.where(np.isnan(found), -np.inf, found)

    def _events(self, boxes: RiskBoxes) -> tuple[Array, Array, Array]:
        """Return a_i and c_i of the events, and an upper bound of Σ |d_i / D_i − c_i| |Q_i|."""
        at_risk, likely = boxes.at_risk, boxes.likely[:, None] * self.hazard
        weight, most = boxes.weight[:, None], boxes._most[:, None]
        lowest = weight * np.exp(self.eta - self.deta) * (1.0 - 8.0 * EPS)
        totals = sum(at_risk.over_records(likely))
        means = np.where(totals > 0.0, sum(at_risk.over_records(likely * self.s)) / totals, 0.0)
        fewest, largest = at_risk.over_records(lowest, most * self.highest)
        events = at_risk.events
        event, half = boxes.event[events, None], boxes.event_half[events, None]
        # Records that may not count are at risk at their own events, if these are at one time.
        joining = boxes.extra[:, None] * np.exp(self.eta - self.deta) * _column(boxes.start == boxes.end, self.eta)
        ends = (
            weight[events] * (event - half) / largest,
            most[events] * (event + half) / (fewest + joining[events]),
        )
        slack = 1.0 + 8.0 * len(boxes.weight) * EPS
        rate, apart = (ends[0] + ends[1]) / 2.0, (ends[1] * slack - ends[0] / slack) / 2.0
        size = self._largest_gap(boxes, likely, means)
        return means, rate, np.asarray((apart * size).sum(axis=0) * slack)

    def _largest_gap(self, boxes: RiskBoxes, likely: Array, means: Array) -> Array:
        """Return an upper bound of |Q_i|: Σ |change of w e^η| |s − a| by the inequality of Cauchy, and Σ w e^η |ds|."""
        at_risk, most = boxes.at_risk, boxes._most[:, None] * self.highest
        least = boxes.weight[:, None] * np.exp(self.eta - self.deta)
        certain, open_ = np.maximum(most - likely, likely - least), np.maximum(most - likely / 2.0, likely / 2.0)
        sums = []
        for power in (np.ones_like(self.s), self.s, self.s * self.s):
            sure, _ = at_risk.over_records(certain * power)
            if not at_risk.is_known:
                own, all_ = at_risk.over_records(open_ * power)
                sure = sure + all_ - own
            sums.append(sure)
        zero, one, two = sums
        square = two - 2.0 * means * one + means * means * zero + 1e-10 * (two + means * means * zero)
        return np.asarray(np.sqrt(np.maximum(zero * square, 0.0)) + at_risk.over_records(most * self.ds)[1])

    def _records(self, boxes: RiskBoxes, means: Array, past: _Past) -> tuple[Array, Array]:
        """Return the sum of the smallest terms of the records, and the sum of their sizes."""
        own, event, half = np.zeros_like(self.s), boxes.event[:, None], boxes.event_half[:, None]
        own[boxes.at_risk.events] = means
        aside = half * (np.abs(own - self.s) + self.ds) + self.highest * past.open_
        least = self._pieces(boxes, own, past) - aside
        total = boxes.weight @ least + boxes.extra @ np.minimum(least, 0.0)
        size = boxes._most @ (
            self.highest * (past.count * (np.abs(self.s) + self.ds) + np.abs(past.total))
            + event * (np.abs(own) + np.abs(self.s) + self.ds)
            + aside
        )
        return np.asarray(total), np.asarray(size)

    def _pieces(self, boxes: RiskBoxes, own: Array, past: _Past) -> Array:
        """Return the smallest e (a − s) + e^η (s C − B) of each record, by Taylor's formula in its pieces."""
        event, count, total = boxes.event[:, None], past.count, past.total
        s, ds, half, eta, deta = self.s, self.ds, boxes.half, self.eta, boxes.half @ np.abs(self.betas).T
        if boxes.owner is not None and boxes.piece_middle is not None and boxes.piece_half is not None:
            place, half = boxes.owner, boxes.piece_half
            shift = boxes.piece_middle - boxes.middle[place]
            event, count, total, own = event[place], count[place], total[place], own[place]
            s, eta = s[place] + shift @ self.aims.T, eta[place] + shift @ self.betas.T
            ds, deta = half @ np.abs(self.aims).T, half @ np.abs(self.betas).T
        hazard, gap = np.exp(eta), s * count - total
        first = np.zeros_like(s)
        for k in np.flatnonzero(half.any(axis=0)):
            slope = self.aims[:, k] * (hazard * count - event) + hazard * gap * self.betas[:, k]
            first += np.abs(slope) * half[:, [k]]
        bend = (np.abs(gap) + count * ds) * deta * deta / 2.0 + count * deta * ds
        terms = event * (own - s) + hazard * gap - first - np.exp(deta) * hazard * bend
        if boxes.owner is None:
            return np.asarray(terms)
        return np.asarray(np.minimum.reduceat(terms, np.searchsorted(boxes.owner, np.arange(len(self.s))), axis=0))

    def _largest_change(self, boxes: RiskBoxes, past: _Past) -> Array:
        """Return an upper bound of how far the terms of the records change together within a cell."""
        assert self.cells is not None
        moved, extent = self.cells.moved, self.cells.extent
        gap, away = self.s * past.count - past.total, past.count * self.ds
        slope = self.hazard * gap
        together = np.abs(moved.T @ (boxes.likely[:, None] * slope))  # (p − 1, cells)
        apart = np.maximum(boxes.likely - boxes.weight, boxes._most - boxes.likely)
        shift, spread = np.abs(moved) @ extent.T, self.cells.spread @ extent.T
        rest = (np.abs(gap) * self.deta + away) * shift + (np.abs(gap) + away) * spread
        change = (together * extent.T).sum(axis=0) + apart @ (np.abs(slope) * shift)
        return np.asarray(change + boxes._most @ (self.highest * rest)) * (1.0 + 1e-9)


@dataclass(frozen=True, eq=False, repr=False)
class _Past:
    """The events that find each record at risk: C_j, B_j, and how far the open ones can move s_j C_j − B_j."""

    count: Array
    total: Array
    open_: Array

    @classmethod
    def of(cls, boxes: RiskBoxes, means: Array, rate: Array, s: Array, ds: Array) -> _Past:
        """Add up c_i and c_i a_i; an open event counts half, and may count a half more or less."""
        sums = [boxes.at_risk.over_events(one) for one in (rate, rate * means)]
        count, total = ((sure + may) / 2.0 for sure, may in sums)
        if boxes.at_risk.is_known:
            return cls(count, total, np.zeros_like(count))
        zero, one = (np.maximum(sums[0][1] - sums[0][0], 0.0), sums[1][1] - sums[1][0])
        sure, may = boxes.at_risk.over_events(rate * means * means)
        square = may - sure - 2.0 * s * one + s * s * zero + 1e-10 * (may + s * s * zero)
        return cls(count, total, (np.sqrt(np.maximum(zero * square, 0.0)) + ds * zero) / 2.0)


def bound_log_rank(
    start: Array, end: Array, event: Array, second: NDArray[np.bool_], count: Array
) -> tuple[float, float]:
    """Return limits of the log-rank χ² if times lie between ``start`` and ``end``; equal ones if all are points."""
    grid = np.unique(np.concatenate([start, end]))
    first, last = np.searchsorted(grid, start), np.searchsorted(grid, end)

    def total(places: NDArray[np.int64], rows: NDArray[np.bool_]) -> Array:
        return np.bincount(places[rows], weights=count[rows], minlength=len(grid)).astype(np.float64)

    def reach(places: NDArray[np.int64], rows: NDArray[np.bool_]) -> Array:
        return np.asarray(np.cumsum(total(places, rows)[::-1])[::-1])

    sure, may = ([reach(ends, rows) for rows in (~second, second)] for ends in (first, last))
    died = event == 1.0
    possible = np.cumsum(total(first, died)) - np.cumsum(total(last, died)) + total(last, died)
    known = total(first, died & (first == last))
    least = sure[1] / np.maximum(sure[1] + may[0], 1e-300)
    most = np.where(may[1] + sure[0] > 0.0, may[1] / np.maximum(may[1] + sure[0], 1e-300), 1.0)
    fewest = sure[0] + sure[1]
    ties = np.maximum(fewest - possible, 0.0) / np.maximum(fewest - 1.0, 1.0)
    exact = np.maximum(may[0] + may[1] - known, 0.0) / np.maximum(may[0] + may[1] - 1.0, 1.0)
    first, last, weight = first[died], last[died], count[died]
    low, high, tied = (_range_minimum(one, first, last) for one in (least, -most, ties))
    high = -high
    spread = [low * (1.0 - low), high * (1.0 - high)]
    widest = np.where((low <= 0.5) & (high >= 0.5), 0.25, np.maximum(*spread))
    untied = np.where(first == last, exact[first], 1.0)
    gaps = [float(weight[second[died]].sum() - weight @ share) for share in (high, low)]
    variance = float(weight @ (np.minimum(*spread) * tied)), float(weight @ (widest * untied))
    nearest, farthest = max(gaps[0], -gaps[1], 0.0), max(abs(gaps[0]), abs(gaps[1]))
    bottom = nearest**2 / variance[1] if variance[1] > 0.0 else 0.0
    return bottom, farthest**2 / variance[0] if variance[0] > 0.0 else math.inf if farthest > 0.0 else 0.0


def _range_minimum(values: Array, first: NDArray[np.int64], last: NDArray[np.int64]) -> Array:
    """Return the smallest value between two positions, both included, for each pair: by minima of powers of two."""
    found, width = np.empty(len(first)), 1
    power = np.frexp((last - first + 1).astype(np.float64))[1] - 1
    level = values
    for exponent in range(int(power.max(initial=0)) + 1):
        rows = power == exponent
        found[rows] = np.minimum(level[first[rows]], level[last[rows] - width + 1])
        level, width = np.minimum(level[:-width], level[width:]) if width < len(level) else level, 2 * width
    return found
