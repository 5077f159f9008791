"""Any method in a spectral basis: project the rows, alter their scores, and project them back (TL §4.1).

    matrix → parts of rows, each with white scores → altered scores → matrix

The scores of a part have mean 0, variance 1 and no correlation, so that a method that treats columns alike, or one
after the other, treats directions of the data. There are as many scores as the rank of the part: constant and collinear
columns, more columns than rows, and clusters of fewer rows than columns need no case of their own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from sfumato.methods.components.bases import Basis, independent, principal
from sfumato.methods.components.clusters import Clustering, side_by_side
from sfumato.methods.components.restore import Marginals, with_marginals, with_shares
from sfumato.methods.matrix import MatrixPlan, Ranges, impute
from sfumato.table.groups import rows_by_label
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.plan.plan import Outcome

    Array = NDArray[np.float64]

PartsBasis = Literal["svd", "ica", "clusters"]

CLUSTER_ROWS = 200  # average number of rows of a cluster, and the smallest: the defaults of PartitionedIca
CLUSTER_FLOOR = 50
WIDE_CELLS = 5_000_000  # of a matrix of more columns than rows (40 MB), from which it is made a few columns at a time


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
        filled = impute(matrix, self.setup.encoder, self.setup.randomness.stream(f"imputation {number}"))
        return self._share(self.swap_components(matrix, filled, number), matrix)

    def _share(self, changed: Array, matrix: Array) -> Array:
        restored = self.marginals == "restored" and self.setup.decoding == "largest"
        return with_shares(changed, matrix, self.setup.encoder, only_mixtures=not restored)

    def transform(self, block: Table, number: int) -> Outcome:
        width = self.setup.encoder.width
        if width <= block.rows or width * block.rows < WIDE_CELLS:
            return super().transform(block, number)
        from sfumato.methods.components.wide import WideBlock

        wide = WideBlock(block, self.setup.encoder, self.setup.randomness, number)
        columns: dict[str, pa.ChunkedArray] = {}
        kinds: dict[str, Kind] = {}
        altered = wide.alter(lambda points: self.swap_components(points, points, number))
        for place, part in enumerate(altered, 1):
            own = replace(self, setup=replace(self.setup, encoder=part.encoder))
            released = own.release_part(block, part.before, part.after, number + place * self.blocks)
            columns.update(zip(released.names, released.arrow.columns, strict=True))
            kinds.update(released.kinds)
        return self.outcome(Table(pa.table(columns), kinds), number)

    def release_part(self, block: Table, before: Array, after: Array, number: int) -> Table:
        """Return the columns of this plan's encoder, from their part of a wide matrix."""
        shared = self._share(after, before)
        numbers, ranges = self.setup.encoder.natural(shared), self.setup.ranges(shared)
        return self.decode_block(shared, self.finalize_part(self.numbers(block), numbers, ranges, number), number)

    def finalize_part(self, before: Array, after: Array, ranges: Ranges, number: int) -> Array:
        """Return released numbers as ``finalize``, without what would need all columns of the table."""
        return self.finalize(before, after, ranges, number)

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
