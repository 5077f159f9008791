"""Distinct combinations and rows that are alone, in one pass and little memory, with a stated error.

Each combination of values has a random 64-bit number, the same wherever it stands. The K smallest numbers seen are a
uniform sample of the combinations (Bar-Yossef et al. 2002, "K minimum values"), and each is kept with the number of its
rows, so that the sample also tells how many combinations stand in one row only. Sketches of parts of a table can be
merged. Up to K combinations the counts are exact.
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
SURE = 2.58  # standard errors on each side of a 99 % interval


class CombinationSketch:
    """The K smallest hashes of the combinations of some columns, with their numbers of rows."""

    def __init__(self, columns: Sequence[str], *, size: int = 4096, salt: bytes | None = None) -> None:
        self.columns = tuple(columns)
        self.size = require_int(size, name="sketch", at_least=16)
        self.salt = secrets.token_bytes(16) if salt is None else salt
        self.rows = 0
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)

    def update(self, table: Table, hashed: NDArray[np.uint64] | None = None) -> Self:
        """Take in the rows of a part of the table; ``hashed`` are its combinations where they are known already."""
        hashes = (
            combination_hashes([column_hashes(table, name, self.salt) for name in self.columns])
            if hashed is None
            else hashed
        )
        self.rows += len(hashes)
        self._hashes, self._counts = count_smallest(self._hashes, self._counts, hashes, self.size)
        return self

    def merge(self, other: CombinationSketch) -> Self:
        """Take in what another sketch of the same columns, size and salt has seen."""
        if (other.columns, other.size, other.salt) != (self.columns, self.size, self.salt):
            raise OptionError("Only sketches of the same columns, size and salt can be merged.", found="others")
        self.rows += other.rows
        both = np.concatenate([self._hashes, other._hashes]), np.concatenate([self._counts, other._counts])
        none = np.zeros(0, dtype=np.uint64)
        self._hashes, self._counts = count_smallest(both[0], both[1], none, self.size)
        return self

    @property
    def is_exact(self) -> bool:
        """Whether every combination was kept."""
        return len(self._hashes) < self.size

    def uniqueness(self, *, domain: int | None = None, population: int | None = None) -> Uniqueness:
        """What the sketch says of these columns; the domain is the number of combinations where none is given."""
        if not self.rows:
            raise OptionError("A sketch must have seen rows.", found="none")
        seen_share, counts = 1.0, self._counts
        if not self.is_exact:  # the largest hash only says how far the sample reaches
            seen_share, counts = float(self._hashes[-1]) / SCALE, self._counts[:-1]
        alone, distinct = int((counts == 1).sum()), len(counts)
        people = self.rows if population is None else population
        size = max(1, round(distinct / seen_share)) if domain is None else domain
        unique = min(1.0, alone / seen_share / self.rows)
        sizes, times = np.unique(counts, return_counts=True)  # few sizes, many combinations
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
