"""Moments of noisy cells: their intervals hold in at least the stated share of 1,000 measurements, with a control."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import sfumato as sf
from sfumato.methods.discrete_noise import draw_discrete_gaussian
from sfumato.release.noisy_moments import MeasuredCells
from sfumato.statistics.language import parse

RUNS, PROBABILITY, ROWS, SIDE = 1000, 0.95, 1500, 10
LEAST = binom.ppf(1e-4, RUNS, PROBABILITY)
SIGMA = Fraction(6)


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """Numbers at the lower ends of their cells: the intervals have no slack on that side."""
    draw = np.random.default_rng(3)
    x = np.clip(draw.normal(50, 18, ROWS), 0, 99.9)
    y = np.clip(0.7 * x + draw.normal(15, 8, ROWS), 0, 99.9)
    return pd.DataFrame({"x": 10 * (x // 10), "y": 10 * (y // 10)})


def cells_of(people: pd.DataFrame, *, width: float, fewest_y: float = -np.inf) -> MeasuredCells:
    """Count a grid of ten by ten cells; those with y from ``fewest_y`` count."""
    lower = 10.0 * np.arange(SIDE)
    low_x, low_y = np.repeat(lower, SIDE), np.tile(lower, SIDE)
    place = (people.x // 10 * SIDE + people.y // 10).to_numpy(dtype=int)
    met = low_y >= fewest_y
    ends = {"x": (low_x, low_x + width), "y": (low_y, low_y + width)}
    counts = np.bincount(place, minlength=SIDE**2).astype(float)
    return MeasuredCells(counts, float(SIGMA), met, met, met.astype(float), ends, 0.0)


def truth(text: str, people: pd.DataFrame) -> float:
    """Compute statistics with pandas, not with this package."""
    if "|" in text:
        people = people[people.y >= 60]
    x, y = people.x, people.y
    known = {"mean": x.mean(), "sum": x.sum(), "var": x.var(ddof=0), "sd": x.std(ddof=0)}
    known |= {"cov": np.cov(x, y, ddof=0)[0, 1], "corr": x.corr(y)}
    return known[text.partition("(")[0]]


def count_held(text: str, people: pd.DataFrame, *, width: float, stated: float = 1.0, middle: bool = False) -> int:
    """Return in how many of all measurements the interval holds the statistic, if noise is stated as a multiple."""
    part = parse(text).parts()[0]
    cells = cells_of(people, width=width, fewest_y=60.0 if "|" in text else -np.inf)
    wanted = truth(text, people if not middle else people + width / 2)
    noise = draw_discrete_gaussian(SIGMA, RUNS * SIDE**2).reshape(RUNS, -1)
    held = 0
    for own in noise:
        noisy = replace(cells, counts=cells.counts + own, sigma=stated * float(SIGMA))
        _, low, high = noisy.estimate(part, 1.0 - PROBABILITY)
        held += low - 1e-9 <= wanted <= high + 1e-9
    return held


STATISTICS = ("mean(x)", "mean(x | y >= 60)", "sum(x | y >= 60)", "var(x)", "sd(x)", "cov(x, y)", "corr(x, y)")


@pytest.mark.parametrize("text", STATISTICS)
def test_they_hold_as_often_as_they_say(text, people):
    assert count_held(text, people, width=0.0) >= LEAST


@pytest.mark.parametrize("text", ["mean(x | y >= 60)", "cov(x, y)"])
def test_they_hold_wherever_the_numbers_are_in_their_cells(text, people):
    assert count_held(text, people, width=9.0, middle=True) >= RUNS - 10


@pytest.mark.parametrize("text", ["mean(x)", "mean(x | y >= 60)", "sum(x | y >= 60)"])
def test_the_control_noise_that_is_stated_too_small_is_seen(text, people):
    assert count_held(text, people, width=0.0, stated=0.4) < LEAST


ASKED = ("mean(x | y > 50)", "var(x | y > 50)", "corr(x, y)", "cov(x, y)", "mean(y | x <= 40 and y > 10)")


@pytest.mark.parametrize("method", [sf.PrivateBoxes(epsilon=4.0), sf.PrivateSynthesis(epsilon=4.0)])
def test_of_whole_releases(method):
    """Statistics that were not kept, of releases: the intervals hold, and are of use."""
    draw = np.random.default_rng(5)
    x = np.clip(draw.normal(50, 18, 4000), 0, 100)
    table = pd.DataFrame({"x": x, "y": np.clip(0.7 * x + draw.normal(15, 8, 4000), 0, 100)})
    schema = {name: {"role": "quasi", "domain": [0, 100]} for name in "xy"}
    top, low = table[table.y > 50], table[(table.x <= 40) & (table.y > 10)]
    known = [
        top.x.mean(),
        top.x.var(ddof=0),
        table.x.corr(table.y),
        np.cov(table.x, table.y, ddof=0)[0, 1],
        low.y.mean(),
    ]
    held, runs = np.zeros(len(ASKED)), 12
    for _ in range(runs):
        release = method.release(table, schema=schema)
        found = [release.estimate(text) for text in ASKED]
        held += [one.low <= truth <= one.high for one, truth in zip(found, known, strict=True)]
        assert all(one.probability == PROBABILITY for one in found)
    assert held.min() >= 8  # fewer by chance in 1 of 3,000 tests
    assert found[0].high - found[0].low < 25.0
    assert found[2].high - found[2].low < 2.0


def test_what_cannot_be_bounded_says_why():
    draw = np.random.default_rng(5)
    table = pd.DataFrame(draw.uniform(0, 100, (400, 3)), columns=list("xyz"))
    schema = {name: {"role": "quasi", "domain": [0, 100]} for name in "xyz"}
    release = sf.PrivateSynthesis(kind="mst").release(table, schema=schema)
    for text in ("mean(x | y > 20 and z < 80)", "regress(x ~ y + z): y"):
        (one,) = release.estimates(text)
        assert one.low == -np.inf
        assert any("do not bound" in note for note in one.notes)
