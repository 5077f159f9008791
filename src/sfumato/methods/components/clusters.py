"""Spectral clustering of rows into clusters of about a given size (TL §5.1), and the smallest size that is private.

A few thousand rows are clustered exactly: affinities, their normalised matrix, its leading eigenvectors, and k-means
on the normalised rows of these. More rows are first divided into pieces by eigenvectors that are computed from the
affinities to some landmarks (Nyström method), and each piece is divided again until it is small enough to be
clustered exactly. The cost per level is rows × landmarks instead of rows².
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.kernels.prediction import Prediction, downward_shift, prediction, prediction_from_others

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.matrix import MatrixPlan, MatrixSetup
    from sfumato.table.table import Table

EXACT_ROWS = 3000  # largest number of rows for which all affinities are computed
PIECE_ROWS = 2000  # largest number of rows of a piece of a larger table
LANDMARKS = 256
PIECES = 32  # largest number of pieces per level
SCALE_ROWS = 500  # rows whose median distance is the scale of the affinity
EIGENVECTOR_TOLERANCE = 1e-4  # relative; more accuracy does not change the result of k-means
FITTED_ROWS = 10_000  # rows to which k-means is fitted
BLOCK = 16_384  # rows whose affinities to the landmarks are in memory at the same time

Part = TypeVar("Part")
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class Clustering:
    """How rows are divided into clusters."""

    size: int  # average number of rows per cluster
    floor: int  # smallest number of rows per cluster, unless there is only one

    def __call__(self, matrix: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.int64]:
        """Return the cluster of each row, from 0 to clusters − 1, each with at least ``floor`` rows."""
        pieces = _pieces(matrix, np.arange(len(matrix)), generator)
        seeds = generator.integers(2**31, size=len(pieces))
        parts = side_by_side(
            lambda job: exact(matrix[pieces[job]], round(len(pieces[job]) / self.size), int(seeds[job])),
            range(len(pieces)),
        )
        labels = np.empty(len(matrix), dtype=np.int64)
        used = 0
        for piece, part in zip(pieces, parts, strict=True):
            labels[piece] = part + used
            used += int(part.max()) + 1
        return merge_small_clusters(matrix, labels, self.floor)


def exact(matrix: NDArray[np.float64], clusters: int, seed: int) -> NDArray[np.int64]:
    """Cluster with all affinities: S = exp(−|x − y|²/2σ²), zero on the diagonal, normalised to D^(−½) S D^(−½)."""
    if clusters < 2:
        return np.zeros(len(matrix), dtype=np.int64)
    affinity = squared_distances(matrix, matrix)
    affinity *= -0.5 / scale_squared(affinity)
    np.exp(affinity, out=affinity)
    np.fill_diagonal(affinity, 0.0)
    # a row without affinity to any other row gets its own direction; it is merged with the nearest cluster later
    root = 1.0 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(float).tiny ** 0.5))
    affinity *= root[:, None]
    affinity *= root
    leading = leading_eigenpairs(affinity, clusters, np.random.default_rng(seed), tolerance=EIGENVECTOR_TOLERANCE)
    return _k_means(_unit_rows(leading.vectors), clusters, seed)


def merge_small_clusters(matrix: NDArray[np.float64], labels: NDArray[np.int64], floor: int) -> NDArray[np.int64]:
    """Merge every cluster of fewer than ``floor`` rows with the cluster with the nearest mean, smallest first."""
    sizes = np.bincount(labels).astype(np.float64)
    sums = np.zeros((len(sizes), matrix.shape[1]))
    for column in range(matrix.shape[1]):
        sums[:, column] = np.bincount(labels, weights=matrix[:, column], minlength=len(sizes))
    goes_to = np.arange(len(sizes))
    living = sizes > 0
    while living.sum() > 1 and sizes[living].min() < floor:
        small = int(np.flatnonzero(living)[np.argmin(sizes[living])])
        living[small] = False
        others = np.flatnonzero(living)
        apart = sums[others] / sizes[others, None] - sums[small] / sizes[small]
        host = int(others[np.argmin((apart**2).sum(axis=1))])
        goes_to[goes_to == small] = host
        sizes[host] += sizes[small]
        sums[host] += sums[small]
    return np.unique(goes_to[labels], return_inverse=True)[1].astype(np.int64)


def side_by_side(work: Callable[[Part], Answer], parts: Iterable[Part]) -> list[Answer]:
    """Process parts in parallel, one thread per processor, each with single-threaded linear algebra."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1), ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, parts))


