"""Groups of equal rows identified by 128-bit keys, so that groups of several parts of a table can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.table.groups import first_rows, group_labels
from sfumato.table.hashing import row_keys
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


LARGE = 1 << 22  # number of keys from which on a hash table of all of them would take too much memory
PARTS = 64  # in which so many keys are encoded


@dataclass(frozen=True, eq=False, repr=False)
class GroupKeys:
    """A 128-bit key for each of some groups.

    The keys are hashed from one row of each group when they are first needed: to merge them with those of other groups,
    or to send them to another process. A table that is a single block never needs them.
    """

    source: Table | NDArray[np.uint64]  # one row of each group, or the keys: (groups, 2)

    @classmethod
    def of(cls, table: Table, names: Sequence[str], rows: NDArray[np.int64]) -> GroupKeys:
        """Return the keys of groups that are equal in these columns, given one row of each group."""
        return cls(table.select(names).take(rows) if names else np.zeros((len(rows), 2), dtype=np.uint64))

    @cached_property
    def values(self) -> NDArray[np.uint64]:
        """The keys; shape (groups, 2)."""
        return row_keys(self.source) if isinstance(self.source, Table) else self.source

    def __len__(self) -> int:
        return len(self.source)

    def __reduce__(self) -> tuple[type[GroupKeys], tuple[NDArray[np.uint64]]]:
        return GroupKeys, (self.values,)

    def followed_by(self, other: GroupKeys) -> NDArray[np.uint64]:
        """Return the keys of both, one after the other."""
        return np.concatenate([self.values, other.values])


@dataclass(frozen=True, eq=False, repr=False)
class KeyedGroups:
    """The group of each row (0 … groups − 1) and the key of each group; equal cells always give equal keys."""

    labels: NDArray[np.int64]  # (rows,)
    keys: GroupKeys

    @classmethod
    def of(cls, table: Table, names: Sequence[str]) -> KeyedGroups:
        """Group the rows by these columns, exactly."""
        labels = group_labels(table, names)
        return cls(labels, GroupKeys.of(table, names, first_rows(labels)))

    @classmethod
    def of_keys(cls, keys: NDArray[np.uint64]) -> KeyedGroups:
        """Group rows that are keys already; the shape is (rows, number of 64-bit integers per key)."""
        cells = np.ascontiguousarray(keys)
        labels = _label_keys(cells) if len(cells) <= LARGE else _label_keys_in_parts(cells)
        return cls(labels, GroupKeys(cells[first_rows(labels)]))

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.keys)


@dataclass(frozen=True, eq=False, repr=False)
class GroupCounts:
    """Number of rows in each group."""

    keys: GroupKeys
    counts: NDArray[np.int64]  # (groups,)

    @classmethod
    def of(cls, groups: KeyedGroups) -> GroupCounts:
        """Count the rows of each group."""
        return cls(groups.keys, np.bincount(groups.labels, minlength=groups.size))

    def merge(self, other: GroupCounts) -> GroupCounts:
        """Add up the rows of groups that have the same key."""
        groups = KeyedGroups.of_keys(self.keys.followed_by(other.keys))
        return GroupCounts(groups.keys, sums(groups, np.concatenate([self.counts, other.counts])))

    @property
    def rows(self) -> int:
        """Number of rows in all groups."""
        return int(self.counts.sum())


def _label_keys(cells: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return a dense label for each key; equal keys have the same label."""
    kind = pa.binary(cells.shape[1] * cells.itemsize)
    encoded = pa.Array.from_buffers(kind, len(cells), [None, pa.py_buffer(cells)]).dictionary_encode()
    labels: NDArray[np.int64] = encoded.indices.to_numpy().astype(np.int64)
    return labels


def _label_keys_in_parts(cells: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the same for very many keys: one part after the other, by the first bits of the keys.

    The hash table of 20 million keys takes more than a gigabyte, four times the keys themselves.
    """
    part = (cells[:, 0] // np.uint64(2**64 // PARTS)).astype(np.uint8)
    order = np.argsort(part, kind="stable")
    labels, used = np.empty(len(cells), dtype=np.int64), 0
    for rows in np.split(order, np.cumsum(np.bincount(part, minlength=PARTS))[:-1]):
        part_labels = _label_keys(cells[rows])
        labels[rows] = part_labels + used
        used += int(part_labels.max(initial=-1)) + 1
    return labels


def sums(groups: KeyedGroups, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of these counts over the rows of each group, exact below 2⁵³."""
    return np.bincount(groups.labels, weights=counts, minlength=groups.size).astype(np.int64)
