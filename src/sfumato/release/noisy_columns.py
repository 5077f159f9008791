"""Estimates from numbers with additive noise of known variance (TL §2.3.1; Kim 1986; Fuller 1987)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.params import is_finite
from sfumato.statistics.combined import Combination, Difference, ShareMeeting
from sfumato.statistics.conditions import base_columns
from sfumato.statistics.model_fit import Model
from sfumato.statistics.moment_statistics import Mean
from sfumato.statistics.moments import Moments, pairwise_covariance
from sfumato.statistics.point_rows import Correction, PointRows, design_of, evaluate
from sfumato.statistics.regression import Regression
from sfumato.statistics.tallies import Count, Sum
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.statistics.estimate import RecoveredEstimate
    from sfumato.statistics.estimate_records import FittedCoefficient
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table

    Array = NDArray[np.float64]


# A row is released as x̃ = (x + r + (d − 1) μ) / d with noise r of mean 0 and covariance R = b·Σ ("correlated") or
# b·diag(Σ) ("uncorrelated"); d is √(1 + b) with Kim's correction and 1 without. Then x* = μ + d (x̃ − μ) is x + r up to
# the mean of the noise, and Σ_ij = cov(x*)_ij / (1 + b·m_ij) with m_ij = 1 where noise is correlated, and 0 elsewhere:
# R follows from the released rows. Records that meet a condition have the mean of x* and the covariance cov(x*) − R.
#
# With b_i the derivative of the estimate by the numbers of record i, and M_i its second derivative divided by 2, normal
# noise causes the variance Σ (b_iᵀ R b_i − 2 tr(M_i R M_i R)).
#
# R follows the covariance of the sample, so that rows x* are not drawn independently: a sample with a large covariance
# has large noise. The error of a parameter is therefore that of the original sample plus that of the noise. The first
# is what x* had if R were fixed (the sum of squared influences on g(cov(x*) − R)) less what fixed noise adds to it.
#
# Noise by density is uneven: r_i has the covariance s_i²·R with s_i² = 1 on average over all rows. The moments of all
# rows are recovered as before; those of a part of the rows are not, except means, because the s_i² of the part are not
# known. They are correlated with the data as well, so that the variance above would be too small. The sum of the
# squared influences of the released rows holds the noise of each row as it is, beside the spread of the data: it is an
# upper bound.


ROUNDING_VARIANCE = 1.0 / 12.0  # of whole numbers, if the noise is wide enough (Sheppard)
WIDE_ENOUGH = 0.4  # standard deviation of the noise, in whole numbers, from which Sheppard's correction is accurate
UNEVEN = "rows have more or less noise by their density, so that the standard error is an upper bound"
NARROW = "rounding removed a part of the noise, so that the value is not exact on average"


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """The noise of a release, as its manifest reports it."""

    level: float  # b: variance of the noise, as a multiple of the variance of the data
    correlated: bool  # whether the noise of different columns has the correlations of the data
    corrected: bool  # whether Kim's correction was applied
    uneven: bool = False  # whether rows in sparse regions have more noise than others

    @property
    def shrinkage(self) -> float:
        """The divisor d: √(1 + b) with Kim's correction, 1 without."""
        return math.sqrt(1.0 + self.level) if self.corrected else 1.0

    def inflation(self, noisy: NDArray[np.bool_], records: int) -> Array:
        """Return how many times its original each covariance is: 1 + b·m_ij.

        The mean of the noise is subtracted with that of the rows, which takes one of the records.
        """
        like_data = np.outer(noisy, noisy) if self.correlated else np.diag(noisy)
        return np.asarray(1.0 + self.level * like_data * (1.0 - 1.0 / max(records, 1)), dtype=np.float64)


def read_noise(manifest: Manifest) -> AdditiveNoise | None:
    """Return the noise that a manifest reports, or None if there is none."""
    level = manifest.notes.get("noise level")
    if isinstance(level, bool) or not isinstance(level, int | float) or not is_finite(level) or level <= 0.0:
        return None
    return AdditiveNoise(
        level=float(level),
        correlated=manifest.notes.get("correlated") is True,
        corrected=manifest.notes.get("corrected") is True,
        uneven=manifest.notes.get("uneven") is True,
    )


