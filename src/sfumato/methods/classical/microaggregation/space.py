"""The space in which rows are compared: the encoded quasi-identifiers, and routes of rows to blocks of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.routes import Routes, grown_routes, one_block
from sfumato.survey.questions import DistinctIn, FactsOf
from sfumato.table.encoder import Encoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

CATEGORIES = 1000  # a column with more values than this holds names rather than categories


@dataclass(frozen=True, repr=False)
class Space:
    """An encoder, the weight of each column of its matrix, and the routes."""

    encoder: Encoder
    weights: NDArray[np.float64]
    routes: Routes

    @classmethod
    def fit(cls, survey: Survey, names: Sequence[str], k: int) -> Space:
        """Fit the space to a survey; blocks have at least 2k sampled rows."""
        sample = survey.sample.table.select(names)
        numbers = [name for name in names if sample.kinds[name].is_numeric]
        others = [name for name in names if name not in numbers]
        distinct = {name: DistinctIn(name, at_most=CATEGORIES) for name in others}
        answers = survey.ask([*(FactsOf(name) for name in numbers), *distinct.values()])
        encoder = Encoder.fit(
            sample,
            logs="never",
            categories={name: answers[one].require_complete(name).values for name, one in distinct.items()},
            facts={name: answers[FactsOf(name)] for name in numbers},
        )
        matrix = encoder.encode(sample)
        weights = _weights(encoder, matrix)
        if survey.block_rows is None or survey.block_rows >= survey.rows:
            return cls(encoder, weights, one_block())
        places, most = matrix * weights, max(survey.block_rows, 4 * k) * survey.sample.share
        return cls(encoder, weights, grown_routes(places, most, lambda rows: _cut(places[rows], 2 * k)))

    def matrix(self, rows: Table) -> NDArray[np.float64]:
        """Return the coordinates of each row."""
        matrix = self.encoder.encode(rows.select(self.encoder.names))
        matrix *= self.weights
        return matrix

    def blocks_of(self, rows: Table) -> NDArray[np.int64]:
        """Return the block of each row."""
        return np.zeros(rows.rows, np.int64) if self.routes.blocks == 1 else self.routes.of(self.matrix(rows))


def _weights(encoder: Encoder, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a weight for each column of the matrix, by which the indicators of a category have variance 1 in total.

    Numbers have variance 1 already. The indicator of a missing number keeps its values, −1 and +1.
    """
    weights = np.ones(encoder.width)
    for category in encoder.categories:
        variance = float(matrix[:, category.columns].var(axis=0).sum())
        weights[category.columns] = 1.0 / np.sqrt(variance) if variance > 0.0 else 1.0
    return weights


def _cut(places: NDArray[np.float64], least: int) -> tuple[int, float] | None:
    """Return the cut near the median of the axis with the largest variance that leaves ``least`` rows on both sides."""
    variances = places.var(axis=0)
    for axis in np.argsort(-variances, kind="stable"):
        if variances[axis] <= 0.0:
            return None
        ordered = np.sort(places[:, axis])
        ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1
        ends = ends[(ends >= least) & (len(ordered) - ends >= least)]
        if len(ends):
            middle = ends[np.argmin(np.abs(ends - len(ordered) // 2))]
            return int(axis), float(ordered[middle - 1])
    return None
