"""Rows of noise of mean 0 and a given covariance: normal, without rows near zero, from a mixture, or by density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.statistics.moments import pairwise_covariance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NEGLIGIBLE = 1e-12  # an eigenvalue below this share of the largest is a rounding error
MEANS = 3  # pairs of means ±m of a mixture
SMALLEST_MEAN = 0.5  # of the pairs, before they are scaled together; the largest is 1.5


def loadings(matrix: Array) -> Array:
    """Return L (rank, columns) with LᵀL = Σ, the covariance of the columns: white rows times L have this covariance.

    Of more columns than rows no matrix of all pairs is made: the rows themselves, divided by √rows, are such an L, with
    missing cells at the mean and each column scaled to its own variance.
    """
    if matrix.shape[1] > len(matrix):
        centred = np.nan_to_num(matrix - mean_of(matrix))
        length = np.sqrt((centred**2).sum(axis=0))
        return np.asarray(centred * (spread_of(matrix) / np.where(length > 0.0, length, 1.0)))
    values, vectors = np.linalg.eigh(pairwise_covariance(matrix))
    real = values > NEGLIGIBLE * max(values.max(initial=0.0), np.finfo(float).tiny)
    return np.asarray((vectors[:, real] * np.sqrt(values[real])).T)


def mean_of(matrix: Array) -> Array:
    """Return the mean of each column; 0 if all of its cells are missing."""
    present = ~np.isnan(matrix)
    return np.asarray(np.where(present, matrix, 0.0).sum(axis=0) / np.maximum(present.sum(axis=0), 1))


def spread_of(matrix: Array) -> Array:
    """Return the standard deviation of each column; 0 if all of its cells are missing."""
    return np.asarray(np.sqrt(mean_of((matrix - mean_of(matrix)) ** 2)))


def resample_rows(rows: int, columns: int, share: float, generator: np.random.Generator) -> Array:
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
class NoiseMixture:
    """A mixture of normals of mean 0 and variance 1, with means away from zero (TL 2.10): Σ ωᵢ N(μᵢ, σ²), ωᵢ equal."""

    means: Array  # μᵢ
    within: float  # σ²: the variance of each normal

    @classmethod
    def draw(cls, within: float, generator: np.random.Generator) -> NoiseMixture:
        """Draw the means in pairs ±m and scale them so that the variance of the mixture is 1."""
        sizes = generator.uniform(SMALLEST_MEAN, 2.0 - SMALLEST_MEAN, MEANS)
        sizes *= np.sqrt((1.0 - within) / (sizes**2).mean())
        return cls(np.concatenate([-sizes, sizes]), within)

    def rows(self, rows: int, columns: int, generator: np.random.Generator) -> Array:
        """Return rows whose cells are independent draws from the mixture."""
        shape = (rows, columns)
        chosen = self.means[generator.integers(len(self.means), size=shape)]
        return np.asarray(chosen + np.sqrt(self.within) * generator.standard_normal(shape))


# The scale of each row's noise, by the density around it.

DENSITY_ROWS = 5000  # rows among which neighbours are searched: local densities of a random part are in proportion
KD_TREE_COLUMNS = 12  # with more columns a tree looks at nearly all points
MOST_APART = 4.0  # ratio of a scale to that of the median distance: an outlier must not get the noise of all


def density_scales(scores: Array, neighbours: int, generator: np.random.Generator) -> Array:
    """Return a scale for each row, larger where rows are sparse, with mean square 1.

    It is proportional to the distance to the k-th nearest row in white scores, limited to a quarter and to four times
    its median. A row in a crowd of equal rows gets noise as well.
    """
    rows, distance = len(scores), np.empty(len(scores))
    order = generator.permutation(rows)
    chosen, others = order[:DENSITY_ROWS], order[DENSITY_ROWS:]
    k = min(neighbours, len(chosen) - 1)
    distance[chosen] = _distances(scores[chosen], scores[chosen], k + 1)  # a chosen row is its own nearest
    if len(others):
        distance[others] = _distances(scores[others], scores[chosen], k)
    typical = float(np.median(distance)) or float(distance.mean()) or 1.0
    scale = np.clip(distance / typical, 1.0 / MOST_APART, MOST_APART)
    return np.asarray(scale / np.sqrt((scale**2).mean()))


def nearest_is_own(original: Array, released: Array) -> NDArray[np.bool_]:
    """Return which original rows have no released row that is as near as their own, the one at the same place."""
    from sfumato.kernels.neighbours import nearest

    if len(original) < 2:
        return np.zeros(len(original), dtype=bool)
    two = nearest(original, released, 2)
    own = np.linalg.norm(released - original, axis=1)
    other = np.where(two.index[:, 0] == np.arange(len(original)), two.distance[:, 1], two.distance[:, 0])
    return np.asarray(own < other)


def _distances(queries: Array, points: Array, k: int) -> Array:
    """Return the distance of each query to the k-th nearest point."""
    if queries.shape[1] > KD_TREE_COLUMNS:
        from sfumato.kernels.neighbours import nearest

        return nearest(queries, points, k).distance[:, -1]
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(points).query(queries, k=[k])[0][:, 0])
