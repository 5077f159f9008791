"""Summaries of a numeric column in little memory: some of its values, and an error bound for their ranks.

Three summaries return weighted points in ascending order: all values (exact), a random sample, and a sketch with a
guaranteed error. The sample and the sketch read a column batch by batch and can be merged, so that parts of a table can
be summarised separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.params import require_int, require_probability

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Points:
    """Distinct values in ascending order, and how many rows each represents."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]  # rows; whole numbers when exact
    error: float  # largest error of a rank, in rows
    missing: int  # number of rows without a value

    @property
    def rows(self) -> float:
        """Number of rows with a value."""
        return float(self.weights.sum())

    def scaled_to(self, rows: int, sampled: int) -> Points:
        """Return these points for a table of ``rows`` rows, of which ``sampled`` rows were drawn at random."""
        if rows == sampled:
            return self
        factor = rows / sampled
        error = self.error * factor + rows * sampling_epsilon(sampled, 0.01)
        return Points(self.values, self.weights * factor, error, round(self.missing * factor))

    @classmethod
    def of(
        cls, values: NDArray[np.float64], weights: NDArray[np.float64], *, error: float = 0.0, missing: int = 0
    ) -> Points:
        """Return points from values in any order; the weights of equal values are added."""
        distinct, place = np.unique(values, return_inverse=True)
        rows = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
        return cls(distinct, rows, error, missing)

    def merge(self, other: Points) -> Points:
        """Return the points of the rows of both."""
        both = [np.concatenate([getattr(one, name) for one in (self, other)]) for name in ("values", "weights")]
        return Points.of(*both, error=self.error + other.error, missing=self.missing + other.missing)


def all_points(numbers: NDArray[np.float64]) -> Points:
    """Return every value of a column (NaN is missing), with exact ranks."""
    present = np.sort(numbers[~np.isnan(numbers)])
    first = np.flatnonzero(np.diff(present, prepend=-np.inf)) if len(present) else np.zeros(0, np.int64)
    counts = np.diff(first, append=len(present)).astype(np.float64)
    return Points(present[first], counts, 0.0, len(numbers) - len(present))


def sample_size(epsilon: float, delta: float) -> int:
    """Compute the sample size for which *all* ranks are within ε·n with probability 1 − δ: ln(2/δ)/(2ε²).

    LT §4.1 states (1/ε)·ln(1/δ), which is too small: a valid bound needs 1/ε² (Dvoretzky–Kiefer–Wolfowitz with
    Massart's constant).
    """
    epsilon, delta = require_probability(epsilon, name="epsilon"), require_probability(delta, name="delta")
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


def sampling_epsilon(sample: int, delta: float) -> float:
    """Compute the largest error of ranks from a sample of this size, as a share of the rows.

    This is the inverse of :func:`sample_size`.
    """
    return math.sqrt(math.log(2.0 / delta) / (2.0 * sample))


class Reservoir:
    """A uniform random sample of fixed size of the values seen so far (LT §4.1, after Vitter 1985).

    Each value gets a random key, and the values with the smallest keys are kept. This gives the same distribution batch
    by batch, and two reservoirs can be merged.
    """

    def __init__(self, size: int, generator: np.random.Generator, *, delta: float = 0.01) -> None:
        self.size = require_int(size, name="sample", at_least=1)
        self.delta = require_probability(delta, name="delta")
        self.seen, self.missing = 0, 0
        self._generator = generator
        self._keys, self._values = np.zeros(0), np.zeros(0)

    def update(self, numbers: NDArray[np.float64]) -> Self:
        """Add a batch; NaN is missing."""
        present = numbers[~np.isnan(numbers)]
        self.seen += len(present)
        self.missing += len(numbers) - len(present)
        keys = self._generator.random(len(present))
        if len(self._keys) == self.size:  # most values of a late batch can be dropped immediately
            early = keys < self._keys.max()
            keys, present = keys[early], present[early]
        return self._keep(keys, present)

    def merge(self, other: Reservoir) -> Self:
        """Add the values that another reservoir of the same size has seen."""
        self.seen += other.seen
        self.missing += other.missing
        return self._keep(other._keys, other._values)

    def _keep(self, keys: NDArray[np.float64], values: NDArray[np.float64]) -> Self:
        self._keys, self._values = np.append(self._keys, keys), np.append(self._values, values)
        if len(self._keys) > self.size:
            first = np.argpartition(self._keys, self.size - 1)[: self.size]
            self._keys, self._values = self._keys[first], self._values[first]
        return self

    def points(self) -> Points:
        """Return the sample, each value with an equal number of rows; the error holds with probability 1 − delta."""
        kept = len(self._values)
        if kept == self.seen:
            return Points.of(self._values, np.ones(kept), missing=self.missing)
        error = self.seen * sampling_epsilon(kept, self.delta)
        return Points.of(self._values, np.full(kept, self.seen / kept), error=error, missing=self.missing)


