"""The mean sampling weight of each box.

A sampling weight may be unique, and a row that leaves with its own weight can be told apart from the others in its
box. If every row of a box leaves with the mean weight of the box, weights tell nobody apart, and all totals over
whole boxes are kept. Statistics of intervals lose nothing: the weighted mean of numbers in one interval lies in it
for any weights.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.leaves import Leaves


def box_means(weights: NDArray[np.float64], leaves: Leaves) -> NDArray[np.float64]:
    """Return the mean weight of each box; exact if all its weights are equal."""
    ordered, starts = weights[leaves.order], leaves.starts[:-1]
    totals = np.add.reduceat(ordered.astype(np.longdouble), starts)  # so that a total is rounded only once
    means = (totals / leaves.sizes).astype(np.float64)
    return np.clip(means, np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts))
