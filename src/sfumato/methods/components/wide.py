"""More columns than rows: components from products of rows, a few columns at a time (TL §6.3).

    columns → products of rows → points of rows → altered points → columns

All that a swap of components, a clustering or a distance uses of a matrix X of many columns are the products of its
centred rows, the Gram matrix G = (X − m)(X − m)ᵀ. With G = U Λ Uᵀ the points P = U √Λ have the same products, therefore
the same distances and components, and at most as many coordinates as there are rows. If a method alters them to Q, the
matrix becomes m + (Q P⁺)(X − m). The factor Q P⁺ has rows × rows numbers, and is applied to a few columns at a time.
Neither the matrix nor anything of columns × columns is ever in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.matrix import count_predictors, impute

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.randomness import Randomness
    from sfumato.table.encoder import Encoder
    from sfumato.table.table import Table

    Array = NDArray[np.float64]

COLUMNS_AT_ONCE = 1000  # columns of the table whose part of the matrix is in memory
NEGLIGIBLE = 1e-12  # an eigenvalue below this share of the largest is a rounding error; it is a squared singular value


@dataclass(frozen=True, repr=False)
class RowPoints:
    """Points with the products of the centred rows of a matrix, and the way back."""

    points: Array  # (rows, rank)
    inverse: Array  # (rank, rows): P⁺

    @classmethod
    def of(cls, parts: Iterator[Array]) -> RowPoints:
        """Compute the points from the parts of a matrix, each with all rows and some of the columns."""
        gram = np.zeros(())
        for part in parts:
            centred = part - part.mean(axis=0)
            gram = gram + centred @ centred.T
        values, vectors = np.linalg.eigh(gram)
        real = np.flatnonzero(values > NEGLIGIBLE * max(float(values[-1]), np.finfo(float).tiny))[::-1]
        real = real[: len(gram) - 1]  # centred rows have a smaller rank than their number
        lengths = np.sqrt(values[real])
        return cls(vectors[:, real] * lengths, vectors[:, real].T / lengths[:, None])

    @property
    def leading(self) -> Array:
        """The white scores of the leading components."""
        first = self.points[:, : count_predictors(len(self.points))]
        return np.asarray(first / first.std(axis=0))

    def way_back(self, altered: Array) -> Array:
        """Return the matrix (rows, rows) that alters centred columns as the points were altered."""
        return np.asarray(altered @ self.inverse)


@dataclass(frozen=True, repr=False)
class WideBlock:
    """A block of rows whose matrix is made a few columns at a time."""

    table: Table
    encoder: Encoder
    randomness: Randomness
    number: int  # of the block

    @cached_property
    def encoders(self) -> list[Encoder]:
        """The encoders of a few columns each."""
        names = self.encoder.names
        return [self.encoder.part(names[at : at + COLUMNS_AT_ONCE]) for at in range(0, len(names), COLUMNS_AT_ONCE)]

    def filled(self, predictors: Array) -> Iterator[tuple[Array, Array]]:
        """Return the parts of the matrix, and each with a drawn number in rows that have none; always the same."""
        for place, encoder in enumerate(self.encoders):
            generator = self.randomness.stream(f"imputation {self.number}, part {place}")
            part = encoder.encode(self.table)
            yield part, impute(part, encoder, generator, predictors)

    def alter(self, alter: Callable[[Array], Array]) -> Iterator[AlteredPart]:
        """Alter the points of the rows, and return the parts of the matrix that follow from them, one by one."""
        points = RowPoints.of(encoder.encode(self.table) for encoder in self.encoders)
        predictors = points.leading
        if any(number.width > 1 for number in self.encoder.numbers):
            points = RowPoints.of(filled for _, filled in self.filled(predictors))
        back = points.way_back(alter(points.points))
        for encoder, (part, filled) in zip(self.encoders, self.filled(predictors), strict=True):
            centre = filled.mean(axis=0)
            yield AlteredPart(encoder, part, back @ (filled - centre) + centre)


@dataclass(frozen=True, repr=False)
class AlteredPart:
    """A few columns: their encoder, their part of the matrix, and the altered part."""

    encoder: Encoder
    before: Array
    after: Array
