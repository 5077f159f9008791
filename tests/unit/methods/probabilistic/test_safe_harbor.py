"""HIPAA's safe harbour: what is recognised, what is done, and what stays open."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from sfumato.disclosure.hipaa import Action, Identifier
from sfumato.errors import OptionError
from sfumato.methods.claims import Evidence
from sfumato.methods.probabilistic.safe_harbor import NoIdentifierLeft, SafeHarbor, small_zip3
from sfumato.table.frames import as_table

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


def test_what_a_person_decided_is_done():
    release = released(decided={"home_city": "keep", "state": "remove"})
    assert "home_city" in release.table.names and "state" not in release.table.names


def test_doubts_are_asked_and_not_acted_on():
    table = pa.table({"phone": [0, 1] * 20, "postcode_like": ["02138", "90210"] * 20})
    inspection = POLICY.inspect(table)
    assert [found.action for found in inspection.findings] == [Action.DECIDE] * 2
    assert sum("phone" in question or "postcode_like" in question for question in inspection.open_questions) == 2
    release = POLICY.release(table, schema={"phone": "quasi", "postcode_like": "quasi"}, seed=1)
    assert set(release.table.names) == {"phone", "postcode_like"}


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


@pytest.mark.parametrize("wrong", [{"decided": {"x": "perhaps"}}, {"small_zip3": frozenset({"12"})}, {"year": 12}])
def test_a_wrong_option_is_refused(wrong):
    with pytest.raises(OptionError):
        SafeHarbor(**wrong)
