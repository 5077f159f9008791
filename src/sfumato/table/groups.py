"""Groups of rows that are equal in some columns: compared cell by cell, or by hashes that merge over parts."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.table.coding import Coded, Digits, bits, digits, have_few_values
from sfumato.table.table import Table

# Hashes of cells and of combinations of cells, equal in every part of a table, process and machine.
#
# A hash depends on the name of the column and on the content of the cell, never on the order of rows or on the codes
# of a dictionary. Without a ``salt`` anybody can compute it. With a secret ``salt`` only those who know the salt can.


WORD = 8  # number of bytes of a string that are hashed at a time
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits
LANES = (b"", b"second")  # salts of the two halves of a 128-bit key


def row_keys(table: Table) -> NDArray[np.uint64]:
    """Return a 128-bit key for the combination of cells in each row, as two 64-bit integers; shape (rows, 2).

    Equal rows of any two tables with these columns have the same key. Two different combinations among n share a key
    with a probability of about n² ÷ 2¹²⁹.
    """
    keys = np.empty((table.rows, len(LANES)), dtype=np.uint64)
    for lane, salt in enumerate(LANES):
        keys[:, lane] = combination_hashes([column_hashes(table, name, salt) for name in table.names])
    return keys


def combination_hashes(columns: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """Combine the hashes of several columns into one number per row."""
    total = columns[0].copy()
    for column in columns[1:]:
        total += column
    return mix_bits(total)  # plain sums would be linear: h(a, b) + h(c, d) = h(a, d) + h(c, b)


def column_hashes(table: Table, name: str, salt: bytes = b"") -> NDArray[np.uint64]:
    """Return a 64-bit hash of the value in each row of a column; all missing values have the same hash."""
    column = table.arrow.column(name)
    seed = _number(salt + name.encode())
    hashes = _number_hashes(column, seed) if _is_number(column.type) else _text_hashes(column, seed)
    if column.null_count or pt.is_floating(column.type):
        hashes[column.is_null(nan_is_null=True).to_numpy()] = _number(salt + name.encode() + b"\0")
    return hashes


def mix_bits(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the bits so that every bit of the result depends on every bit of the number (finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_floating(kind) or pt.is_integer(kind) or pt.is_date(kind) or pt.is_timestamp(kind))


def _number_hashes(column: pa.ChunkedArray, seed: np.uint64) -> NDArray[np.uint64]:
    """Hash numbers; different numbers have different hashes, because every step is invertible."""
    return mix_bits(next(bits(column)) + seed)


def _text_hashes(column: pa.ChunkedArray, seed: np.uint64) -> NDArray[np.uint64]:
    """Hash cells by their text."""
    if pt.is_null(column.type):
        return np.zeros(len(column), dtype=np.uint64)
    if pt.is_dictionary(column.type):
        return _join(_dictionary_hashes(chunk, seed) for chunk in column.chunks)
    texts = column if pt.is_string(column.type) or pt.is_large_string(column.type) else column.cast(pa.string())
    return _join(_string_hashes(chunk, seed) for chunk in texts.chunks)


def _join(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.concatenate([np.zeros(0, dtype=np.uint64), *parts])


def _dictionary_hashes(cells: pa.DictionaryArray, seed: np.uint64) -> NDArray[np.uint64]:
    """Hash each value of the dictionary once."""
    values = _text_hashes(pa.chunked_array([cells.dictionary]), seed)
    if not len(values):
        return np.zeros(len(cells), dtype=np.uint64)
    positions = cells.indices.fill_null(0) if cells.null_count else cells.indices
    hashes: NDArray[np.uint64] = values[positions.to_numpy(zero_copy_only=False)]
    return hashes


def _string_hashes(cells: pa.Array, seed: np.uint64) -> NDArray[np.uint64]:
    """Hash strings: words of 8 bytes, each mixed with its position, are summed up with the length of the string.

    The length distinguishes strings that end in zero bytes from shorter ones.
    """
    starts, lengths, data = _string_bytes(cells)
    words = np.maximum((lengths + WORD - 1) // WORD, 1)
    first = np.cumsum(words) - words
    position = np.arange(int(words.sum())) - np.repeat(first, words)
    offset = position * WORD
    # the 8 bytes that start at each byte
    windows = np.ndarray((len(data) - WORD + 1,), dtype="<u8", buffer=data, strides=(1,))
    word = windows[np.repeat(starts, words) + offset].astype(np.uint64)
    beyond = np.clip(WORD - (np.repeat(lengths, words) - offset), 0, WORD).astype(np.uint64)
    shift = np.minimum(beyond, np.uint64(WORD - 1)) * np.uint64(8)
    word = np.where(beyond == WORD, np.uint64(0), word & (~np.uint64(0) >> shift))
    hashed = mix_bits(word ^ mix_bits(seed + position.astype(np.uint64) * ODD))
    return mix_bits(np.add.reduceat(hashed, first) + lengths.astype(np.uint64)) if len(lengths) else hashed


def _string_bytes(cells: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return where each string begins, its length in bytes, and the bytes of all strings plus a word of zeros."""
    if not len(cells):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(WORD, dtype=np.uint8)
    _, offset_buffer, byte_buffer = cells.buffers()
    kind = np.int64 if pt.is_large_string(cells.type) else np.int32
    ends = np.frombuffer(offset_buffer, dtype=kind)[cells.offset : cells.offset + len(cells) + 1].astype(np.int64)
    content = np.frombuffer(byte_buffer, dtype=np.uint8)[ends[0] : ends[-1]] if byte_buffer else np.zeros(0, np.uint8)
    return ends[:-1] - ends[0], np.diff(ends), np.concatenate([content, np.zeros(WORD, dtype=np.uint8)])


