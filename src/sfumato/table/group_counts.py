"""Groups of equal rows that are known by 128-bit keys, so that groups of several parts of a table can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.table.groups import first_rows, group_labels
from sfumato.table.hashing import row_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class KeyedGroups:
    """The group of each row (0 … groups − 1), and the key of each group: equal wherever the cells are."""

    labels: NDArray[np.int64]  # (rows,)
    keys: NDArray[np.uint64]  # (groups, 2)

    @classmethod
    def of(cls, table: Table, names: Sequence[str]) -> KeyedGroups:
        """Group the rows by these columns. The groups are exact; one row of each is hashed."""
        labels = group_labels(table, names)
        return cls(labels, row_keys(table, names, first_rows(labels)))

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64]) -> KeyedGroups:
        """Group rows that are keys already; (rows, any number of 64-bit numbers)."""
        cells = np.ascontiguousarray(keys)
        kind = pa.binary(cells.shape[1] * cells.itemsize)
        encoded = pa.Array.from_buffers(kind, len(cells), [None, pa.py_buffer(cells)]).dictionary_encode()
        labels = encoded.indices.to_numpy().astype(np.int64)
        return cls(labels, cells[first_rows(labels)])

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.keys)


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts:
    """Number of rows in each group."""

    keys: NDArray[np.uint64]  # (groups, 2)
    counts: NDArray[np.int64]  # (groups,)

    @classmethod
    def of(cls, groups: KeyedGroups) -> GroupCounts:
        """Count the rows of each group."""
        return cls(groups.keys, np.bincount(groups.labels, minlength=groups.size))

    def merge(self, other: GroupCounts) -> GroupCounts:
        """Add up the rows of groups that have the same key."""
        groups = KeyedGroups.of_keys(np.concatenate([self.keys, other.keys]))
        return GroupCounts(groups.keys, sums(groups, np.concatenate([self.counts, other.counts])))

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return int(self.counts.sum())


def sums(groups: KeyedGroups, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sum of these counts over the rows of each group, exact below 2⁵³."""
    return np.bincount(groups.labels, weights=counts, minlength=groups.size).astype(np.int64)
