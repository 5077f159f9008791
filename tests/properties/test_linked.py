"""What linked tables show together is shared by k people: any m rows of a person, and her row in the table of people.

The twin counts straight from the released cells: for each person and each choice of her rows, whoever has the same
cells. Values of the original are found by a number of the row that is released as it is.
"""

from __future__ import annotations

import itertools
import warnings
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf

FAST = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
SCHEMA = {
    "people": {"age": "quasi", "sex": "quasi", "status": "sensitive", "row": "other"},
    "visits": {"year": "quasi", "ward": "quasi", "diagnosis": "sensitive", "row": "other"},
    "drugs": {"dose": "quasi", "row": "other"},
}


@st.composite
def hospitals(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Three tables; people may have no row, or many, in two of them, and keys are of three types."""
    count = draw(st.integers(12, 40))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    visits = np.repeat(np.arange(count), generator.poisson(draw(st.sampled_from([0.8, 2.0])), count))
    visits = np.concatenate([visits, [0] * draw(st.integers(5, 9)), np.arange(5)])
    drugs = np.concatenate([np.arange(6), np.repeat(np.arange(count), generator.poisson(0.5, count))])
    return {
        "people": {
            "key": np.arange(count),
            "age": generator.integers(20, 90, count),
            "sex": generator.choice(["f", "m"], count),
            "status": generator.choice(["a", "b", "c"], count),
            "row": np.arange(count) + 0.5,
        },
        "visits": {
            "key": [str(one) for one in visits],
            "year": generator.integers(2000, 2024, len(visits)).astype(float),
            "ward": generator.choice(["A", "B", "C"], len(visits)),
            "diagnosis": generator.choice(["u", "v", "w"], len(visits)),
            "row": np.arange(len(visits)) + 0.5,
        },
        "drugs": {
            "key": drugs.astype(float),
            "dose": generator.normal(size=len(drugs)),
            "row": np.arange(len(drugs)) + 0.5,
        },
    }


def shown_cells(release: sf.Release) -> list[tuple[str, tuple[str, ...], int]]:
    """Return pseudonym, cells of the quasi-identifiers and original row of each released row."""
    cells = release.to_arrow().to_pydict()
    shown = [name for name in cells if name not in ("key", "row", "status", "diagnosis")]
    rows = zip(*(map(str, cells[name]) for name in shown), strict=True)
    return [(who, own, int(row - 0.5)) for who, own, row in zip(cells["key"], rows, cells["row"], strict=True)]


def fewest_people(release: sf.LinkedRelease, facts: int) -> int:
    """Return the fewest people who have the same cells as a person and the same ``facts`` of her rows, or fewer."""
    home = {who: own for who, own, _ in shown_cells(release.tables["people"])}
    rows = defaultdict(list)
    for name in ("visits", "drugs"):
        for who, own, _ in shown_cells(release.tables[name]):
            rows[who].append((name, own))
    known: Counter[Any] = Counter()
    for who, cells in home.items():
        known.update(
            {
                (cells, tuple(sorted(some)))
                for size in range(facts + 1)
                for some in itertools.combinations(sorted(rows[who]), size)
            }
        )
    return min(known.values())


def linked(tables: dict[str, dict[str, Any]], method: Any, **options: Any) -> sf.LinkedRelease:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.release(sf.LinkedTables(tables, person="key", **options), schema=SCHEMA)


@FAST
@given(tables=hospitals(), k=st.sampled_from([2, 3, 5]))
@pytest.mark.parametrize("method", [sf.Boxes, sf.Microaggregate])
def test_k_people_share_a_row_in_each_of_two_tables(tables: dict[str, dict[str, Any]], k: int, method: Any) -> None:
    try:
        release = linked(tables, method(k=k))
    except sf.SfumatoError:  # no grouping has two values of everything
        return
    assert fewest_people(release, 1) >= k
    assert {name: one.table.rows for name, one in release.tables.items()} == {
        name: len(one["key"]) for name, one in tables.items()
    }


@FAST
@given(tables=hospitals())
def test_any_two_rows_are_shared_by_k_people(tables: dict[str, dict[str, Any]]) -> None:
    try:
        release = linked(tables, sf.Boxes(k=3, l=1), facts=2)
    except sf.SfumatoError:  # fewer than three people have two rows
        return
    assert fewest_people(release, 2) >= 3


@FAST
@given(tables=hospitals())
def test_sensitive_values_of_both_tables_stay_open_over_the_join(tables: dict[str, dict[str, Any]]) -> None:
    try:
        release = linked(tables, sf.Boxes(k=3, l=2))
    except sf.SfumatoError:
        return
    home = {who: own for who, own, _ in shown_cells(release.tables["people"])}
    status, diagnosis = defaultdict(set), defaultdict(set)
    for who, own, row in shown_cells(release.tables["visits"]):
        status[home[who], own].add(tables["people"]["status"][int(tables["visits"]["key"][row])])
        diagnosis[home[who], own].add(tables["visits"]["diagnosis"][row])
    assert min(map(len, status.values())) >= 2
    assert min(map(len, diagnosis.values())) >= 2


@FAST
@given(tables=hospitals())
def test_intervals_hold_the_statistics_of_each_table_and_of_the_join(tables: dict[str, dict[str, Any]]) -> None:
    try:
        release = linked(tables, sf.Boxes(k=2, l=1))
    except sf.SfumatoError:
        return
    keys = np.array(tables["visits"]["key"], dtype=int)
    for estimate, truth in (
        (release.tables["people"].estimate("mean(age)"), np.mean(tables["people"]["age"])),
        (release.tables["visits"].estimate("mean(year)"), np.mean(tables["visits"]["year"])),
        (release.join("visits").estimate("mean(age)"), np.mean(np.array(tables["people"]["age"])[keys])),
    ):
        assert estimate.low - 1e-9 <= truth <= estimate.high + 1e-9


def test_the_twin_sees_tables_that_were_released_one_by_one(tmp_path: Any) -> None:
    """The control: each table is 3-anonymous, and together they single people out."""
    generator = np.random.default_rng(1)
    count, visits = 60, np.repeat(np.arange(60), 2)
    person = {"role": "person", "pseudonym": True}
    tables = {
        "people": {"key": np.arange(count), "age": generator.integers(20, 90, count), "row": np.arange(count) + 0.5},
        "visits": {"key": visits, "year": generator.normal(size=120), "row": np.arange(120) + 0.5},
        "drugs": {"key": np.arange(count), "dose": generator.normal(size=count), "row": np.arange(count) + 0.5},
    }
    made = {
        name: sf.Boxes(k=3).release(
            table,
            schema={"key": {**person, "facts": 1}, "row": "other", ("age", "year", "dose")[number]: "quasi"},
            key=tmp_path / "key",
        )
        for number, (name, table) in enumerate(tables.items())
    }
    assert fewest_people(sf.LinkedRelease(made, None), 1) < 3  # type: ignore[arg-type]
    any_one = sf.joining_attack({name: made[name] for name in ("people", "visits")}, person="key", k=3)[3]
    assert any_one.below_k > 0.5
