"""Statistics of columns with noise, recovered from what the manifest reports about the noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.params import is_finite
from sfumato.statistics.estimate import RecoveredEstimate
from sfumato.statistics.moments import Moments, pairwise_covariance
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.release.manifest import Manifest
    from sfumato.statistics.statistic import Statistic
    from sfumato.table.table import Table


# Statistics of a table from its rows with additive noise of known variance (TL §2.3.1; Kim 1986; Fuller 1993).
#
# A row is released as x̃ = (x + r + (d − 1) μ) / d with noise r of mean 0 and covariance R = b·Σ ("correlated") or
# b·diag(Σ) ("uncorrelated"); d is √(1 + b) with Kim's correction and 1 without. Therefore
#
#     E cov(x̃) = (Σ + R) / d²,    so that    Σ_ij = d² · cov(x̃)_ij / (1 + b·m_ij)
#
# with m_ij = 1 where the noise is correlated like the data and on the diagonal, and 0 elsewhere. This is unbiased. A
# statistic g(E, S) is computed from these moments, and the variance of its error follows from its gradient: the noise
# is normal, so that only second moments are needed.


if TYPE_CHECKING:
    Array = NDArray[np.float64]

ROUNDING_VARIANCE = 1.0 / 12.0  # of whole numbers, if the noise is wide enough (Sheppard)
WIDE_ENOUGH = 0.4  # standard deviation of the noise, in whole numbers, from which Sheppard's correction is accurate


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """The noise of a release, as its manifest reports it."""

    level: float  # b: variance of the noise, as a multiple of the variance of the data
    correlated: bool  # whether the noise of different columns has the correlations of the data
    corrected: bool  # whether Kim's correction was applied

    @property
    def shrinkage(self) -> float:
        """The square of d: 1 + b with Kim's correction, 1 without."""
        return 1.0 + self.level if self.corrected else 1.0

    def inflation(self, columns: int, records: int) -> Array:
        """Return how many times its original each covariance is, before the correction: 1 + b·m_ij.

        The mean of the noise is subtracted with that of the rows, which takes one of the records.
        """
        like_data = np.ones((columns, columns)) if self.correlated else np.eye(columns)
        return 1.0 + self.level * like_data * (1.0 - 1.0 / max(records, 1))


def recover(
    parts: Sequence[Statistic], released: Array, noise: AdditiveNoise, rounded: NDArray[np.bool_]
) -> tuple[RecoveredEstimate, ...]:
    """Return one estimate per part of a statistic.

    ``released`` are the columns of the statistic, in their order, with NaN for missing; ``rounded`` tells which columns
    hold whole numbers.
    """
    moments = _RecoveredMoments.of(released, noise, rounded)
    notes = (
        ("rounding removed a part of the noise, so that the value is not exact on average",) if moments.narrow else ()
    )
    return tuple(
        RecoveredEstimate(
            name=str(part),
            value=part.value(moments.original),
            standard_error=moments.standard_error(part),
            released=part.value(moments.released),
            records=moments.original.records,
            notes=notes,
        )
        for part in parts
    )


@dataclass(frozen=True, eq=False, repr=False)
class _RecoveredMoments:
    """The moments of the original, and the parts of the covariance of the released rows."""

    original: Moments
    released: Moments
    signal: Array  # covariance of the released rows without the noise
    noise: Array  # covariance of the noise in the released rows
    slope: Array  # change of a covariance of the original per change of the released one
    narrow: bool  # whether a rounded column has too little noise for Sheppard's correction

    @classmethod
    def of(cls, rows: Array, noise: AdditiveNoise, rounded: NDArray[np.bool_]) -> _RecoveredMoments:
        whole = Moments.of(rows)
        inflation = noise.inflation(rows.shape[1], whole.records)
        # noise was drawn for all rows of a column, of which only those with values in all columns are used
        spread = pairwise_covariance(rows)
        own = (1.0 - 1.0 / inflation) * spread
        wide = np.sqrt(np.maximum(np.diag(own), 0.0)) >= WIDE_ENOUGH
        steps = np.diag(np.where(rounded & wide, ROUNDING_VARIANCE, 0.0))
        own = (1.0 - 1.0 / inflation) * (spread - steps)
        signal = whole.covariance - steps - own
        original = Moments(
            whole.weight, whole.mean, noise.shrinkage * signal, whole.records, whole.names
        )  # the correction moves rows towards the mean, and leaves it where it is
        narrow = bool((rounded & ~wide & (np.diag(spread) > 0.0)).any())
        return cls(original, whole, signal, own + steps, noise.shrinkage / inflation, narrow)

    def standard_error(self, part: Statistic) -> float:
        """Return the root of (gᵀRg + 4 tr(G S G R) + 2 tr(G R G R)) / n, the variance that the noise causes.

        S and R are the covariances of the signal and of the noise, g and G the gradient of the statistic by mean and
        covariance. Noise by resampling or from a mixture has smaller fourth moments, so that this is an upper bound.
        """
        if self.original.records < 1:
            return float("nan")
        gradient = part.gradient(self.original)
        by_covariance = gradient.covariance * self.slope
        product = by_covariance @ self.noise
        variance = (
            gradient.mean @ self.noise @ gradient.mean
            + 4.0 * np.trace(by_covariance @ self.signal @ product)
            + 2.0 * np.trace(product @ product)
        )
        return float(np.sqrt(max(variance, 0.0) / self.original.records))


def recover_estimates(table: Table, manifest: Manifest, wanted: Statistic) -> tuple[RecoveredEstimate, ...] | None:
    """Return the estimates of a statistic, or None if the manifest does not report noise in all of its columns."""
    noise, notes = read_noise(manifest), manifest.notes
    known = set(_names(notes.get("recoverable"))) & set(manifest.altered)
    if noise is None or not wanted.is_characteristic or not set(wanted.columns) <= known:
        return None
    columns = table.select(wanted.columns)
    rounded = np.array([table.kinds[name] is Kind.WHOLE for name in wanted.columns])
    estimates = recover(wanted.parts(), columns.matrix(wanted.columns), noise, rounded)
    limited = [name for name in wanted.columns if name in _names(notes.get("limited"))]
    if not limited:
        return estimates
    note = f"numbers of {', '.join(limited)} were clipped to a range, so that the value is not exact on average"
    return tuple(replace(one, notes=(*one.notes, note)) for one in estimates)


def read_noise(manifest: Manifest) -> AdditiveNoise | None:
    """Return the noise that a manifest reports, or None if there is none."""
    level = manifest.notes.get("noise level")
    if isinstance(level, bool) or not isinstance(level, int | float) or not is_finite(level) or level <= 0.0:
        return None
    return AdditiveNoise(
        level=float(level),
        correlated=manifest.notes.get("correlated") is True,
        corrected=manifest.notes.get("corrected") is True,
    )


def _names(listed: object) -> tuple[str, ...]:
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
