"""Codes of the strings of a column that has few distinct strings, read as 64-bit words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit

PLACES = 1024  # of the hash table, a power of two
FIRST_BITS = np.uint64(54)  # a hash of 64 bits without these is a place
MOST = 256  # distinct strings; more of them have to be encoded otherwise
WORD = 8  # bytes
ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits
MIXED = np.uint64(0xD6E8FEB86659FD93)  # so that the first and the last word of a string do not cancel out


def text_codes(data: NDArray[np.uint8], offsets: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]:
    """Return for each string the number of its first equal string, counted among distinct strings from 0.

    String i is ``data[offsets[i]:offsets[i + 1]]``. Strings are equal if all of their bytes are. If there are more than
    ``MOST`` distinct strings, the codes end where that was found out, so that there are fewer codes than strings.

    >>> text_codes(np.frombuffer(b"yesnoyes", np.uint8), np.array([0, 3, 5, 8]))
    array([0, 1, 0], dtype=int32)
    """
    if len(data) < WORD:
        data = np.concatenate([data, np.zeros(WORD, np.uint8)])
    words: NDArray[np.uint64] = np.ndarray((len(data) - WORD + 1,), np.uint64, data, strides=(1,))  # one at every byte
    codes: NDArray[np.int32] = _codes(words, offsets)
    return codes


@jit
def _codes(words: NDArray[np.uint64], offsets: NDArray[np.signedinteger[Any]]) -> NDArray[np.int32]:
    rows = len(offsets) - 1
    codes = np.empty(rows, np.int32)
    table = np.full(PLACES, -1, np.int32)
    starts, lengths = np.empty(MOST, np.int64), np.empty(MOST, np.int64)
    firsts, lasts = np.empty(MOST, np.uint64), np.empty(MOST, np.uint64)
    distinct = 0
    for row in range(rows):
        start, length = np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row])
        first = _word(words, start, min(length, WORD))
        last = first if length <= WORD else words[start + length - WORD]
        mixed = (first ^ (last * MIXED) ^ np.uint64(length)) * ODD
        place = np.int64(mixed >> FIRST_BITS)
        code = table[place]
        while code >= 0 and not (
            firsts[code] == first
            and lasts[code] == last
            and lengths[code] == length
            and _same_between(words, starts[code], start, length)
        ):
            place = (place + 1) & (PLACES - 1)
            code = table[place]
        if code < 0:
            if distinct == MOST:
                return codes[:row]
            code = np.int32(distinct)
            table[place] = code
            starts[code], lengths[code], firsts[code], lasts[code] = start, length, first, last
            distinct += 1
        codes[row] = code
    return codes


@jit(forceinline=True)
def _word(words: NDArray[np.uint64], start: int, length: int) -> np.uint64:
    """Return up to eight bytes as a number; what follows the string does not count."""
    if length == 0:
        return np.uint64(0)
    last = len(words) - 1
    beyond = start - last if start > last else 0  # bytes before the string in the last word that can be read
    word = words[start - beyond] >> np.uint64(8 * beyond)
    kept: np.uint64 = word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(8 * (WORD - length)))
    return kept


@jit(forceinline=True)
def _same_between(words: NDArray[np.uint64], one: int, other: int, length: int) -> bool:
    """Return whether strings whose first and last words are equal are equal in between."""
    place = WORD
    while place < length - WORD:
        if words[one + place] != words[other + place]:
            return False
        place += WORD
    return True
