"""Error against buckets."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import OptionError, TableError
from sfumato.methods.quantiles import privacy_utility_curve


@pytest.mark.parametrize("represent", ["mean", "median"])
def test_evenly_spread_values_follow_one_over_b_squared_within_a_tenth(represent):
    numbers = np.random.default_rng(1).random(250_000)
    curve = privacy_utility_curve(pa.table({"x": numbers}), "x", range(2, 501, 7), represent=represent)
    assert all(abs(point.error / point.law - 1) < 0.1 for point in curve.points)
    assert curve.slope == pytest.approx(-2.0, abs=0.05)


def test_skewed_values_fall_more_slowly_than_the_law():
    """A control: the paper's law is not one of every column."""
    numbers = np.random.default_rng(1).lognormal(size=50_000)
    assert privacy_utility_curve(pa.table({"x": numbers}), "x").slope > -1.0


@given(
    st.lists(st.one_of(st.none(), st.integers(-100, 100)), min_size=1, max_size=50).filter(
        lambda c: any(x is not None for x in c)
    )
)
def test_one_bucket_loses_everything_and_one_row_a_bucket_nothing(cells):
    table = pa.table({"x": pa.array(cells, pa.int64())})
    rows = sum(cell is not None for cell in cells)
    curve = privacy_utility_curve(table, "x", (1, rows))
    assert curve.rows == rows
    assert curve.points[-1].error == pytest.approx(0.0) or rows == 1
    if len({cell for cell in cells if cell is not None}) > 1:
        assert curve.points[0].error == pytest.approx(1.0)
        assert curve.points[0].privacy == pytest.approx(1 - 1 / rows)
    assert math.isnan(curve.slope) or curve.slope <= 0.0


def test_nothing_to_measure_is_refused():
    with pytest.raises(TableError):
        privacy_utility_curve(pa.table({"x": pa.array([None, None], pa.float64())}), "x")
    with pytest.raises(OptionError):
        privacy_utility_curve(pa.table({"x": [1.0]}), "x", (0,))
