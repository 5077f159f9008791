"""Values that many rows of a numeric column share, such as the zeros of an amount: the column is a mixture.

A semi-continuous column has *atoms* and, in the other rows, a number. An atom is common and stands out from the
values next to it. Rounded numbers are no atoms, however common they are, because their neighbours are common too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASS_SHARE = 0.05  # smallest share of the rows with a number that have the same number
MASS_ROWS = 10  # smallest number of rows in which an atom is found
MASS_RATIO = 5.0  # an atom is this many times as common as the median of the values next to it, which may be atoms too
MASS_NEIGHBOURS = 3  # number of values on each side of an atom that are compared with it
MASS_EXAMINED = 20_000  # rows in which atoms are looked for


def point_masses(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """Return the atoms among numbers without missing ones, in increasing order.

    >>> import numpy as np
    >>> point_masses(np.array([0.0] * 60 + list(range(1, 41))))
    (0.0,)
    """
    if not numbers.size:
        return ()
    examined = numbers[:: -(-numbers.size // MASS_EXAMINED)]
    values, counts = np.unique(examined, return_counts=True)
    common = np.flatnonzero(counts >= max(MASS_ROWS, MASS_SHARE * examined.size))
    if len(values) == 1:
        return ()  # a constant is no mixture
    return tuple(float(values[one]) for one in common if _stands_out(counts, int(one)))


def _stands_out(counts: NDArray[np.int64], one: int) -> bool:
    around = np.concatenate([counts[max(0, one - MASS_NEIGHBOURS) : one], counts[one + 1 : one + 1 + MASS_NEIGHBOURS]])
    return bool(counts[one] >= MASS_RATIO * np.median(around))