def _number(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


LARGEST = 1 << 62  # number that digits may form
THREADED = 50_000  # number of rows from which columns are encoded in several threads

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


def sum_groups(values: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum of the values of each group, rounded once however many rows the group has, given dense labels."""
    ordered = values[np.argsort(labels, kind="stable")].tolist()
    ends = np.cumsum(np.bincount(labels)).tolist()
    return np.array([math.fsum(ordered[start:end]) for start, end in itertools.pairwise([0, *ends])])


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

    def followed_by(self, *others: GroupKeys) -> NDArray[np.uint64]:
        """Return the keys of all, one after the other."""
        return np.concatenate([one.values for one in (self, *others)])

    def take(self, groups: NDArray[np.int64]) -> GroupKeys:
        """Return the keys of some of the groups."""
        return GroupKeys(self.values[groups])

    def shares(self, count: int) -> list[NDArray[np.int64]]:
        """Return the groups of each of this many shares; a key belongs to the same share in every part of a table."""
        share = (self.values[:, 1] % np.uint64(count)).astype(np.int64)
        order = np.argsort(share, kind="stable")
        return np.split(order, np.cumsum(np.bincount(share, minlength=count))[:-1])


@dataclass(frozen=True, eq=False, repr=False)
class KeyedGroups:
    """The group of each row (0 … groups − 1) and the key of each group; equal cells always give equal keys."""

    labels: NDArray[np.int64]  # (rows,)
    keys: GroupKeys

    @classmethod
    def of(cls, table: Table, names: Sequence[str], numbered_by: str | None = None) -> KeyedGroups:
        """Group the rows by these columns, exactly; an integer column may number most of the groups already."""
        labels = group_labels(table, names if numbered_by is None else (*names, numbered_by))
        groups = cls(labels, GroupKeys.of(table, names, first_rows(labels)))
        if numbered_by is None:
            return groups
        joined = cls.of_keys(groups.keys.values)
        return cls(joined.labels[labels], joined.keys)

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
    labels, used = np.empty(len(cells), dtype=np.int64), 0
    for rows in rows_by_label(part):
        part_labels = _label_keys(cells[rows])
        labels[rows] = part_labels + used
        used += int(part_labels.max(initial=-1)) + 1
    return labels


def rows_by_label(labels: NDArray[np.integer], size: int = 0) -> list[NDArray[np.int64]]:
    """Return the rows that have each label from 0 on, in their order; for at least ``size`` labels."""
    return np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels, minlength=size))[:-1])
