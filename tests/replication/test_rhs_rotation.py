"""Recursive histograms in another basis: the rotation does no harm, and nothing helps where all columns are one."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.replication


@pytest.fixture(scope="module")
def rhs(script):
    return script("rhs_rotation")


def rate(rhs, make, columns, basis, tables=3):
    found = []
    for seed in range(tables):
        generator = np.random.default_rng([seed, columns])
        rows, people = make(1024, columns, generator), make(20_000, columns, generator)
        found.append(rhs.attack(rows, people, rhs.BASES[basis](rows, generator)))
    return sum(one.by_cells for one in found) / sum(one.cells for one in found)


@pytest.mark.parametrize("basis", ["random rotation", "singular vectors"])
def test_a_rotation_isolates_no_more_people_than_the_columns(rhs, basis):
    for columns in (2, 4, 8):
        assert rate(rhs, rhs.cube, columns, basis) < rate(rhs, rhs.cube, columns, "columns") + 0.08


def test_isolation_falls_with_the_columns_unless_one_factor_is_everything(rhs):
    few, many = (rate(rhs, rhs.cube, columns, "singular vectors") for columns in (2, 16))
    assert few > 0.5 and many < 0.02
    assert rate(rhs, rhs.one_factor(1e-5), 16, "singular vectors") > 0.8


def test_cells_have_k_rows_and_hold_everybody(rhs):
    rows = np.random.default_rng(0).random((500, 3))
    cells = list(rhs.halve(rows, rows, 5))
    assert sorted(np.concatenate([cell.rows for cell in cells])) == list(range(500))
    assert all(5 <= len(cell.rows) < 10 for cell in cells)
    assert all(sorted(cell.rows) == sorted(cell.people) for cell in cells)
