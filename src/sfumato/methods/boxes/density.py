"""A nearest-neighbour estimate of the density of records around a point."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

NEIGHBOURS = 24


def log_density(
    records: NDArray[np.float64], points: NDArray[np.float64], neighbours: int = NEIGHBOURS
) -> NDArray[np.float64]:
    """Estimate the logarithm of the records per unit of volume: (m − 1) ÷ the volume of the ball with m neighbours.

    Distances are computed after whitening, so that the ball follows the shape of the data. Points that coincide with
    more than m records have no finite density; they get the density of the smallest ball with a volume above 0.
    """
    from sfumato.kernels.neighbours import nearest

    count, axes = records.shape
    near = min(neighbours, count)
    covariance = np.atleast_2d(np.cov(records.T, bias=True))
    spread, directions = np.linalg.eigh(covariance)
    widest = float(spread.max())
    spread = np.sqrt(np.maximum(spread, 1e-24 * widest)) if widest > 0.0 else np.ones(axes)
    whiten = directions / spread
    distances = nearest(points @ whiten, records @ whiten, near).distance[:, -1]
    positive = distances[distances > 0.0]
    distances = np.maximum(distances, positive.min() if positive.size else 1.0)
    log_ball = axes / 2 * math.log(math.pi) - math.lgamma(axes / 2 + 1)
    found: NDArray[np.float64] = math.log(max(near - 1, 1)) - log_ball - axes * np.log(distances) - np.log(spread).sum()
    return found
