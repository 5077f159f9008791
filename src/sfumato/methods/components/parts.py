"""Any method in a spectral basis: project the rows, alter their scores, and project them back (TL §4.1).

    matrix → parts of rows, each with white scores → altered scores → matrix

The scores of a part have mean 0, variance 1 and no correlation, so that a method that treats columns alike, or one
after the other, treats directions of the data. There are as many scores as the rank of the part: constant and collinear
columns, more columns than rows, and clusters of fewer rows than columns need no case of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.methods.components.bases import Basis, independent, principal
from sfumato.methods.components.clusters import Clustering, side_by_side
from sfumato.methods.components.restore import Marginals, with_marginals, with_shares
from sfumato.methods.matrix import MatrixPlan, Ranges, impute
from sfumato.table.groups import rows_by_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

PartsBasis = Literal["svd", "ica", "clusters"]

CLUSTER_ROWS = 200  # average number of rows of a cluster, and the smallest: the defaults of PartitionedIca
CLUSTER_FLOOR = 50


@dataclass(frozen=True, repr=False)
class Part:
    """Some rows of a matrix as white scores, and the way back."""

    rows: NDArray[np.int64]
    basis: Basis


def parts_of(matrix: Array, name: PartsBasis, generator: np.random.Generator, *, least: int = 1) -> list[Part]:
    """Return the parts of a matrix: all rows by principal or independent components, or each cluster by its own.

    Clusters have at least ``least`` rows, unless there is only one. The parts are those of the whole matrix: each row
    is in one of them.
    """
    every = np.arange(len(matrix))
    if name == "svd":
        return [Part(every, principal(matrix))]
    if name == "ica":
        return [Part(every, independent(matrix, generator))]
    clustering = Clustering(size=max(CLUSTER_ROWS, 2 * least), floor=max(CLUSTER_FLOOR, least))
    labels = clustering(matrix, generator)
    clusters = rows_by_label(labels)
    generators = generator.spawn(len(clusters))
    return side_by_side(
        lambda place: Part(clusters[place], independent(matrix[clusters[place]], generators[place])),
        range(len(clusters)),
    )


def alter_parts(
    matrix: Array,
    name: PartsBasis,
    generator: np.random.Generator,
    alter: Callable[[Array, np.random.Generator], Array],
) -> Array:
    """Return the matrix whose scores were altered, part by part: ``alter`` gets white scores and returns others."""
    parts = parts_of(matrix, name, generator)
    altered = np.empty_like(matrix)
    for part, own in zip(parts, generator.spawn(len(parts)), strict=True):
        scores = part.basis.scores
        altered[part.rows] = part.basis.matrix(alter(scores, own) if scores.size else scores)
    return altered


@dataclass(frozen=True, repr=False)
class ComponentsPlan(MatrixPlan):
    """A plan that exchanges components between rows and then, if requested, restores distributions of columns."""

    @property
    @abstractmethod
    def marginals(self) -> Marginals:
        """Whether the distribution of each column is restored."""

    @abstractmethod
    def swap_components(self, matrix: Array, filled: Array, number: int) -> Array:
        """Return the matrix of one block with its components swapped.

        Rows without a number have the mean in ``matrix`` and a drawn number in ``filled``.
        """

    def perturb(self, matrix: Array, number: int) -> Array:
        encoder = self.setup.encoder
        filled = impute(matrix, encoder, self.setup.randomness.stream(f"imputation {number}"))
        changed = self.swap_components(matrix, filled, number)
        restored = self.marginals == "restored" and self.setup.decoding == "largest"
        return with_shares(changed, matrix, encoder, only_mixtures=not restored)

    def restore(self, before: Array, after: Array, ranges: Ranges, number: int) -> Array:
        """Return numbers with the distributions of the original columns, if requested or where columns have atoms."""
        free = self.marginals == "free"
        if free and ranges.is_atom is None:
            return after
        generator = self.setup.randomness.stream(f"marginals {number}")
        codes = self.setup.encoder.numbers
        return with_marginals(after, before, generator, is_atom=ranges.is_atom, codes=codes, only_mixtures=free)

    def finalize(self, before: Array, after: Array, ranges: Ranges, number: int) -> Array:
        return ranges.fold(self.restore(before, after, ranges, number))