@dataclass(frozen=True, eq=False, repr=False)
class NoisyNumber:
    """A statistic of noisy columns: its value, its derivatives, and the same of the rows as they are."""

    value: float
    released: float
    records: int
    influence: Array  # (rows,), with a fixed R
    slopes: Array  # (rows, columns): derivatives by the numbers of each record
    fixed: Array  # (rows, columns): the same with a fixed R
    curved: tuple[tuple[Array, Array], ...] = ()  # weights of the rows, and half the second derivative
    fixed_curved: tuple[tuple[Array, Array], ...] = ()

    def times(self, factor: float) -> NoisyNumber:
        """Return a multiple."""
        return NoisyNumber(
            self.value * factor,
            self.released * factor,
            self.records,
            self.influence * factor,
            self.slopes * factor,
            self.fixed * factor,
            tuple((weight * factor, matrix) for weight, matrix in self.curved),
            tuple((weight * factor, matrix) for weight, matrix in self.fixed_curved),
        )

    def plus(self, other: NoisyNumber) -> NoisyNumber:
        """Return a sum."""
        return NoisyNumber(
            self.value + other.value,
            self.released + other.released,
            min(self.records, other.records),
            self.influence + other.influence,
            self.slopes + other.slopes,
            self.fixed + other.fixed,
            (*self.curved, *other.curved),
            (*self.fixed_curved, *other.fixed_curved),
        )


