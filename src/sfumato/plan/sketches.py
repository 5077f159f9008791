"""Summaries in little memory, with an error bound: quantiles of a column, and combinations of several columns.

Three summaries return weighted points in ascending order: all values (exact), a random sample, and a sketch with a
guaranteed error. The sample and the sketch read a column batch by batch and can be merged, so that parts of a table can
be summarised separately.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.errors import OptionError
from sfumato.params import require_int, require_probability
from sfumato.plan.sketch_kernels import count_smallest
from sfumato.table.groups import column_hashes, combination_hashes
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class WeightedPoints:
    """Distinct values in ascending order, and how many rows each represents."""

    values: NDArray[np.float64]
    weights: NDArray[np.float64]  # rows; whole numbers when exact
    error: float  # largest error of a rank, in rows
    missing: int  # number of rows without a value

    @property
    def rows(self) -> float:
        """Number of rows with a value."""
        return float(self.weights.sum())

    def scale_to(self, rows: int, sampled: int) -> WeightedPoints:
        """Return these points for a table of ``rows`` rows, of which ``sampled`` rows were drawn at random."""
        if rows == sampled:
            return self
        factor = rows / sampled
        error = self.error * factor + rows * sampling_epsilon(sampled, 0.01)
        return WeightedPoints(self.values, self.weights * factor, error, round(self.missing * factor))

    @classmethod
    def of(
        cls, values: NDArray[np.float64], weights: NDArray[np.float64], *, error: float = 0.0, missing: int = 0
    ) -> WeightedPoints:
        """Return points from values in any order; the weights of equal values are added."""
        distinct, place = np.unique(values, return_inverse=True)
        rows = np.bincount(place, weights=weights, minlength=len(distinct)).astype(np.float64)
        return cls(distinct, rows, error, missing)

    def merge(self, other: WeightedPoints) -> WeightedPoints:
        """Return the points of the rows of both."""
        both = [np.concatenate([getattr(one, name) for one in (self, other)]) for name in ("values", "weights")]
        return WeightedPoints.of(*both, error=self.error + other.error, missing=self.missing + other.missing)


def all_points(numbers: NDArray[np.float64]) -> WeightedPoints:
    """Return every value of a column (NaN is missing), with exact ranks."""
    present = np.sort(numbers[~np.isnan(numbers)])
    first = np.flatnonzero(np.diff(present, prepend=-np.inf)) if len(present) else np.zeros(0, np.int64)
    counts = np.diff(first, append=len(present)).astype(np.float64)
    return WeightedPoints(present[first], counts, 0.0, len(numbers) - len(present))


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

    def points(self) -> WeightedPoints:
        """Return the sample, each value with an equal number of rows; the error holds with probability 1 − delta."""
        kept = len(self._values)
        if kept == self.seen:
            return WeightedPoints.of(self._values, np.ones(kept), missing=self.missing)
        error = self.seen * sampling_epsilon(kept, self.delta)
        return WeightedPoints.of(self._values, np.full(kept, self.seen / kept), error=error, missing=self.missing)


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

    def points(self) -> WeightedPoints:
        """Return the values kept, each representing 2^level rows."""
        values = np.concatenate(self._levels)
        weights = np.repeat(2.0 ** np.arange(len(self._levels)), [len(level) for level in self._levels])
        return WeightedPoints.of(values, weights, error=float(self.error), missing=self.missing)

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


# Estimates of the numbers of distinct combinations and of unique rows, in one pass and little memory, with an error.
#
# Each combination of values is hashed to a 64-bit number. The K smallest hashes are a uniform sample of the
# combinations (Bar-Yossef et al. 2002, "K minimum values"). Each is stored with its number of rows, so the sample
# also estimates how many combinations occur in one row only. Sketches of parts of a table can be merged. With fewer
# than K combinations the counts are exact.


SCALE = 2.0**64


class CombinationSketch:
    """The K smallest hashes of the combinations of some columns, each with its number of rows."""

    def __init__(self, columns: Sequence[str], *, size: int = 4096, salt: bytes | None = None) -> None:
        self.columns = tuple(columns)
        self.size = require_int(size, name="sketch", at_least=16)
        self.salt = secrets.token_bytes(16) if salt is None else salt
        self.rows = 0
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)

    def update(self, table: Table, hashed: NDArray[np.uint64] | None = None) -> Self:
        """Add the rows of a part of the table; ``hashed`` are the hashes of its combinations, if already known."""
        hashes = (
            combination_hashes([column_hashes(table, name, self.salt) for name in self.columns])
            if hashed is None
            else hashed
        )
        self.rows += len(hashes)
        self._hashes, self._counts = count_smallest(self._hashes, self._counts, hashes, self.size)
        return self

    def merge(self, other: CombinationSketch) -> Self:
        """Add the rows that another sketch of the same columns, size and salt has seen."""
        if (other.columns, other.size, other.salt) != (self.columns, self.size, self.salt):
            raise OptionError("Merged sketches must have the same columns, size and salt.", found="different ones")
        self.rows += other.rows
        both = np.concatenate([self._hashes, other._hashes]), np.concatenate([self._counts, other._counts])
        none = np.zeros(0, dtype=np.uint64)
        self._hashes, self._counts = count_smallest(both[0], both[1], none, self.size)
        return self

    @property
    def is_exact(self) -> bool:
        """Whether every combination is stored."""
        return len(self._hashes) < self.size

    @property
    def seen_share(self) -> float:
        """Estimated share of the combinations that are stored, from 0 to 1."""
        return 1.0 if self.is_exact else float(self._hashes[-1]) / SCALE

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of rows of each combination of a random sample: of all if the sketch is exact."""
        return self._counts if self.is_exact else self._counts[:-1]  # the largest hash only marks the end of the range


class CombinationSketches:
    """Sketches of several sets of columns, which share the hashes of the columns."""

    def __init__(self, sets: Sequence[tuple[str, ...]], size: int, salt: bytes) -> None:
        self.each = tuple(CombinationSketch(names, size=size, salt=salt) for names in sets)
        self.columns = tuple(dict.fromkeys(name for names in sets for name in names))
        self._salt = salt

    def update(self, table: Table) -> Self:
        """Add the rows of a part of the table."""
        hashes = {name: column_hashes(table, name, self._salt) for name in self.columns}
        for sketch in self.each:
            sketch.update(table, combination_hashes([hashes[name] for name in sketch.columns]))
        return self

    def merge(self, other: CombinationSketches) -> Self:
        """Add the rows that other sketches of the same sets have seen."""
        for mine, theirs in zip(self.each, other.each, strict=True):
            mine.merge(theirs)
        return self
