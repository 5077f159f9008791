"""The boxes of a partition: runs of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class Leaves:
    """The boxes, as runs of rows: box g contains the rows order[starts[g]:starts[g + 1]]."""

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    cuts: NDArray[np.float64]  # axis, value, first and last place of the cut where a box starts; empty if not recorded

    @property
    def count(self) -> int:
        """Number of boxes."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of records in each box."""
        return np.diff(self.starts)
