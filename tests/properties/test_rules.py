"""Rules in words move the boxes where they say, and nowhere promise less."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import OptionError


@pytest.fixture(scope="module")
def people():
    numbers = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": numbers.integers(18, 90, 2000).astype(float),
            "income": numbers.lognormal(10, 0.5, 2000),
            "city": numbers.choice(["Ulm", "Rom"], 2000),
        }
    )


def income_width(release, young):
    table = release.table
    chosen = table.numbers("age_high") < 35 if young else table.numbers("age_low") > 60
    return float((table.numbers("income_high") - table.numbers("income_low"))[chosen].mean())


def test_a_rule_narrows_its_column_where_its_condition_is_true(people):
    plain = sf.Boxes(k=5).release(people, seed=1)
    ruled = sf.Boxes(k=5, rules=["income matters most when age is young"]).release(people, seed=1)
    assert income_width(ruled, True) < 0.8 * income_width(plain, True)
    assert income_width(ruled, False) > 0.8 * income_width(plain, False), "and not elsewhere"
    assert all(finding.held for finding in ruled.findings)


def test_a_contrary_rule_does_the_contrary(people):
    plain = sf.Boxes(k=5).release(people, seed=1)
    ruled = sf.Boxes(k=5, rules=["income matters least when age is young"]).release(people, seed=1)
    assert income_width(ruled, True) > income_width(plain, True)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("income matters when age is young", "must have the form"),
        ("incme matters most", "nearest 'income'"),
        ("income matters most when age is purple", "'purple'"),
        ("income matters enormously", "must be one of most, more"),
    ],
)
def test_a_rule_that_cannot_be_read_is_answered_with_what_can(people, rule, said):
    with pytest.raises(OptionError, match=said):
        sf.Boxes(k=5, rules=[rule]).release(people)
