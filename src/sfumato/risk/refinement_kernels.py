"""Partitions of rows, refined by one more column at a time.

A partition lists the rows of its groups one group after the other: group g is ``rows[starts[g]:starts[g + 1]]``. Groups
of one row are left out, because no further column can split them: the deeper a search goes, the fewer rows remain.

``wanted`` marks the rows of interest; an empty array stands for all of them. A group without such a row is left out,
too. A search about a random sample of rows is therefore fast below the first levels, although each row is compared with
the whole table.

Rows are looked up in the order of their groups, so that most of the time is spent waiting for the codes of rows that
are far apart. Codes should therefore be ``narrow``, so that those of a column fit into the cache of a core.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import jit

Rows = NDArray[np.int32]
Starts = NDArray[np.int64]
Codes = NDArray[np.uint8] | NDArray[np.int32]


def narrow(codes: NDArray[np.int32], size: int) -> Codes:
    """Return codes (0 … size − 1) of one byte, if one is enough for them."""
    return codes.astype(np.uint8) if size <= 256 else codes


@jit
def split_groups(
    rows: Rows, starts: Starts, codes: Codes, size: int, wanted: NDArray[np.bool_]
) -> tuple[Rows, Starts, int]:
    """Split each group by the codes (0 … size − 1); return the groups and the number of wanted rows now alone."""
    new_rows = np.empty_like(rows)
    new_starts = np.empty(len(rows) // 2 + 2, np.int64)
    new_starts[0] = 0
    count = np.zeros(size, np.int32)
    place = np.empty(size, np.int64)
    hit = np.zeros(size, np.bool_)
    seen = np.empty(size, np.int32)
    filled, groups, alone, everyone = 0, 0, 0, len(wanted) == 0
    for group in range(len(starts) - 1):
        first, last = starts[group], starts[group + 1]
        kinds = 0
        for position in range(first, last):
            row = rows[position]
            code = codes[row]
            if count[code] == 0:
                seen[kinds] = code
                kinds += 1
            count[code] += 1
            if everyone or wanted[row]:
                hit[code] = True
        for kind in range(kinds):
            code = seen[kind]
            if not hit[code]:
                place[code] = -1
            elif count[code] == 1:
                alone += 1
                place[code] = -1
            else:
                place[code] = filled
                filled += count[code]
                groups += 1
                new_starts[groups] = filled
            count[code] = 0
            hit[code] = False
        for position in range(first, last):
            row = rows[position]
            code = codes[row]
            if place[code] >= 0:
                new_rows[place[code]] = row
                place[code] += 1
    return new_rows[:filled].copy(), new_starts[: groups + 1].copy(), alone


@jit
def count_alone(rows: Rows, starts: Starts, codes: Codes, size: int, wanted: NDArray[np.bool_]) -> int:
    """Count the wanted rows that :func:`split_groups` would find alone, without building the groups."""
    count = np.zeros(size, np.int32)
    alone, everyone = 0, len(wanted) == 0
    for group in range(len(starts) - 1):
        for position in range(starts[group], starts[group + 1]):
            count[codes[rows[position]]] += 1
        for position in range(starts[group], starts[group + 1]):
            row = rows[position]
            if count[codes[row]] == 1 and (everyone or wanted[row]):
                alone += 1
        for position in range(starts[group], starts[group + 1]):
            count[codes[rows[position]]] = 0
    return alone
