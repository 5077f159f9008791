"""Boxes that are cut along the components of a spectral basis, and released as hulls in the columns (TL §4.1).

Column j of a record is x_j = μ_j + Σ_c s_c L_cj with white scores s. A box with the widths v_c in the scores is at most
Σ_c v_c |L_cj| wide in column j. If a_j is the weight of the width in column j, the weight of component c is therefore
Σ_j a_j |L_cj|: the cuts minimise an upper bound of the cost. Categories are cut as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.boxes.axes import Axes, NumberAxis
from sfumato.methods.components.bases import independent
from sfumato.methods.components.parts import Part, PartsBasis, parts_of
from sfumato.methods.partition import BoxPartition
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

Cut = Callable[["NDArray[np.int64]", Axes, "NDArray[np.float64]", "NDArray[np.float32]"], BoxPartition]


def cut_in_basis(
    axes: Axes,
    values: NDArray[np.float64],
    weights: NDArray[np.float32],
    basis: PartsBasis,
    generator: np.random.Generator,
    *,
    least: int,
    is_enough: Callable[[NDArray[np.int64]], bool],
    cut: Cut,
) -> BoxPartition:
    """Cut each part of the basis by itself; ``cut`` gets its rows, and their axes, places and weights as components.

    Clusters that are not ``is_enough`` for a box are joined with the nearest one.
    """
    numbers = len(axes.numbers)
    spread = values[:, :numbers].std(axis=0)
    spread[spread == 0.0] = 1.0
    matrix = (values[:, :numbers] - values[:, :numbers].mean(axis=0)) / spread
    parts = _join_lacking(matrix, parts_of(matrix, basis, generator, least=least), is_enough, generator)
    boxes, sizes = [], []
    for part in parts:
        own_axes, own_values, own_weights = axes, values[part.rows], weights[part.rows]
        if part.basis.rank:
            scores = part.basis.scores
            size = np.abs(part.basis.loadings) * spread
            own_axes = Axes(tuple(map(_component, range(part.basis.rank), scores.T)), axes.sets)
            own_values = np.column_stack([scores, own_values[:, numbers:]])
            projected = (own_weights[:, :numbers] @ size.T).astype(np.float32)
            own_weights = np.column_stack([projected, own_weights[:, numbers:]])
        found = cut(part.rows, own_axes, np.ascontiguousarray(own_values), np.ascontiguousarray(own_weights))
        boxes.append(part.rows[found.order])
        sizes.append(found.sizes)
    return BoxPartition(np.concatenate(boxes), np.append(0, np.cumsum(np.concatenate(sizes))), np.empty((0, 4)))


def _component(place: int, scores: NDArray[np.float64]) -> NumberAxis:
    """Return the axis of a component; no column has its name, in which rules and domains name columns."""
    return NumberAxis(f"\0{place}", Kind.CONTINUOUS, float(scores.min()), float(scores.max()), False, None)


def _join_lacking(
    matrix: NDArray[np.float64],
    parts: list[Part],
    is_enough: Callable[[NDArray[np.int64]], bool],
    generator: np.random.Generator,
) -> list[Part]:
    """Return parts of which each has enough people and values, unless all rows together have not."""
    while len(parts) > 1:
        lacking = next((part for part in parts if not is_enough(part.rows)), None)
        if lacking is None:
            break
        others = [part for part in parts if part is not lacking]
        apart = np.array([((part.basis.centre - lacking.basis.centre) ** 2).sum() for part in others])
        host = others[int(apart.argmin())]
        rows = np.concatenate([host.rows, lacking.rows])
        parts = [Part(rows, independent(matrix[rows], generator)) if part is host else part for part in others]
    return parts
