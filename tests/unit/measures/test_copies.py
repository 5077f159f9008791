"""Copies: a released row that is a person's own, where chance does not explain it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sfumato.job.assess import assess
from sfumato.measures.privacy.copies import chance_of
from sfumato.methods.boxes.method import Boxes
from sfumato.release.release import Release
from sfumato.table.table import Table

ALL, NEAR = "copies, all columns", "copies, nearly equal"


def numbers(seed: int, rows: int = 600) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {name: draw.normal(size=rows) for name in "abcde"}


def people(seed: int, rows: int = 1000) -> dict[str, np.ndarray]:
    """Ages, rounded incomes and districts: some rows are equal by chance."""
    draw = np.random.default_rng(seed)
    return {
        "age": draw.integers(20, 80, rows),
        "income": np.exp(10 + 0.5 * draw.normal(size=rows)).round(-3),
        "district": draw.choice([f"d{number}" for number in range(12)], rows),
    }


def with_copies(release: dict, original: dict, count: int, shift: float = 0.0) -> dict:
    return {
        name: np.concatenate([original[name][:count] + shift if shift else original[name][:count], column[count:]])
        for name, column in release.items()
    }


def copies(original, released, reference=None):
    return assess(original, released, reference, measures=["copies"], seed=1)


@pytest.mark.parametrize("reference", [None, numbers(3)])
def test_a_single_copied_row_of_numbers_fails(reference):
    found = copies(numbers(1), with_copies(numbers(2), numbers(1), 1), reference)
    assert found[ALL].value == 1.0
    assert found[ALL].passed is False
    assert found.passed is False
    assert found.verdict.startswith("FAILED")
    assert str(found).splitlines()[0] == found.verdict


@pytest.mark.parametrize("reference", [None, numbers(3)])
def test_other_people_are_no_copies(reference):
    found = copies(numbers(1), numbers(2), reference)
    assert found[ALL].value == 0.0
    assert found.passed is True
    assert "copies" in found.verdict


def test_a_copy_that_was_moved_a_little_fails():
    found = copies(numbers(1), with_copies(numbers(2), numbers(1), 2, shift=1e-5))
    assert found[ALL].passed is True
    assert found[NEAR].value == 2.0
    assert found[NEAR].passed is False


@pytest.mark.parametrize("reference", [None, 3])
def test_a_single_copy_that_differs_in_the_last_digits_fails(reference):
    original, released, other = ({name: numbers(seed)[name] for name in "ab"} for seed in (1, 2, reference or 3))
    found = copies(original, with_copies(released, original, 1, shift=1e-9), other if reference else None)
    assert found[NEAR].value == 1.0
    assert found[NEAR].passed is False
    assert copies(original, released, other if reference else None)[NEAR].passed is True


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reference", [None, people(900)])
def test_rows_that_are_equal_by_chance_are_no_copies(seed, reference):
    found = copies(people(10 + seed), people(50 + seed), reference)
    assert found[ALL].value > 0.0
    assert found[ALL].p_value > 0.01  # eight draws


@pytest.mark.parametrize("reference", [None, people(900)])
def test_copies_among_rows_that_are_equal_by_chance_are_seen(reference):
    found = copies(people(1), with_copies(people(2), people(1), 100), reference)
    assert found[ALL].passed is False


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_members_are_neither_more_nor_less_frequent_than_those_of_outsiders(seed):
    original, reference, released = people(seed, 1500), people(20 + seed, 1500), people(40 + seed, 1500)
    honest = copies(original, released, reference)
    assert honest.passed is True
    known = set(zip(*original.values(), strict=True))
    kept = np.array([row not in known for row in zip(*released.values(), strict=True)])
    filtered = copies(original, {name: column[kept] for name, column in released.items()}, reference)
    assert filtered["membership by equal rows"].passed is False  # control: a release without the rows of members
    assert filtered["membership by missing rows"].value > honest["membership by missing rows"].value
    more = copies(original, with_copies(released, original, 150), reference)
    assert more["membership by equal rows"].passed is False


def test_types_do_not_hide_a_copy():
    original, released = people(1), people(1)
    released["age"] = released["age"].astype(np.float64)
    assert copies(original, released)[ALL].value == copies(original, original)[ALL].value > 0.0


def test_boxes_are_no_copies():
    original = people(1)
    release = Boxes(k=5).release(original, schema=dict.fromkeys(original, "quasi"), seed=1)
    found = copies(original, release)
    assert found[ALL].value == 0.0
    assert found.passed is True
    points = {f"{name}_{end}": original[name] for name in ("age", "income") for end in ("low", "high")}
    disguised = Release(Table.from_arrow(pa.table(points | {"district": original["district"]})))
    assert copies(original, disguised)[ALL].passed is False  # control: intervals without a width


def test_a_person_who_shares_the_quasi_identifiers_is_hidden_among_others():
    draw = np.random.default_rng(1)
    original = {"age": np.repeat(np.arange(100), 5), "cost": draw.normal(size=500)}
    release = Boxes(k=5, l=1).release(original, schema={"age": "quasi", "cost": "sensitive"}, seed=1)
    found = copies(original, release)
    assert found.passed is True


def test_chance_is_judged_by_rows_that_are_no_copies_and_by_the_columns():
    assert chance_of(0, 0.0, 0, 2.0) == 1.0
    assert chance_of(1, 0.0, 0, 2.0) == 0.0
    assert chance_of(1, 1e-6, 0, 2.0) == pytest.approx(1e-6, rel=1e-3)
    assert chance_of(20, 0.0, 10, 2.0) > 0.3
    assert chance_of(60, 0.0, 10, 2.0) < 1e-3


def test_nobody_is_named():
    original = {"x": np.append(np.random.default_rng(1).normal(size=200), 7777.25)}
    found = copies(original, original)
    assert "7777" not in str(found) + found._repr_html_() + found.to_json()
    assert found.verdict in found._repr_html_()
