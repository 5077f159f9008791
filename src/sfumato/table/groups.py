"""Groups of rows that are equal in some columns, compared cell by cell."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.table.coding import Coded, Digits, bits, digits, have_few_values
from sfumato.table.hashing import row_keys
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


LARGEST = 1 << 62  # number that digits may form
THREADED = 50_000  # number of rows from which columns are encoded in several threads

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits
DOWN = np.uint64(29)  # shift that spreads high bits to low bits


def refine(labels: NDArray[np.int64], codes: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Split groups by one more column: equal labels stay equal only if the codes are equal too.

    Labels stay dense (0 … groups − 1), so that labels × size always fits into 64 bits.
    """
    combined = labels * size + codes
    top = int(combined.max(initial=0)) + 1
    if top <= 8 * len(combined) + 1024:  # a counting pass is faster than a hash table
        seen = np.zeros(top, dtype=bool)
        seen[combined] = True
        label = np.cumsum(seen) - 1
        dense: NDArray[np.int64] = label[combined]
        return dense
    return _dense(combined)


def labels_of(columns: Iterable[Coded], rows: int) -> NDArray[np.int64]:
    """Return dense group labels of coded columns; without columns, all rows form one group."""
    labels = np.zeros(rows, dtype=np.int64)
    for coded in columns:
        labels = refine(labels, coded.codes, coded.size)
    return labels


def group_labels(table: Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return dense group labels (0 … groups − 1) of the rows; a missing value equals only a missing value.

    Where all columns have few values (categories, or integers of a small range), their codes are the digits of one
    exact number. Otherwise rows are hashed to 64 bits, and then every row is compared, cell by cell, with the first row
    of its group. The groups are therefore exact, and a collision (probability about rows² ÷ 2⁶⁵) only costs time. If
    the last column is an integer column, it may already number the groups: if rows that are equal in it are equal in
    all other columns, no hash is needed.
    """
    table.require(names)
    if not names:
        return np.zeros(table.rows, dtype=np.int64)
    columns = [table.arrow.column(name) for name in names]
    if table.rows and all(have_few_values(column) for column in columns):
        return _labels_by_digits(columns, table.rows)
    if pt.is_integer(table.arrow.column(names[-1]).type):
        numbered = _dense(_hash_rows(_cells(table, names[-1:]), table.rows))
        if _agree(numbered, _cells(table, names)):
            return numbered
    labels = _dense(_hash_rows(_cells(table, names), table.rows))
    if _agree(labels, _cells(table, names)):
        return labels
    return labels_of((table.coded(name) for name in names), table.rows)


def group_sizes(table: Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of rows in each group."""
    return np.bincount(group_labels(table, names)).astype(np.int64) if table.rows else np.zeros(0, dtype=np.int64)


def first_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the first row of each group, given dense labels."""
    first = np.empty(int(labels.max(initial=-1)) + 1, dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels) - 1, -1, -1)  # the last assignment wins, and that is the first row
    return first


def _labels_by_digits(columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.int64]:
    """Return dense labels of columns with few values: their codes are digits of one number per row.

    Where the number would be too large, its values are numbered 0, 1, … before more digits follow.
    """
    number, size = np.zeros(rows, dtype=np.int64), 1
    for digit in _digits_ahead(columns, rows):
        if size * digit.size >= LARGEST:
            number = _dense(number)
            size = int(number.max()) + 1
        number *= digit.size
        number += digit.codes
        size *= digit.size
    return _dense(number)


def _digits_ahead(columns: Sequence[pa.ChunkedArray], rows: int) -> Iterator[Digits]:
    """Yield the digits of each column, while threads work on the next ones.

    Only a few columns are worked on ahead, because codes of all columns would take much memory.
    """
    at_once = os.cpu_count() or 1
    if rows <= THREADED or at_once == 1:
        yield from map(digits, columns)
        return
    with ThreadPoolExecutor(at_once) as pool:
        ahead = deque(pool.submit(digits, column) for column in columns[:at_once])
        for position in range(len(columns)):
            following = columns[position + at_once : position + at_once + 1]
            done = ahead.popleft().result()
            ahead.extend(pool.submit(digits, column) for column in following)
            yield done


def _cells(table: Table, names: Sequence[str]) -> Iterator[NDArray[np.uint64]]:
    """Yield the cells as 64-bit patterns, one column at a time.

    Computing them twice takes less memory than keeping all of them.
    """
    return (part for name in names for part in bits(table.arrow.column(name)))


def _hash_rows(cells: Iterable[NDArray[np.uint64]], rows: int) -> NDArray[np.uint64]:
    hashed = np.zeros(rows, dtype=np.uint64)
    for part in cells:
        hashed ^= part
        hashed *= ODD
        hashed ^= hashed >> DOWN
    return hashed


def _agree(labels: NDArray[np.int64], cells: Iterable[NDArray[np.uint64]]) -> bool:
    """Return whether each row is equal to the first row of its group in every cell."""
    first_of_row = first_rows(labels)[labels]
    return all(np.array_equal(part, part[first_of_row]) for part in cells)


def _dense(keys: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return labels 0, 1, … of equal keys, in the order of first appearance."""
    labels: NDArray[np.int64] = pa.array(keys).dictionary_encode().indices.to_numpy().astype(np.int64)
    return labels


# Groups of equal rows identified by 128-bit keys, so that groups of several parts of a table can be merged.


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
        return GroupCounts(groups.keys, sum_by_group(groups, np.concatenate([self.counts, other.counts])))

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


def sum_by_group(groups: KeyedGroups, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of these counts over the rows of each group, exact below 2⁵³."""
    return np.bincount(groups.labels, weights=counts, minlength=groups.size).astype(np.int64)
