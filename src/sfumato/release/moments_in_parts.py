"""Means, variances, covariances and correlations of a release of any size, from two passes over its parts.

The ranges of a very large release do not fit into memory. From its parts come the moments of the midpoints m, and then
sums over the half-widths h, which are small whatever the number of rows. With x = m + d and |d| ≤ h, for N rows

- mean: E(x) = E(m) ± Δ;
- variance: V(m) − Δ ≤ V(x) ≤ V(m) + Δ + Q, because V(x) = V(m) + 2 Σ (m − E(m)) d / N + V(d) and 0 ≤ V(d) ≤ Q;
- covariance: C(m) ± (Δ + √(Q₁ Q₂)), by Cauchy and Schwarz;
- correlation: r(m) ± (Δ + (√q₁ + √q₂)² / 2) / (1 − a₁ − a₂).

Δ = Σ |∂C/∂x| h is the first-order uncertainty of XK §II, Q = Σ h² / N, q = Q / V(m) and a = Σ h |m − E(m)| / (N V(m)).
For the correlation, r ≤ ρ holds if x·y − ρ |x| |y| ≤ 0 for the centred columns as vectors x and y. With the unit
vectors u and v of their midpoints, |x| |y| ≥ (x·u) (y·v) if ρ ≥ 0, and otherwise |x| |y| ≤ (λ |x|² + |y|² / λ) / 2,
where λ = |m₂| / |m₁|. Both give the same first order, Δ, which grows with |ρ − r(m)| by at most a₁ + a₂ each; the rest
is √(q₁ q₂) + (q₁ + q₂) / 2 at most, because a² ≤ q. The lowest correlation is the negative of the highest one of −y.

Intervals are wider than the narrowest by terms of second order. Their attained ends are those of the values at the end
of each range to which the derivative points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.questions import Question
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.moments import Moments, derivatives
from sfumato.statistics.statistic import Statistic
from sfumato.table.intervals import interval_names, is_interval, missing_name
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

NOTE = "computed in parts, from moments and sums: a little wider than the narrowest interval"
SUMS = 1e-9  # relative rounding error of sums over parts, at most; sums over 10⁶ parts err by less
CELL = 64 * np.finfo(float).eps  # rounding error of midpoints and differences, relative to the largest end
KINDS = (Mean, Variance, Sd, Covariance, Correlation)

Ask = Callable[[Sequence[Question[Any]]], Any]  # returns the answers by question


def can_be_summed(statistic: Statistic, table: Table) -> bool:
    """Return whether moments tell the statistic: its columns are numbers, or ranges of them, and none is missing."""
    return type(statistic) in KINDS and all(is_numeric(name, table) for name in statistic.columns)


def is_numeric(name: str, table: Table) -> bool:
    """Return whether a column holds numbers, or ranges of them, of which no box counts missing ones."""
    numbers = (Kind.CONTINUOUS, Kind.WHOLE)
    if is_interval(name, table.kinds):
        return missing_name(name) not in table.kinds and table.kinds[interval_names(name)[0]] in numbers
    return table.kinds.get(name) in numbers


def midpoints_of(statistic: Statistic, table: Table) -> MidpointMoments:
    """Return the first question about the columns of a statistic."""
    ends = (interval_names(name) if is_interval(name, table.kinds) else (name, name) for name in statistic.columns)
    return MidpointMoments(tuple((low, high) for low, high in ends))


def estimate_in_parts(statistic: Statistic, table: Table, ask: Ask) -> Estimate | None:
    """Return the estimate; None if cells are missing, or if a column is constant and its correlation not defined."""
    first = midpoints_of(statistic, table)
    middle: _Middle = ask([first])[first]
    moments = middle.moments
    value = statistic.value(moments) if moments.records == table.rows else math.nan
    if not math.isfinite(value):
        return None
    second = _SumsOfRanges(first.ends, statistic, *_frozen(moments))
    sums: _Sums = ask([second])[second]
    low, high = _bounds(statistic, value, moments, sums, middle.largest)
    attained = [value, *(statistic.value(one) for one in (sums.lower, sums.upper))]
    inner = [one for one in attained if not math.isnan(one)]  # a choice of equal values has no correlation
    return Estimate(
        name=str(statistic),
        value=value,
        low=float(min(low, *inner)),
        high=float(max(high, *inner)),
        inner_low=min(inner),
        inner_high=max(inner),
        linear_low=value - sums.first_order / moments.records,
        linear_high=value + sums.first_order / moments.records,
        records=moments.records,
        notes=(NOTE,),
    )


def _bounds(
    statistic: Statistic, value: float, moments: Moments, sums: _Sums, largest: NDArray[np.float64]
) -> tuple[float, float]:
    """Return the guaranteed ends, rounded outward."""
    count, sd = moments.records, moments.sd
    first = sums.first_order / count * (1.0 + SUMS)
    squares = sums.squares / max(count - 1, 1) * (1.0 + SUMS)  # so that it holds for unbiased statistics too
    rounding = SUMS * sd + CELL * largest
    if isinstance(statistic, Mean):
        return value - first - rounding[0], value + first + rounding[0]
    if isinstance(statistic, Covariance):
        more = first + math.sqrt(squares[0] * squares[1]) + _product_rounding(sd, rounding)
        return value - more, value + more
    if isinstance(statistic, Correlation):
        shares = rounding / sd
        reach = 1.0 - float((sums.reach / count / sd**2 * (1.0 + SUMS) + 2.0 * shares).sum())
        rest = float(np.sqrt(squares).dot(1.0 / sd)) ** 2 / 2.0
        more = (first + rest + 4.0 * float(shares.sum())) / reach if reach > 0.0 else 2.0
        return max(-1.0, value - more), min(1.0, value + more)
    more = _product_rounding(np.repeat(sd, 2), np.repeat(rounding, 2))
    if isinstance(statistic, Variance):
        return max(0.0, value - first - more), value + first + squares[0] + more
    return _root_bounds(value, first, squares[0], more)


def _product_rounding(sd: NDArray[np.float64], rounding: NDArray[np.float64]) -> float:
    """Return by how much a variance or covariance may be off if each column is off by its rounding."""
    return 4.0 * float(sd[0] * rounding[1] + sd[1] * rounding[0] + rounding[0] * rounding[1])


def _root_bounds(value: float, first: float, squares: float, more: float) -> tuple[float, float]:
    """Return the ends of a standard deviation; its first order is that of its variance, divided by 2 sd."""
    square, around = value * value, 2.0 * value * first
    low, high = square - around - more, square + around + squares + more
    return math.sqrt(max(0.0, low)) * (1.0 - CELL), math.sqrt(high) * (1.0 + CELL)


def _frozen(moments: Moments) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...], int]:
    return tuple(moments.mean.tolist()), tuple(map(tuple, moments.covariance.tolist())), moments.records


@dataclass(frozen=True, repr=False)
class _Middle:
    """Moments of the midpoints, and the largest end of each column, without its sign."""

    moments: Moments
    largest: NDArray[np.float64]

    def merge(self, other: _Middle) -> _Middle:
        return _Middle(self.moments.merge(other.moments), np.maximum(self.largest, other.largest))


@dataclass(frozen=True)
class MidpointMoments(Question[_Middle]):
    """Moments of the midpoints of ranges, given the columns of their ends, or the same column twice."""

    ends: tuple[tuple[str, str], ...]

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pair in self.ends for name in pair))

    def of(self, batch: Table) -> _Middle:
        low, high = read_ends(batch, self.ends)
        largest = np.fmax(np.abs(low), np.abs(high)).max(axis=0, initial=0.0)
        return _Middle(Moments.of(low + (high - low) / 2.0), np.nan_to_num(largest))


@dataclass(frozen=True, repr=False)
class _Sums:
    """What the ranges of some rows add up to, and the moments of the choices to which the derivatives point."""

    first_order: float  # Σ |∂C/∂x| h, of a statistic of N rows multiplied by N
    squares: NDArray[np.float64]  # Σ h², per column
    reach: NDArray[np.float64]  # Σ h |m − E(m)|, per column
    lower: Moments
    upper: Moments

    def merge(self, other: _Sums) -> _Sums:
        return _Sums(
            self.first_order + other.first_order,
            self.squares + other.squares,
            self.reach + other.reach,
            self.lower.merge(other.lower),
            self.upper.merge(other.upper),
        )


@dataclass(frozen=True)
class _SumsOfRanges(Question[_Sums]):
    """Sums over the ranges of the columns of a statistic, about the moments of their midpoints."""

    ends: tuple[tuple[str, str], ...]
    statistic: Statistic
    mean: tuple[float, ...]
    covariance: tuple[tuple[float, ...], ...]
    records: int

    @property
    def reads(self) -> tuple[str, ...]:
        return MidpointMoments(self.ends).reads

    def of(self, batch: Table) -> _Sums:
        low, high = read_ends(batch, self.ends)
        middle, half = low + (high - low) / 2.0, (high - low) / 2.0
        half += CELL * np.maximum(np.abs(low), np.abs(high))
        about = Moments(float(self.records), np.array(self.mean), np.array(self.covariance), self.records)
        slopes = derivatives(self.statistic, about, middle)
        return _Sums(
            float((np.abs(slopes) * half).sum()),
            (half * half).sum(axis=0),
            (half * np.abs(middle - about.mean)).sum(axis=0),
            Moments.of(np.where(slopes > 0.0, low, high)),
            Moments.of(np.where(slopes > 0.0, high, low)),
        )


def read_ends(batch: Table, ends: Sequence[tuple[str, str]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the low and the high ends of all columns, (rows, columns) each."""
    low, high = ([batch.numbers(pair[side]) for pair in ends] for side in (0, 1))
    return np.column_stack(low), np.column_stack(high)
