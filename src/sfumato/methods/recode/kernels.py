"""Groups of equal keys, by a hash table: the step that a search of recodings repeats thousands of times."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.jit import jit

ODD = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ ÷ the golden ratio: multiplication by it spreads low bits to high bits


@jit(work=lambda keys, *_: 2.0 * len(keys), seconds=1.0)
def grouped(keys, counts, labels, sizes):
    """Number equal keys alike (0, 1, … by first appearance), and add up their counts; return the number of groups.

    ``labels`` and ``sizes`` are filled in; both are as long as ``keys``. The cost is one probe of a table per key.
    """
    bits = 4
    while (1 << bits) < 2 * len(keys):
        bits += 1
    mask, shift = (1 << bits) - 1, np.uint64(64 - bits)
    table = np.full(1 << bits, -1, dtype=np.int32)  # the group in each place
    key_of = np.empty(len(keys), dtype=np.int64)
    groups = 0
    for row in range(len(keys)):
        key = keys[row]
        place = np.int64((np.uint64(key) * ODD) >> shift)
        while table[place] >= 0 and key_of[table[place]] != key:
            place = (place + 1) & mask
        group = table[place]
        if group < 0:
            group = groups
            table[place], key_of[group], sizes[group] = group, key, 0
            groups += 1
        labels[row] = group
        sizes[group] += counts[row]
    return groups
