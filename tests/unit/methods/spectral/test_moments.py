"""Means and covariances are restored within the ranges of the numbers, and in few rounds."""

from __future__ import annotations

import time
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from sfumato.methods.spectral import moments
from sfumato.methods.spectral.moments import smallest_change, with_moments

WIDE = np.random.default_rng(0).normal(size=(60, 150))


def covariance_error(numbers, like):
    scale = np.where(like.std(axis=0) > 0, like.std(axis=0), 1.0)
    return np.abs(np.cov((numbers / scale).T, bias=True) - np.cov((like / scale).T, bias=True)).max()


def restored(like, seed=1, **options):
    numbers = np.random.default_rng(seed).permuted(like, axis=0)
    return with_moments(numbers, like, like.min(axis=0), like.max(axis=0), **options)


@given(st.integers(0, 2**32 - 1))
def test_moments_and_ranges_hold_together(seed):
    draw = np.random.default_rng(seed)
    like = np.exp(draw.normal(size=(200, 3)) @ draw.normal(size=(3, 3)) * 0.4)
    found = restored(like, seed)
    assert (found.numbers >= like.min(axis=0) - 1e-9).all() and (found.numbers <= like.max(axis=0) + 1e-9).all()
    if found.converged:
        assert np.allclose(found.numbers.mean(axis=0), like.mean(axis=0), rtol=1e-9)
        assert covariance_error(found.numbers, like) < 1e-9


@pytest.mark.parametrize("spread", [1.0, 2.0])
def test_skewed_columns_are_restored(spread):
    assert restored(np.random.default_rng(0).lognormal(0, spread, (1000, 4))).converged


def test_ranges_come_first_where_both_cannot_be_had():
    like = np.random.default_rng(0).normal(size=(100, 2))
    narrow = np.full(2, 0.1)
    found = with_moments(like[::-1].copy(), like, -narrow, narrow)
    assert not found.converged and found.error > 0.5
    assert np.abs(found.numbers).max() <= 0.1 + 1e-12


def zeros(share, rows, columns, seed=3):
    """Amounts with zeros, other amounts with zeros at other places, and the ranges of the latter."""
    draw = np.random.default_rng(seed)
    common = draw.normal(size=(2, rows, 1))
    like, numbers = (
        np.where(draw.random((rows, columns)) < share, 0.0, np.exp(one + draw.normal(size=(rows, columns))))
        for one in common
    )
    is_zero = numbers == 0.0
    lowest = np.where(like > 0.0, like, np.inf).min(axis=0)
    return like, numbers, np.where(is_zero, 0.0, lowest), np.where(is_zero, 0.0, like.max(axis=0))


@pytest.mark.parametrize(("share", "rows", "columns"), [(0.5, 1000, 4), (0.8, 2000, 5), (0.95, 20_000, 8)])
def test_zeros_stay_zeros_while_moments_are_restored(share, rows, columns):
    like, numbers, low, high = zeros(share, rows, columns)
    found = with_moments(numbers, like, low, high)
    assert found.converged and found.rounds <= 100
    assert not found.numbers[numbers == 0.0].any()
    assert found.numbers[numbers > 0.0].min() > 0.0
    assert covariance_error(found.numbers, like) < 1e-9


def test_without_newtons_method_many_zeros_are_not_reached(monkeypatch):
    monkeypatch.setattr(moments, "NEWTON_STEPS", 0)
    like, numbers, low, high = zeros(0.95, 20_000, 8)
    assert not with_moments(numbers, like, low, high).converged


def test_a_newton_step_is_the_least_change_that_a_dense_solver_finds():
    draw = np.random.default_rng(7)
    numbers = draw.normal(size=(40, 3)) @ draw.normal(size=(3, 3))
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    free = draw.random((40, 3)) < 0.7
    wanted = np.corrcoef(draw.normal(size=(20, 3)).T) * 0.05 + 0.95 * np.corrcoef(numbers.T)
    rows, columns = np.nonzero(free)
    equations, residual = [], []
    for one in range(3):
        equations.append(np.where(columns == one, 1.0, 0.0) / 40)
        residual.append(-numbers[:, one].mean())
        for other in range(one + 1):
            moved = np.where(columns == one, numbers[rows, other], 0.0)
            moved = moved + np.where(columns == other, numbers[rows, one], 0.0)
            equations.append(moved / 40)
            residual.append(wanted[one, other] - numbers[:, one] @ numbers[:, other] / 40)
    least = np.zeros((40, 3))
    least[rows, columns] = np.linalg.lstsq(np.array(equations), np.array(residual), rcond=None)[0]
    change = smallest_change(numbers, free, wanted)
    assert np.abs(change - least).max() < 0.02 * np.abs(least).max()
    assert not change[~free].any()


