"""Median cells: against a recursion that a child could check."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given
from hypothesis.extra.numpy import arrays

from sfumato.kernels.neighbours import median_cells


def slow_cells(scores, rows, k):
    """SPECTRAL-RHS of TL Figure 4-2, as printed, with medians by rank."""
    if len(rows) < 2 * k:
        return [rows]
    axis = int(np.argmax(np.ptp(scores[rows], axis=0)))
    ordered = rows[np.argsort(scores[rows, axis], kind="stable")]
    half = len(rows) // 2
    return slow_cells(scores, ordered[:half], k) + slow_cells(scores, ordered[half:], k)


matrices = arrays(
    np.float64, st.tuples(st.integers(1, 80), st.integers(1, 4)), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 3.0])
)


@given(matrices, st.integers(2, 7))
def test_cells_are_those_of_the_slow_twin(scores, k):
    labels = median_cells(scores, k)
    slow = {frozenset(cell.tolist()) for cell in slow_cells(scores, np.arange(len(scores)), k)}
    assert {frozenset(np.flatnonzero(labels == cell).tolist()) for cell in np.unique(labels)} == slow


@given(matrices, st.integers(2, 7))
def test_cells_hold_k_to_2k_less_one_rows_however_many_are_equal(scores, k):
    sizes = np.bincount(median_cells(scores, k))
    assert sizes.sum() == len(scores)
    assert sizes.max() < 2 * k or len(sizes) == 1
    assert sizes.min() >= k or len(sizes) == 1


def test_no_rows_have_no_cells():
    assert median_cells(np.empty((0, 3)), 2).tolist() == []


def test_rows_without_axes_are_one_cell():
    assert median_cells(np.empty((9, 0)), 2).tolist() == [0] * 9
