"""Estimates of the numbers of distinct combinations and of unique rows, in one pass and little memory, with an error.

Each combination of values is hashed to a 64-bit number. The K smallest hashes are a uniform sample of the combinations
(Bar-Yossef et al. 2002, "K minimum values"). Each is stored with its number of rows, so the sample also estimates how
many combinations occur in one row only. Sketches of parts of a table can be merged. With fewer than K combinations the
counts are exact.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.disclosure.uniqueness import Uniqueness, stay_alone, unique_bound
from sfumato.errors import OptionError
from sfumato.kernels.smallest_hashes import count_smallest
from sfumato.params import require_int
from sfumato.table.hashing import column_hashes, combination_hashes
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE = 2.0**64
SURE = 2.58  # half-width of a 99 % interval, in standard errors


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

    def uniqueness(self, *, domain: int | None = None, population: int | None = None) -> Uniqueness:
        """Estimate the uniqueness of these columns; the domain defaults to the number of combinations."""
        if not self.rows:
            raise OptionError("A sketch must have seen rows.", found="0 rows")
        seen_share, counts = 1.0, self._counts
        if not self.is_exact:  # the largest hash is not part of the sample: it only marks the end of its range
            seen_share, counts = float(self._hashes[-1]) / SCALE, self._counts[:-1]
        alone, distinct = int((counts == 1).sum()), len(counts)
        people = self.rows if population is None else population
        size = max(1, round(distinct / seen_share)) if domain is None else domain
        unique = min(1.0, alone / seen_share / self.rows)
        sizes, times = np.unique(counts, return_counts=True)  # there are few sizes and many combinations
        expected = [t * n / self.rows * stay_alone(n / self.rows, people) for n, t in zip(sizes, times, strict=True)]
        return Uniqueness(
            columns=self.columns,
            rows=self.rows,
            unique_rows=round(unique * self.rows),
            unique_fraction=unique,
            distinct=round(distinct / seen_share),
            domain=size,
            population=people,
            bound=unique_bound(size, people),
            anonymity=max(1.0, people / size),
            expected_uniform=stay_alone(1.0 / size, people),
            expected_poisson=math.exp(-people / size),
            expected_observed=min(1.0, sum(expected) / seen_share),
            error=0.0 if self.is_exact else SURE * math.sqrt(alone + 1.0) / seen_share / self.rows,
        )
