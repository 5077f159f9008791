"""Positions of chosen rows in a table that is read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def chosen_within(chosen: NDArray[np.int64], start: int, rows: int) -> NDArray[np.int64]:
    """Return where the chosen rows are in a part of ``rows`` rows from row ``start`` on; ``chosen`` ascends.

    Examples
    --------
    >>> import numpy as np
    >>> chosen_within(np.array([1, 5, 6, 11]), start=5, rows=5).tolist()
    [0, 1]
    """
    first, last = np.searchsorted(chosen, [start, start + rows])
    here: NDArray[np.int64] = chosen[first:last] - start
    return here
