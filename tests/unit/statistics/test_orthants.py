"""Bounds of slopes by orthants hold for every choice of values, and are finite where columns cannot be collinear."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.statistics.bounds.coefficients import Perturbation
from sfumato.statistics.bounds.orthants import Slopes
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes


def problem(low, high, weight=None):
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    row_weight = np.ones(len(low)) if weight is None else weight
    return ScaledBoxes.make(low, high, row_weight, np.zeros(len(low)), np.zeros(low.shape[1]), np.ones(low.shape[1]))


def least_squares(points, weight):
    """Intercept and slopes of the first column on the others."""
    design = np.column_stack([np.ones(len(points)), points[:, 1:]]) * np.sqrt(weight)[:, None]
    return np.linalg.lstsq(design, points[:, 0] * np.sqrt(weight), rcond=None)[0]


def boxes(seed, records, regressors, width):
    """Boxes around records whose first column depends on the others."""
    draw = np.random.default_rng(seed)
    points = draw.normal(size=(records, regressors + 1))
    points[:, 0] += points[:, 1:].sum(axis=1)
    reach = width * draw.random(points.shape) * (draw.random(regressors + 1) < 0.8)
    return points - reach, points + reach, draw.integers(1, 4, records).astype(float)


@given(st.integers(0, 10**6), st.integers(8, 30), st.integers(2, 3), st.sampled_from([0.05, 0.3, 1.0]))
@settings(max_examples=25)
def test_no_choice_of_values_lies_outside(seed, records, regressors, width):
    low, high, weight = boxes(seed, records, regressors, width)
    found = Slopes.of(problem(low, high, weight), 5.0)
    draw, sides = np.random.default_rng(seed), np.eye(regressors + 1)
    highest = [(found.highest(side), -found.highest(-side)) for side in sides]
    for _ in range(60):
        share = draw.random(low.shape) if draw.random() < 0.3 else (draw.random(low.shape) < 0.5)
        coefficients = least_squares(low + share * (high - low), weight)
        assert (found.low <= coefficients[1:]).all()
        assert (coefficients[1:] <= found.high).all()
        assert all(below <= one <= above for (above, below), one in zip(highest, coefficients, strict=True))


def test_points_leave_one_choice():
    low, _, weight = boxes(1, 40, 3, 0.0)
    found = Slopes.of(problem(low, low, weight), 5.0)
    slopes = least_squares(low, weight)[1:]
    assert found.low == pytest.approx(slopes, abs=1e-5)
    assert found.high == pytest.approx(slopes, abs=1e-5)


def test_columns_that_may_be_collinear_have_no_bound():
    draw = np.random.default_rng(2)
    low = np.column_stack([draw.normal(size=50), np.zeros(50), np.zeros(50)])
    found = Slopes.of(problem(low, low + np.array([0.0, 1.0, 1.0])), 1.0)
    assert np.isinf([*found.low, *found.high]).all()


def test_without_time_the_bounds_still_hold():
    low, high, weight = boxes(3, 60, 3, 0.3)
    hurried, usual = (Slopes.of(problem(low, high, weight), seconds) for seconds in (0.0, 5.0))
    slopes = least_squares((low + high) / 2.0, weight)[1:]
    assert (hurried.low <= usual.low + 1e-6).all()
    assert (hurried.high >= usual.high - 1e-6).all()
    assert (usual.low <= slopes).all()
    assert (slopes <= usual.high).all()


@pytest.mark.parametrize(("columns", "seconds"), [(4, 5.0), (6, 40.0)])
def test_regressions_on_many_kept_columns_are_finite(columns, seconds):
    """The control: the bound by perturbation is infinite, or far wider."""
    draw, rows = np.random.default_rng(0), 2000
    names = [f"x{number}" for number in range(columns)]
    table = {name: draw.normal(size=rows) for name in names}
    table["y"] = sum(table.values()) + draw.normal(size=rows)
    statistic = f"regress(y ~ {' + '.join(names)})"
    release = sf.Boxes(k=5, keep=[statistic]).release(table, schema=dict.fromkeys(names, "quasi") | {"y": "other"})
    ends = [
        np.column_stack([release.table.numbers(name) for name in ("y", *(f"{one}_{end}" for one in names))])
        for end in ("low", "high")
    ]
    whole = problem(*ends, np.full(rows, 1.0 / rows))
    quick = Perturbation.of(whole)
    assert quick is None or quick.highest(np.eye(columns + 1)[1]) > 20.0
    for coefficient in release.estimate(statistic, budget=sf.EstimateBudget(seconds=seconds)).coefficients:
        assert -200.0 < coefficient.low <= coefficient.value <= coefficient.high < 200.0
