"""Finite bounds for the slopes of a regression with several wide columns, one orthant of the slopes after the other.

Let each value be its midpoint m plus an error of at most r, with the midpoints centred and Σ ω = 1. For slopes b, the
value b·x of a record lies within |b|·r of b·m. Least squares give fitted values with var(fit) = cov(y, fit) and
residuals with var(rest) = var(y) − cov(y, fit). Therefore, whatever the values are,

    least over c of Σ ω max(0, |b·m − c| − |b|·r)²             ≤  largest cov(y, b·x),
    least over a of Σ ω max(0, |m_y − a − b·m| − |b|·r − r_y)²  ≤  largest var(y) − least cov(y, b·x),
    |C b − v|  ≤  Δ |b| + δ,

where C ± Δ and v ± δ enclose the covariances of the regressors, and theirs with y (Oettli and Prager 1964). Among
slopes with given signs, |b| is linear in b, so that the left sides are convex and the right sides linear. The largest
slope is then that of a convex problem. A search finds it approximately; tangents there, and a few more, make a linear
program whose solution is a bound. Of all orthants the one with the largest bound is looked at next, so that the bounds
hold whenever the time is over.

The bounds are finite wherever no choice of values makes the regressors collinear, but they are not attained.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes

MOST_REGRESSORS = 7  # there are 2 to the power of their number of orthants
FAR = 1e4  # slopes beyond this, in standard deviations, count as infinite
NEAR = 0.02  # share of a point's distance from 0 by which it may lie outside: no tangent is added then
ROUNDING = 1e-9  # share of the terms of a tangent by which it is moved outward
STEPS = 60  # of a search for a centre


@dataclass(frozen=True, eq=False, repr=False)
class Slopes:
    """Bounds of all slopes of one regression of the first column on the others, in scaled units."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    problem: ScaledBoxes

    @classmethod
    def of(cls, problem: ScaledBoxes, seconds: float) -> Slopes | None:
        """Compute the bounds in about this time; None with too many regressors, or records that may count or not."""
        if not 2 <= problem.columns - 1 <= MOST_REGRESSORS or problem.extra.any():
            return None
        centred = CentredRecords.of(problem)
        until = time.monotonic() + seconds
        orthants = [
            Orthant(centred, np.array(signs)) for signs in itertools.product((1.0, -1.0), repeat=centred.slopes)
        ]
        ends = np.array(
            [[_highest(orthants, place, sign, until) for place in range(centred.slopes)] for sign in (-1.0, 1.0)]
        )
        ends[ends >= FAR] = math.inf
        ends *= centred.unit
        return cls(-ends[0], ends[1], problem)

    def highest(self, functional: NDArray[np.float64]) -> float:
        """Return an upper bound of functional · c, with c the constant and the slopes."""
        first, rest = float(functional[0]), functional[1:]
        line = np.zeros(self.problem.columns + 1)
        line[1] = first
        bound = self.problem.mean_range(line)[1] if first else 0.0
        for place, factor in enumerate(rest):
            line = np.zeros(self.problem.columns + 1)
            line[0], line[2 + place] = factor, -first  # the constant is the mean of y minus slopes times means
            factors = np.array(self.problem.mean_range(line)) if first else np.array([factor, factor])
            ends = np.array([self.low[place], self.high[place]])
            if factors.any():
                bound += float(np.max(factors[:, None] * ends))
        return bound + ROUNDING * (1.0 + abs(bound)) if math.isfinite(bound) else math.inf


def _highest(orthants: list[Orthant], place: int, sign: float, until: float) -> float:
    """Return an upper bound of sign · slope over all orthants."""
    waiting = [(0.0 if orthant.signs[place] != sign else -FAR, number) for number, orthant in enumerate(orthants)]
    heapq.heapify(waiting)
    points: dict[int, NDArray[np.float64]] = {}
    best = -math.inf  # the largest that is known to be possible
    while waiting:
        bound, number = heapq.heappop(waiting)
        orthant, point = orthants[number], points.get(number)
        if -bound <= best + NEAR * abs(best) or (point is not None and time.monotonic() > until):
            return -bound
        if point is None:
            best = max(best, orthant.climb(place, sign))
        elif not orthant.cut(point):
            return -bound
        found = orthant.highest(place, sign)
        if found is not None:
            points[number] = found.point
            heapq.heappush(waiting, (max(-found.bound, bound), number))
    return -math.inf


