"""Confidence intervals of measures, all of 95 %, and a test that compares two samples."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.assessment import Better

Z = 1.959964  # two-sided 95 % of the normal distribution


@dataclass(frozen=True)
class Interval:
    """A value between two bounds."""

    value: float
    low: float
    high: float

    def score(
        self,
        name: str,
        *,
        rows: int,
        note: str,
        better: Better = "lower",
        p_value: float | None = None,
        gain: float | None = None,
    ) -> Score:
        """Return it as a score of privacy."""
        return Score(
            name=name,
            family="privacy",
            value=self.value,
            low=self.low,
            high=self.high,
            better=better,
            rows=rows,
            p_value=p_value,
            gain=gain,
            note=note,
        )


def share(successes: int, trials: int) -> Interval:
    """Return a share with Wilson's score interval; without trials the share is NaN and the interval is [0, 1]."""
    if trials == 0:
        return Interval(np.nan, 0.0, 1.0)
    centre = (successes + Z**2 / 2.0) / (trials + Z**2)
    margin = Z / (trials + Z**2) * np.sqrt(successes * (trials - successes) / trials + Z**2 / 4.0)
    value = successes / trials  # rounding must not put it outside its interval
    return Interval(value, min(value, max(0.0, float(centre - margin))), max(value, min(1.0, float(centre + margin))))


def area_under_curve(positive: NDArray[np.float64], negative: NDArray[np.float64]) -> Interval:
    """Return the probability that a positive scores above a negative, ties counting half: 0.5 is guessing, 1 perfect.

    The interval is by Hanley and McNeil. Without positives or without negatives the result is 0.5, from 0 to 1.
    """
    if not positive.size or not negative.size:
        return Interval(0.5, 0.0, 1.0)
    order = np.sort(negative)
    below = np.searchsorted(order, positive, side="left")
    not_above = np.searchsorted(order, positive, side="right")
    area = float((below + not_above).sum() / (2.0 * positive.size * negative.size))
    both_positive, both_negative = area / (2.0 - area), 2.0 * area**2 / (1.0 + area)
    variance = (
        area * (1.0 - area)
        + (positive.size - 1) * (both_positive - area**2)
        + (negative.size - 1) * (both_negative - area**2)
    ) / (positive.size * negative.size)
    margin = Z * float(np.sqrt(max(variance, 0.0)))
    return Interval(area, max(0.0, area - margin), min(1.0, area + margin))


def quantile(numbers: NDArray[np.float64], at: float) -> Interval:
    """Return a quantile with the order statistics that enclose it in 95 % of samples."""
    ordered = np.sort(numbers)
    margin = Z * np.sqrt(len(ordered) * at * (1.0 - at))
    low = int(np.clip(np.floor(len(ordered) * at - margin), 0, len(ordered) - 1))
    high = int(np.clip(np.ceil(len(ordered) * at + margin), 0, len(ordered) - 1))
    return Interval(float(np.quantile(ordered, at)), float(ordered[low]), float(ordered[high]))


def shift_p_value(
    ours: NDArray[np.float64],
    theirs: NDArray[np.float64],
    *,
    alternative: Literal["two-sided", "greater"] = "two-sided",
) -> float:
    """Return the p-value of the two-sample Kolmogorov–Smirnov test: the probability of such a large shift by chance.

    ``"greater"`` tests only whether the distribution function of ``ours`` is above, that is, whether ours are smaller.
    The p-value is exact for samples of up to 10,000; for larger samples, or if the exact computation fails, it comes
    from the limiting distribution.
    """
    from scipy.stats import ks_2samp

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="ks_2samp: Exact calculation unsuccessful", category=RuntimeWarning)
        return float(ks_2samp(ours, theirs, alternative=alternative).pvalue)
