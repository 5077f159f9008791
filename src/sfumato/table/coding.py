"""Columns as integer codes and cells as 64-bit patterns, which define when two cells are equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

SMALL_RANGE = 1 << 24  # of an integer column whose numbers are codes themselves
MANY_CELLS = 20_000  # from which a kernel encodes strings; below, compiling it does not pay
PROBE = 4096  # number of cells checked to see whether numbers repeat


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column as integer codes: ``values[codes[row]]`` is the cell, and missing is one of the values.

    ``values`` are sorted, or in the declared order for an ordered column. The missing value, if there is one, comes
    last. Equal tables therefore give equal codes. Every value occurs in the column.
    """

    codes: NDArray[np.int32]
    values: pa.Array

    @property
    def size(self) -> int:
        """Number of distinct values, the missing one included."""
        return len(self.values)

    def __repr__(self) -> str:
        return f"Coded({len(self.codes):,} cells, {self.size:,} values)"


class ColumnCoding:
    """The codes of one column, computed when they are first needed and shared by all tables that have the column.

    Codes take 4 bytes per row, little next to the cells themselves. Threads that need them at the same time may both
    compute them, with the same result.
    """

    __slots__ = ("_coded",)

    def __init__(self) -> None:
        self._coded: Coded | None = None

    def of(self, column: pa.ChunkedArray, *, ordered: bool) -> Coded:
        """Return the codes of the column."""
        known = self._coded
        if known is None:
            known = self._coded = code_column(column, ordered=ordered)
        return known


def code_column(column: pa.ChunkedArray, *, ordered: bool = False) -> Coded:
    """Encode a column as codes of its sorted values; ``ordered`` keeps the order of its dictionary instead."""
    if _mostly_distinct(column):
        values, codes = np.unique(
            column.to_numpy(), return_inverse=True
        )  # −0 equals 0, and NaN occurs once, at the end
        return Coded(codes.astype(np.int32), pa.array(values, column.type, from_pandas=True))
    encoded = _encode(column)
    if ordered and pt.is_dictionary(column.type):
        return encoded
    order = _sort_order(encoded.values)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Coded(rank[encoded.codes], encoded.values.take(pa.array(order)))


def distinct(column: pa.ChunkedArray) -> int:
    """Count the distinct values of a column of any type, without the missing one."""
    if _mostly_distinct(column):
        numbers = np.sort(column.to_numpy())  # NaN, the missing cells, at the end; −0 equals 0
        return int(np.count_nonzero(numbers[1:] > numbers[:-1])) + int(numbers[0] == numbers[0])
    values = _encode(column).values
    return len(values) - int(values.null_count)


def bits(column: pa.ChunkedArray) -> Iterator[NDArray[np.uint64]]:
    """Yield arrays of 64-bit patterns that are equal in two rows exactly where the cells are equal.

    A missing cell equals another missing cell. Numbers are used directly, which is much faster than coding them. If
    there is a second array, it marks the missing cells.
    """
    kind = column.type
    if pt.is_floating(kind):
        numbers = column.cast(pa.float64()).to_numpy() + 0.0  # −0 is 0
        yield np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    elif pt.is_integer(kind) or pt.is_date(kind) or pt.is_timestamp(kind):
        whole = _as_integers(column)
        yield (pc.fill_null(whole, 0) if whole.null_count else whole).to_numpy().astype(np.uint64)
        if whole.null_count:
            yield whole.is_null().to_numpy().astype(np.uint64)
    else:
        yield _encode(column).codes.astype(np.uint64)


@dataclass(frozen=True, eq=False, repr=False)
class Digits:
    """Codes that are equal where cells are equal; some of the ``size`` possible codes may not occur."""

    codes: NDArray[np.integer[Any]]  # 0 … size − 1; a missing cell has the last code
    size: int


def have_few_values(column: pa.ChunkedArray) -> bool:
    """Return whether :func:`digits` suits the column: categories, booleans, and integers of a small range."""
    kind = column.type
    if pt.is_integer(kind) and column.null_count < len(column):
        ends = pc.min_max(column)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        return bool(high - low < SMALL_RANGE and high < 1 << 62)
    return bool(pt.is_dictionary(kind) or pt.is_string(kind) or pt.is_large_string(kind) or pt.is_boolean(kind))


