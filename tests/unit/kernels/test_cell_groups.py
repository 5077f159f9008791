"""Groups from the nearest cells: large enough, and nearly as good as those of MDAV."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.methods.microaggregate import cell_kernels as kernel
from sfumato.methods.microaggregate.cell_kernels import cell_groups, cut
from sfumato.methods.microaggregate.grouping import squared_error
from sfumato.methods.microaggregate.mdav_kernels import mdav


@pytest.mark.parametrize(("rows", "axes", "k"), [(3000, 2, 3), (4000, 6, 5), (3000, 10, 10)])
def test_the_loss_is_near_that_of_mdav(rows, axes, k):
    points = np.random.default_rng(rows).normal(size=(rows, axes))
    labels = cell_groups(points, k)
    assert np.bincount(labels).min() >= k
    assert squared_error(points, labels) <= 1.1 * squared_error(points, mdav(points, k))
    cells = np.repeat(np.arange(rows // k), k)  # control: groups of rows that are no neighbours
    assert squared_error(points, cells) > 2.0 * squared_error(points, labels)


@settings(max_examples=25)
@given(st.integers(0, 1500), st.integers(1, 3), st.integers(2, 60), st.integers(1, 4))
def test_every_group_is_large_enough_even_with_ties(rows, axes, k, values):
    points = np.random.default_rng(rows).integers(0, values, (rows, axes)).astype(float)
    sizes = np.bincount(cell_groups(points, k))
    assert sizes.sum() == rows
    assert not rows or sizes.min() >= min(k, rows)


def test_a_large_table_is_grouped_in_parts(monkeypatch):
    monkeypatch.setattr(kernel, "PART", 1500)
    points = np.random.default_rng(2).normal(size=(5000, 3))
    sizes = np.bincount(cell_groups(points, 4))
    assert sizes.sum() == 5000
    assert sizes.min() >= 4


def test_a_cell_is_cut_at_the_median_of_the_axis_with_the_largest_error():
    points = np.random.default_rng(3).normal(size=(100, 2)) * [1.0, 5.0]
    order = np.arange(100)
    starts = cut(points, order, 50)
    assert starts.tolist() == [0, 50, 100]
    assert points[order[:50], 1].max() <= points[order[50:], 1].min()