@dataclass(frozen=True, eq=False, repr=False)
class CentredRecords:
    """Midpoints and half-widths in units of the standard deviations, and ranges of the covariances."""

    response: NDArray[np.float64]
    response_reach: NDArray[np.float64]
    middle: NDArray[np.float64]  # (records, regressors)
    reach: NDArray[np.float64]
    weight: NDArray[np.float64]  # sums to 1
    unit: NDArray[np.float64]  # of each slope

    @classmethod
    def of(cls, problem: ScaledBoxes) -> CentredRecords:
        """Centre and scale the boxes."""
        weight = problem.weight / problem.weight.sum()
        middle, reach = problem.midpoints, (problem.high - problem.low) / 2.0
        middle = middle - weight @ middle
        scale = np.sqrt(weight @ (middle**2 + reach**2))
        scale[~(scale > 0.0)] = 1.0
        middle, reach = middle / scale, reach / scale * (1.0 + ROUNDING)
        return cls(middle[:, 0], reach[:, 0], middle[:, 1:], reach[:, 1:], weight, scale[0] / scale[1:])

    @property
    def slopes(self) -> int:
        """Number of regressors."""
        return int(self.middle.shape[1])

    @functools.cached_property
    def largest_variance(self) -> float:
        """An upper bound of the variance of the response."""
        return float(self.weight @ (np.abs(self.response) + self.response_reach) ** 2)

    @functools.cached_property
    def with_response(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The covariance of each regressor with the response, and how far it may be from that."""
        weighted, off = self.weight * self.response, self.weight * self.response_reach
        error = np.abs(weighted) @ self.reach + off @ (np.abs(self.middle) + self.reach)
        return weighted @ self.middle, error + off.sum() * (self.weight @ self.reach)

    @functools.cached_property
    def of_regressors(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The covariances of the regressors, and how far they may be from these."""
        weighted, size = self.weight[:, None] * self.middle, self.weight[:, None] * np.abs(self.middle)
        mean = self.weight @ self.reach
        crossed = size.T @ self.reach
        error = crossed + crossed.T + (self.weight[:, None] * self.reach).T @ self.reach + np.outer(mean, mean)
        centre = weighted.T @ self.middle
        most = self.weight @ (np.abs(self.middle) + self.reach) ** 2
        least = self.weight @ np.maximum(np.abs(self.middle) - self.reach, 0.0) ** 2 - mean**2
        least = np.maximum(least, 0.0)
        np.fill_diagonal(centre, (most + least) / 2.0)
        np.fill_diagonal(error, (most - least) / 2.0)
        return centre, error


@dataclass(frozen=True, eq=False, repr=False)
class HighestPoint:
    """A bound, and the sizes of the slopes at which the linear program reaches it."""

    bound: float
    point: NDArray[np.float64]


@dataclass(eq=False, repr=False)
class Orthant:
    """Slopes with given signs: t = |b|, subject to rows · t ≤ limits."""

    records: CentredRecords
    signs: NDArray[np.float64]
    rows: list[NDArray[np.float64]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    is_empty: bool = False

    def __post_init__(self) -> None:
        records = self.records
        (centre, error), (covariance, off) = records.of_regressors, records.with_response
        for sign in (1.0, -1.0):
            self.rows += list(sign * centre * self.signs - error)
            self.limits += (sign * covariance + off + ROUNDING).tolist()
        self._signed = records.middle * self.signs
        self._largest, self._least = self.signs * covariance + off, self.signs * covariance - off
        self._centres = [0.0, 0.0]  # where the last search for a centre ended, of fitted values and of residuals
        self.cut(np.full(records.slopes, FAR))

    def highest(self, place: int, sign: float) -> HighestPoint | None:
        """Return the largest sign · slope that the tangents so far allow; None if they allow nothing.

        The bound is that of the dual solution, which holds however inexactly the program was solved.
        """
        from scipy.optimize import linprog

        if self.is_empty:
            return None
        factor = np.zeros(self.records.slopes)
        factor[place] = sign * self.signs[place]
        rows, limits = np.array(self.rows), np.array(self.limits)
        solved = linprog(-factor, A_ub=rows, b_ub=limits, bounds=(0.0, FAR), method="highs-ds")
        if solved.status == 2:
            self.is_empty = True
            return None
        if solved.status != 0:
            return HighestPoint(FAR, np.full(len(factor), FAR))
        dual = np.maximum(-solved.ineqlin.marginals, 0.0)
        rest = np.maximum(factor - dual @ rows, 0.0)
        bound = float(limits @ dual + FAR * rest.sum())
        return HighestPoint(min(bound + ROUNDING * (1.0 + abs(bound)), FAR), solved.x)

    def climb(self, place: int, sign: float) -> float:
        """Look for the largest sign · slope, add tangents there, and return it; −∞ if nothing is found."""
        from scipy.optimize import minimize

        if self.is_empty:
            return -math.inf
        factor = np.zeros(self.records.slopes)
        factor[place] = -sign * self.signs[place]
        rows, limits = np.array(self.rows[: 2 * len(factor)]), np.array(self.limits[: 2 * len(factor)])
        most = self.records.largest_variance

        @functools.lru_cache(maxsize=2)
        def spreads(sizes: tuple[float, ...]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            at = np.array(sizes)
            fitted, rest = self._fitted(at), self._rest(at)
            room = self._largest @ at - fitted[0], most - self._least @ at - rest[0]
            return np.append(limits - rows @ at, room), np.vstack(
                [-rows, self._largest - fitted[1], -self._least - rest[1]]
            )

        found = minimize(
            lambda sizes: factor @ sizes,
            np.full(len(factor), 0.1),
            jac=lambda _: factor,
            bounds=[(0.0, FAR)] * len(factor),
            constraints={"type": "ineq", "fun": lambda t: spreads(tuple(t))[0], "jac": lambda t: spreads(tuple(t))[1]},
            method="SLSQP",
            options={"maxiter": 60, "ftol": 1e-4},
        )
        if not np.isfinite(found.x).all():
            return -math.inf
        point = np.clip(found.x, 0.0, FAR)
        self._add(point, 1.0, *self._fitted(point), self._largest, 0.0)
        self._add(point, 1.0, *self._rest(point), -self._least, most)
        return float(-factor @ point) if spreads(tuple(point))[0].min() >= -1e-3 else -math.inf

    def cut(self, point: NDArray[np.float64]) -> bool:
        """Add tangents that exclude a point which is too far out; return whether it was."""
        too_far = False
        if (fitted := self._fitted(point))[0] > self._largest @ point:
            inside = float(np.clip(self._largest @ point / fitted[0], ROUNDING, 1.0))
            too_far |= self._add(point, inside, *self._fitted(point * inside), self._largest, 0.0)
        most = self.records.largest_variance
        if self._rest(point)[0] > most - self._least @ point:
            inside = self._boundary(point)
            too_far |= self._add(point, inside, *self._rest(point * inside), -self._least, most)
        return too_far

    def _boundary(self, point: NDArray[np.float64]) -> float:
        """Return about the part of the way to a point at which the residuals become too large."""
        least, most, limit = 0.0, 1.0, self.records.largest_variance
        for _ in range(24):
            middle = (least + most) / 2.0 if least else most / 4.0
            if self._rest(point * middle)[0] > limit - middle * (self._least @ point):
                most = middle
            else:
                least = middle
            if most < 1e-6 or most - least < NEAR / 4.0 * most:
                break
        return most

    def _add(
        self,
        point: NDArray[np.float64],
        inside: float,
        value: float,
        slope: NDArray[np.float64],
        linear: NDArray[np.float64],
        constant: float,
    ) -> bool:
        """Add the tangent of value(t) − linear · t ≤ constant at a point on the way to another one."""
        at, row = point * inside, slope - linear
        limit = float(slope @ at - value + constant)
        size = float(np.abs(slope) @ at) + abs(value) + abs(constant) + float(np.abs(row).sum())
        self.rows.append(row)
        self.limits.append(limit + ROUNDING * size)
        return inside < 1.0 - NEAR

    def _fitted(self, sizes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the least variance of the fitted values, and its slope."""
        reach = self.records.reach @ sizes
        value, pulls, self._centres[0] = _least_spread(
            self._signed @ sizes, reach, self.records.weight, self._centres[0]
        )
        return value, 2.0 * (pulls @ self._signed - np.abs(pulls) @ self.records.reach)

    def _rest(self, sizes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the least variance of the residuals, and its slope."""
        reach = self.records.reach @ sizes + self.records.response_reach
        value, pulls, self._centres[1] = _least_spread(
            self.records.response - self._signed @ sizes, reach, self.records.weight, self._centres[1]
        )
        return value, -2.0 * (pulls @ self._signed + np.abs(pulls) @ self.records.reach)


def _least_spread(
    middle: NDArray[np.float64], reach: NDArray[np.float64], weight: NDArray[np.float64], centre: float
) -> tuple[float, NDArray[np.float64], float]:
    """Return the least over c of Σ ω max(0, |middle − c| − reach)², ω times the signed distances there, and c.

    Newton's method begins at ``centre``; the sum is convex and piecewise quadratic, so that it ends after a few steps.
    """
    low, high = float(middle.min()), float(middle.max())
    centre = min(max(centre, low), high)
    for _ in range(STEPS):
        off = middle - centre
        distance = np.maximum(np.abs(off) - reach, 0.0)
        pulls = weight * np.copysign(distance, off)
        pull, moving = float(pulls.sum()), float(weight[distance > 0.0].sum())
        if abs(pull) <= 1e-14 * (high - low):
            break
        low, high = (centre, high) if pull > 0.0 else (low, centre)
        centre += pull / moving
        if not low < centre < high:
            centre = (low + high) / 2.0
    return float(pulls @ np.copysign(distance, off)), pulls, centre
