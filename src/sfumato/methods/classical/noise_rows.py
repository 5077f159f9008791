"""Rows of noise of mean 0 and a given covariance: normal, without rows near zero, or from a mixture of normals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12  # an eigenvalue below this share of the largest is a rounding error
MEANS = 3  # pairs of means ±m of a mixture
SMALLEST_MEAN = 0.5  # of the pairs, before they are scaled together; the largest is 1.5


def loadings(covariance: Array, *, correlated: bool) -> Array:
    """Return L (rank, columns) with LᵀL = Σ, or its diagonal: white rows times L have this covariance."""
    if not correlated:
        spread = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        return np.diag(spread)[spread > 0.0]
    values, vectors = np.linalg.eigh(covariance)
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def resampled(rows: int, columns: int, share: float, generator: np.random.Generator) -> Array:
    """Return white normal rows of which those nearest to zero, this share of all, were drawn again (TL §2.3.1).

    The direction of a row is uniform, and its squared length is chi-squared above the quantile ``share``. Drawing again
    until a row is long enough gives the same distribution. It is the same in all directions, so that division by one
    number, the root mean square length, makes the covariance the unit matrix again.
    """
    from scipy.special import chdtrc, chdtri

    normal = generator.standard_normal((rows, columns))
    if share == 0.0 or columns == 0:
        return normal
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    squared = chdtri(columns, (1.0 - share) * (1.0 - generator.random((rows, 1))))
    mean_square = chdtrc(columns + 2, chdtri(columns, 1.0 - share)) / (1.0 - share)
    return np.asarray(normal / np.where(length > 0.0, length, 1.0) * np.sqrt(squared / mean_square))


@dataclass(frozen=True, repr=False)
class Mixture:
    """A mixture of normals of mean 0 and variance 1, with means away from zero (TL 2.10): Σ ωᵢ N(μᵢ, σ²), ωᵢ equal."""

    means: Array  # μᵢ
    within: float  # σ²: the variance of each normal

    @classmethod
    def drawn(cls, within: float, generator: np.random.Generator) -> Mixture:
        """Draw the means in pairs ±m and scale them so that the variance of the mixture is 1."""
        sizes = generator.uniform(SMALLEST_MEAN, 2.0 - SMALLEST_MEAN, MEANS)
        sizes *= np.sqrt((1.0 - within) / (sizes**2).mean())
        return cls(np.concatenate([-sizes, sizes]), within)

    def rows(self, rows: int, columns: int, generator: np.random.Generator) -> Array:
        """Return rows whose cells are independent draws from the mixture."""
        shape = (rows, columns)
        chosen = self.means[generator.integers(len(self.means), size=shape)]
        return np.asarray(chosen + np.sqrt(self.within) * generator.standard_normal(shape))
