"""Where a column tells people apart, every group is that of k people, with l values of l different people.

The twin is as obvious as possible: rows are told apart by a number that is released as it is, so a dictionary from the
released cells to the people of their rows shows whoever shares them.
"""

from __future__ import annotations

import itertools
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import CannotRelease, GuaranteeNotMet

FAST = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
SCHEMA = {"who": "person", "x": "quasi", "y": "quasi", "c": "quasi", "s": "sensitive", "row": "other"}


@st.composite
def stays(draw: st.DrawFn) -> dict[str, Any]:
    """A table of people who have several rows; the first one may have many."""
    people = draw(st.integers(6, 25))
    rows = draw(st.lists(st.integers(0, people - 1), min_size=0, max_size=40)) + [0] * draw(st.integers(0, 8))
    who = np.array([*range(people), *rows])
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    home = generator.integers(0, 20, people)
    return {
        "who": [f"person {one}" for one in who],
        "x": home[who].astype(float),
        "y": generator.integers(0, 6, len(who)).astype(float),
        "c": generator.choice(["a", "b", "c"], people)[who],
        "s": generator.choice(["u", "v", "w", "z"], len(who)),
        "row": np.arange(len(who)) + 0.5,
    }


def released_groups(release: sf.Release, table: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """Return person and sensitive value of the rows of each group, straight from the released cells."""
    cells = release.to_arrow().to_pydict()
    shown = [name for name in cells if name not in ("row", "s")]
    groups = defaultdict(list)
    for place, row in enumerate(cells["row"]):
        origin = int(row - 0.5)
        groups[tuple(str(cells[name][place]) for name in shown)].append((table["who"][origin], table["s"][origin]))
    return list(groups.values())


def different_values(group: list[tuple[str, str]]) -> int:
    """Return the largest number of different values of different people, by trying all choices."""
    values = sorted({value for _, value in group})
    holders = {value: {person for person, held in group if held == value} for value in values}
    for size in range(len(values), 0, -1):
        for chosen in itertools.combinations(values, size):
            if any(len(set(people)) == size for people in itertools.product(*(holders[value] for value in chosen))):
                return size
    return 0


METHODS = {
    "boxes": sf.Boxes(k=3, l=2),
    "boxes, three values": sf.Boxes(k=4, l=3),
    "boxes as cells": sf.Boxes(k=3, l=2, edges="cells"),
    "boxes by medians": sf.Boxes(k=3, l=1, cut="median"),
    "microaggregation": sf.Microaggregate(k=3, l=2),
    "microaggregation, three values": sf.Microaggregate(k=4, l=3),
    "global recoding": sf.Recode(k=3, l=2),
    "local recoding": sf.Recode(k=3, l=3, kind="local", search=0.2),
    "suppression": sf.Suppress(k=3, l=2, search=0.2),
    "generalization": sf.Generalize(k=3, l=2, beta=0.2),
}


@pytest.mark.parametrize("name", METHODS)
@given(table=stays())
@FAST
def test_groups_are_those_of_k_people(name: str, table: dict[str, Any]) -> None:
    method: Any = METHODS[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = method.release(table, schema=SCHEMA)
    except CannotRelease:  # fewer than l values in the whole table, or nothing left
        return
    except GuaranteeNotMet:
        assert different_values(list(zip(table["who"], table["s"], strict=True))) < method.l
        return
    groups = released_groups(release, table)
    assert min(len({person for person, _ in group}) for group in groups) >= method.k
    assert min(map(different_values, groups)) >= method.l
    assert "who" not in release.to_arrow().column_names
    assert "counted in people" in release.manifest.guarantee


@pytest.mark.parametrize(
    "method", [sf.Quantiles(k=4, l=1), sf.OptimalGroups(k=4, l=1), sf.Microaggregate(k=4, l=1, kind="each-column")]
)
@given(table=stays())
@FAST
def test_columns_by_themselves_count_people(method: Any, table: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = method.release(table, schema=SCHEMA)
    cells = release.to_arrow().to_pydict()
    for name in ("x", "y", "c"):
        people = defaultdict(set)
        for value, row in zip(cells[name], cells["row"], strict=True):
            people[value].add(table["who"][int(row - 0.5)])
        assert min(map(len, people.values())) >= 4


def test_rows_are_not_enough() -> None:
    """The control: without the role, five rows of one person are a group of five."""
    table = {"who": ["a"] * 5 + ["b", "c", "d", "e", "f"], "x": [9.0] * 5 + [1.0, 1.0, 1.0, 2.0, 2.0]}
    counted = sf.Boxes(k=5).release(table, schema={"who": "person", "x": "quasi"})
    rows = sf.Boxes(k=5).release(table, schema={"who": "identifier", "x": "quasi"}, rows_not_people=True)
    assert counted.to_arrow().column("box").to_numpy().max() == 0
    assert rows.to_arrow().column("box").to_numpy().max() == 1
