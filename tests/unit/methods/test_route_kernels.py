"""Rows follow a tree of cuts to their block, as a slow twin does."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.methods.partition import Routes, grow_routes, one_block


def follow(routes: Routes, place: np.ndarray) -> int:
    """Follow the cuts of one row, node by node."""
    node = 0
    while routes.axis[node] >= 0:
        below = place[routes.axis[node]] <= routes.threshold[node]
        node = node + 1 if below else routes.other[node]
    return int(routes.other[node])


@pytest.mark.parametrize("seed", range(5))
def test_every_row_goes_where_its_twin_goes(seed):
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 30, (400, 3)).astype(float)
    places[rng.random(places.shape) < 0.02] = np.nan  # a missing value is not below any threshold

    def cut(rows):
        axis = int(rng.integers(3))
        ordered = np.sort(places[rows, axis][~np.isnan(places[rows, axis])])
        return (axis, float(ordered[len(ordered) // 2])) if ordered[0] < ordered[-1] else None

    routes = grow_routes(places, 40, cut, lambda rows: True)
    keys = np.arange(len(places), dtype=np.uint64)
    assert routes.blocks > 5
    assert routes._leaf(places).tolist() == [follow(routes, place) for place in places]
    assert set(routes.of(places, keys)) <= set(range(routes.blocks))


def test_one_block_has_all_rows():
    assert one_block().of(np.zeros((3, 2)), np.arange(3, dtype=np.uint64)).tolist() == [0, 0, 0]
