"""Quick bounds for regressions on many columns: every choice lies inside, and narrow boxes are nearly tight."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.statistics.bounds.coefficients import Perturbation
from sfumato.statistics.bounds.scaled_boxes import ScaledBoxes


def problem(seed, columns, half, boxes=40, open_share=0.0):
    rng = np.random.default_rng(seed)
    middle = rng.normal(size=(boxes, columns))
    widths = half * rng.uniform(0.0, 2.0, size=(boxes, columns))
    weight = rng.uniform(0.5, 1.5, size=boxes) / boxes
    extra = np.where(rng.random(boxes) < open_share, rng.uniform(0.0, 1.0, size=boxes) / boxes, 0.0)
    return ScaledBoxes.make(middle - widths, middle + widths, weight, extra, np.zeros(columns), np.ones(columns))


def coefficients(points, weight):
    design = np.column_stack([np.ones(len(points)), points[:, 1:]])
    return np.linalg.solve(design.T @ (weight[:, None] * design), design.T @ (weight * points[:, 0]))


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(2, 7),
    st.sampled_from([0.01, 0.05, 0.15]),
    st.sampled_from([0.0, 0.4]),
)
def test_no_choice_exceeds_the_bound(seed, columns, half, open_share):
    boxes = problem(seed, columns, half, open_share=open_share)
    quick = Perturbation.of(boxes)
    if quick is None:
        return
    rng = np.random.default_rng(seed + 1)
    functional = rng.normal(size=columns)
    bound = quick.highest(functional)
    for trial in range(60):
        corner = rng.random(boxes.low.shape) < 0.5
        share = np.where(corner, 0.0, 1.0) if trial % 2 else rng.random(boxes.low.shape)
        points = boxes.low + share * (boxes.high - boxes.low)
        weight = boxes.weight + boxes.extra * (rng.random(len(boxes.extra)) < 0.5)
        assert functional @ coefficients(points, weight) <= bound + 1e-12


def test_narrow_boxes_give_nearly_the_first_order_width():
    boxes = problem(1, 5, 1e-4, boxes=2000)
    quick = Perturbation.of(boxes)
    width = quick.highest(np.eye(5)[1]) + quick.highest(-np.eye(5)[1])
    points, weight = boxes.midpoints, boxes.weight
    design = np.column_stack([np.ones(len(points)), points[:, 1:]])
    row = np.linalg.inv(design.T @ (weight[:, None] * design))[1]
    c = coefficients(points, weight)
    residual = points[:, 0] - design @ c
    half = (boxes.high - boxes.low) / 2.0
    # ∂c₁/∂y = w (row·x), ∂c₁/∂x_i = w (row_i · residual − c_i · row·x)
    slopes = np.column_stack([design @ row, residual[:, None] * row[1:] - np.outer(design @ row, c[1:])])
    linear = 2.0 * float((weight[:, None] * np.abs(slopes) * half).sum())
    assert linear <= width <= 1.01 * linear


def test_boxes_that_may_be_collinear_have_no_quick_bound():
    assert Perturbation.of(problem(2, 4, 3.0)) is None


def five_columns(half):
    rng = np.random.default_rng(3)
    middle = rng.normal(size=(300, 6))
    middle[:, 0] += middle[:, 1:].sum(axis=1)
    columns = {}
    for place in range(6):
        columns[f"x{place}_low"], columns[f"x{place}_high"] = middle[:, place] - half, middle[:, place] + half
    return sf.read_release(pa.table(columns)), middle


def test_a_regression_on_five_columns_has_finite_ends_however_short_the_time():
    release, middle = five_columns(0.05)
    fit = release.estimate("regress(x0 ~ x1 + x2 + x3 + x4 + x5)", budget=sf.EstimateBudget(seconds=0.0))
    for one, true in zip(fit, coefficients(middle, np.ones(300)), strict=True):
        assert math.isfinite(one.low)
        assert math.isfinite(one.high)
        assert one.low <= true <= one.high
        assert one.ended_early


@pytest.mark.parametrize("half", [0.02, 0.1])
def test_the_interval_holds_for_tables_inside_the_boxes(half):
    release, middle = five_columns(half)
    rng = np.random.default_rng(4)
    fit = release.estimate("regress(x0 ~ x1 + x2 + x3 + x4 + x5)", budget=sf.EstimateBudget(seconds=0.2))
    for _ in range(50):
        found = coefficients(middle + half * rng.choice([-1.0, 1.0], size=middle.shape), np.ones(300))
        assert all(one.low <= true <= one.high for one, true in zip(fit, found, strict=True))
