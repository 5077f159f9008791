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


@pytest.mark.parametrize("rows_with_it", [3, 100, 900])
def test_rows_that_no_cut_divides_are_divided_by_keys_only_if_every_piece_has_what_it_must(rows_with_it):
    """A piece must have a value that few rows have: the fewer, the larger the pieces."""
    has_it = np.random.default_rng(0).permutation(1000) < rows_with_it
    routes = grow_routes(np.zeros((1000, 1)), 20, lambda rows: None, lambda rows: bool(has_it[rows].any()))
    pieces = routes.of(np.zeros((1000, 1)), np.arange(1000, dtype=np.uint64))
    assert routes.blocks == {3: 1, 100: 3, 900: 50}[rows_with_it]
    assert set(pieces[has_it]) == set(range(routes.blocks))