def test_more_columns_than_rows_cost_few_rounds_of_the_size_of_the_rows():
    start = time.process_time()
    found = restored(WIDE)
    assert found.converged and found.rounds < 100
    assert covariance_error(found.numbers, WIDE) < 1e-9
    assert time.process_time() - start < 10  # 89 s when every round decomposed matrices of the size of the columns


@pytest.mark.parametrize("like", [np.exp(WIDE), np.exp(2.0 * WIDE.reshape(300, 30))], ids=["wide", "narrow"])
def test_what_is_out_of_reach_is_given_up_early(like):
    high = np.sort(like, axis=0)[-5:].mean(axis=0) / 3.0
    numbers = np.random.default_rng(1).permuted(like, axis=0)
    found = with_moments(numbers, like, like.min(axis=0), high)
    assert not found.converged and found.rounds < 100
    assert (found.numbers <= high * (1 + 1e-9)).all()


def test_a_released_row_of_a_wide_table_is_no_row_of_the_original():
    released, scale = restored(WIDE).numbers, WIDE.std(axis=0)
    distance = np.sqrt((((released[:, None] - WIDE) / scale) ** 2).mean(axis=2))
    between = np.sqrt((((WIDE[:, None] - WIDE) / scale) ** 2).mean(axis=2))[~np.eye(60, dtype=bool)]
    assert distance.min() > 0.8 * between.min()


@pytest.mark.parametrize("shape", [(50, 3), (10, 20)])
def test_columns_without_a_range_are_only_given_their_moments(shape):
    like = np.random.default_rng(2).normal(size=shape)
    found = with_moments(like[::-1].copy(), like, np.full(shape[1], -np.inf), np.full(shape[1], np.inf))
    assert found.converged and covariance_error(found.numbers, like) < 1e-9


@pytest.mark.parametrize("rows", [3, 4, 7])
def test_a_few_rows_of_large_numbers_have_no_more_dimensions_than_rows(rows):
    """A rounding error of the mean looks like one more dimension."""
    like = 1e9 + np.random.default_rng(rows).normal(size=(rows, rows + 2)) * np.array([1e-6, *np.ones(rows + 1)])
    found = with_moments(like[::-1].copy(), like, like.min(axis=0), like.max(axis=0))
    assert found.numbers.shape == like.shape


def test_collinear_columns_stay_collinear():
    first, second = np.random.default_rng(1).normal(size=(2, 300))
    like = np.column_stack([first, second, first + second, np.full(300, 5.0)])
    found = restored(like).numbers
    assert np.allclose(found[:, 0] + found[:, 1], found[:, 2], atol=1e-6)
    assert np.allclose(found[:, 3], 5.0)


def test_a_larger_tolerance_takes_fewer_rounds():
    like = np.random.default_rng(0).lognormal(0, 1, (1000, 4))
    rough, exact = restored(like, tolerance=1e-3), restored(like)
    assert rough.converged and rough.rounds < exact.rounds and covariance_error(rough.numbers, like) < 2e-3


def test_no_columns_are_no_trouble():
    empty = np.empty((5, 0))
    assert with_moments(empty, empty, np.empty(0), np.empty(0)).numbers.shape == (5, 0)


def test_a_wide_table_costs_no_product_of_columns_by_columns():
    draw = np.random.default_rng(3)
    rows, columns = 30, 4000  # a matrix of columns by columns would have 128 MB
    like, numbers = draw.normal(size=(2, rows, columns))
    tracemalloc.start()
    restored = with_moments(numbers, like, like.min(axis=0), like.max(axis=0), tolerance=1e-6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * rows * columns * 8
    assert (restored.numbers >= like.min(axis=0)).all() and (restored.numbers <= like.max(axis=0)).all()
    error = np.abs(np.cov(restored.numbers[:, :20].T) - np.cov(like[:, :20].T)).max()
    assert error < np.abs(np.cov(numbers[:, :20].T) - np.cov(like[:, :20].T)).max() / 3.0
