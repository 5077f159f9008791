"""Boxes that are cut for differences, ratios, shares, odds ratios and models: their intervals become narrower."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import StatisticError
from sfumato.statistics.language import parse

ROWS = 400


@pytest.fixture(scope="module")
def people():
    draw = np.random.default_rng(0)
    age = draw.integers(18, 90, ROWS).astype(float)
    pressure = np.round(draw.normal(130.0, 15.0, ROWS), 1)
    died = (draw.random(ROWS) < 1.0 / (1.0 + np.exp(-(-3.0 + 0.04 * age)))).astype(int)
    income = np.round(draw.lognormal(10.0, 0.8, ROWS))
    sex, town = draw.choice(["f", "m"], ROWS), draw.choice(list("abcdef"), ROWS)
    return {"age": age, "pressure": pressure, "income": income, "town": town, "sex": sex, "died": died}


ROLES = {"age": "quasi", "pressure": "quasi", "income": "quasi", "town": "quasi", "sex": "other", "died": "other"}


def width(release, text):
    return max(one.high - one.low for one in release.estimates(text))


@pytest.fixture(scope="module")
def usual(people):
    return sf.Boxes(k=5, l=1).release(people, schema=ROLES)


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        ("difference(mean(age | sex = m), mean(age | sex = f))", 0.5),
        ("ratio(mean(income), mean(age))", 0.6),
        ("mean(income | age >= 65)", 0.6),
        ("share(age >= 65)", 0.3),
        ("count(town = a and sex = f)", 0.6),
        ("oddsratio(sex, died)", None),
    ],
)
def test_the_interval_is_narrower_than_without_an_aim(people, usual, text, ratio):
    roles = ROLES if ratio else {**ROLES, "sex": "quasi", "died": "quasi"}
    aimed = sf.Boxes(k=5, l=1, keep=[text]).release(people, schema=roles)
    before = usual if ratio else sf.Boxes(k=5, l=1, keep=["mean(income)"]).release(people, schema=roles)
    assert width(aimed, text) <= (ratio or 0.6) * width(before, text)
    assert aimed.manifest.keep == (text,)
    assert str(parse(text, names=tuple(people))) == text


def test_coefficients_of_a_logistic_model(people, usual):
    text = "logistic(died ~ age + pressure)"
    aimed = sf.Boxes(k=5, l=1, keep=[text]).release(people, schema=ROLES)
    fit = aimed.estimate(text)
    assert np.isfinite(fit["age"].high - fit["age"].low)
    assert (fit.formula, fit.family, fit.terms) == (text, "binomial", ("intercept", "age", "pressure"))
    control = usual.estimate(text, budget=sf.EstimateBudget(seconds=1.0))
    assert not control["age"].high - control["age"].low < 3.0 * (fit["age"].high - fit["age"].low)


def test_importance_and_other_statistics_count_as_well(people):
    texts = ["mean(pressure)", "difference(mean(age | sex = m), mean(age | sex = f))"]
    first, second = (
        sf.Boxes(k=5, l=1, keep=texts, importance=shares).release(people, schema=ROLES) for shares in ([20, 1], [1, 20])
    )
    assert width(first, texts[0]) < width(second, texts[0])
    assert width(second, texts[1]) < width(first, texts[1])


def test_a_weighted_and_incomplete_table(people):
    age = people["age"].copy()
    age[::9] = np.nan
    table = {**people, "age": age, "w": np.linspace(1.0, 5.0, ROWS)}
    text = "difference(mean(age | sex = m), mean(age | sex = f))"
    release = sf.Boxes(k=5, l=1, keep=[text]).release(table, schema={**ROLES, "w": "weight"})
    assert np.isfinite(width(release, text))


@pytest.mark.parametrize("text", ["median(age)", "ttest(age ~ sex)", "survival(age, died, 50)", "min(age)"])
def test_others_are_refused_with_those_that_can(people, text):
    with pytest.raises(StatisticError, match=r"cannot be cut for.*difference.*ratio.*oddsratio.*logistic"):
        sf.Boxes(k=5, l=1, keep=[text]).release(people, schema=ROLES)
