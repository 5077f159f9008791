"""Condensation: groups of at least k similar rows, each replaced by draws from its own model (Aggarwal and Yu, 2004).

Numbers of a group are uniform along its principal components, with its mean and covariance. Categories and missing
values are those of its rows: each column of categories is drawn on its own, and the pattern of missing values as one.
Groups are cells of k to 2k − 1 rows, cut at the median of the widest principal component of the whole block. Aggarwal
and Yu group random rows with their nearest neighbours, which leaves ragged groups at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.synthesize.variables import Codes, Drawn, Numbers, Problem, Sampler

if TYPE_CHECKING:
    from numpy.typing import NDArray


def fit_clusters(problem: Problem, generator: np.random.Generator) -> Sampler:
    """Return a sampler that draws from every cluster as many rows as it has, on average."""
    labels = _clusters(problem)
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    numbers = [place for place, one in enumerate(problem.variables) if isinstance(one, Numbers)]
    means, axes = _components(problem, numbers, labels, sizes)
    states = {one.state for one in problem.variables if isinstance(one, Numbers)}

    def draw(rows: int, generator: np.random.Generator) -> Drawn:
        cluster = _allot(sizes, rows, generator)

        def members() -> NDArray[np.int64]:
            """Return a random row of the cluster of each synthetic row."""
            return np.asarray(order[starts[cluster] + (generator.random(rows) * sizes[cluster]).astype(np.int64)])

        uniform = (generator.random((rows, len(numbers))) - 0.5) * np.sqrt(12.0)
        values = means[cluster] + _along(uniform, axes, cluster)
        pattern = members()
        drawn: Drawn = []
        for place, variable in enumerate(problem.variables):
            if isinstance(variable, Numbers):
                drawn.append(values[:, numbers.index(place)])
            else:
                drawn.append(variable.values[pattern if place in states else members()])
        return drawn

    return draw


def _clusters(problem: Problem) -> NDArray[np.int64]:
    from sfumato.kernels.eigenvectors import principal_axes
    from sfumato.kernels.neighbours import median_cells

    columns: list[NDArray[np.float64]] = []
    for variable in problem.variables:
        if isinstance(variable, Codes):
            columns += [np.where(variable.values == code, 1.0, -1.0) for code in range(variable.size)]
        else:
            columns.append(variable.values)
    points = np.column_stack(columns)
    centred = points - points.mean(axis=0)
    return median_cells(centred @ principal_axes(centred).vectors, max(problem.k, problem.rows // problem.clusters))


def _components(
    problem: Problem, numbers: list[int], labels: NDArray[np.int64], sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the means of the clusters and their principal components, each as long as its standard deviation."""
    points = np.column_stack([np.empty((problem.rows, 0)), *(problem.variables[place].values for place in numbers)])
    width = points.shape[1]
    means = np.column_stack(
        [np.empty((len(sizes), 0)), *(np.bincount(labels, points[:, one]) / sizes for one in range(width))]
    )
    centred = points - means[labels]
    spread = np.empty((len(sizes), width, width))
    for one in range(width):
        for other in range(one + 1):
            moment = np.bincount(labels, centred[:, one] * centred[:, other]) / sizes
            spread[:, one, other] = spread[:, other, one] = moment
    values, vectors = np.linalg.eigh(spread)
    return means, np.sqrt(np.maximum(values, 0.0))[:, :, None] * vectors.transpose(0, 2, 1)


def _along(uniform: NDArray[np.float64], axes: NDArray[np.float64], cluster: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a combination of the components of its cluster for each row."""
    values = np.empty_like(uniform)
    order = np.argsort(cluster, kind="stable")
    ends = np.searchsorted(cluster[order], np.arange(len(axes) + 1))
    for number in range(len(axes)):
        rows = order[ends[number] : ends[number + 1]]
        values[rows] = uniform[rows] @ axes[number]
    return values


def _allot(sizes: NDArray[np.int64], rows: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return a cluster for each synthetic row: each cluster as often as it has rows, if all are drawn at once."""
    all_rows = np.repeat(np.arange(len(sizes)), sizes)
    if rows == len(all_rows):
        return all_rows
    return generator.choice(all_rows, rows)
