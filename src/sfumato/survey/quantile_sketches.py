"""A column in little memory: enough of its values, and how far their ranks can be trusted.

Three summaries answer alike, with weighted points in rising order: all values (exact), a random sample of them, and a
sketch whose error is certain. The last two take a column batch by batch and can be merged, so that parts of a table can
be summarised apart.
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
    """Distinct values in rising order, and how many rows each stands for."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]  # rows; whole numbers when exact
    error: float  # rows by which the rank of a value may be off
    missing: int  # rows without a value

    @property
    def rows(self) -> float:
        """Rows with a value."""
        return float(self.weights.sum())

    def scaled_to(self, rows: int, sampled: int) -> Points:
        """The same points for a table of ``rows`` rows of which these were drawn at random."""
        if rows == sampled:
            return self
        times = rows / sampled
        error = self.error * times + rows * sampling_epsilon(sampled, 0.01)
        return Points(self.values, self.weights * times, error, round(self.missing * times))

    @classmethod
    def of(
        cls, values: NDArray[np.float64], weights: NDArray[np.float64], *, error: float = 0.0, missing: int = 0
    ) -> Points:
        """Points from values in any order, equal ones added up."""
        distinct, place = np.unique(values, return_inverse=True)
        rows = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
        return cls(distinct, rows, error, missing)


def all_points(numbers: NDArray[np.float64]) -> Points:
    """Every value of a column (NaN is missing): ranks without error."""
    present = np.sort(numbers[~np.isnan(numbers)])
    first = np.flatnonzero(np.diff(present, prepend=-np.inf)) if len(present) else np.zeros(0, np.int64)
    counts = np.diff(first, append=len(present)).astype(np.float64)
    return Points(present[first], counts, 0.0, len(numbers) - len(present))


def sample_size(epsilon: float, delta: float) -> int:
    """Rows to sample so that *all* ranks are within ε·n with probability 1 − δ: ln(2/δ)/(2ε²).

    LT §4.1 states (1/ε)·ln(1/δ), which is too few: the bound that holds needs 1/ε² (Dvoretzky–Kiefer–Wolfowitz with
    Massart's constant).
    """
    epsilon, delta = require_probability(epsilon, name="epsilon"), require_probability(delta, name="delta")
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


def sampling_epsilon(sample: int, delta: float) -> float:
    """The other way round: the share of rows by which ranks from a sample of this size are off at most."""
    return math.sqrt(math.log(2.0 / delta) / (2.0 * sample))


class Reservoir:
    """A uniform random sample of the values seen so far, of fixed size (LT §4.1, after Vitter 1985).

    Each value draws a random key and the smallest keys stay: the same sample, taken a batch at a time, and two of them
    can merge.
    """

    def __init__(self, size: int, draw: np.random.Generator, *, delta: float = 0.01) -> None:
        self.size = require_int(size, name="sample", at_least=1)
        self.delta = require_probability(delta, name="delta")
        self.seen, self.missing = 0, 0
        self._draw = draw
        self._keys, self._values = np.zeros(0), np.zeros(0)

    def update(self, numbers: NDArray[np.float64]) -> Self:
        """Take in a batch; NaN is missing."""
        present = numbers[~np.isnan(numbers)]
        self.seen += len(present)
        self.missing += len(numbers) - len(present)
        keys = self._draw.random(len(present))
        if len(self._keys) == self.size:  # most of a late batch goes at once
            early = keys < self._keys.max()
            keys, present = keys[early], present[early]
        return self._keep(keys, present)

    def merge(self, other: Reservoir) -> Self:
        """Take in what another reservoir of the same size has seen."""
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
        """The sample, each value standing for as many rows; the error holds with probability 1 − delta."""
        kept = len(self._values)
        if kept == self.seen:
            return Points.of(self._values, np.ones(kept), missing=self.missing)
        error = self.seen * sampling_epsilon(kept, self.delta)
        return Points.of(self._values, np.full(kept, self.seen / kept), error=error, missing=self.missing)


class QuantileSketch:
    """Quantiles with a certain error: no rank is off by more than ε times the rows seen.

    Values wait in sorted buffers; two neighbours of a full one are replaced by one that counts double and waits a level
    higher (Munro and Paterson 1980; mergeable as in Agarwal et al. 2012). A compaction at level h shifts no rank by
    more than 2^h rows, and these are added up, so the bound is known and not only likely. Buffers grow when the next
    compaction would pass ε: memory is about log₂(n)/ε values, whatever the order of the rows.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = require_probability(epsilon, name="epsilon")
        self.seen, self.missing, self.error = 0, 0, 0
        self._capacity = math.ceil(4.0 / self.epsilon)
        self._levels: list[NDArray[np.float64]] = [np.zeros(0)]
        self._odd: list[int] = [0]  # which neighbour stays, in turn: errors of two compactions then cancel in part

    def update(self, numbers: NDArray[np.float64]) -> Self:
        """Take in a batch; NaN is missing."""
        is_missing = np.isnan(numbers)
        present = numbers[~is_missing] if is_missing.any() else numbers
        self.seen += len(present)
        self.missing += len(numbers) - len(present)
        self._levels[0] = np.append(self._levels[0], present)
        return self._compact()

    def merge(self, other: QuantileSketch) -> Self:
        """Take in what another sketch has seen; errors add up, and ε is the larger of the two."""
        self.seen += other.seen
        self.missing += other.missing
        self.error += other.error
        self.epsilon = max(self.epsilon, other.epsilon)
        for level, values in enumerate(other._levels):
            self._level(level)
            self._levels[level] = np.append(self._levels[level], values)
        return self._compact()

    def points(self) -> Points:
        """The values kept, each standing for 2^level rows."""
        values = np.concatenate(self._levels)
        weights = np.repeat(2.0 ** np.arange(len(self._levels)), [len(level) for level in self._levels])
        return Points.of(values, weights, error=float(self.error), missing=self.missing)

    @property
    def size(self) -> int:
        """Values kept."""
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
                values = np.sort(values, kind="stable" if level else None)  # above, sorted runs only need merging
                pairs = len(values) // 2 * 2  # an odd one waits
                kept = values[self._odd[level] : pairs : 2]
                self._odd[level] = 1 - self._odd[level]
                self._levels[level] = values[pairs:]
                self._levels[level + 1] = np.append(self._levels[level + 1], kept)
                self.error += 2**level
            level += 1
        return self
