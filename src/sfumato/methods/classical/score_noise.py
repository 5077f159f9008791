"""Between cells and normal scores: ranks to scores (TL 2.5), and noisy scores back to values of the column (TL 2.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.methods.classical.ranks import missing_cells, normal_scores, sorted_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class ColumnScores:
    """The normal scores of a column, and its rows with a value in the order of their values."""

    scores: NDArray[np.float64]  # NaN where the cell is missing
    order: NDArray[np.int64]


def scores_of(block: Table, name: str, generator: np.random.Generator) -> ColumnScores:
    """Return the normal scores of a column of any kind; equal cells are ranked at random."""
    order = sorted_rows(block.coded(name).codes, generator)
    order = order[~missing_cells(block, name)[order]]
    scores: NDArray[np.float64] = np.full(block.rows, np.nan)
    scores[order] = normal_scores(np.arange(len(order)), len(order))
    return ColumnScores(scores, order)


def noisy_cells(
    block: Table, name: str, column: ColumnScores, noisy: NDArray[np.float64], ends: tuple[float, float] | None
) -> pa.ChunkedArray:
    """Return the cells at noisy scores: P⁻¹(Φ(score)).

    Numbers of a continuous column (``ends`` are the lowest and highest that may be released) are interpolated between
    neighbouring values; cells of other columns are cells of the column.
    """
    from scipy.special import ndtr

    cells, rows = block.arrow.column(name), len(column.order)
    share = ndtr(noisy[~np.isnan(column.scores)])
    present = np.flatnonzero(~np.isnan(column.scores))
    if ends is not None and pt.is_floating(cells.type) and rows:
        known = block.numbers(name)
        values = known.copy()
        values[present] = np.clip(np.interp(share * rows - 0.5, np.arange(rows), known[column.order]), *ends)
        return pa.chunked_array([pa.array(values, from_pandas=True).cast(cells.type, safe=False)])
    source = np.arange(block.rows)
    source[present] = column.order[np.minimum((share * rows).astype(np.int64), rows - 1)] if rows else present
    return cells.take(pa.array(source))
