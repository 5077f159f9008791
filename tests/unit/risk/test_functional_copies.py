"""Columns that tell a protected one: found where they are functions, and not found where they are not."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.risk.functional_copies import find_copies, find_exact_copies
from sfumato.schema.columns import Role
from sfumato.sources.frames import as_table

N = 2_000


def people(seed: int = 5) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": draw.integers(18, 90, N),
            "income": np.round(draw.lognormal(10, 1, N), 2),
            "town": draw.choice(list("abcdef"), N),
        }
    )
    return frame.sort_values("town", ignore_index=True)  # neighbours in the file are alike


FUNCTIONS = {
    "a square": (lambda frame, draw: frame.age**2, "age"),
    "a logarithm": (lambda frame, draw: np.log(frame.income), "income"),
    "a reciprocal, rounded": (lambda frame, draw: np.round(1e6 / frame.income, 3), "income"),
    "a group": (lambda frame, draw: frame.age // 10, "age"),
    "a code": (lambda frame, draw: frame.town.map(dict(zip("abcdef", (7, 3, 9, 1, 5, 2), strict=True))), "town"),
    "text": (lambda frame, draw: "town " + frame.town.str.upper(), "town"),
    "a finer code": (lambda frame, draw: frame.town + draw.integers(0, 5, N).astype(str), "town"),
    "not monotone": (lambda frame, draw: (frame.age * 37) % 101, "age"),
    "a parabola": (lambda frame, draw: (frame.income - 20_000) ** 2, "income"),
    "a wave": (lambda frame, draw: np.sin(np.log(frame.income)), "income"),
    "with missing cells": (lambda frame, draw: (frame.income * 2).where(draw.random(N) < 0.9), "income"),
    "with a few errors": (lambda frame, draw: frame.age.where(draw.random(N) < 0.998, 50), "age"),
    "text of a number": (lambda frame, draw: frame.income.map("{:,.2f} EUR".format), "income"),
    "text of ranges": (lambda frame, draw: pd.qcut(frame.income, 10).astype(str), "income"),
    "two classes": (lambda frame, draw: np.where(frame.income >= 50_000, "high", "low"), "income"),
    "a code that is often missing": (
        lambda frame, draw: frame.town.map(dict(zip("abcdef", range(6), strict=True))).where(draw.random(N) < 0.6),
        "town",
    ),
    "born": (lambda frame, draw: pd.Timestamp("2020-01-01") - pd.to_timedelta(frame.age * 365.25, unit="D"), "age"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_protected_column_is_found(name):
    frame = people()
    make, told = FUNCTIONS[name]
    table = as_table(frame.assign(copy=make(frame, np.random.default_rng(1))))
    assert told in find_copies(table, ["copy"], ["age", "income", "town"])["copy"]


def test_a_total_and_its_parts_are_found():
    frame, draw = people(), np.random.default_rng(2)
    wages, rent = frame.income * draw.random(N), draw.lognormal(5, 1, N)
    parts = frame.assign(wages=wages, rent=rent, rest=frame.income - wages - rent, other=draw.normal(size=N))
    found = find_copies(as_table(parts), ["wages", "rent", "rest", "other"], ["age", "income"])
    assert found == {"wages": ("income",), "rent": ("income",), "rest": ("income",)}
    total = frame.assign(total=3 * frame.age + frame.income)
    assert find_copies(as_table(total), ["total"], ["age", "income"]) == {"total": ("income", "age")}


def test_a_part_of_a_date_is_found_where_nearly_all_dates_are_different():
    born = pd.Series(pd.Timestamp("1920-01-01") + pd.to_timedelta(np.random.default_rng(4).integers(0, 30_000, N), "D"))
    parts = {"month": born.dt.month_name(), "weekday": born.dt.day_of_week, "written": born.dt.strftime("%d.%m.%Y")}
    frame = pd.DataFrame({"born": born, **parts, "other": np.random.default_rng(5).integers(1, 13, N)})
    assert find_copies(as_table(frame), [*parts, "other"], ["born"]) == dict.fromkeys(parts, ("born",))


@pytest.mark.parametrize("digits", [1, 12])
def test_a_rounded_total_and_a_rounded_ratio_are_found(digits):
    draw = np.random.default_rng(6)
    tall, heavy = np.round(draw.normal(172, 9, N)), np.round(draw.normal(75, 12, N), 1)
    frame = pd.DataFrame({"tall": tall, "heavy": heavy, "bmi": np.round(heavy / (tall / 100) ** 2, digits)})
    assert find_copies(as_table(frame), ["tall", "heavy"], ["bmi"]) == {"tall": ("bmi",), "heavy": ("bmi",)}
    parts = draw.lognormal(8, 1, (N, 3))
    frame = pd.DataFrame(parts, columns=["a", "b", "c"]).assign(total=np.round(parts.sum(axis=1), digits))
    assert set(find_copies(as_table(frame), ["a", "b", "c"], ["total"])) == {"a", "b", "c"}
    noisy = frame.assign(total=frame.total + draw.normal(0, 5, N))
    assert find_copies(as_table(noisy), ["a", "b", "c"], ["total"]) == {}


def test_a_weight_that_tells_an_age_is_named():
    frame = people()
    frame = frame.assign(w=frame.age.map(lambda age: 1.0 + age / 100))
    with pytest.warns(sf.SfumatoWarning, match="'w'"):
        sf.Microaggregate(k=5).release(frame, schema=ROLES | {"w": "weight"})


NO_FUNCTIONS = {
    "independent": lambda frame, draw: np.round(draw.normal(26, 4, N), 1),
    "nearly unique": lambda frame, draw: draw.permutation(N),
    "correlated": lambda frame, draw: frame.age + draw.normal(0, 3, N),
    "a noisy logarithm": lambda frame, draw: np.log(frame.income) + draw.normal(0, 0.01, N),
    "nearly constant": lambda frame, draw: np.arange(N) == 7,
    "constant": lambda frame, draw: 1,
    "zeros of the others": lambda frame, draw: np.where(frame.age > 40, 0, draw.integers(1, 9, N)),
    "a likely class": lambda frame, draw: frame.income + draw.normal(0, 2_000, N) > 30_000,
    "numbered texts": lambda frame, draw: [f"P{number:05d}" for number in draw.permutation(N)],
    "a likely category": lambda frame, draw: np.where(draw.random(N) < 0.9, frame.town, "f"),
}


@pytest.mark.parametrize("name", NO_FUNCTIONS)
def test_what_is_no_function_is_not_found(name):
    frame = people()
    table = as_table(frame.assign(copy=NO_FUNCTIONS[name](frame, np.random.default_rng(1))))
    assert find_copies(table, ["copy"], ["age", "income", "town"]) == {}


ROLES = {"age": "quasi", "income": "quasi", "town": "quasi"}


def test_a_copy_that_is_released_is_named_and_everybody_is_told(tmp_path):
    frame = people().assign(bmi=np.random.default_rng(3).normal(26, 4, N))
    frame = frame.assign(age2=frame.age**2)
    with pytest.warns(sf.SfumatoWarning, match=r"'age2' \('age'\)\. Whoever") as told:
        release = sf.Boxes(k=5).release(frame, schema=ROLES | {"age2": "other", "bmi": "other"}, into=tmp_path / "out")
    assert not any("bmi" in str(one.message) for one in told)
    assert release.manifest.revealing == {"age2": ("age",)}
    assert "columns that are released unaltered tell protected ones: age2" in (tmp_path / "out/report.html").read_text()
    assert sf.read_release(tmp_path / "out").manifest.revealing == {"age2": ("age",)}


@pytest.mark.parametrize("roles", [{}, {"age2": "quasi"}])
def test_a_copy_is_protected_by_default(roles):
    frame = people().assign(age2=people().age ** 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = sf.Boxes(k=5).release(frame, schema=ROLES | roles)
    assert "age2" not in release.table.names
    assert release.manifest.revealing == {}


def test_many_columns_are_compared_once_each_and_the_warning_stays_short():
    draw = np.random.default_rng(6)
    numbers = draw.normal(size=(200, 300))
    frame = pd.DataFrame(numbers, columns=[f"q{place}" for place in range(300)])
    copies = pd.DataFrame(np.exp(numbers), columns=[f"o{place}" for place in range(300)])
    table = pd.concat([frame, copies.assign(other=draw.normal(size=200))], axis=1)
    found = find_copies(as_table(table), [*copies, "other"], [*frame])
    assert found == {f"o{place}": (f"q{place}",) for place in range(300)}
    roles = {Role.QUASI: tuple(frame), Role.OTHER: (*copies, "other")}
    schema = SimpleNamespace(names=lambda role: roles.get(role, ()))
    with pytest.warns(sf.SfumatoWarning, match="and 292 more") as told:
        find_exact_copies(schema, as_table(table), [*copies, "other"])
    assert max(len(str(one.message)) for one in told) < 1000


EXTREMES = {
    "halves beside 1e308": lambda draw: np.where(np.arange(N) % 2, 1e308, 0.5) * draw.uniform(0.5, 1, N).round(1),
    "all sizes below 1": lambda draw: 10.0 ** -draw.integers(0, 308, N),
    "one subnormal number": lambda draw: np.where(np.arange(N) == 3, 5e-324, draw.uniform(1, 2, N).round(1)),
    "only subnormal numbers": lambda draw: draw.integers(1, 9, N) * 5e-324,
    "one tiny number": lambda draw: np.where(np.arange(N) == 3, 1e-300, draw.integers(1, 9, N)),
}


@pytest.mark.parametrize("one", EXTREMES)
@pytest.mark.parametrize("other", EXTREMES)
def test_the_smallest_and_largest_numbers_are_compared_without_a_warning_of_numpy(one: str, other: str) -> None:
    draw = np.random.default_rng(3)
    table = people().assign(x=EXTREMES[one](draw), y=EXTREMES[other](draw))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        find_copies(as_table(table), ["income", "y"], ["age", "x"])
