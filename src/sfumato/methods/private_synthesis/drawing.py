"""Draw rows from a fitted model, with counts as near to the expected ones as whole numbers allow.

Cells of the first clique are drawn systematically: with steps of one row along the cumulated expectations, from a
random start, so that no count is further than one row from its expectation. Every other clique is drawn in the same way
within the rows that agree in what it shares with its parent. The rows of such a group are put in random order first, so
that nothing else depends on what was drawn before. This adds less error than independent draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.private_synthesis.graphical_model import Calibrated
    from sfumato.methods.private_synthesis.junction_tree import Clique


def draw_rows(model: Calibrated, rows: int, generator: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return the bin of each row, for each attribute."""
    drawn: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)] * len(model.sizes)
    for belief, clique, separator in zip(model.beliefs, model.tree.cliques, model.tree.separators, strict=True):
        fresh = tuple(attribute for attribute in clique if attribute not in separator)
        table = belief.transpose([clique.index(attribute) for attribute in (*separator, *fresh)])
        shape = [model.sizes[attribute] for attribute in separator]
        groups = np.ravel_multi_index([drawn[one] for one in separator], shape) if separator else np.zeros(rows, int)
        shares = table.reshape(int(np.prod(shape)), -1)
        cells = draw_systematically(shares, np.asarray(groups, dtype=np.int64), generator)
        for attribute, codes in zip(fresh, _unravel(cells, fresh, model.sizes), strict=True):
            drawn[attribute] = codes
    return drawn


def draw_systematically(
    shares: NDArray[np.float64], groups: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.int64]:
    """Return a column of ``shares`` for each row, by the shares in the line of its group."""
    order = generator.permutation(len(groups))
    order = order[np.argsort(groups[order], kind="stable")]
    sizes = np.bincount(groups, minlength=len(shares))
    starts = np.cumsum(sizes) - sizes
    sorted_groups = groups[order]
    position = np.arange(len(groups)) - starts[sorted_groups] + generator.random(len(shares))[sorted_groups]
    reached = position / sizes[sorted_groups]  # from 0 to 1 within each group
    cumulated = np.cumsum(shares, axis=1)
    totals = cumulated[:, -1:]
    even = np.arange(1, shares.shape[1] + 1) / shares.shape[1]
    cumulated = np.where(totals > 0.0, cumulated / np.where(totals > 0.0, totals, 1.0), even)
    lines = cumulated + np.arange(len(shares))[:, None]
    found = np.searchsorted(lines.ravel(), sorted_groups + reached, side="right") - sorted_groups * shares.shape[1]
    cells = np.empty(len(groups), dtype=np.int64)
    cells[order] = np.clip(found, 0, shares.shape[1] - 1)
    return cells


def _unravel(cells: NDArray[np.int64], attributes: Clique, sizes: Sequence[int]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.unravel_index(cells, [sizes[one] for one in attributes]))
