"""Each characteristic: its value on a table that can be checked by other means, its words, its edges."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.errors import StatisticError
from sfumato.statistics.custom import Custom
from sfumato.statistics.moment_statistics import Correlation, Covariance, Mean, Sd, Variance
from sfumato.statistics.moments import Moments
from sfumato.statistics.regression import Regression

ROWS = np.random.default_rng(5).normal(size=(40, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 2.0, 0.3], [0.0, 0.0, 0.5]])


def moments_of(*columns: int) -> Moments:
    return Moments.of(ROWS[:, columns])


def test_values_are_those_of_numpy():
    assert np.isclose(Mean("a").value(moments_of(0)), ROWS[:, 0].mean())
    assert np.isclose(Variance("a").value(moments_of(0)), ROWS[:, 0].var())
    assert np.isclose(Sd("a").value(moments_of(0)), ROWS[:, 0].std())
    assert np.isclose(Covariance("a", "b").value(moments_of(0, 1)), np.cov(ROWS[:, :2].T, bias=True)[0, 1])
    assert np.isclose(Correlation("a", "b").value(moments_of(0, 1)), np.corrcoef(ROWS[:, :2].T)[0, 1])


def test_a_regression_has_the_intercept_first_and_is_least_squares():
    regression = Regression("c", ("a", "b"))
    design = np.column_stack([np.ones(len(ROWS)), ROWS[:, 0], ROWS[:, 1]])
    expected = np.linalg.lstsq(design, ROWS[:, 2], rcond=None)[0]
    found = [part.value(moments_of(2, 0, 1)) for part in regression.parts()]
    assert np.allclose(found, expected)
    assert [str(part) for part in regression.parts()] == [
        "regress(c ~ a + b): intercept",
        "regress(c ~ a + b): a",
        "regress(c ~ a + b): b",
    ]


def test_scales_are_the_natural_units():
    sd = ROWS.std(axis=0)
    assert np.isclose(Mean("a").scale(moments_of(0)), sd[0])
    assert np.isclose(Variance("a").scale(moments_of(0)), sd[0] ** 2)
    assert np.isclose(Sd("a").scale(moments_of(0)), sd[0])
    assert np.isclose(Covariance("a", "b").scale(moments_of(0, 1)), sd[0] * sd[1])
    assert Correlation("a", "b").scale(moments_of(0, 1)) == 1.0
    intercept, slope = Regression("b", ("a",)).parts()
    assert np.isclose(slope.scale(moments_of(1, 0)), sd[1] / sd[0])
    assert np.isclose(intercept.scale(moments_of(1, 0)), sd[1])


def test_a_constant_column_has_no_correlation_and_no_slope_and_nothing_to_keep():
    constant = Moments.of(np.column_stack([np.ones(5), np.arange(5.0)]))
    for statistic in (Correlation("a", "b"), Regression("b", ("a",)).parts()[1]):
        order = [0, 1] if isinstance(statistic, Correlation) else [1, 0]
        assert math.isnan(statistic.value(constant.select(order)))
        assert not statistic.gradient(constant.select(order)).covariance.any()
    assert Sd("a").value(constant.select([0])) == 0.0


def test_collinear_regressors_have_no_coefficients():
    column = np.arange(6.0)
    moments = Moments.of(np.column_stack([column**2, column, 2.0 * column + 1.0]))
    assert all(math.isnan(part.value(moments)) for part in Regression("y", ("a", "b")).parts())


def test_a_users_own_statistic_needs_only_a_function():
    ratio = Custom("spread", ("a", "b"), lambda mean, covariance: covariance[0, 0] / covariance[1, 1])
    moments = moments_of(0, 1)
    exact = np.array([[1.0 / moments.covariance[1, 1], 0.0], [0.0, -ratio.value(moments) / moments.covariance[1, 1]]])
    assert np.allclose(ratio.gradient(moments).covariance, exact, rtol=1e-5, atol=1e-8)
    assert ratio.scale(moments) > 0.0
    assert str(ratio) == "spread(a, b)"


def test_a_users_own_gradient_is_taken_as_given_and_made_symmetric():
    own = Custom("c", ("a", "b"), lambda m, s: s[0, 1], lambda m, s: (np.zeros(2), np.array([[0.0, 1.0], [0.0, 0.0]])))
    assert np.allclose(own.gradient(moments_of(0, 1)).covariance, [[0.0, 0.5], [0.5, 0.0]])


def test_awkward_names_are_quoted_in_the_words():
    assert str(Mean("hours-per-week")) == "mean(hours-per-week)"
    assert str(Mean("a, b")) == "mean(`a, b`)"
    assert str(Correlation("x`y", " z")) == "corr(`x``y`, ` z`)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Correlation("a", "a"),
        lambda: Covariance("a", "a"),
        lambda: Regression("a", ()),
        lambda: Regression("a", ("b", "b")),
        lambda: Regression("a", ("a",)),
        lambda: Custom("c", (), lambda m, s: 0.0),
    ],
)
def test_a_statistic_that_names_columns_wrongly_is_refused(make):
    with pytest.raises(StatisticError):
        make()


def test_a_regression_as_a_whole_is_no_single_number():
    with pytest.raises(StatisticError, match="parts"):
        Regression("b", ("a",)).value(moments_of(1, 0))
