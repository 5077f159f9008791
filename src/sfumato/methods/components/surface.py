"""The surface on which the rows lie: overlapping charts of it, and kernel components with a way back (TL §6.3).

    rows → kernel components → swapped components → nearest chart → its tangent → rows

Rows with related columns lie near a bent surface. A *chart* is a piece of it: the rows near an anchor,
which may be near others as well. A point of kernel components that were swapped need not be the image of any row (the
pre-image problem). It is brought back by the chart whose anchor is nearest: the surface there is taken to be flat, a
linear regression of the rows on their components, and the point is moved into the range of the rows of the chart. What
the regression leaves, the directions away from the surface, is swapped among these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.eigenvectors import leading_eigenpairs
from sfumato.kernels.neighbours import nearest
from sfumato.methods.components.bases import independent, principal
from sfumato.methods.components.clusters import scale_squared, side_by_side, squared_distances
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Rows = NDArray[np.int64]
    Swap = Callable[[Array, np.random.Generator], Array]

OVERLAP = 5  # charts to which a row belongs
CHART_ROWS = 200  # average number of rows of a chart of the surface of kernel components, and the smallest
CHART_FLOOR = 50
LANDMARKS = 2000  # largest number of rows that span the kernel components
COMPONENTS = 20  # largest number of kernel components that are swapped
EXPLAINED = 0.8  # share of the variance in the space of the kernel that they explain, if so many are needed
NEGLIGIBLE = 1e-9  # an eigenvalue per row below this is a rounding error
RIDGE = 1e-6  # relative to the variance of a component: equal rows have no tangent
BLOCK = 8192  # rows whose kernel is in memory at the same time


@dataclass(frozen=True, repr=False)
class Charts:
    """Pieces of the surface that overlap: each row belongs to the charts of the anchors that are nearest to it.

    So every row counts the same, in the middle and at the margin. The rows nearest to each anchor would leave out the
    margin, and all that is made of them would be drawn to the middle.
    """

    anchors: Array  # (charts, axes)
    charts: Rows  # (rows, OVERLAP): of each row, nearest first

    @classmethod
    def of(cls, points: Array, size: int, floor: int, generator: np.random.Generator) -> Charts:
        """Return charts of ``size`` rows on average, at least ``floor``, around random rows; one if there are few."""
        count = min(len(points), len(points) * OVERLAP // size)
        anchors = points[np.sort(generator.choice(len(points), max(1, count), replace=False))]
        while True:
            charts = nearest(points, anchors, min(OVERLAP, len(anchors))).index
            sizes = np.bincount(charts.ravel(), minlength=len(anchors))
            if len(anchors) == 1 or sizes.min() >= floor:
                return cls(anchors, charts)
            kept = sizes >= floor
            kept[np.argmax(sizes)] = True
            anchors = anchors[kept]

    @property
    def members(self) -> list[Rows]:
        """The rows of each chart."""
        overlap = self.charts.shape[1]
        return [places // overlap for places in rows_by_label(self.charts.ravel(), len(self.anchors))]

    def rows_near(self, points: Array) -> list[Rows]:
        """Return for each chart the points whose nearest anchor it is."""
        return rows_by_label(nearest(points, self.anchors, 1).index[:, 0], len(self.anchors))

    def drawn_rows(self, generator: np.random.Generator) -> list[Rows]:
        """Return for each chart some of its rows; each row is drawn for one of its charts."""
        rows, overlap = self.charts.shape
        chosen = self.charts[np.arange(rows), generator.integers(overlap, size=rows)]
        return rows_by_label(chosen, len(self.anchors))


def swap_in_charts(
    points: Array, matrix: Array, swap: Swap, generator: np.random.Generator, *, size: int, floor: int
) -> Array:
    """Return the matrix with each row made in one of the charts that are nearest to it in ``points``.

    The independent components of the rows of a chart are swapped among them, and as many of the new rows are taken as
    rows were drawn for this chart. So there are no borders, as those of clusters are.
    """
    charts = Charts.of(points, size, floor, generator)
    members, wanted = charts.members, charts.drawn_rows(generator)
    generators = generator.spawn(len(members))
    changed = np.empty_like(matrix)

    def swap_chart(chart: int) -> None:
        rows, own = wanted[chart], generators[chart]
        if rows.size:
            basis = independent(matrix[members[chart]], own)
            changed[rows] = basis.matrix(_draw(basis.scores, rows.size, swap, own))

    side_by_side(swap_chart, range(len(members)))
    return changed


def swap_on_surface(matrix: Array, swap: Swap, swap_rest: Swap, generator: np.random.Generator) -> Array:
    """Return the matrix whose kernel components were swapped by ``swap``, brought back by the nearest tangent.

    ``swap_rest`` swaps what the components do not explain among the rows of a chart.
    """
    scores = kernel_components(matrix, generator)
    if not scores.size:  # all rows are equal
        return matrix
    moved = swap(scores, generator)
    charts = Charts.of(scores, CHART_ROWS, CHART_FLOOR, generator)
    members, wanted = charts.members, charts.rows_near(moved)
    generators = generator.spawn(len(members))
    changed = np.empty_like(matrix)

    def bring_back(chart: int) -> None:
        rows, own, near = wanted[chart], generators[chart], members[chart]
        if rows.size:
            tangent = Tangent.at(scores[near], matrix[near])
            basis = principal(matrix[near] - tangent.rows(scores[near]))
            rest = basis.matrix(_draw(basis.scores, rows.size, swap_rest, own))
            changed[rows] = tangent.rows(moved[rows]) + rest

    side_by_side(bring_back, range(len(members)))
    return changed


@dataclass(frozen=True, repr=False)
class Tangent:
    """The surface at a chart, taken to be flat: the least squares map from components to rows, within their range."""

    centre: Array  # of the components
    slopes: Array  # (components, columns)
    middle: Array  # of the rows
    low: Array  # of the components of the chart
    high: Array

    @classmethod
    def at(cls, scores: Array, rows: Array) -> Tangent:
        """Fit the map to the rows of a chart."""
        centre, middle = scores.mean(axis=0), rows.mean(axis=0)
        apart = scores - centre
        products = apart.T @ apart
        ridge = RIDGE * (float(np.trace(products)) / max(1, len(products)) or 1.0)
        slopes = np.linalg.solve(products + ridge * np.eye(len(products)), apart.T @ (rows - middle))
        return cls(centre, slopes, middle, scores.min(axis=0), scores.max(axis=0))

    def rows(self, scores: Array) -> Array:
        """Return the points of the tangent with these components; beyond the chart, the nearest ones within it."""
        return np.asarray(self.middle + (np.clip(scores, self.low, self.high) - self.centre) @ self.slopes)


def kernel_components(matrix: Array, generator: np.random.Generator) -> Array:
    """Return white scores of the leading principal components in the space of the Gaussian kernel.

    Its width is the median distance of two rows, as that of the affinity of clusters. Of a large table, random rows
    span the space (Nyström).
    """
    marks = matrix
    if len(matrix) > LANDMARKS:
        marks = matrix[generator.choice(len(matrix), LANDMARKS, replace=False)]
    squared = squared_distances(marks, marks)
    narrow = scale_squared(squared)
    kernel = np.exp(squared * (-0.5 / narrow))
    means = kernel.mean(axis=0)
    centred = kernel - means - means[:, None] + means.mean()
    leading = leading_eigenpairs(centred, min(COMPONENTS, len(marks) - 1), generator)
    real = leading.values > NEGLIGIBLE * len(marks)  # the similarity of a row to itself is 1
    share = np.cumsum(leading.values[real]) / max(float(np.trace(centred)), np.finfo(float).tiny)
    vectors = leading.vectors[:, real][:, : int(np.searchsorted(share, EXPLAINED)) + 1]
    scores = np.empty((len(matrix), vectors.shape[1]))
    for start in range(0, len(matrix), BLOCK):
        part = np.exp(squared_distances(matrix[start : start + BLOCK], marks) * (-0.5 / narrow))
        scores[start : start + BLOCK] = (part - means) @ vectors
    scores -= scores.mean(axis=0)
    return np.asarray(scores / np.sqrt((scores**2).mean(axis=0)))


def _draw(scores: Array, count: int, swap: Swap, generator: np.random.Generator) -> Array:
    """Return ``count`` rows of swapped scores; each further round of swaps gives rows that are new."""
    if not scores.size:
        return np.zeros((count, scores.shape[1]))
    rounds = -(-count // len(scores))
    swapped = np.concatenate([swap(scores, generator) for _ in range(rounds)])
    return np.asarray(swapped[generator.choice(len(swapped), count, replace=False)])