def _pieces(
    matrix: NDArray[np.float64], rows: NDArray[np.int64], generator: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Divide rows by landmarks until every piece is small; a whole table of up to EXACT_ROWS rows is one piece."""
    if len(rows) <= (EXACT_ROWS if len(rows) == len(matrix) else PIECE_ROWS):
        return [rows]
    labels = _by_landmarks(matrix[rows], min(PIECES, -(-len(rows) * 3 // (PIECE_ROWS * 2))), generator)
    if np.bincount(labels).max() > 0.9 * len(rows):  # there are no clusters, because the rows are nearly equal
        labels = generator.integers(-(-len(rows) // PIECE_ROWS) + 1, size=len(rows))
    pieces = [rows[labels == label] for label in np.unique(labels)]
    return [part for piece in pieces for part in _pieces(matrix, piece, generator)]


def _by_landmarks(matrix: NDArray[np.float64], pieces: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Cluster by the affinities to random rows, the landmarks (Chen and Cai, 2011).

    With Z the affinities to the landmarks, normalised so that rows sum to one, the eigenvectors of Z diag(1/colsum) Zᵀ
    are the left singular vectors of Z diag(colsum)^(−½). The work is rows × landmarks, plus an eigenproblem of size
    landmarks × landmarks.
    """
    marks = matrix[generator.choice(len(matrix), LANDMARKS, replace=False)]
    narrow = scale_squared(squared_distances(marks, marks))
    blocks = range(0, len(matrix), BLOCK)
    gram, total = np.zeros((LANDMARKS, LANDMARKS)), np.zeros(LANDMARKS)
    for start in blocks:
        affinity = _to_landmarks(matrix[start : start + BLOCK], marks, narrow)
        gram += affinity.T @ affinity
        total += affinity.sum(axis=0)
    root = 1.0 / np.sqrt(np.maximum(total, np.finfo(float).tiny ** 0.5))
    values, vectors = np.linalg.eigh(gram * root[:, None] * root)
    leading = vectors[:, -pieces:] * root[:, None] / np.sqrt(np.maximum(values[-pieces:], 1e-12))
    embedded = np.empty((len(matrix), pieces))
    for start in blocks:
        embedded[start : start + BLOCK] = _to_landmarks(matrix[start : start + BLOCK], marks, narrow) @ leading
    return _k_means(_unit_rows(embedded), pieces, int(generator.integers(2**31)))


def _to_landmarks(rows: NDArray[np.float64], marks: NDArray[np.float64], narrow: float) -> NDArray[np.float64]:
    """Return the affinities to the landmarks, normalised so that each row sums to one."""
    affinity = squared_distances(rows, marks)
    affinity -= affinity.min(axis=1, keepdims=True)  # the nearest has affinity one, so that no row has only zeros
    affinity *= -0.5 / narrow
    np.exp(affinity, out=affinity)
    affinity /= affinity.sum(axis=1, keepdims=True)
    return affinity


def squared_distances(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    squared: NDArray[np.float64] = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2.0 * (left @ right.T)
    return np.maximum(squared, 0.0, out=squared)


def scale_squared(squared: NDArray[np.float64]) -> float:
    """σ² of the affinity: the median squared distance between two different rows of a square table of distances."""
    step = -(-len(squared) // SCALE_ROWS)
    few = squared[::step, ::step]
    between = few[np.triu_indices(len(few), 1)]
    median = float(np.median(between))
    return median if median > 0.0 else max(float(between.mean()), 1e-300)


def _unit_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(length > 0.0, length, 1.0))


def _k_means(points: NDArray[np.float64], clusters: int, seed: int) -> NDArray[np.int64]:
    from sklearn.cluster import KMeans

    generator = np.random.default_rng(seed)
    fitted = points if len(points) <= FITTED_ROWS else generator.choice(points, FITTED_ROWS, axis=0, replace=False)
    distinct = len(np.unique(fitted.round(12), axis=0))
    model = KMeans(min(clusters, distinct), n_init=3, random_state=seed)
    return np.asarray(model.fit(fitted).predict(points), dtype=np.int64)


# The smallest private cluster size (TL §5.2.3): people are as well hidden as people who are not in the table.
#
# The reference for each person is the table without that person. It is a sample of the same population that does not
# contain the person, so it shows what can be learnt about people who did not take part. No holdout is needed.


NEIGHBOURS = 5  # the k of ambiguity and uncertainty (TL §4.2.1)
ROWS = 4000  # people that are examined
STEP = 2**0.25  # ratio of successive sizes
MOST_EXPECTED = 1e5  # with a single score nobody is hidden, however large a cluster is
SCARCELY = 0.05  # degrees of freedom that are left of a single score
LEVEL = 0.5  # a size is private if a shift of this size occurs by chance at least half of the time
# Rows of the test, as in TL §5.2.1, so that it detects a shift of 5 % in distance and of 10 % in the other measures
TEST_ROWS = {"distance": 1296, "ambiguity": 324, "uncertainty": 324}


@dataclass(frozen=True, kw_only=True)
class SizeChoice:
    """The chosen cluster size, and why it was chosen."""

    size: int
    examined: int  # people whose privacy was measured
    largest_rejected: int | None  # largest size that was tried and is not private; None if the first one is
    below: tuple[str, ...]  # measures that were below the reference at that size
    whole: bool  # whether the whole table is one cluster, because no smaller size is private

    @property
    def reason(self) -> str:
        """Why this size was chosen, in a sentence for the manifest: counts and names of measures."""
        people = f"measured on {self.examined:,} people"
        if self.largest_rejected is None:
            return f"the smallest size that is allowed is private, {people}"
        rejected = f"at {self.largest_rejected:,} rows {' and '.join(self.below)} below the reference"
        if self.whole:
            return f"no smaller size is private, so the whole table is one cluster: {rejected}, {people}"
        return f"the smallest private size: {rejected}, {people}"


def smallest_private_size(
    plan_of: Callable[[int], MatrixPlan], table: Table, setup: MatrixSetup, floor: int
) -> SizeChoice:
    """Return a size, at least ``floor``, at which no measure falls below the reference, although one does at the next.

    Sizes are tried from the expected one on: larger ones until one is private, or smaller ones as long as they are. If
    no size is private enough, it is that of the whole sample.
    """
    generator = setup.randomness.stream("cluster size")
    people = table if table.rows <= ROWS else table.take(generator.choice(table.rows, ROWS, replace=False))
    points = setup.encoder.encode(people) / np.sqrt(setup.encoder.width)
    reference = prediction_from_others(points, NEIGHBOURS)

    def below(size: float) -> tuple[str, ...]:
        released = plan_of(round(size)).transform(people, 0).released
        rows = setup.encoder.encode(released) / np.sqrt(setup.encoder.width)
        return measures_below(prediction(points, rows, NEIGHBOURS), reference)

    sizes = [float(floor)]
    while sizes[-1] < people.rows / 2:
        sizes.append(sizes[-1] * STEP)
    del sizes[-1]  # it leaves a single cluster
    place = max(0, bisect_right(sizes, expected_size(effective_dimension(points))) - 1)
    failed: dict[int, tuple[str, ...]] = {}
    while place < len(sizes) and (found := below(sizes[place])):
        failed[place], place = found, place + 1
    while not failed and 0 < place < len(sizes):
        if found := below(sizes[place - 1]):
            failed[place - 1] = found
        else:
            place -= 1
    last = max(failed, default=None)
    return SizeChoice(
        size=table.rows if place == len(sizes) else round(sizes[place]),
        examined=people.rows,
        largest_rejected=None if last is None else round(sizes[last]),
        below=() if last is None else failed[last],
        whole=place == len(sizes),
    )


def effective_dimension(matrix: NDArray[np.float64]) -> float:
    """Return (Σλ)² ÷ Σλ² of the eigenvalues λ of the covariance: their number if they are equal, and at least 1."""
    centred = matrix - matrix.mean(axis=0)
    products = centred @ centred.T if len(centred) < centred.shape[1] else centred.T @ centred
    squares = float((products**2).sum())
    return float(np.trace(products)) ** 2 / squares if squares > 0.0 else 1.0


def expected_size(dimension: float) -> int:
    """Return the smallest cluster size at which distances are expected to be those of people outside.

    Swapped in a cluster of m rows, each of the d scores of a person comes to one row, which then has this score. The
    nearest of m rows without such a score is as near as one of m is: F(ε; d) = 1/m for a χ² distribution with d
    degrees of freedom. A row with one such score is as near with probability F(ε; d − 1). So there are on average
    (d/m)(m·F(ε; d − 1) − 1) more rows within ε than without the person, and the distribution of the distance shifts
    by 1/e of that.
    """
    from scipy.special import gammainc, gammaincinv

    allowed = np.sqrt(-np.log(LEVEL) / TEST_ROWS["distance"])  # a larger shift is no chance, see measures_below
    sizes = np.geomspace(2.0, MOST_EXPECTED, 1000)
    within = gammainc(max(dimension - 1.0, SCARCELY) / 2.0, gammaincinv(dimension / 2.0, 1.0 / sizes))
    shift = dimension / sizes * (sizes * within - 1.0) / np.e
    return int(np.ceil(sizes[np.argmax(shift <= allowed)])) if (shift <= allowed).any() else int(MOST_EXPECTED)


def measures_below(measured: Prediction, reference: Prediction) -> tuple[str, ...]:
    """Return the measures that fail the one-sided Kolmogorov–Smirnov test of TL §5.2.1.

    The shift is estimated from all people and tested as if the planned number n had been drawn (P[D > d] ≈ exp(−n d²)
    for two samples of n), so that the result does not depend on a random choice of people.
    """
    return tuple(
        name
        for name, rows in TEST_ROWS.items()
        if np.exp(-rows * downward_shift(getattr(measured, name), getattr(reference, name)) ** 2) <= LEVEL
    )