class QuantileSketch:
    """A quantile sketch with a guaranteed error: no rank is off by more than ε times the rows seen.

    Values are kept in sorted buffers. When a buffer is full, every second value is dropped, and the others count double
    and move to the next level (Munro and Paterson 1980; mergeable as in Agarwal et al. 2012). A compaction at level h
    shifts no rank by more than 2^h rows. These shifts are added up, so the error bound is certain and not only likely.
    Buffers grow when the next compaction would exceed ε: memory is about log₂(n)/ε values, whatever the order of the
    rows.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = require_probability(epsilon, name="epsilon")
        self.seen, self.missing, self.error = 0, 0, 0
        self._capacity = math.ceil(4.0 / self.epsilon)
        self._levels: list[NDArray[np.float64]] = [np.zeros(0)]
        self._odd: list[int] = [0]  # which neighbour is kept; alternates, so that errors of compactions partly cancel

    def update(self, numbers: NDArray[np.float64]) -> Self:
        """Add a batch; NaN is missing."""
        is_missing = np.isnan(numbers)
        present = numbers[~is_missing] if is_missing.any() else numbers
        self.seen += len(present)
        self.missing += len(numbers) - len(present)
        self._levels[0] = np.append(self._levels[0], present)
        return self._compact()

    def merge(self, other: QuantileSketch) -> Self:
        """Add the values that another sketch has seen; errors are added, and ε becomes the larger of the two."""
        self.seen += other.seen
        self.missing += other.missing
        self.error += other.error
        self.epsilon = max(self.epsilon, other.epsilon)
        for level, values in enumerate(other._levels):
            self._level(level)
            self._levels[level] = np.append(self._levels[level], values)
        return self._compact()

    def points(self) -> Points:
        """Return the values kept, each representing 2^level rows."""
        values = np.concatenate(self._levels)
        weights = np.repeat(2.0 ** np.arange(len(self._levels)), [len(level) for level in self._levels])
        return Points.of(values, weights, error=float(self.error), missing=self.missing)

    @property
    def size(self) -> int:
        """Number of values kept."""
        return sum(len(level) for level in self._levels)

    def _level(self, level: int) -> None:
        while len(self._levels) <= level:
            self._levels.append(np.zeros(0))
            self._odd.append(0)

    def _compact(self) -> Self:
        level = 0
        while level < len(self._levels):
            values = self._levels[level]
            if len(values) >= self._capacity:
                if self.error + 2**level > self.epsilon * self.seen:
                    self._capacity *= 2
                    continue
                self._level(level + 1)
                values = np.sort(values, kind="stable" if level else None)  # higher levels consist of sorted runs
                pairs = len(values) // 2 * 2  # an odd value stays at this level
                kept = values[self._odd[level] : pairs : 2]
                self._odd[level] = 1 - self._odd[level]
                self._levels[level] = values[pairs:]
                self._levels[level + 1] = np.append(self._levels[level + 1], kept)
                self.error += 2**level
            level += 1
        return self
