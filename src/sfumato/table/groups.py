"""Groups of rows that are equal in some columns, compared cell by cell."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.table.coding import Coded, Digits, bits, digits, have_few_values
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
