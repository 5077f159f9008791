"""Exchanges: against a loop that computes every product anew."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from sfumato.methods.spectral.exchange_kernels import exchange


def slow_exchange(columns, column, pairs, bound):
    exchanges = 0
    for one, two in pairs:
        now = columns[:, :column].T @ columns[:, column]
        if np.abs(now).max() <= bound:
            break
        tried = columns[:, column].copy()
        tried[[one, two]] = tried[[two, one]]
        if ((columns[:, :column].T @ tried) ** 2).sum() < (now**2).sum() * (1 - 1e-12):
            columns[:, column] = tried
            exchanges += 1
    return exchanges


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(2, 5), st.sampled_from([0.0, 0.5, 1e9]))
def test_cells_are_those_of_the_slow_twin(seed, rows, width, bound):
    draw = np.random.default_rng(seed)
    columns = draw.normal(size=(rows, width))
    first, second = draw.integers(rows, size=(2, 40))
    slow, last = columns.copy(), width - 1
    exchanges = slow_exchange(slow, last, zip(first, second, strict=True), bound)
    found = exchange(columns, last, first, second, bound)
    assert np.array_equal(columns, slow)
    assert found.exchanges == exchanges
    assert np.isclose(found.largest, np.abs(columns[:, :last].T @ columns[:, last]).max(), atol=1e-9)


def test_a_column_stays_a_permutation_and_comes_under_the_bound():
    draw = np.random.default_rng(0)
    columns = draw.normal(size=(500, 4))
    before = columns.copy()
    found = exchange(columns, 3, *draw.integers(500, size=(2, 5000)), bound=5.0)
    assert np.abs(before[:, :3].T @ before[:, 3]).max() > 5.0 >= found.largest
    assert np.array_equal(np.sort(columns, axis=0), np.sort(before, axis=0))
    assert np.array_equal(columns[:, :3], before[:, :3])


def test_without_proposals_nothing_is_exchanged():
    columns = np.random.default_rng(0).normal(size=(9, 2))
    none = np.empty(0, dtype=np.int64)
    assert exchange(columns, 1, none, none, bound=0.0).exchanges == 0
