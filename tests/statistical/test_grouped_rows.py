"""Rows that stand for groups: groups of outsiders pass the comparison with the reference, and groups that leak fail.

Before people were exchanged in place of rows, every release of groups failed: the rows of a group are equal, so that
the nearest ones agree by construction, and in many columns the middle of a group is nearer to anybody than people are.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from sfumato.job.assess import assess
from sfumato.measures.assess import LEVEL
from sfumato.methods.boxes.method import Boxes
from sfumato.methods.microaggregate.method import Microaggregate
from sfumato.table.table import Table

PEOPLE = 200
METHODS = [Boxes(k=5), Boxes(k=40), Microaggregate(k=5)]


def draw_people(seed: int, columns: int) -> Table:
    draw = np.random.default_rng([seed, columns])
    shared = draw.normal(size=PEOPLE)
    numbers = {f"x{place}": shared + draw.normal(size=PEOPLE) for place in range(columns)}
    return Table.from_arrow(pa.table({**numbers, "sex": draw.choice(["f", "m"], PEOPLE)}))


def failures(method, *, columns: int, draws: int, of_outsiders: bool) -> int:
    """Count the releases that fail the comparison; those of outsiders hold nobody whom the intruder looks for."""
    failed = 0
    for seed in range(draws):
        people, others, reference = (draw_people(3 * seed + place, columns) for place in range(3))
        made = others if of_outsiders else people
        release = method.release(made, schema=dict.fromkeys(made.names, "quasi"), seed=seed)
        failed += assess(people, release, reference, measures=["reference"], seed=seed).passed is False
    return failed


@pytest.mark.parametrize("method", METHODS, ids=lambda one: f"{one.name}-{one.k}")
@pytest.mark.parametrize("columns", [2, 12])
def test_groups_of_outsiders_seldom_fail(method, columns):
    assert failures(method, columns=columns, draws=8, of_outsiders=True) <= binom.ppf(0.999, 8, LEVEL)


@pytest.mark.parametrize("method", [Boxes(k=2), Microaggregate(k=2)], ids=lambda one: one.name)
def test_pairs_of_people_fail(method):
    assert failures(method, columns=12, draws=3, of_outsiders=False) == 3


def tight(table: Table, width: float) -> Table:
    """Return every number as a range of this width, and every row twice: groups that hide nobody."""
    numbers = [name for name in table.names if name != "sex"]
    ends = {f"{name}_{end}": table.numbers(name) + side * width for name in numbers for end, side in SIDES.items()}
    shown = pa.table({**ends, "sex": table.arrow.column("sex")})
    return Table.from_arrow(pa.concat_tables([shown, shown]))


SIDES = {"low": -0.5, "high": 0.5}


@pytest.mark.parametrize("width", [0.0, 0.2])
@pytest.mark.parametrize("columns", [2, 12])
def test_ranges_around_single_people_fail(width, columns):
    people, reference = draw_people(1, columns), draw_people(2, columns)
    found = assess(people, tight(people, width), reference, measures=["reference"], seed=1)
    assert found["distance below the reference"].passed is False
    honest = assess(people, tight(draw_people(3, columns), width), reference, measures=["reference"], seed=1)
    assert honest.passed is True  # the control


def test_an_assessment_does_not_depend_on_the_order_of_rows():
    people, reference = draw_people(1, 3), draw_people(2, 3)
    release = Microaggregate(k=3).release(people, schema=dict.fromkeys(people.names, "quasi"), seed=1).table
    measures = ["reference", "membership", "isolation"]
    found, again = (
        assess(people, rows, reference, measures=measures, seed=1)
        for rows in (release, release.take(np.random.default_rng(5).permutation(release.rows)))
    )
    assert found.scores == again.scores
