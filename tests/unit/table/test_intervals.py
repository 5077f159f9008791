"""Sets of categories as text can always be read back, and ranges are not taken for columns of the original."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.table.intervals import ANY, format_set, is_member, parse_set, shorten_set

NAMES = ["a", "a|b", "\\", "\\|", "(missing)", "\\(missing)", "", "|", "(any)", "\\(any)", "(any)|(missing)"]
values = st.one_of(st.none(), st.text(), st.sampled_from(NAMES))


@given(st.lists(values, min_size=1, max_size=5, unique=True))
def test_a_set_is_read_back_as_it_was_written(members):
    assert parse_set(format_set(members)) == tuple(members)


def test_one_value_is_written_as_itself_and_several_are_joined():
    assert format_set(["Ulm"]) == "Ulm"
    assert format_set(["Ulm", "Rom", None]) == "Ulm|Rom|(missing)"


def test_a_set_of_the_missing_value_alone_is_missing():
    assert format_set([None]) is None
    assert parse_set(None) == (None,)


@given(st.lists(values, min_size=1, max_size=8, unique=True), st.sampled_from([None, 1, 2, 5]))
def test_a_long_set_is_any_value_and_says_whether_one_is_missing(members, names_at_most):
    read = parse_set(format_set(shorten_set(members, names_at_most)))
    names = [member for member in members if member is not None]
    is_long = names_at_most is not None and len(names) > names_at_most
    assert read == ((ANY, *[None] * (None in members)) if is_long else tuple(members))
    assert all(is_member(member, read) for member in members)
    assert is_member(None, read) == (None in members)
    assert is_member("a value of another box", read) == is_long


def test_any_value_has_a_name_that_no_category_takes():
    assert format_set([ANY]) == "(any)"
    assert format_set([ANY, None]) == "(any)|(missing)"
    assert format_set(["(any)"]) == "\\(any)"
    assert parse_set("(any)") == (ANY,)
    assert parse_set("\\(any)") == ("(any)",)


def own_names() -> pd.DataFrame:
    """People with columns that are called like the ends of a range: they are columns of their own."""
    draw = np.random.default_rng(2)
    age = draw.integers(18, 90, 300)
    low, high = draw.integers(0, 5, 300), draw.choice(list("uvw"), 300)
    return pd.DataFrame({"age": age, "age_low": low, "age_high": high, "town": draw.choice(list("xyz"), 300)})


@pytest.mark.parametrize(
    "method", [sf.Boxes(k=5), sf.Recode(k=5), sf.Generalize(k=5), sf.Suppress(k=5), sf.Microaggregate(k=5)]
)
def test_columns_that_are_called_like_ends_are_columns_of_their_own(method: sf.Method, tmp_path: Path) -> None:
    roles = {"age": "other", "age_low": "quasi", "age_high": "quasi", "town": "quasi"}
    release = method.release(own_names(), schema=roles, rows_not_people=True)
    ages = release.table.numbers("age")
    assert release.estimate("mean(age)").low == pytest.approx(float(ages.mean()), rel=1e-9)
    release.write(tmp_path / "out")
    assert sf.read_release(tmp_path / "out").estimate("max(age)").value == ages.max()
    assert "age_high" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("method", [sf.Boxes(k=5), sf.Recode(k=5), sf.Generalize(k=5)])
def test_a_range_needs_names_that_no_column_has(method: sf.Method) -> None:
    numbers = own_names().drop(columns="age_high").assign(age_high=range(300))
    counts = own_names()[["age", "town"]].assign(age_missing=range(300))
    for people in (numbers, counts):
        with pytest.raises(sf.SfumatoError, match="must not be in use"):
            method.release(people, schema=dict.fromkeys(people, "quasi"))


def pressures() -> pd.DataFrame:
    draw = np.random.default_rng(1)
    x = np.where(draw.random(400) < 0.2, np.nan, draw.normal(size=400))
    low, high = draw.integers(60, 90, 400), draw.integers(100, 150, 400)
    weights = draw.uniform(1, 9, 400)
    return pd.DataFrame({"x": x, "y": draw.normal(size=400), "w": weights, "bp_low": low, "bp_high": high})


def weighted_sum(*columns: pd.Series) -> Fraction:
    return sum((math.prod(map(Fraction, cells)) for cells in zip(*columns, strict=True)), Fraction(0))


@pytest.mark.parametrize("method", [sf.Boxes(k=5), sf.Microaggregate(k=5), sf.Recode(k=5)])
def test_a_pair_of_columns_called_like_ends_does_not_part_boxes(method: sf.Method, tmp_path: Path) -> None:
    people = pressures()
    roles = {"x": "quasi", "y": "quasi", "w": "weight", "bp_low": "other", "bp_high": "other"}
    method.release(people, schema=roles).write(tmp_path / "out")
    release = sf.read_release(tmp_path / "out")
    known = people[people.x.notna()]
    truth = {  # rounded once, because the interval of an exact column is hardly wider
        "mean(x)": weighted_sum(known.x, known.w) / weighted_sum(known.w),
        "mean(bp_low)": weighted_sum(people.bp_low, people.w) / weighted_sum(people.w),
        "count(bp_high > 120)": weighted_sum(people.w[people.bp_high > 120]),
        "sum(w)": weighted_sum(people.w),
    }
    for statistic, value in truth.items():
        estimate = release.estimate(statistic)
        assert estimate.low <= value <= estimate.high, statistic
    assert {"bp_low", "bp_high"} <= set(release.names)
