"""Intruders who know a column in a coarser unit: attacks are theirs, and nothing else of an assessment changes."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato as sf
from sfumato.errors import OptionError, TableError
from sfumato.risk.knowledge import coarsen_released
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

ATTACKS = ["linkage", "fellegi-sunter", "membership", "inference", "linkability", "singling-out"]
START = dt.date(1940, 1, 1)


def people(rows: int, seed: int) -> Table:
    draw = np.random.default_rng(seed)
    born = [START + dt.timedelta(days=int(day)) for day in draw.integers(0, 365 * 60, rows)]
    return Table.from_arrow(
        pa.table(
            {
                "born": pa.array(born, pa.date32()),
                "zip": [f"8{one:04d}" for one in draw.integers(0, 400, rows)],
                "sex": draw.choice(["m", "f"], rows).tolist(),
            }
        )
    )


@pytest.fixture(scope="module")
def table() -> Table:
    return people(400, 1)


def rate(table: Table, knows, name="correct nearest matches", measure="linkage", reference=None) -> float:
    found = sf.assess(table, table, reference, measures=[measure], origin=np.arange(table.rows), knows=knows, seed=1)
    return found[name].value


def test_whoever_knows_the_day_finds_more_people_than_whoever_knows_the_year_or_the_decade(table):
    rates = [rate(table, {"born": unit}) for unit in ("day", "month", "year", "decade")]
    assert rates[0] > 0.95
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.7 * rates[0]
    less = rate(table, {"born": "decade", "zip": 2})
    assert less < 0.5 * rates[-1]


@pytest.mark.parametrize("measure", ATTACKS)
def test_every_attack_by_knowledge_says_what_is_known(table, measure):
    found = sf.assess(
        table, table, people(400, 2), measures=[measure], origin=np.arange(400), knows={"born": "year"}, seed=1
    )
    assert found.knowledge == "born by the year"
    assert all(score.note.endswith("intruders know born by the year") for score in found.scores)
    assert "Attacks are those of intruders who know born by the year." in str(found)
    assert found.to_plain()["knowledge"] == "born by the year"


def test_utility_and_copies_are_those_of_the_table_itself(table):
    measures = ["copies", "moments", "marginals", "losses"]
    plain, known = (
        sf.assess(table, table, people(400, 2), measures=measures, knows=knows, seed=1)
        for knows in (None, {"born": "year", "zip": 1})
    )
    assert plain.scores == known.scores


@given(st.integers(0, 10**6), st.floats(0.5, 20.0))
@settings(max_examples=40, deadline=None)
def test_a_person_is_still_in_the_interval_that_contained_her(seed, width):
    draw = np.random.default_rng(seed)
    numbers = draw.normal(40.0, 15.0, 30)
    low, high = numbers - draw.exponential(5.0, 30), numbers + draw.exponential(5.0, 30)
    released = Table.from_arrow(pa.table({"x_low": low, "x_high": high}))
    kinds = {"x": Kind.CONTINUOUS}
    person = coarsen_released(Table.from_arrow(pa.table({"x": numbers})), {"x": width}, kinds).numbers("x")
    box = coarsen_released(released, {"x": width}, kinds)
    assert (box.numbers("x_low") <= person).all()
    assert (person <= box.numbers("x_high")).all()


def test_sets_words_and_missing_cells():
    kinds = {"zip": Kind.NOMINAL, "age": Kind.WHOLE}
    words = ["20-29", "30-39", None, "x"]
    rows = Table.from_arrow(pa.table({"zip": ["80331|80799", "10115|80331", None, "*"], "age": words}))
    known = coarsen_released(rows, {"zip": 2, "age": 10}, kinds).to_arrow().to_pydict()
    assert known["zip"] == ["80", "10|80", None, "*"]
    assert known["age"] == ["20-29", "30-39", None, "x"]  # a number that was released as a word


def test_boxes_are_attacked_in_coarser_units(table):
    taken = [
        sf.release_and_assess(
            sf.Boxes(k=5), table, schema=dict.fromkeys(table.names, "quasi"), knows=knows, seed=1
        ).assessment
        for knows in (None, {"born": "decade", "zip": 1})
    ]
    rates = [one["correct Fellegi–Sunter links"].value for one in taken]
    assert rates[1] < 0.7 * rates[0]
    assert taken[0]["people who fit a box, fewest"] == taken[1]["people who fit a box, fewest"]


def test_a_known_mechanism_is_not_applied_to_columns_that_are_known_less_precisely():
    draw = np.random.default_rng(1)
    table = {f"x{place}": draw.normal(size=200) for place in range(3)}
    made = sf.release_and_assess(sf.Noise(), table, schema=dict.fromkeys(table, "quasi"), knows={"x1": 0.5}, seed=1)
    note = made.assessment["correct matches by the known mechanism"].note
    assert "x0, x2;" in note and "x1" not in note


def test_wrong_knowledge_is_refused(table):
    with pytest.raises(TableError, match="born_on"):
        sf.assess(table, table, measures=["linkage"], knows={"born_on": "year"})
    with pytest.raises(OptionError, match="one of day, week"):
        sf.assess(table, table, measures=["linkage"], origin=np.arange(400), knows={"born": "hour"})
    with pytest.raises(OptionError, match="mapping of columns"):
        sf.assess(table, table, measures=["linkage"], knows="year")
