"""Estimates of the numbers of distinct combinations and of unique rows, in one pass and little memory, with an error.

Each combination of values is hashed to a 64-bit number. The K smallest hashes are a uniform sample of the combinations
(Bar-Yossef et al. 2002, "K minimum values"). Each is stored with its number of rows, so the sample also estimates how
many combinations occur in one row only. Sketches of parts of a table can be merged. With fewer than K combinations the
counts are exact.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np

from sfumato.errors import OptionError
from sfumato.kernels.smallest_hashes import count_smallest
from sfumato.params import require_int
from sfumato.table.hashing import column_hashes, combination_hashes
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