@dataclass(frozen=True, eq=False, repr=False)
class NoisyColumns:
    """Columns of numbers, some with noise, as x* (not shrunk), and the covariance of the noise."""

    released: Array
    stars: Array
    noise: Array  # R, with the variance of rounding
    share: Array  # of each covariance of x* that is noise
    moved: Array  # (d − 1)/d of columns with noise
    narrow: bool  # whether a rounded column has too little noise for Sheppard's correction
    uneven: bool  # whether the noise of a part of the rows is not that of all

    @classmethod
    def of(
        cls, released: Array, noise: AdditiveNoise, rounded: NDArray[np.bool_], noisy: NDArray[np.bool_]
    ) -> NoisyColumns:
        """Undo the shrinkage of the released numbers; ``rounded`` and ``noisy`` tell which columns are."""
        divisor = np.where(noisy, noise.shrinkage, 1.0)
        complete = released[~np.isnan(released).any(axis=1)]
        mean = complete.mean(axis=0) if len(complete) else np.zeros(released.shape[1])
        stars = mean + divisor * (released - mean)
        inflation = noise.inflation(noisy, len(complete))
        # noise was drawn for all rows of a column, of which only those with values in all columns are used
        spread, share = pairwise_covariance(stars), 1.0 - 1.0 / inflation
        wide = np.sqrt(np.maximum(np.diag(share * spread), 0.0)) >= WIDE_ENOUGH * divisor
        steps = np.diag(np.where(rounded & noisy & wide, ROUNDING_VARIANCE * divisor**2, 0.0))
        narrow = bool((rounded & noisy & ~wide & (np.diag(spread) > 0.0)).any())
        covariance, moved = steps + share * (spread - steps), (divisor - 1.0) / divisor
        return cls(released, stars, covariance, share, moved, narrow, noise.uneven)

    @property
    def notes(self) -> tuple[str, ...]:
        """What an analyst should know about every estimate."""
        return (*((NARROW,) if self.narrow else ()), *((UNEVEN,) if self.uneven else ()))

    def number(self, statistic: Statistic, places: Sequence[int], met: NDArray[np.bool_]) -> NoisyNumber:
        """Return a function of the moments of some columns, of the records that are complete and meet a condition."""
        chosen = list(places)
        stars, noise = self.stars[:, chosen], self.noise[np.ix_(chosen, chosen)]
        complete: NDArray[np.bool_] = np.asarray(~np.isnan(stars).any(axis=1))
        used: NDArray[np.bool_] = np.asarray(met & complete)
        whole = Moments.of(stars[used])
        moments = Moments(whole.weight, whole.mean, whole.covariance - noise, whole.records)
        value = statistic.value(moments) if whole.records else math.nan
        gradient = statistic.gradient(moments)
        by_share = gradient.covariance * self.share[np.ix_(chosen, chosen)]
        own, every = used / max(used.sum(), 1), complete / max(complete.sum(), 1)
        near = np.where(used[:, None], stars - whole.mean, 0.0)
        far = np.where(complete[:, None], stars - every @ np.nan_to_num(stars), 0.0)
        moved = self.moved[chosen] * gradient.mean
        fixed = np.zeros(self.stars.shape)
        fixed[:, chosen] = own[:, None] * (gradient.mean + 2.0 * near @ gradient.covariance)
        slopes = fixed.copy()
        slopes[:, chosen] -= every[:, None] * (moved + 2.0 * far @ by_share)
        square = _quadratic(near, gradient.covariance)
        curved = own, self._embed(gradient.covariance, chosen)
        return NoisyNumber(
            value,
            statistic.value(Moments.of(self.released[used][:, chosen])) if whole.records else math.nan,
            whole.records,
            own * (near @ gradient.mean + square - own @ square),
            slopes,
            fixed,
            (curved, (-every, self._embed(by_share, chosen))),
            (curved,),
        )

    def certain(self, truth: Array, released: float) -> NoisyNumber:
        """Return a number that the noise does not change."""
        nothing = np.zeros(self.stars.shape)
        return NoisyNumber(released, released, len(truth), truth, nothing, nothing)

    def correction(self, one: NoisyNumber) -> Correction:
        """Return the number with its variances."""
        by_noise = self._variance(one.slopes, one.curved)
        squares = float(one.influence @ one.influence)
        total = max(squares - self._variance(one.fixed, one.fixed_curved), 0.0) + by_noise
        total = max(total, squares) if self.uneven else total
        return Correction(
            value=one.value,
            by_method=total if self.uneven else by_noise,
            total=total,
            released=one.released,
            records=one.records,
        )

    def _variance(self, slopes: Array, curved: Sequence[tuple[Array, Array]]) -> float:
        """Return the variance that the noise causes in a number with these derivatives."""
        found = float(((slopes @ self.noise) * slopes).sum())
        products = [(weight, matrix @ self.noise) for weight, matrix in curved]
        for weight, one in products:
            found -= sum(2.0 * float(weight @ other) * float(np.trace(one @ second)) for other, second in products)
        return found

    def _embed(self, values: Array, chosen: list[int]) -> Array:
        """Return a vector or matrix of some columns as one of all."""
        whole = np.zeros([self.stars.shape[1]] * values.ndim)
        whole[np.ix_(*[chosen] * values.ndim)] = values
        return whole


def _quadratic(points: Array, matrix: Array) -> Array:
    return np.asarray(((points @ matrix) * points).sum(axis=1))


def recover(
    parts: Sequence[Statistic],
    released: Array,
    noise: AdditiveNoise,
    rounded: NDArray[np.bool_],
    confidence: float | None = None,
) -> tuple[RecoveredEstimate, ...]:
    """Return one estimate per part of a statistic of columns that all have noise.

    ``released`` are the columns of the statistic, in their order, with NaN for missing; ``rounded`` tells which columns
    hold whole numbers.
    """
    columns = NoisyColumns.of(released, noise, rounded, np.ones(released.shape[1], dtype=bool))
    places, every = range(released.shape[1]), np.ones(len(released), dtype=bool)
    numbers = [columns.correction(columns.number(part, places, every)) for part in parts]
    return tuple(one.estimate(str(part), confidence, columns.notes) for part, one in zip(parts, numbers, strict=True))


