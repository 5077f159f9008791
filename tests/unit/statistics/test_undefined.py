"""Statistics of constant columns, and the number of records where boxes leave it open."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.moments import CHUNK, Moments


@pytest.mark.parametrize("rows", [1, 7, CHUNK + 5])
@pytest.mark.parametrize("value", [3.7, 1e-7, -123456.789])
def test_a_constant_column_has_no_spread_at_all(rows, value):
    draw = np.random.default_rng(1)
    moments = Moments.of(np.column_stack([np.full(rows, value), draw.normal(size=rows)]), draw.uniform(size=rows))
    assert moments.mean[0] == value
    assert moments.covariance[0].tolist() == [0.0, 0.0]


def test_a_column_that_is_nearly_constant_keeps_its_spread():
    moments = Moments.of(1e6 + np.array([[0.0], [1e-8], [2e-8]]))
    assert moments.covariance[0, 0] > 0.0


@pytest.mark.parametrize("statistic", ["corr(x, c)", "regress(x ~ c): c"])
def test_dividing_by_the_spread_of_a_constant_is_not_defined_and_says_so(statistic):
    boxes = sf.read_release({"x_low": [1.0, 2.0, 4.0], "x_high": [2.0, 3.0, 9.0], "c": [0.1, 0.1, 0.1]})
    estimate = boxes.estimate(statistic)
    assert math.isnan(estimate.value)
    assert estimate.notes[0] == "not defined: c has the same value in all records"
    defined = boxes.estimate("regress(c ~ x): x")
    assert defined.value == 0.0
    assert not any("not defined" in note for note in defined.notes)


def test_the_number_of_records_is_a_range_where_boxes_mix_missing_values():
    # a box of five records with two missing x and two missing y: one to three records have both
    boxes = sf.read_release(
        {
            "x_low": [1.0] * 5,
            "x_high": [2.0] * 5,
            "x_missing": [2] * 5,
            "y_low": [1.0] * 5,
            "y_high": [2.0] * 5,
            "y_missing": [2] * 5,
            "box": [0] * 5,
        }
    )
    both = boxes.estimate("corr(x, y)")
    assert (both.records, both.uncertain_records) == (1, 2)
    assert "1 to 3 records" in str(both)
    assert boxes.estimate("mean(x)").uncertain_records == 0


@pytest.mark.parametrize("statistic", ["var(x)", "sd(x)"])
def test_spreads_that_are_too_large_for_a_number_are_refused(statistic):
    boxes = sf.read_release({"x_low": [-1e200, 0.0, 3.0, 5.0], "x_high": [1e200, 1e9, 4.0, 6.0]})
    with pytest.raises(StatisticError, match="finite squares"):
        boxes.estimate(statistic)