def digits(column: pa.ChunkedArray) -> Digits:
    """Return codes of a column that has few values, faster than :func:`coded`, because values are not sorted."""
    if pt.is_integer(column.type):
        ends = pc.min_max(column)
        low, last = ends["min"].as_py(), ends["max"].as_py() - ends["min"].as_py() + 1
        numbers = pc.fill_null(column, low) if column.null_count else column
        codes = numbers.to_numpy().astype(np.int64) - low
        if column.null_count:
            codes[column.is_null().to_numpy()] = last
        return Digits(codes, last + 1)
    if pt.is_string(column.type) and len(column) >= MANY_CELLS:
        text_digits = _text_digits(column)
        if text_digits is not None:
            return text_digits
    encoded = column if pt.is_dictionary(column.type) else column.dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks
    size = len(chunks[0].dictionary)
    parts = [chunk.indices.fill_null(size) if chunk.null_count else chunk.indices for chunk in chunks]
    return Digits(np.concatenate([part.to_numpy(zero_copy_only=False) for part in parts]), size + 1)


def _text_digits(column: pa.ChunkedArray) -> Digits | None:
    """Return the codes of strings, in half the time that Arrow takes; None if there are many distinct strings."""
    from sfumato.table.text_kernels import text_codes

    whole = column.combine_chunks()
    strings = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    _, offsets, data = strings.buffers()
    places = np.frombuffer(offsets, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    codes = text_codes(np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), places)
    if len(codes) < len(strings):
        return None
    size = int(codes.max()) + 1
    if strings.null_count:
        codes[strings.is_null().to_numpy(zero_copy_only=False)] = size
    return Digits(codes, size + 1)


def _mostly_distinct(column: pa.ChunkedArray) -> bool:
    """Return whether the column is numeric and its first cells are mostly distinct.

    One sort is then faster than a hash table.
    """
    kind = column.type
    if not (pt.is_floating(kind) or (pt.is_integer(kind) and column.null_count == 0)) or len(column) < PROBE:
        return False
    return len(np.unique(column.slice(0, PROBE).to_numpy())) > PROBE // 2


def _as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_date32(column.type):
        return column.cast(pa.int32())
    return column if pt.is_integer(column.type) else column.cast(pa.int64())


def _encode(column: pa.ChunkedArray) -> Coded:
    """Encode the column in the order of first appearance, or of the dictionary if the column has one."""
    kind = column.type
    if pt.is_null(kind):
        return Coded(np.zeros(len(column), dtype=np.int32), pa.nulls(min(len(column), 1)))
    if pt.is_dictionary(kind):
        return _encode_dictionary(column)
    if pt.is_floating(kind):
        numbers = column.to_numpy() + column.type.to_pandas_dtype()(0)  # −0 is 0
        column = pa.chunked_array([pa.array(numbers, from_pandas=True)])  # NaN is missing
    return _encode_dictionary(column.dictionary_encode())


def _encode_dictionary(column: pa.ChunkedArray) -> Coded:
    """Return the codes of the dictionary without unused values, plus one code for the missing cells."""
    chunks = column.unify_dictionaries().chunks
    if not chunks:
        return Coded(np.zeros(0, dtype=np.int32), pa.array([], column.type.value_type))
    dictionary = chunks[0].dictionary
    codes: NDArray[Any] = np.concatenate(
        [pc.fill_null(chunk.indices.cast(pa.int64()), len(dictionary)).to_numpy() for chunk in chunks]
    )
    used = np.bincount(codes, minlength=len(dictionary) + 1) > 0
    dense = (np.cumsum(used) - 1).astype(np.int32)
    present = dictionary.take(pa.array(np.flatnonzero(used[:-1])))
    values = pa.concat_arrays([present, pa.nulls(1, present.type)]) if used[-1] else present
    return Coded(dense[codes], values)


def _sort_order(values: pa.Array) -> NDArray[np.int64]:
    """Return the order that sorts distinct values, with the missing one last."""
    if (pt.is_integer(values.type) or pt.is_floating(values.type)) and values.null_count == 0:
        return np.argsort(values.to_numpy()).astype(np.int64)
    order: NDArray[np.int64] = pc.array_sort_indices(values).to_numpy().astype(np.int64)
    return order