def correct_noise(
    table: Table, manifest: Manifest, wanted: Statistic, confidence: float | None
) -> tuple[RecoveredEstimate, ...] | tuple[FittedCoefficient, ...] | None:
    """Correct for noise in columns of numbers; conditions and categories must not be altered."""
    noise = read_noise(manifest)
    noisy = set(manifest.noted_names("recoverable")) & set(manifest.altered)
    if noise is None or not set(base_columns(wanted.columns)) & set(manifest.altered) <= noisy:
        return None
    rows = PointRows.of(table, wanted.columns, np.ones(table.rows))
    if isinstance(wanted, Model):
        return _fit_noisy(wanted, rows, noise, noisy, table)
    numeric = [name for name in wanted.columns if name in rows.cells.names]
    columns = NoisyColumns.of(
        rows.numbers(numeric), noise, _mask(numeric, table, Kind.WHOLE), np.array([name in noisy for name in numeric])
    )
    limited = [name for name in wanted.columns if name in manifest.noted_names("limited")]
    clipped = f"numbers of {', '.join(limited)} were clipped to a range, so that the value is not exact on average"
    notes = [*columns.notes, *([clipped] if limited else [])]
    found = [_read_noisy(part, columns, rows, numeric, noisy) for part in wanted.parts()]
    if any(one is None for one in found):
        return None
    return tuple(
        columns.correction(one).estimate(str(part), confidence, notes)
        for part, one in zip(wanted.parts(), found, strict=True)
        if one is not None
    )


def _read_noisy(
    part: Statistic, columns: NoisyColumns, rows: PointRows, numeric: Sequence[str], noisy: set[str]
) -> NoisyNumber | None:
    """Return a number as a function of the moments of noisy columns, or None if it is none."""
    inner = part.unconditional
    if isinstance(inner, Combination):
        sides = [_read_noisy(one, columns, rows, numeric, noisy) for one in (inner.first, inner.second)]
        if sides[0] is None or sides[1] is None:
            return None
        if isinstance(inner, Difference):
            return sides[0].plus(sides[1].times(-1.0))
        if not sides[1].value:
            return None
        value = sides[0].value / sides[1].value
        plain = sides[0].released / sides[1].released if sides[1].released else math.nan
        both = sides[0].times(1.0 / sides[1].value).plus(sides[1].times(-value / sides[1].value))
        return replace(both, value=value, released=plain)
    if set(part.where.columns) & noisy:
        return None
    if isinstance(inner, Count | ShareMeeting):
        exact = None if set(inner.columns) & noisy else evaluate(part, rows)
        return None if exact is None else columns.certain(exact.influence, exact.value)
    if not isinstance(inner, Sum) and not inner.is_characteristic:
        return None
    function = Mean(inner.column) if isinstance(inner, Sum) else inner
    if not set(function.columns) <= set(numeric):
        return None
    if columns.uneven and part.where.columns and not isinstance(function, Mean):
        return None
    places = [numeric.index(name) for name in function.columns]
    one = columns.number(function, places, rows.meets(part.where))
    return one.times(float(one.records)) if isinstance(inner, Sum) else one


def _fit_noisy(
    model: Model, rows: PointRows, noise: AdditiveNoise, noisy: set[str], table: Table
) -> tuple[FittedCoefficient, ...] | None:
    """Fit a linear model whose columns have noise: a regression by the moments of the original."""
    single = [[factor.column for factor, _ in column] for column in model.design[1:]]
    tangled = any(set(names) & noisy and len(names) > 1 for names in single)
    if model.family != "gaussian" or not model.intercept or model.weights or model.offset or tangled or not single:
        return None
    response, _, _, design = design_of(model, rows)
    names = [model.response, *(one[0] if len(one) == 1 else "" for one in single)]
    points = np.column_stack([response, design[:, 1:]])
    mask = np.array([name in noisy for name in names])
    columns = NoisyColumns.of(points, noise, _mask(names, table, Kind.WHOLE) & mask, mask)
    regression = Regression("0", tuple(map(str, range(1, len(names)))))
    every = np.ones(len(points), dtype=bool)
    numbers = [columns.number(part, range(len(names)), every) for part in regression.parts()]
    notes = (NOISY, *columns.notes)
    return tuple(
        columns.correction(one).coefficient(name, model, notes) for name, one in zip(model.terms, numbers, strict=True)
    )


NOISY = "an estimate, no guarantee: corrected for the noise by its level"


def _mask(names: Iterable[str], table: Table, kind: Kind) -> NDArray[np.bool_]:
    return np.array([table.kinds.get(name) is kind for name in names])
