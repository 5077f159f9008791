"""Moments: what they are, what is left out, and that they can be cut anywhere."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import StatisticError
from sfumato.statistics.moments import CHUNK, Moments


def test_moments_are_population_moments():
    rows = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 1.0]])
    moments = Moments.of(rows)
    assert np.allclose(moments.mean, rows.mean(axis=0))
    assert np.allclose(moments.covariance, np.cov(rows.T, bias=True))
    assert moments.weight == 3.0
    assert moments.records == 3


def test_a_weight_counts_as_often_as_it_says():
    rows, weights = np.array([[1.0], [4.0], [7.0]]), np.array([1.0, 0.0, 3.0])
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    moments = Moments.of(rows, weights)
    assert np.allclose(moments.mean, repeated.mean(axis=0))
    assert np.allclose(moments.covariance, repeated.var())


def test_a_row_with_a_missing_cell_is_left_out_of_every_column():
    rows = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, 9.0]])
    moments = Moments.of(rows)
    assert moments.records == 2
    assert np.allclose(moments.mean, [3.0, 7.0])


def test_a_missing_weight_leaves_its_row_out():
    moments = Moments.of(np.array([[1.0], [100.0]]), np.array([1.0, np.nan]))
    assert moments.records == 1
    assert moments.mean[0] == 1.0


def test_moments_of_nothing_are_not_a_number_and_merge_away():
    nothing = Moments.of(np.empty((0, 2)))
    some = Moments.of(np.array([[1.0, 2.0], [3.0, 5.0]]))
    assert nothing.weight == 0.0
    assert np.isnan(nothing.mean).all()
    for merged in (nothing.merge(some), some.merge(nothing)):
        assert np.array_equal(merged.covariance, some.covariance)
        assert merged.records == 2


def test_a_column_far_from_zero_keeps_its_variance():
    rows = np.array([[1e9 + 1.0], [1e9 + 2.0], [1e9 + 3.0]] * CHUNK)  # several chunks, too
    assert np.isclose(Moments.of(rows).covariance[0, 0], 2.0 / 3.0, rtol=1e-12)


def test_the_moments_of_one_record_do_not_show_it():
    assert "123456" not in repr(Moments.of(np.array([[123456.0]]), names=("x",)))


def test_selecting_columns_keeps_their_order():
    moments = Moments.of(np.arange(12.0).reshape(4, 3) ** 2, names=("a", "b", "c"))
    chosen = moments.select([2, 0])
    assert chosen.names == ("c", "a")
    assert chosen.covariance[0, 1] == moments.covariance[2, 0]


@pytest.mark.parametrize(
    ("matrix", "weights"),
    [
        (np.array([1.0, 2.0]), None),
        (np.array([[np.inf], [1.0]]), None),
        (np.array([[1e200], [-1e200]]), None),
        (np.array([[1.0], [2.0]]), np.array([1.0])),
        (np.array([[1.0], [2.0]]), np.array([1.0, -1.0])),
        (np.array([[1.0], [2.0]]), np.array([1.0, np.inf])),
    ],
)
def test_what_cannot_be_averaged_is_refused(matrix, weights):
    with pytest.raises(StatisticError):
        Moments.of(matrix, weights)


def test_moments_of_different_columns_do_not_merge():
    with pytest.raises(StatisticError):
        Moments.of(np.ones((2, 1)), names=("a",)).merge(Moments.of(np.ones((2, 1)), names=("b",)))
    with pytest.raises(StatisticError):
        Moments.of(np.ones((2, 1))).merge(Moments.of(np.ones((2, 2))))
