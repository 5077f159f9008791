"""Hashes of cells and of combinations of cells, equal in every part of a table, process and machine.

A hash depends on the name of the column and on the content of the cell, never on the order of rows or on the codes of a
dictionary. Without a ``salt`` anybody can compute it. With a secret ``salt`` only those who know the salt can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.table.coding import bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table

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
