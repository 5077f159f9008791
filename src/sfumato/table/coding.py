"""Columns as whole numbers, and cells as bits: what makes two cells of any type equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROBE = 4096  # cells that tell whether numbers repeat


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column as whole numbers: ``values[codes[row]]`` is the cell, and a missing cell is a value of its own.

    ``values`` are sorted (an ordered column's in its own order), the missing one, if any, last; so equal tables give
    equal codes. Every value occurs in the column.
    """

    codes: NDArray[np.int32]
    values: pa.Array

    @property
    def size(self) -> int:
        """Number of distinct values, the missing one included."""
        return len(self.values)

    def __repr__(self) -> str:
        return f"Coded({len(self.codes):,} cells, {self.size:,} values)"


def coded(column: pa.ChunkedArray, *, ordered: bool = False) -> Coded:
    """The column as codes of its sorted values; ``ordered`` takes the order of its dictionary instead."""
    if _hardly_repeats(column):
        return _coded_by_sorting(column)
    found = _encoded(column)
    if ordered and pt.is_dictionary(column.type):
        return found
    order = _sorted(found.values)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Coded(place[found.codes], found.values.take(pa.array(order)))


def distinct(column: pa.ChunkedArray) -> int:
    """Number of distinct values of a column of any type, a missing one not counted."""
    values = _encoded(column).values
    return len(values) - int(values.null_count)


def bits(column: pa.ChunkedArray) -> Iterator[NDArray[np.uint64]]:
    """Arrays of 64 bits that are equal in two rows exactly where the cells are; a missing cell equals a missing one.

    Numbers are taken as they stand, which is far cheaper than coding them; a second array, if there is one, says which
    cells are missing.
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
        yield _encoded(column).codes.astype(np.uint64)


def _hardly_repeats(column: pa.ChunkedArray) -> bool:
    """Whether it is numbers, and the first of them are mostly distinct: then one sort is cheaper than a hash table."""
    kind = column.type
    if not (pt.is_floating(kind) or (pt.is_integer(kind) and column.null_count == 0)) or len(column) < PROBE:
        return False
    return len(np.unique(column.slice(0, PROBE).to_numpy())) > PROBE // 2


def _coded_by_sorting(column: pa.ChunkedArray) -> Coded:
    values, codes = np.unique(column.to_numpy(), return_inverse=True)  # −0 equals 0, and NaN stands once, at the end
    return Coded(codes.astype(np.int32), pa.array(values, column.type, from_pandas=True))


def _as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_date32(column.type):
        return column.cast(pa.int32())
    return column if pt.is_integer(column.type) else column.cast(pa.int64())


def _encoded(column: pa.ChunkedArray) -> Coded:
    """Codes in the order of first appearance (of the dictionary, where the column has one)."""
    kind = column.type
    if pt.is_null(kind):
        return Coded(np.zeros(len(column), dtype=np.int32), pa.nulls(min(len(column), 1)))
    if pt.is_dictionary(kind):
        return _encoded_dictionary(column)
    if pt.is_floating(kind):
        numbers = column.to_numpy() + column.type.to_pandas_dtype()(0)  # −0 is 0
        column = pa.chunked_array([pa.array(numbers, from_pandas=True)])  # NaN is missing
    return _encoded_dictionary(column.dictionary_encode())


def _encoded_dictionary(column: pa.ChunkedArray) -> Coded:
    """The dictionary's own codes, without the values that do not occur, and one more for the missing cells."""
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


def _sorted(values: pa.Array) -> NDArray[np.int64]:
    """The order that sorts distinct values, the missing one last."""
    if (pt.is_integer(values.type) or pt.is_floating(values.type)) and values.null_count == 0:
        return np.argsort(values.to_numpy()).astype(np.int64)
    order: NDArray[np.int64] = pc.array_sort_indices(values).to_numpy().astype(np.int64)
    return order
