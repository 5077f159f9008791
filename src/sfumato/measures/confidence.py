"""How certain a measure is: 95 % confidence intervals, permutation tests, and risk relative to a control group."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

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

    def score(self, name: str, *, better: Better = "lower", **others: Any) -> Score:
        """Return it as a score of privacy; ``others`` are fields of the score."""
        ends: dict[str, Any] = {"value": self.value, "low": self.low, "high": self.high}
        return Score(name=name, family="privacy", better=better, **ends, **others)

    def agree(self, chance: float, p_value: float, level: float) -> Interval:
        """Return the interval at the confidence of a test: it is above ``chance`` if and only if the test fails.

        The interval is as wide as that of a normal distribution at this level. Where it would contradict the test, it
        ends where a value with this p-value must have its standard error.
        """
        from scipy.special import ndtri

        failed, wider = p_value <= level, max(1.0, float(-ndtri(level)) / Z)
        low, high = self.value - wider * (self.value - self.low), self.value + wider * (self.high - self.value)
        value = max(self.value, float(np.nextafter(chance, np.inf))) if failed else self.value
        if failed and low <= chance:
            low = value - (value - chance) * float(ndtri(level) / min(ndtri(p_value), -1e-9))
            low = min(max(low, float(np.nextafter(chance, np.inf))), value)
        elif not failed:
            low = min(low, chance)
        return Interval(value, max(0.0, low), min(1.0, max(high, value)))


def share(successes: int, trials: int) -> Interval:
    """Return a share with Wilson's score interval; without trials the share is NaN and the interval is [0, 1]."""
    if trials == 0:
        return Interval(np.nan, 0.0, 1.0)
    centre = (successes + Z**2 / 2.0) / (trials + Z**2)
    margin = Z / (trials + Z**2) * np.sqrt(successes * (trials - successes) / trials + Z**2 / 4.0)
    value = successes / trials  # rounding must not put it outside its interval
    return Interval(value, min(value, max(0.0, float(centre - margin))), max(value, min(1.0, float(centre + margin))))


def guess_score(name: str, correct: int, guesses: int, cells: int, note: str) -> Score:
    """Return the share of hidden cells that were guessed; guesses of which most are wrong tell an intruder nothing."""
    rate = share(correct, cells)
    return rate.score(name, rows=cells, gain=rate.low if share(correct, guesses).low > 0.5 else 0.0, note=note)


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


# Permutation tests: what a statistic would be if it did not matter which of two samples a row belongs to.
#
# If a release is a sample of the same population, its rows and those of the sample that it is compared with can be
# exchanged. The statistics of random exchanges are then its distribution, however rows, columns and statistics depend
# on each other. Several statistics of one measure are adjusted together, by the largest of their standardised values
# (max-T, Westfall and Young), so that the probability that any of them fails by chance is that of a single test. The
# smallest of their p-values would do as well in theory. But p-values of exchanges are whole multiples of 1/(exchanges
# + 1), and one of several statistics often has the smallest one by chance, so that a release with a single leak could
# hardly fail.


EXCHANGES = 1999  # random exchanges; the smallest p-value is 1/2000
DIGITS, ROUNDING = 9, 1e-12  # of statistics that are compared; smaller differences are rounding errors
COSTLY_EXCHANGES = 499  # where each of them takes milliseconds


