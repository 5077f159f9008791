"""Estimates from the noisy measurements of a differentially private release, with intervals of a stated probability.

The noise of each measured number is known: whole, symmetric, and so close to normal that quantiles of the normal
distribution, widened by half a step of the grid, hold. An interval is the set of values that such noise does not rule
out, and the events that it rests on are joined by a union bound. Write Ŝ for noisy sums, s for the standard deviation
of the noise, z for a quantile:

* a mean m: Ŝx − m·n̂ is nothing but noise of standard deviation s·√(1 + m²), so |Ŝx/n̂ − m| ≤ z·s·√(1 + m²)/n̂;
* a covariance c with means m, m′: Ŝxy/n̂ − m̂·m̂′ + (m − m̂)(m′ − m̂′) − c is noise of √(1 + m² + m′² + (mm′ − c)²)·s/n̂;
* a correlation r with a = sd(y)/sd(x): cov − (r/2)(a·var(x) + var(y)/a) vanishes, and is flat in a around its truth;
* coefficients b of a regression: M̂(b̂ − b) = noise of the right side − noise of M̂ · b, row by row.

All of these hold exactly for the true values, whatever they are: nothing is linearised. Rounding to the grid is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.statistics.estimate import ORIGINAL, Estimate
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.regression import Coefficient
from sfumato.statistics.tallies import Sum

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.statistics.statistic import Statistic

NOTE = "numbers outside their domain count as its ends"
MOST_ROUNDS = 60  # of an iteration that bounds the size of coefficients
Ends = tuple[float, float, float]  # value, low, high


def make_estimate(
    part: Statistic, value: float, low: float, high: float, probability: float, records: float, unit: str = ""
) -> Estimate:
    """Return the record of an estimate; its interval is not wider than what the statistic can be at all."""
    least, most = part.limits
    low, high = max(least, -math.inf if math.isnan(low) else low), min(most, math.inf if math.isnan(high) else high)
    if low > high:  # only noise that is larger than stated leaves nothing
        low, high = least, most
    nothing: dict[str, Any] = dict.fromkeys(("inner_low", "inner_high", "linear_low", "linear_high"), math.nan)
    return Estimate(
        name=str(part),
        value=min(max(value, least), most),
        low=low,
        high=high,
        records=max(0, round(records)),
        of=ORIGINAL,
        unit=unit,
        notes=(NOTE,),
        probability=probability,
        **nothing,
    )


def reach(error: float) -> float:
    """Return the normal quantile that noise exceeds on either side with this probability in all."""
    from scipy.special import ndtri

    return float(-ndtri(max(error, 1e-300) / 2.0))


@dataclass(frozen=True, eq=False, repr=False)
class NoisySums:
    """Noisy sums of scaled numbers u = (x − center) ÷ half, which lie between −1 and 1, and of their products."""

    columns: tuple[str, ...]
    order: int
    centers: NDArray[np.float64]
    halves: NDArray[np.float64]
    matrix: NDArray[np.float64]  # of 1 and the columns: sums of products; NaN where they were not measured
    noise: float  # standard deviation of the noise of each entry
    step: float  # of the grid, in units of u

    @classmethod
    def of(cls, note: Mapping[str, Any]) -> NoisySums:
        """Read the measurement from a manifest."""
        columns, grid = tuple(note["columns"]), float(note["grid"])
        sums, size = np.asarray(note["sums"], dtype=np.float64) / grid, len(columns) + 1
        matrix = np.full((size, size), np.nan)
        matrix[0, :] = matrix[:, 0] = sums[:size]
        if note["order"] == 2:
            for (one, two), entry in zip(combinations_with_replacement(range(1, size), 2), sums[size:], strict=True):
                matrix[one, two] = matrix[two, one] = entry
        centers, halves = (np.asarray(note[name], dtype=np.float64) for name in ("centers", "halves"))
        return cls(columns, int(note["order"]), centers, halves, matrix, float(note["sigma"]) / grid, 1.0 / grid)

    @property
    def records(self) -> float:
        """Number of complete rows, with noise."""
        return float(self.matrix[0, 0])

    def at(self, name: str) -> int:
        """Return the row of a column in the matrix."""
        return self.columns.index(name) + 1

    def slack(self, error: float) -> float:
        """Return how far rounding of all rows to the grid, and of noise to whole numbers, can move a sum."""
        return 1.5 * self.step * (max(self.records, 0.0) + reach(error) * self.noise + 1.0)

    def mean(self, name: str, error: float) -> tuple[float, float]:
        """Return the mean of u and half of the width of its interval."""
        rows, own = self.records, float(self.matrix[0, self.at(name)])
        if rows <= 0.0:
            return 0.0, 1.0
        mean, half = own / rows, 1.0
        for _ in range(2):  # a narrower interval of m gives less noise
            largest = min(1.0, abs(mean) + half)
            half = min(half, (reach(error) * self.noise * math.hypot(1.0, largest) + self.slack(error)) / rows)
        return mean, half

    def covariance(self, one: str, two: str, error: float) -> tuple[float, float, float]:
        """Return the covariance of two columns of u with its ends; an eighth of the error is that of each mean."""
        first, second = self.mean(one, error / 8.0), self.mean(two, error / 8.0)
        rows = self.records
        if rows <= 0.0:
            return 0.0, -1.0, 1.0
        value = float(self.matrix[self.at(one), self.at(two)]) / rows - first[0] * second[0]
        m, other = (min(1.0, abs(mean) + half) for mean, half in (first, second))
        both, half = first[1] * second[1], 1.0
        for _ in range(3):  # a narrower interval of c gives less noise
            largest = m * other + min(1.0, abs(value) + half + both)
            spread = self.noise * math.sqrt(1.0 + m * m + other * other + largest**2)
            half = min(half, (reach(0.75 * error) * spread + 4.0 * self.slack(error)) / rows)
        return value, value - half - (0.0 if one == two else both), value + half + both


def _mean(sums: NoisySums, part: Any, error: float) -> Ends:
    mean, half = sums.mean(part.column, error)
    center, width = float(sums.centers[0]), float(sums.halves[0])
    low, high = max(-1.0, mean - half), min(1.0, mean + half)
    if low > high:  # only noise that is larger than stated leaves nothing
        low, high = -1.0, 1.0
    mean = min(max(mean, -1.0), 1.0)
    return center + width * mean, center + width * low, center + width * high


def _sum(sums: NoisySums, part: Any, error: float) -> Ends:
    center, width = float(sums.centers[0]), float(sums.halves[0])
    value = center * sums.records + width * float(sums.matrix[0, 1])
    half = reach(error) * sums.noise * math.hypot(center, width) + width * sums.slack(error)
    return value, value - half, value + half


def _spread(sums: NoisySums, part: Any, error: float) -> Ends:
    """Return a variance, of the population or of a sample; the number of rows is known only with noise."""
    names = part.columns if len(part.columns) == 2 else part.columns * 2
    unit = float(np.prod([sums.halves[sums.at(name) - 1] for name in names]))
    found = unit * np.array(sums.covariance(names[0], names[1], 0.9 * error))
    if names[0] == names[1]:
        found = np.maximum(found, 0.0)
    if getattr(part, "unbiased", False):
        rows, half = sums.records, reach(0.1 * error) * sums.noise
        ends = [rows, rows - half, rows + half]
        factor, most, least = (count / (count - 1.0) if count > 1.0 else math.inf for count in ends)
        found = np.array(
            [found[0] * factor, min(found[1] * least, found[1] * most), max(found[2] * most, found[2] * least)]
        )
    return float(found[0]), float(found[1]), float(found[2])


def _sd(sums: NoisySums, part: Any, error: float) -> Ends:
    value, low, high = _spread(sums, part, error)
    return math.sqrt(value), math.sqrt(max(low, 0.0)), math.sqrt(high)


def _correlation(sums: NoisySums, part: Any, error: float) -> Ends:
    one, two = part.columns
    rows = sums.records
    first, second = (sums.covariance(name, name, 0.15 * error) for name in (one, two))
    whole: Ends = (math.nan, -1.0, 1.0)
    if rows <= 0.0 or min(first[0], second[0], first[2], second[2]) <= 0.0:
        return whole
    product = float(sums.matrix[sums.at(one), sums.at(two)])
    means = [sums.mean(name, 0.05 * error) for name in (one, two)]
    covariance = product / rows - means[0][0] * means[1][0]
    value = covariance / math.sqrt(first[0] * second[0])
    if min(first[1], second[1]) <= 0.0:
        return min(max(value, -1.0), 1.0), -1.0, 1.0
    ratios = math.sqrt(second[1] / first[2]), math.sqrt(second[2] / first[1])
    middle = min(max(math.sqrt(second[0] / first[0]), ratios[0]), ratios[1])
    divisors = [(a * first[0] + second[0] / a) / 2.0 for a in (*ratios, middle)]
    scatter = max(a * means[0][1] ** 2 + means[1][1] ** 2 / a for a in ratios) / 2.0
    least, most = min(divisors), max(divisors) + scatter
    m, other = (min(1.0, abs(mean) + half) for mean, half in means)
    slack = max(2.0 + a + 1.0 / a for a in ratios) * 2.0 * sums.slack(error)
    low, high = -1.0, 1.0
    for _ in range(3):  # a narrower interval of r gives less noise
        largest = max(abs(low), abs(high))
        spread = sums.noise * max(_correlation_noise(a, largest, m, other) for a in ratios)
        half = (reach(0.6 * error) * spread + slack) / rows + means[0][1] * means[1][1]
        bottom, top = covariance - half, covariance + half
        low = max(low, bottom / (least if bottom < 0.0 else most))
        high = min(high, top / (least if top > 0.0 else most))
    return min(max(value, -1.0), 1.0), low, high


def _correlation_noise(a: float, r: float, m: float, other: float) -> float:
    """Return a bound of the noise of cov − (r/2)(a·var(x) + var(y)/a), in standard deviations of a sum."""
    squares = 1.0 + r * r * (a * a + 1.0 / (a * a)) / 4.0
    columns = (other + r * a * m) ** 2 + (m + r * other / a) ** 2
    rows = (m * other + r * (a * m * m + other * other / a) / 2.0) ** 2
    return math.sqrt(squares + columns + rows)


def _coefficient(sums: NoisySums, part: Any, error: float) -> Ends:
    """Return a coefficient of a regression, in the units of its columns."""
    response, regressors = part.regression.response, tuple(part.regression.regressors)
    places = [0, *(sums.at(name) for name in regressors)]
    matrix, right = sums.matrix[np.ix_(places, places)], sums.matrix[places, sums.at(response)]
    scale, center = float(sums.halves[sums.at(response) - 1]), float(sums.centers[sums.at(response) - 1])
    halves, centers = (ends[[place - 1 for place in places[1:]]] for ends in (sums.halves, sums.centers))
    if abs(np.linalg.det(matrix)) < 1e-12 * abs(matrix[0, 0]) ** len(places):
        return math.nan, -math.inf, math.inf
    inverse = np.linalg.inv(matrix)
    fitted = inverse @ right
    position = 0 if part.term is None else regressors.index(part.term) + 1
    picked = np.zeros(len(places))  # the coefficient as a combination of those of u
    if position == 0:
        picked[0], picked[1:] = scale, -scale * centers / halves
    else:
        picked[position] = scale / halves[position - 1]
    share = reach(error / len(places))
    size, largest = math.inf, float(np.linalg.norm(fitted))
    growth = float(np.linalg.norm(np.abs(inverse).sum(axis=1)))
    if growth * (share * sums.noise + math.sqrt(len(places)) * sums.slack(error)) >= 1.0:
        return float(picked @ fitted) + (center if position == 0 else 0.0), -math.inf, math.inf
    for _ in range(MOST_ROUNDS):  # the noise depends on the coefficients, which the noise bounds
        wrong = share * sums.noise * math.hypot(1.0, largest) + sums.slack(error) * (
            1.0 + math.sqrt(len(places)) * largest
        )
        new = float(np.linalg.norm(np.abs(fitted) + np.abs(inverse).sum(axis=1) * wrong))
        if new <= largest * (1.0 + 1e-9):
            size = wrong
            break
        largest = new
    value = float(picked @ fitted) + (center if position == 0 else 0.0)
    half = float(np.abs(picked @ inverse).sum()) * size
    return value, value - half, value + half


ESTIMATORS: dict[type, Callable[[NoisySums, Any, float], Ends]] = {
    Mean: _mean,
    Sum: _sum,
    Variance: _spread,
    Covariance: _spread,
    Sd: _sd,
    Correlation: _correlation,
    Coefficient: _coefficient,
}
