"""Swaps reveal nobody by equal rows: scores of one person do not stay together, and no row is filtered."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.methods.spectral.swap import ScoreSwap, separate_rows
from sfumato.table.table import Table


def equal_rows(one: np.ndarray, other: np.ndarray) -> int:
    """Number of rows of one array that are rows of the other, to seven digits."""
    known = set(map(tuple, other.astype(np.float32)))
    return sum(tuple(row) in known for row in one.astype(np.float32))


@pytest.mark.parametrize("method", [SvdSwap(repair=False), SvdSwap(), PartitionedIca(cluster_size=100)])
def test_columns_that_are_multiples_of_each_other_are_not_released_as_they_are(method, released):
    x = np.random.default_rng(3).normal(size=300)
    for columns in ({"x": x}, {"x": x, "y": 2 * x + 1}):
        original = Table.from_arrow(pa.table(columns))
        made = released(method, original).released
        assert equal_rows(made.matrix(made.names), original.matrix(original.names)) == 0


@pytest.mark.parametrize("variant", ["permute", "flip"])
def test_no_row_keeps_all_of_its_scores(variant):
    swap = ScoreSwap(variant=variant, repair=False, tolerance=None if variant == "flip" else 1.0)
    for seed in range(60):
        scores = np.random.default_rng(seed).normal(size=(30, 2))
        assert equal_rows(swap(scores, np.random.default_rng(seed)), scores) == 0
    draw = np.random.default_rng(1)  # control: a plain permutation leaves about one row in each table
    tables = [draw.normal(size=(30, 2)) for _ in range(60)]
    assert sum(equal_rows(draw.permuted(table, axis=0), table) for table in tables) > 30


def test_separated_rows_are_still_a_permutation():
    draw = np.random.default_rng(2)
    scores = draw.normal(size=(5, 3)).round(0)
    separated = separate_rows(scores.copy(), scores, draw)
    assert np.array_equal(np.sort(separated, axis=0), np.sort(scores, axis=0))
    assert separate_rows(scores[:1], scores[:1], draw).tolist() == scores[:1].tolist()
