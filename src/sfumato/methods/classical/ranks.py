"""Columns of any kind by the ranks of their cells: missing cells come last, and equal cells are in random order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


def sorted_rows(codes: NDArray[np.integer], generator: np.random.Generator) -> NDArray[np.int64]:
    """Return the rows in the order of their codes; rows with the same code are in random order."""
    shuffled = generator.permutation(len(codes))
    return np.asarray(shuffled[np.argsort(codes[shuffled], kind="stable")])


def rank_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each row, from 0, given the rows in order."""
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank


def normal_scores(ranks: NDArray[np.number], rows: int) -> NDArray[np.float64]:
    """Return Φ⁻¹((rank + ½) / rows), the normal scores of ranks from 0 (TL 2.5)."""
    from scipy.special import ndtri

    return np.asarray(ndtri((ranks + 0.5) / max(rows, 1)))


def missing_cells(table: Table, name: str) -> NDArray[np.bool_]:
    """Return which cells of a column are missing."""
    column = table.arrow.column(name)
    return np.asarray(column.is_null(nan_is_null=True).to_numpy())
