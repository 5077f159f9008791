"""The arithmetic of the recipes for R and Stata, computed the same way here, against what the library guarantees."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "analyse-boxes-in-r-and-stata.md"


def corr_linear(xl, xh, yl, yh):
    x, y, n = (xl + xh) / 2, (yl + yh) / 2, len(xl)
    sx, sy = np.sqrt(((x - x.mean()) ** 2).mean()), np.sqrt(((y - y.mean()) ** 2).mean())
    u, v = (x - x.mean()) / sx, (y - y.mean()) / sy
    r = (u * v).mean()
    half = (abs(v - r * u) / (n * sx) * (xh - xl) / 2).sum() + (abs(u - r * v) / (n * sy) * (yh - yl) / 2).sum()
    return r - half, r, r + half


def corr_bounds(xl, xh, yl, yh):
    x, y = (xl + xh) / 2, (yl + yh) / 2
    sx, sy = np.sqrt(((x - x.mean()) ** 2).mean()), np.sqrt(((y - y.mean()) ** 2).mean())
    cxy = ((x - x.mean()) * (y - y.mean())).mean()
    hx, hy = np.sqrt((((xh - xl) / 2) ** 2).mean()), np.sqrt((((yh - yl) / 2) ** 2).mean())
    if hx >= sx or hy >= sy:
        return -1.0, 1.0
    e = hx * sy + hy * sx + hx * hy
    scales = ((sx - hx) * (sy - hy), (sx + hx) * (sy + hy))
    ends = [end / scale for end in (cxy - e, cxy + e) for scale in scales]
    return max(-1.0, min(ends)), min(1.0, max(ends))


@pytest.fixture(scope="module")
def made():
    draw = np.random.default_rng(5)
    age = draw.integers(18, 90, 400)
    income = 800.0 + 30.0 * age + draw.normal(0.0, 400.0, 400)
    people = {"age": age, "income": income}
    release = sf.Boxes(k=5).release(people, schema={"age": "quasi", "income": "quasi"})
    ends = {name: release.table.numbers(name) for name in ("age_low", "age_high", "income_low", "income_high")}
    return release, ends, age, income


def test_means_and_counts_are_the_guaranteed_intervals(made):
    release, ends, age, _ = made
    estimate = release.estimate("mean(age)")
    assert ends["age_low"].mean() == pytest.approx(estimate.low)
    assert ((ends["age_low"] + ends["age_high"]) / 2).mean() == pytest.approx(estimate.value)
    assert ends["age_high"].mean() == pytest.approx(estimate.high)
    counted = release.estimate("count(age >= 65)")
    assert ((ends["age_low"] >= 65).sum(), (ends["age_high"] >= 65).sum()) == (counted.low, counted.high)
    assert (ends["age_low"] >= 65).sum() <= (age >= 65).sum() <= (ends["age_high"] >= 65).sum()


def test_the_linear_correlation_is_the_first_order_interval(made):
    release, ends, age, income = made
    low, value, high = corr_linear(*ends.values())
    estimate = release.estimate("corr(age, income)")
    assert value == pytest.approx(estimate.value)
    assert (low, high) == (pytest.approx(estimate.linear_low), pytest.approx(estimate.linear_high))
    assert corr_bounds(*ends.values())[0] <= np.corrcoef(age, income)[0, 1] <= corr_bounds(*ends.values())[1]


@given(st.integers(0, 10**6), st.floats(0.0, 1.5))
@settings(max_examples=60, deadline=None)
def test_the_bounds_of_a_correlation_hold_for_any_values_in_the_boxes(seed, width):
    draw = np.random.default_rng(seed)
    low = draw.normal(size=(2, 12))
    high = low + width * draw.random((2, 12))
    corners = np.where(draw.random((2, 12)) < 0.5, low, high)
    inside = low + (high - low) * draw.random((2, 12))
    bounds = corr_bounds(low[0], high[0], low[1], high[1])
    for x, y in (corners, inside):
        assert bounds[0] - 1e-9 <= np.corrcoef(x, y)[0, 1] <= bounds[1] + 1e-9


def test_weights_of_rows_without_a_value_give_the_mean_of_those_with_one():
    ages = [20.0, 22.0, None, 40.0, 44.0, None, 60.0, 61.0, 62.0]
    release = sf.Boxes(k=3).release({"age": ages}, schema={"age": "quasi"})
    table = release.table
    box, missing = table.numbers("box"), table.numbers("age_missing")
    size = np.array([(box == one).sum() for one in box])
    weight, low = 1.0 - missing / size, table.numbers("age_low")
    with_ends = ~np.isnan(low)
    found = (weight * low)[with_ends].sum() / weight[with_ends].sum()
    assert found == pytest.approx(release.estimate("mean(age)").low)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed: apt-get install r-base-core")
def test_the_recipes_run_in_r_and_give_the_guaranteed_intervals(made, tmp_path):
    release, ends, *_ = made
    release.write(tmp_path / "out")
    recipes = "\n".join(re.findall(r"```r\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    bounds = "corr_bounds(d$age_low, d$age_high, d$income_low, d$income_high)"
    script = tmp_path / "recipes.r"
    script.write_text(f"options(digits = 15)\n{recipes}\n{bounds}\n", encoding="utf-8")
    ran = subprocess.run(
        ["Rscript", str(script)], cwd=tmp_path / "out", capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line.split() for line in ran.stdout.splitlines()]
    mean, count, linear, held = ([float(cell) for cell in line] for line in lines if line[0] not in ("low",))
    estimate, counted = release.estimate("mean(age)"), release.estimate("count(age >= 65)")
    assert mean == pytest.approx([estimate.low, estimate.value, estimate.high])
    assert count == [counted.low, counted.high]
    assert linear == pytest.approx(corr_linear(*ends.values()))
    assert held == pytest.approx(corr_bounds(*ends.values()))


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed: apt-get install r-base-core")
def test_the_line_for_r_in_the_readme_of_a_bundle_runs(made, tmp_path):
    release = made[0]
    folder = release.write(tmp_path / "out")
    line = next(one for one in (folder / "README.txt").read_text(encoding="utf-8").splitlines() if "  R  " in one)
    ran = subprocess.run(
        ["Rscript", "-e", line.partition("R")[2].strip()], cwd=folder, capture_output=True, text=True, check=True
    )
    estimate = release.estimate("mean(age)")
    assert [float(cell) for cell in ran.stdout.split()[2:]] == pytest.approx([estimate.low, estimate.high], abs=1e-4)
