"""The smallest of many hashes, each with the number of its occurrences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit

Hashes = NDArray[np.uint64]
Counts = NDArray[np.int64]


@jit
def _place(keys: Hashes, counts: Counts, key: np.uint64) -> np.int64:
    """Return the place of a key in an open hash table with a power of two of places, or the place to insert it."""
    mask = np.uint64(len(keys) - 1)
    place = key & mask
    while counts[place] > 0 and keys[place] != key:
        place = (place + np.uint64(1)) & mask
    return np.int64(place)


@jit
def count_smallest(known: Hashes, known_counts: Counts, hashes: Hashes, size: int) -> tuple[Hashes, Counts]:
    """Return the ``size`` smallest distinct hashes of both, in order, and the number of occurrences of each.

    Hashes are collected in a table of at most ``2 size`` entries before the larger half is dropped, so that most hashes
    cost one lookup. The limit only decreases, so a dropped hash never returns.
    """
    room = 1
    while room < 4 * size:
        room *= 2
    keys, counts = np.zeros(room, np.uint64), np.zeros(room, np.int64)
    used, limit = 0, np.uint64(0xFFFFFFFFFFFFFFFF)
    for position in range(len(known) + len(hashes)):
        is_known = position < len(known)
        key = known[position] if is_known else hashes[position - len(known)]
        if key > limit:
            continue
        place = _place(keys, counts, key)
        used += counts[place] == 0
        keys[place] = key
        counts[place] += known_counts[position] if is_known else 1
        if used == 2 * size:
            kept, kept_counts = _smallest(keys, counts, size)
            counts[:] = 0
            for number in range(size):
                place = _place(keys, counts, kept[number])
                keys[place], counts[place] = kept[number], kept_counts[number]
            used, limit = size, kept[size - 1]
    smallest: tuple[Hashes, Counts] = _smallest(keys, counts, size)
    return smallest


@jit
def _smallest(keys: Hashes, counts: Counts, size: int) -> tuple[Hashes, Counts]:
    used = np.flatnonzero(counts)
    order = used[np.argsort(keys[used])][:size]
    return keys[order], counts[order]
