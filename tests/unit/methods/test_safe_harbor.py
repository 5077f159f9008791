"""HIPAA's safe harbour: what is recognised, what is done, and what stays open."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import CannotRelease, OptionError
from sfumato.methods.safe_harbor.method import NoIdentifierLeft, SafeHarbor, small_zip3
from sfumato.plan.plan import Evidence
from sfumato.report.summary import treatment
from sfumato.schema.recognition.hipaa import Action
from sfumato.schema.recognition.names import Identifier
from sfumato.sources.frames import as_table

ROWS = 40
NUMBERS = list(range(ROWS))
DAY = datetime.date(1990, 3, 14)

RECOGNISED = {
    "patientName": (["Ann Miller", "Bob Ray", "Cy Young", "Di Ross"] * 10, Identifier.NAME, Action.REMOVE),
    "home_city": (["Rome", "Bonn", "Oslo", "Lyon"] * 10, Identifier.PLACE, Action.REMOVE),
    "residence": ([f"{n} Elm Street" for n in NUMBERS], Identifier.PLACE, Action.REMOVE),
    "zip": ([2138, 3601, 90210, 10001] * 10, Identifier.PLACE, Action.THREE_DIGITS),
    "admitted": ([DAY] * ROWS, Identifier.DATE, Action.YEAR),
    "seen": (["2020-03-04", "2021-05-06"] * 20, Identifier.DATE, Action.YEAR),
    "age": ([30 + n * 2 for n in NUMBERS], Identifier.DATE, Action.NINETY),
    "birth_year": ([1920 + n for n in NUMBERS], Identifier.DATE, Action.YEAR),
    "call": ([f"(617) 555-01{n:02d}" for n in NUMBERS], Identifier.PHONE, Action.REMOVE),
    "fax_number": ([5550000 + n for n in NUMBERS], Identifier.FAX, Action.REMOVE),
    "contact": ([f"person{n}@example.org" for n in NUMBERS], Identifier.EMAIL, Action.REMOVE),
    "tax": ([f"123-45-{n:04d}" for n in NUMBERS], Identifier.SOCIAL_SECURITY, Action.REMOVE),
    "mrn": ([880000 + n for n in NUMBERS], Identifier.MEDICAL_RECORD, Action.REMOVE),
    "member_id": ([f"M{n % 7}" for n in NUMBERS], Identifier.HEALTH_PLAN, Action.REMOVE),
    "bank": ([f"DE{n:02d}500105175407324931" for n in NUMBERS], Identifier.ACCOUNT, Action.REMOVE),
    "license_no": ([f"L{n % 9}" for n in NUMBERS], Identifier.LICENCE, Action.REMOVE),
    "car": ([f"1HGCM82633A{n:06d}" for n in NUMBERS], Identifier.VEHICLE, Action.REMOVE),
    "adapter": ([f"00:1b:44:11:3a:{n:02x}" for n in NUMBERS], Identifier.DEVICE, Action.REMOVE),
    "page": ([f"https://example.org/{n}" for n in NUMBERS], Identifier.URL, Action.REMOVE),
    "host": ([f"10.0.0.{n}" for n in NUMBERS], Identifier.IP, Action.REMOVE),
    "fingerprint": ([f"f{n % 5}" for n in NUMBERS], Identifier.BIOMETRIC, Action.REMOVE),
    "photo": ([f"p{n % 5}" for n in NUMBERS], Identifier.PHOTO, Action.REMOVE),
    "code": ([f"X{n * 7919}" for n in NUMBERS], Identifier.OTHER, Action.REMOVE),
}
HARMLESS = {
    "sex": ["f", "m"] * 20,
    "state": ["MA", "NY"] * 20,
    "glucose": [80.5 + n % 13 for n in NUMBERS],
    "white_cells": [4 + n % 5 for n in NUMBERS],
    "marital_status": ["single", "married"] * 20,
    "age_group": ["20-39", "40-59"] * 20,
}
POLICY = SafeHarbor(year=2024)


@pytest.mark.parametrize("name", RECOGNISED)
def test_every_kind_of_identifier_is_recognised(name):
    cells, identifier, action = RECOGNISED[name]
    findings = POLICY.inspect(pa.table({name: cells})).findings
    assert [(found.identifier, found.action) for found in findings] == [(identifier, action)]
    assert findings[0].reason


@pytest.mark.parametrize("name", HARMLESS)
def test_what_identifies_nobody_is_left_alone(name):
    assert not POLICY.inspect(pa.table({name: HARMLESS[name]})).findings


def released(**options):
    columns = {name: cells for name, (cells, *_) in RECOGNISED.items()} | HARMLESS
    policy = SafeHarbor(year=2024, **options)
    return policy.release(pa.table(columns), schema=dict.fromkeys(columns, "quasi"), seed=1)


def test_identifiers_go_and_the_rest_stays():
    kept = {"zip", "admitted", "seen", "age", "birth_year"}
    assert set(released().table.names) == kept | set(HARMLESS)


def test_places_dates_and_ages_become_as_coarse_as_the_rule_says():
    columns = released().table.arrow.to_pydict()
    assert set(columns["zip"]) == {"021", "000", "902", "100"}  # 036 has too few people
    assert set(columns["admitted"]) == {1990} and set(columns["seen"]) == {2020, 2021}
    assert max(columns["age"]) == 90 and min(columns["age"]) == 30
    assert min(columns["birth_year"]) == 2024 - 90


def test_what_a_person_answers_is_done():
    release = released(answers={"home_city": "keep", "state": "remove", "host": "keep"})
    assert {"home_city", "host"} <= set(release.table.names) and "state" not in release.table.names


DOUBTFUL = pa.table({"areas": ["02138", "90210"] * 20, "visit": [20200101, 20210203] * 20, "x": [1, 2, 3, 4] * 10})
ROLES = dict.fromkeys(DOUBTFUL.column_names, "quasi")


def test_a_table_with_an_open_question_is_refused_and_the_question_is_asked():
    inspection = POLICY.inspect(DOUBTFUL)
    assert [found.action for found in inspection.findings] == [Action.DECIDE, Action.YEAR]
    assert "areas" in inspection.open_questions[0]
    with pytest.raises(CannotRelease, match="areas") as refused:
        POLICY.release(DOUBTFUL, schema=ROLES)
    assert "answers=" in refused.value.fix and "02138" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "cells"), [("keep", {"02138", "90210"}), ("three-digits", {"021", "902"}), ("remove", None)]
)
def test_an_answer_opens_the_release(answer, cells):
    policy = SafeHarbor(year=2024, answers={"areas": answer})
    release = policy.release(DOUBTFUL, schema=ROLES, seed=1)
    columns = release.table.arrow.to_pydict()
    assert set(columns["visit"]) == {2020, 2021}
    assert (set(columns["areas"]) if cells else None) == cells if cells else "areas" not in columns
    noted = {one["column"]: one for one in release.manifest.notes["findings"]}
    assert noted["areas"]["answered"] and noted["areas"]["action"] == answer


def test_an_answer_that_the_cells_do_not_allow_is_refused():
    with pytest.raises(CannotRelease, match="readable"):
        SafeHarbor(answers={"x": "year", "areas": "keep"}).release(DOUBTFUL, schema=ROLES)


def test_an_answer_about_no_column_is_refused():
    with pytest.raises(OptionError, match="'area'"):
        SafeHarbor(answers={"area": "keep"}).release(DOUBTFUL, schema=ROLES)


AGES = {
    "age": ["34", "89", "90", "95", "103", None] * 10,
    "age_group": ["20-29", "80–89", "85-94", "95 to 99", "100+", "unknown"] * 10,
    "age_years": [34.5, 89.0, 90.0, 95.5, 103.0, None] * 10,
    "age_band": ["<20", "20-64", "65-89", ">89", "90+", "≥ 90"] * 10,
}


def test_ages_as_text_and_in_groups_end_at_90():
    release = POLICY.release(pa.table(AGES), schema=dict.fromkeys(AGES, "quasi"), seed=1)
    columns = {name: set(cells) for name, cells in release.table.arrow.to_pydict().items()}
    assert columns["age"] == {"34", "89", "90", "90+", None}
    assert columns["age_group"] == {"20-29", "80–89", "85+", "90+", "unknown"}
    assert columns["age_years"] == {34.5, 89.0, 90.0, None}
    assert columns["age_band"] == set(AGES["age_band"])  # says nothing beyond 90


def test_dates_become_years_whatever_the_name_of_the_column_suggests():
    days = [datetime.date(1920 + n, 1, 1) for n in range(ROWS)]
    table = pa.table({"phone_contact": days, "age_recorded": days, "sex": ["f", "m"] * (ROWS // 2)})
    release = POLICY.release(table, schema=dict.fromkeys(table.column_names, "quasi"), seed=1)
    assert min(release.table.arrow.column("phone_contact").to_pylist()) == 2024 - 90


def test_a_table_of_identifiers_only_cannot_be_released():
    with pytest.raises(CannotRelease, match="one column must remain"):
        POLICY.release(pa.table({"lname": ["a", "b", "c"] * 9}), schema={"lname": "quasi"})


def test_a_column_that_is_released_as_it_is_is_not_called_generalized():
    columns = {"sex": ["f", "m"] * 20, "country": ["IT"] * 40, "zip": ["02138", "90210"] * 20, "age": [40, 95] * 20}
    manifest = POLICY.release(pa.table(columns), schema=dict.fromkeys(columns, "quasi"), seed=1).manifest
    said = {column.name: treatment(column, manifest) for column in manifest.columns}
    assert (said["sex"], said["country"]) == ("unaltered", "unaltered")
    assert "unaltered" not in (said["zip"], said["age"])


def test_the_list_of_small_areas_is_the_one_of_its_source():
    assert len(small_zip3()) == 17
    assert {"036", "692", "893"} <= small_zip3()


def test_a_newer_list_of_small_areas_can_be_given():
    assert "000" in released(small_zip3=frozenset({"021"})).table.arrow.to_pydict()["zip"]
    assert "036" in released(small_zip3=frozenset({"021"})).table.arrow.to_pydict()["zip"]


def test_an_identifier_that_is_still_there_breaks_the_promise():
    table = as_table(pa.table({"contact": RECOGNISED["contact"][0]}))
    finding = NoIdentifierLeft(policy=POLICY).measure(Evidence(table, table, np.arange(ROWS)))
    assert not finding.held and "example.org" not in finding.found


@pytest.mark.parametrize(
    "wrong", [{"answers": {"x": "perhaps"}}, {"answers": ["x"]}, {"small_zip3": frozenset({"12"})}, {"year": 12}]
)
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(OptionError):
        SafeHarbor(**wrong)


def test_dates_without_separators_keep_their_year_wherever_it_stands():
    dates = ["19121999", "20071999", "20190731", "03042001"] * 10  # three begin with a day, one with the year
    table = {"seen": dates, "sex": ["f", "m"] * 20}
    release = SafeHarbor(year=2024).release(table, schema={"seen": "quasi", "sex": "quasi"})
    assert sorted(set(release.table.numbers("seen").tolist())) == [1999.0, 2001.0, 2019.0]
