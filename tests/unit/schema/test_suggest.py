"""Suggested roles: in doubt more is protected."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.schema.columns import Role
from sfumato.schema.recognition.roles import may_be_unknown, suggest
from sfumato.schema.schema import Schema
from sfumato.sources.files import read
from sfumato.sources.frames import as_table
from sfumato.table.facts import facts_of
from sfumato.table.kinds import Kind

ROWS = 30
PLAIN = [number % 7 for number in range(ROWS)]


def suggested(table):
    return suggest(table.names, partial(facts_of, table))


def role(name: str, cells: list[object]) -> Role:
    return suggested(as_table({name: cells}))[name].role


@pytest.mark.parametrize(
    "name",
    [
        "id", "ID", "patient_id", "patientId", "Patient ID", "ssn", "SSN", "name", "Name", "first_name", "lastName",
        "Full Name", "surname", "email", "e-mail", "Email Address", "phone", "phone_number", "Telephone", "address",
        "home address", "address_2", "street", "iban", "mrn", "RECID", "seqn", "uuid", "passport no", "account number",
        "social_security_number", "user.name", "name_of_patient", "ip_address", "caseid", "Pat-Nr", "PatNr", "Pat.-Nr.",
        "subject_no", "SubjNo", "KV-Nummer", "veh_plate", "kfz_kennzeichen", "Vers.-Nr.", "ptno", "Probanden-Nr.",
    ],
)  # fmt: skip
def test_a_name_that_says_so_makes_an_identifier(name):
    assert role(name, PLAIN) is Role.IDENTIFIER


@pytest.mark.parametrize(
    "name",
    [
        "fnlwgt", "salary-class", "x0", "age", "uric_acid", "street_drugs_ever", "paid", "valid", "covid", "width",
        "country_name", "City Name", "weight_mec_2yr", "identity", "idle", "hid", "email_opened_count", "phoneme",
        "s006", "AGI", "h_seq", "username_length", "renamed", "grid", "native-country", "zip", "column_1",
    ],
)  # fmt: skip
def test_any_other_name_is_quasi(name):
    assert role(name, PLAIN) is Role.QUASI


def test_a_phone_that_is_there_or_not_is_no_number():
    assert role("phone", ["yes", "no"] * 20) is Role.QUASI
    assert role("has_email", [True, False] * 20) is Role.QUASI
    assert role("phone", ["123", "456"]) is Role.IDENTIFIER  # too few to say


@pytest.mark.parametrize(
    "name", ["ward", "page_views", "pattern", "path_nr_of_steps", "kv_mm", "plate_count", "recall"]
)
def test_what_only_looks_like_such_a_name_is_no_identifier(name):
    assert role(name, PLAIN) is Role.QUASI


def test_whole_numbers_that_are_mostly_distinct_are_a_question():
    numbers = (np.random.default_rng(1).permutation(9_000)[:300] + 1_000).tolist()
    for name, is_asked in (("x", True), ("page_views", False), ("platelets", False)):
        found = suggested(as_table({name: numbers}))[name]
        assert (found.role, "identifier" in found.reason) == (Role.QUASI, is_asked)


@pytest.mark.parametrize("name", ["zip", "ZIP code", "plz", "Postleitzahl", "postcode"])
def test_postal_codes_without_leading_zeros_are_names_of_places(name):
    codes = [72070 + number % 5 for number in range(ROWS)]
    schema = Schema.for_table(as_table({name: codes, "distance": codes}), {})
    assert [column.kind for column in schema.columns] == [Kind.NOMINAL, None]
    assert (
        Schema.for_table(as_table({name: codes}), {name: {"role": "quasi", "kind": "whole"}})[name].kind is Kind.WHOLE
    )


def test_words_that_hardly_repeat_are_identifiers_in_tables_large_enough():
    assert role("x", [f"word {number}" for number in range(ROWS)]) is Role.IDENTIFIER
    assert role("x", [f"word {number}" for number in range(300)]) is Role.IDENTIFIER  # text by now
    assert role("x", [f"word {number}" for number in range(10)]) is Role.QUASI
    assert role("x", [f"word {number % 15}" for number in range(ROWS)]) is Role.QUASI


def test_categories_are_judged_like_words():
    assert role("x", pd.Categorical([f"word {number}" for number in range(ROWS)])) is Role.IDENTIFIER
    assert role("x", pd.Categorical(["low", "high"] * ROWS, ordered=True)) is Role.QUASI
    assert role("phone", pd.Categorical(["yes", "no"] * ROWS)) is Role.QUASI


@pytest.mark.parametrize(
    "cells",
    [
        [None] * ROWS,
        [True, False] * ROWS,
        [Decimal("1.5")] * ROWS,
        [datetime(2020, 1, 1)] * ROWS,
        [1.5] * ROWS,
        np.arange(ROWS, dtype=np.uint64) * 3,
    ],
)
def test_a_column_of_any_type_is_judged(cells):
    assert role("x", cells) is Role.QUASI
    assert role("id", cells) in (Role.IDENTIFIER, Role.QUASI)


def test_whole_numbers_that_count_the_rows_are_identifiers_in_tables_large_enough():
    shuffled = np.random.default_rng(1).permutation(ROWS) + 100
    assert role("x", shuffled.tolist()) is Role.IDENTIFIER
    assert role("x", [*range(10)]) is Role.QUASI
    assert role("x", (2 * shuffled).tolist()) is Role.QUASI  # distinct and not consecutive
    assert role("x", [*range(ROWS - 1), 0]) is Role.QUASI


def test_whole_numbers_too_long_for_a_quantity_are_identifiers():
    assert role("x", [2**60 + 7 * number for number in range(ROWS)]) is Role.IDENTIFIER


def test_distinct_measurements_and_dates_are_quasi():
    assert role("x", np.random.default_rng(1).normal(size=500).tolist()) is Role.QUASI
    assert role("x", np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]").tolist()) is Role.QUASI


def test_every_suggestion_has_a_reason_and_shows_no_cell():
    table = as_table({"x": [f"Canary77 {number}" for number in range(ROWS)], "name": ["Canary77"] * ROWS, "n": PLAIN})
    columns = suggested(table)
    assert all(column.reason for column in columns.values())
    assert "Canary77" not in repr(columns)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fnlwgt", "sampling weight"),
        ("weight_mec_2yr", "sampling weight"),
        ("PWGTP", "sampling weight"),
        ("final_weight", "sampling weight"),
        ("diagnosis", "the role sensitive"),
        ("icd10_code", "the role sensitive"),
        ("total_expenses", "the role sensitive"),
        ("HouseholdIncome", "the role sensitive"),
        ("age", "others may know"),
        ("zip", "others may know"),
        ("marital-status", "others may know"),
        ("x0", "not recognised"),
        ("uric_acid", "not recognised"),
        ("weight", "not recognised"),  # of a body, as likely as of a sample
    ],
)
def test_a_reason_says_what_a_column_looks_like_and_which_role_may_fit(name, words):
    column = suggested(as_table({name: PLAIN}))[name]
    assert column.role is Role.QUASI, "protection is not weakened by a guess"
    assert words in column.reason


def test_a_weight_is_a_number_for_every_row():
    assert "weight" not in suggested(as_table({"fnlwgt": ["low", "high"] * 15}))["fnlwgt"].reason
    assert "weight" not in suggested(as_table({"fnlwgt": [None, *PLAIN]}))["fnlwgt"].reason


@given(
    st.text(max_size=12), st.lists(st.integers() | st.none(), max_size=40) | st.lists(st.text(max_size=3), max_size=40)
)
def test_protection_is_never_weakened_by_a_suggestion(name, cells):
    cells = [cell if not isinstance(cell, int) or abs(cell) < 2**63 else 0 for cell in cells]
    assert role(name or "x", cells) in (Role.IDENTIFIER, Role.QUASI)


@pytest.mark.parametrize(
    ("file", "identifiers"),
    [
        ("adult/adult.data", ()),
        ("arx/adult.csv", ()),
        ("nhanes/nhanes_complete.csv.gz", ("seqn",)),
        ("casc/census.csv", ()),
        ("cps/cps_tax_units.parquet", ("RECID",)),
    ],
)
def test_real_tables(data_folder, file, identifiers):
    assert Schema.for_table(read(data_folder / file)).names(Role.IDENTIFIER) == identifiers


@pytest.mark.parametrize(
    "name",
    ["Fallnummer", "Patientennummer", "Patienten-Nr", "Versichertennummer", "Nachname", "Straße", "Telefonnummer"],
)
def test_german_names_of_identifiers_are_known(name):
    assert role(name, PLAIN) is Role.IDENTIFIER


@pytest.mark.parametrize(
    "name",
    [
        "Nom", "NOM", "Prénom", "prenoms", "N° patient", "Numéro de dossier", "Nom de naissance", "Adresse", "IPP",
        "Téléphone", "Courriel", "Nombre", "Apellidos", "Dirección", "Cognome", "Indirizzo", "Achternaam",
        "Numéro de compte", "carte_vitale", "permis_de_conduire", "cuenta_bancaria", "num_ss", "tessera sanitaria",
        "cartella_clinica", "burgerservicenummer", "rekeningnummer", "kenteken", "fødselsnummer", "CPR-nr",
        "henkilötunnus", "sukunimi", "nazwisko", "numer_pacjenta", "nr_telefonu", "prontuário", "Mitarbeiternummer",
        "Personalausweisnummer", "Führerscheinnummer", "claim_no", "emp_no", "staff_no", "badge_no", "rec_no",
        "accession_no", "social_sec", "credit_card", "usubjid", "lname", "first_nm",
    ],
)  # fmt: skip
def test_names_of_identifiers_in_other_languages_are_known(name):
    assert role(name, PLAIN) is Role.IDENTIFIER


@pytest.mark.parametrize(
    "name",
    [
        "Âge (années)", "Sexe", "Date de naissance", "Durée de séjour", "Code postal", "Ville", "Service (hôpital)",
        "Fecha de nacimiento", "Estado civil", "Età", "Sesso", "Leeftijd", "Geslacht", "Postleitzahl", "Größe",
        "Nationalität", "Staatsangehörigkeit", "Geb.-Datum",
    ],
)  # fmt: skip
def test_what_others_know_is_not_offered_as_unknown_in_any_of_these_languages(name):
    column = suggested(as_table({name: PLAIN}))[name]
    assert column.role is Role.QUASI
    assert not may_be_unknown(column)


@pytest.mark.parametrize("name", ["Diagnostic (CIM-10)", "Coût total (€)", "Hémoglobine (g/dL)", "Diagnóstico"])
def test_what_an_intruder_wants_to_learn_is_known_in_other_languages(name):
    assert "looks sensitive" in suggested(as_table({name: PLAIN}))[name].reason


class TestRecordNumbers:
    def test_distinct_numbers_of_equally_many_digits_number_people(self):
        numbers = np.random.default_rng(1).choice(90_000, 50, replace=False) * 997 + 210_000_000
        assert role("x", numbers.tolist()) is Role.IDENTIFIER

    def test_repeated_ones_and_dates_without_separators_do_not(self):
        assert role("x", [210_000_000 + number % 7 for number in range(50)]) is Role.QUASI
        assert role("x", [19_500_101 + 10_000 * number for number in range(50)]) is Role.QUASI
        assert role("x", [1_000 + 37 * number for number in range(50)]) is Role.QUASI


class TestFreeText:
    SAID = tuple(f"patient {number} feels better now" for number in range(40))

    def test_texts_of_several_words_are_removed_even_if_many_repeat(self):
        column = suggested(as_table({"x": list(self.SAID) + ["no complaints at all today"] * 60}))["x"]
        assert column.role is Role.IDENTIFIER
        assert column.reason == "it is free text, with 5 words per cell, in which people may be named"

    def test_a_name_that_says_so_needs_fewer_of_them(self):
        few = [f"see file {number}" for number in range(8)] + ["fine"] * 192
        assert role("remarks", few) is Role.QUASI  # mostly one word
        few = [f"see file {number}" for number in range(8)] + ["fine so far"] * 192
        assert role("remarks", few) is Role.IDENTIFIER
        assert role("visit", few) is Role.QUASI

    def test_categories_of_several_words_are_no_text(self):
        assert role("x", ["Married, spouse present", "Never married at all"] * 50) is Role.QUASI


def test_what_outsiders_may_not_know_is_told_apart():
    table = {"age": PLAIN, "creatinine": PLAIN, "x": PLAIN, "admission": PLAIN}
    unknown = [name for name, column in suggested(as_table(table)).items() if may_be_unknown(column)]
    assert unknown == ["creatinine", "x"]


@pytest.mark.parametrize(
    "name", ["product_id", "region_id", "drugId", "species_name", "team_name", "name_of_drug", "gene_signature"]
)
def test_the_names_and_numbers_of_things_are_protected_but_not_removed(name):
    assert role(name, ["a", "b", "c"] * 20) is Role.QUASI


def test_a_number_of_things_that_hardly_recurs_is_removed():
    assert role("product_id", [f"p{number}" for number in range(60)]) is Role.IDENTIFIER
    assert role("product_id", list(range(100, 400, 5))) is Role.IDENTIFIER


@pytest.mark.parametrize("name", ["nir", "ipp", "tel", "vin", "ip"])
def test_a_measurement_with_decimals_is_no_name_or_address(name):
    assert role(name, [number / 8 for number in range(60)]) is Role.QUASI


@pytest.mark.parametrize("name", ["patient_id", "recid", "case_no", "Patientennummer"])
def test_a_number_of_a_person_may_have_decimals(name):
    assert role(name, [1 + number / 1000 for number in range(60)]) is Role.IDENTIFIER


def test_a_telephone_that_is_missing_in_some_rows_is_still_one():
    assert role("phone", [5550100.0 + number if number % 3 else None for number in range(60)]) is Role.IDENTIFIER