def exchanges(first: int, second: int, generator: np.random.Generator, count: int = EXCHANGES) -> NDArray[np.bool_]:
    """Return one row per exchange that says which rows are in the first sample; the first row is how it really is."""
    labels = np.zeros((count + 1, first + second), dtype=bool)
    labels[:, :first] = True
    generator.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def exchanges_among(
    chosen: NDArray[np.int64], first: int, second: int, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Return the labels of ``exchanges`` for some rows only, with the same distribution.

    In a random exchange, the number of the chosen rows that are in the first sample is hypergeometric. The work depends
    on the number of chosen rows, not on that of all rows.
    """
    inside = generator.hypergeometric(first, second, len(chosen), size=EXCHANGES)
    labels = np.arange(len(chosen)) < np.concatenate([[0], inside])[:, None]
    labels[0] = chosen < first
    generator.permuted(labels[1:], axis=1, out=labels[1:])
    return labels


def exceedance_shares(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each exchange (row), the share of exchanges with at least as large a statistic, column by column."""
    from scipy.stats import rankdata

    return np.asarray(rankdata(-np.round(statistics, 12), method="max", axis=0) / len(statistics))


def adjust_p_values(statistics: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the p-value of each statistic (column; large is bad), adjusted for their number.

    The first row is what was found, the others are exchanges.
    """
    spread = statistics.std(axis=0)
    standard = (statistics - statistics.mean(axis=0)) / np.where(spread > ROUNDING, spread, 1.0)
    standard[:, spread <= ROUNDING] = 0.0
    largest = np.round(standard.max(axis=1), DIGITS)
    return np.asarray((largest[:, None] >= np.round(standard[0], DIGITS)).mean(axis=0))


def exchanged_p_values(successes: NDArray[Any], inside: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Return the p-value of each attack (column), by how often it succeeds on the first ``inside`` people (rows).

    The p-values are adjusted for the number of attacks.
    """
    labels = exchanges(inside, len(successes) - inside, generator)
    return adjust_p_values(np.asarray(labels.astype(np.float64) @ successes.astype(np.float64)))


def areas(labels: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the area under the ROC curve of the first sample against the second, for each exchange."""
    from scipy.stats import rankdata

    inside = labels.sum(axis=1)
    pairs = inside * (labels.shape[1] - inside)
    above = labels @ rankdata(scores) - inside * (inside + 1) / 2.0
    return np.asarray(np.divide(above, pairs, where=pairs > 0, out=np.full(len(labels), 0.5)))


def largest_gaps(labels: NDArray[np.bool_], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Kolmogorov–Smirnov distance of two samples of the same size, for each exchange."""
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(numbers[order]) > 0.0, True))  # equal numbers are one step
    steps = np.where(labels[:, order], np.int8(1), np.int8(-1))
    return np.asarray(np.abs(np.cumsum(steps, axis=1, dtype=np.int32)[:, ends]).max(axis=1) / (labels.shape[1] / 2.0))


def downward_shifts(labels: NDArray[np.bool_], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how far the first sample is below the second, sup(F − G), for each exchange."""
    order = np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.append(numbers[order][1:] > numbers[order][:-1], True))  # equal numbers are one step
    inside = labels.sum(axis=1, keepdims=True)
    steps = np.where(labels[:, order], 1.0 / inside, -1.0 / (labels.shape[1] - inside))
    return np.asarray(np.maximum(np.cumsum(steps, axis=1)[:, ends].max(axis=1), 0.0))


@dataclass(frozen=True, kw_only=True)
class AttackRisk:
    """The success rates of an attack inside and outside, and the risk that the release causes (Giomi et al., 2023).

    ``value`` is (inside − outside)/(1 − outside), from 0 (no gain) to 1 (every attack succeeds). Its 95 % interval
    comes from propagation of the errors of the two rates.
    """

    inside: float  # success rate on people of the original
    outside: float  # success rate on people of the reference
    value: float
    low: float
    high: float
    attacks: int

    @classmethod
    def of(cls, inside: int, inside_trials: int, outside: int, outside_trials: int) -> AttackRisk:
        """Compute the risk from successes and trials on both sides, with Wilson's estimates of the two rates."""
        main, control = _wilson(inside, inside_trials), _wilson(outside, outside_trials)
        left = max(1.0 - control.rate, 1e-12)
        value = (main.rate - control.rate) / left
        margin = float(np.hypot(main.error / left, (main.rate - 1.0) / left**2 * control.error))
        return cls(
            inside=inside / max(1, inside_trials),
            outside=outside / max(1, outside_trials),
            value=min(1.0, max(0.0, value)),
            low=min(1.0, max(0.0, value - margin)),
            high=min(1.0, max(0.0, value + margin)),
            attacks=inside_trials,
        )

    @property
    def is_significant(self) -> bool:
        """Whether the interval is above 0, so that the attack gains something with 95 % confidence."""
        return self.low > 0.0

    def score(self, name: str, note: str, p_value: float | None = None) -> Score:
        """Return the risk as a score; ``p_value`` is the probability of such a risk by chance."""
        note += f"; success rate {self.inside:.1%} inside the table, {self.outside:.1%} outside"
        interval = Interval(self.value, self.low, self.high)
        chance = None if p_value is None else 0.0
        return interval.score(name, rows=self.attacks, note=note, p_value=p_value, gain=self.low, chance=chance)


@dataclass(frozen=True)
class _Rate:
    rate: float
    error: float


def _wilson(successes: int, trials: int) -> _Rate:
    if not trials:
        return _Rate(0.0, 0.5)
    spread = np.sqrt(successes * (trials - successes) / trials + Z**2 / 4.0)
    return _Rate((successes + Z**2 / 2.0) / (trials + Z**2), float(Z / (trials + Z**2) * spread))
