"""Groups of rows that are equal in some columns, counted from the cells themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.table.coding import Coded, bits
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: a product with it spreads the bits upward
DOWN = np.uint64(29)


def refine(labels: NDArray[np.int64], codes: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Split groups by one more column: equal labels stay equal only where the codes are equal too.

    Labels stay dense (0 … groups − 1), so that labels × size never leaves 64 bits.
    """
    combined = labels * size + codes
    top = int(combined.max(initial=0)) + 1
    if top <= 8 * len(combined) + 1024:  # a counting pass is cheaper than a hash table
        seen = np.zeros(top, dtype=bool)
        seen[combined] = True
        place = np.cumsum(seen) - 1
        dense: NDArray[np.int64] = place[combined]
        return dense
    return _dense(combined)


def labels_of(columns: Iterable[Coded], rows: int) -> NDArray[np.int64]:
    """Dense group labels of coded columns; one group when there is no column."""
    labels = np.zeros(rows, dtype=np.int64)
    for coded in columns:
        labels = refine(labels, coded.codes, coded.size)
    return labels


def group_labels(table: Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Dense group labels (0 … groups − 1) of the rows; a missing value equals only a missing value.

    Rows are hashed to 64 bits, and then every row is compared, cell by cell, with the first of its group; so the groups
    are exact, and a collision (about rows² ÷ 2⁶⁵) only costs time. A last column of whole numbers may number the groups
    already: where rows that are equal in it prove equal in all others, no hash is needed.
    """
    table.require(names)
    if not names:
        return np.zeros(table.rows, dtype=np.int64)
    if pt.is_integer(table.arrow.column(names[-1]).type):
        numbered = _dense(_hashed(_cells(table, names[-1:]), table.rows))
        if _agree(numbered, _cells(table, names)):
            return numbered
    labels = _dense(_hashed(_cells(table, names), table.rows))
    if _agree(labels, _cells(table, names)):
        return labels
    return labels_of((table.coded(name) for name in names), table.rows)


def group_sizes(table: Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Number of rows in each group."""
    return np.bincount(group_labels(table, names)).astype(np.int64) if table.rows else np.zeros(0, dtype=np.int64)


def first_rows(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each group, given dense labels."""
    first = np.empty(int(labels.max(initial=-1)) + 1, dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels) - 1, -1, -1)  # the last one written stays, and that is the first row
    return first


def _cells(table: Table, names: Sequence[str]) -> Iterator[NDArray[np.uint64]]:
    """The cells as 64-bit words, a column at a time: made twice rather than held all at once."""
    return (part for name in names for part in bits(table.arrow.column(name)))


def _hashed(cells: Iterable[NDArray[np.uint64]], rows: int) -> NDArray[np.uint64]:
    hashed = np.zeros(rows, dtype=np.uint64)
    for part in cells:
        hashed ^= part
        hashed *= ODD
        hashed ^= hashed >> DOWN
    return hashed


def _agree(labels: NDArray[np.int64], cells: Iterable[NDArray[np.uint64]]) -> bool:
    """Whether each row is equal to the first row of its group in every cell."""
    first_of_row = first_rows(labels)[labels]
    return all(np.array_equal(part, part[first_of_row]) for part in cells)


def _dense(keys: NDArray[np.uint64] | NDArray[np.int64]) -> NDArray[np.int64]:
    """Labels 0, 1, … of equal keys, in the order of first appearance."""
    labels: NDArray[np.int64] = pa.array(keys).dictionary_encode().indices.to_numpy().astype(np.int64)
    return labels
