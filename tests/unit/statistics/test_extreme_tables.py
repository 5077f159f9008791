"""Every statistic of tables with few rows or extreme numbers is computed, or refused clearly, without a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import SfumatoError

STATISTICS = (
    *("ttest(y ~ g)", "anova(y ~ g)", "mannwhitney(y ~ g)", "spearman(x, y)", "kendall(x, y)", "rsquared(y ~ x)"),
    *("chi2(g, h)", "oddsratio(g, h)", "relativerisk(g, h)", "fisher(g, h)", "table(g, h)", "mean(y) by g"),
    *("share(x > 0 or y < 1)", "min(x)", "max(y)", "iqr(x)", "median(x)", "corr(x, y)", "regress(y ~ x)"),
    *("difference(mean(x | g = a), mean(x | g = b))", "ratio(sum(x), sum(y))", "survival(x, e)", "logrank(x, e ~ g)"),
    *("mean(log(x))", "mean(x * y)", "mean(x / y)", "logistic(e ~ x)", "poisson(e ~ x)"),
)
MODELS = (
    *(("y ~ x", "gaussian"), ("y ~ x * C(g)", "gaussian"), ("y ~ 0 + x", "gaussian"), ("y ~ 1", "gaussian")),
    *(("e ~ x", "binomial"), ("e ~ x + C(g)", "poisson"), ("survival(x, e) ~ y", "cox")),
)
DRAW = np.random.default_rng(0)
NUMBERS = {
    "normal": lambda rows: DRAW.normal(size=rows),
    "constant": np.ones,
    "zero": np.zeros,
    "huge": lambda rows: DRAW.normal(size=rows) * 1e300,
    "tiny": lambda rows: DRAW.normal(size=rows) * 1e-300,
    "missing": lambda rows: np.full(rows, np.nan),
    "half missing": lambda rows: np.where(np.arange(rows) % 2, np.nan, DRAW.normal(size=rows)),
    "whole": lambda rows: np.arange(float(rows)),
}
QUICK = sf.EstimateBudget(seconds=0.05)


@pytest.mark.filterwarnings("error", "ignore::sfumato.errors.SfumatoWarning")
@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("width", [0.0, 0.5])
@pytest.mark.parametrize("rows", [1, 2, 3, 12])
def test_every_statistic_is_computed_or_refused(rows, width, kind):
    x = NUMBERS[kind](rows)
    columns = {"x_low": x, "x_high": x + width * np.abs(x), "y": DRAW.permutation(x), "e": DRAW.integers(0, 2, rows)}
    columns |= {"g": DRAW.choice(["a", "b"], rows), "h": DRAW.choice(["p", "q"], rows)}
    boxes = sf.read_release(pa.table({name: pa.array(cells, from_pandas=True) for name, cells in columns.items()}))
    answered = 0
    for text in STATISTICS:
        for confidence in (None, 0.9):
            try:
                boxes.estimate(text, confidence=confidence, budget=QUICK)
            except SfumatoError:
                continue
            answered += 1
    for formula, family in MODELS:
        try:
            boxes.fit(formula, family=family, budget=QUICK).summary()
        except SfumatoError:
            continue
        answered += 1
    assert answered >= 8 or kind == "missing"


def draw_cells(values, rows, generator):
    """Cells with many missing ones, so that groups lack records."""
    return [None if generator.random() < 0.4 else value for value in generator.choice(values, rows).tolist()]


@pytest.mark.parametrize("seed", range(20))
def test_no_refusal_names_a_category(seed):
    generator = np.random.default_rng(seed)
    rows, words = int(generator.integers(1, 7)), ["Zq7red", "Zq7teal", "Zq7b"][: int(generator.integers(1, 4))]
    columns = {name: draw_cells(words, rows, generator) for name in ("g", "h")}
    columns |= {name: draw_cells([0.0, 1.0, 2.5], rows, generator) for name in ("x", "y", "e")}
    kinds = dict.fromkeys(("g", "h"), pa.string()) | dict.fromkeys(("x", "y", "e"), pa.float64())
    boxes = sf.read_release(pa.table({name: pa.array(cells, kinds[name]) for name, cells in columns.items()}))
    asked = [lambda text=text: boxes.estimate(text, confidence=0.9, budget=QUICK) for text in STATISTICS]
    asked += [
        lambda formula=formula, family=family: boxes.fit(formula, family=family, budget=QUICK)
        for formula, family in (
            *MODELS,
            ("x ~ C(g) + C(h)", "gaussian"),
            ("e ~ C(g)", "binomial"),
            ("e ~ C(g)", "poisson"),
        )
    ]
    asked += [
        lambda text=text: boxes.estimate(text) for text in ("mean(x) by g, h", "median(x) by g", "corr(x, y) by g")
    ]
    for ask in asked:
        try:
            ask()
        except SfumatoError as refused:
            assert "Zq7" not in str(refused)


@pytest.mark.parametrize("height", [18.0, 0.1, 1.0 / 3.0, 1e9 + 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_means_of_a_constant_differ_by_nothing_whatever_is_lost_to_rounding(height: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    people = {"h": np.full(49, height), "s": draw.choice(list("abc"), 49), "w": draw.uniform(1, 9, 49)}
    release = sf.Suppress(k=2).release(pd.DataFrame(people), schema={"h": "quasi", "s": "quasi", "w": "weight"})
    for condition in ("h > 0", 's = "b"'):
        found = release.estimate(f'difference(mean(h | {condition}), mean(h | s != "a"))')
        assert found.low <= 0.0 <= found.high
        found = release.estimate(f'ratio(mean(h | {condition}), mean(h | s != "a"))')
        assert found.low <= 1.0 <= found.high


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("word", ["spearman", "kendall"])
def test_ranks_of_equal_ranges_whose_members_are_not_known_have_no_correlation(word):
    """The middles of the ranges are constant, although the numbers in them need not be."""
    columns = {"x_low": np.ones(12), "x_high": np.full(12, 1.5), "y_low": np.ones(12), "y_high": np.arange(2.0, 14.0)}
    found = sf.read_release(pa.table(columns)).estimate(f"{word}(x, y | x > 1.2)")
    assert np.isnan(found.value)
    assert (found.low, found.high) == (-1.0, 1.0)
