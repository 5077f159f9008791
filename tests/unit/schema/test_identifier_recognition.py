"""Which columns are recognised as identifiers, by any words of their names and by their cells, and which are not."""

from __future__ import annotations

import datetime
import re
import time

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.safe_harbor.method import SafeHarbor
from sfumato.schema.recognition.hipaa import Action
from sfumato.schema.recognition.names import divide_words, topics

ROWS = 200
DRAW = np.random.default_rng(7)
POLICY = SafeHarbor(year=2024)
REMOVE, YEAR, ZIP3, AGE90, ASK = (
    Action.REMOVE,
    Action.YEAR,
    Action.THREE_DIGITS,
    Action.NINETY,
    Action.DECIDE,
)


def some(*values):
    """A column in which the values repeat."""
    return (list(values) * ROWS)[:ROWS]


def whole(low, high):
    """Whole numbers from low to high, both of which occur."""
    return [low, high, *DRAW.integers(low, high + 1, ROWS - 2).tolist()]


SURNAMES = some("Miller", "Smith", "Jones", "Garcia", "Okafor", "Lindqvist")
FIRST = some("Anna", "John", "Mary", "Xiu", "Peter", "Olga")
FULL = some("Ann Miller", "Bob Ray", "Cy Young", "Di Ross", "Mary Smith", "John Doe")
CITIES = some("Rome", "Bonn", "Oslo", "Lyon", "Ulm")
ZIPS = some("02138", "03601", "90210", "10001", "60601")
GROUPS = some("65-69", "70-74", "75-79", "80-84", "85-89", "90-94", "95-99")
DAYS = [f"{DRAW.integers(2015, 2024)}{DRAW.integers(1, 13):02d}{DRAW.integers(1, 29):02d}" for _ in range(ROWS)]
DATES = [datetime.date(1990, 3, 14) + datetime.timedelta(days=int(n)) for n in DRAW.integers(0, 9000, ROWS)]
PHONES = [f"617-555-{n % 50:04d}" for n in range(ROWS)]
NOTE = "Please call {} at {} about the test result"
NOTES = [NOTE.format(*pair) for pair in zip(some("John Smith", "Ann Lee"), PHONES[:4] * 50, strict=True)]
OVER_89 = whole(20, 103)

GIVEN_OUT = (np.random.default_rng(3).permutation(90_000)[:ROWS] + 10_000).tolist()  # numbers of people
FOUND = [  # name, cells, action
    # the columns that earlier versions released unaltered and without a question
    ("lname", SURNAMES, REMOVE),
    ("fname", FIRST, REMOVE),
    ("patient", FULL, REMOVE),
    ("mothers_maiden", SURNAMES, REMOVE),
    ("phone_home", some(5550100, 5550101, 5550102), REMOVE),
    ("ssn_last4", whole(1000, 9999), REMOVE),
    ("zipcode_of_residence", ZIPS, ZIP3),
    ("yob", whole(1915, 2005), YEAR),
    ("age_yrs", OVER_89, AGE90),
    ("age", [str(age) for age in OVER_89], AGE90),
    ("age_group", GROUPS, AGE90),
    ("birth_month", whole(1, 12), REMOVE),
    ("dob_day", whole(1, 31), REMOVE),
    ("admit_month", whole(1, 12), REMOVE),
    ("result", NOTES, ASK),
    ("adm_date", [int(day) for day in DAYS], YEAR),
    ("zip_home", [int(code) for code in ZIPS], ZIP3),
    ("county_fips", whole(1001, 56045), REMOVE),
    ("city_of_birth", CITIES, REMOVE),
    ("age_at_admission", OVER_89, AGE90),
    ("days_since_birth", whole(7000, 36000), ASK),
    # words anywhere in a name, however it is written
    ("HomePhone", whole(5550100, 5559999), REMOVE),
    ("homephone", whole(5550100, 5559999), REMOVE),
    ("cellPhoneNumber", whole(5550100, 5559999), REMOVE),
    ("EMERGENCY_CONTACT_NAME", FULL, REMOVE),
    ("nameLast", SURNAMES, REMOVE),
    ("dateofbirth", some("x1", "x2", "x3"), ASK),
    ("DOBDay", whole(1, 31), REMOVE),
    ("street_line_2", some("Apt 1", "Apt 2", "Apt 3"), REMOVE),
    ("patientCity", CITIES, REMOVE),
    ("emails_of_mother", some("hidden", "none", "unknown"), REMOVE),
    ("mrn_old", whole(100, 180), REMOVE),
    ("lat_home", [42.0 + n / 977 for n in range(ROWS)], REMOVE),
    ("longitude", [-71.0 - n / 977 for n in range(ROWS)], REMOVE),
    ("license_plate_no", some("B1", "B2", "B3"), REMOVE),
    ("insurance_policy_no", some("P1", "P2", "P3"), REMOVE),
    ("passportnr", some("C1", "C2", "C3"), REMOVE),
    ("mother", FULL, REMOVE),
    ("attending_physician", some("A", "B", "C"), ASK),
    # other languages
    ("Nachname", SURNAMES, REMOVE),
    ("Geburtsjahr", whole(1915, 2005), YEAR),
    ("Geburtsdatum", DATES, YEAR),
    ("PLZ", ZIPS, REMOVE),
    ("Wohnort", CITIES, REMOVE),
    ("Straße", some("Am Markt", "Im Grund", "Am Bach"), REMOVE),
    ("prénom", FIRST, REMOVE),
    ("ville_de_naissance", CITIES, REMOVE),
    ("apellidos", SURNAMES, REMOVE),
    ("teléfono", some("a", "b", "c"), REMOVE),
    ("edad", OVER_89, AGE90),
    ("codice_fiscale", some("a", "b", "c"), REMOVE),
    ("endereço", CITIES, REMOVE),
    ("achternaam", SURNAMES, REMOVE),
    ("Alter", OVER_89, AGE90),
    ("Ortsteil", CITIES, REMOVE),
    ("quartier", CITIES, REMOVE),
    ("localidad", CITIES, REMOVE),
    ("lieu_naissance", CITIES, ASK),
    ("provincia", CITIES, ASK),
    ("Aufnahmemonat", whole(1, 12), REMOVE),
    ("Entlassungstag", whole(1, 31), REMOVE),
    ("mesIngreso", whole(1, 12), REMOVE),
    ("Krankenkassennummer", some("A1", "A2", "A3"), REMOVE),
    ("Zimmernummer", whole(100, 180), ASK),
    ("nss", some("A1", "A2", "A3"), REMOVE),
    ("numeroHistoria", whole(1000, 1060), REMOVE),
    ("numero_de_telefono", whole(912_345_000, 912_345_060), REMOVE),
    ("numero_de_cuenta", whole(1000, 1060), REMOVE),
    ("immatriculation", some("A1", "A2", "A3"), REMOVE),
    ("matricule", whole(1000, 1060), ASK),
    ("Lebensalter", OVER_89, AGE90),
    ("anoNac", whole(1915, 2005), YEAR),
    # shortened names
    ("patzip", [int(code) for code in ZIPS], ZIP3),
    ("custname", SURNAMES, REMOVE),
    ("sasdate", whole(21000, 22900), ASK),
    ("ptid", whole(1000, 1060), REMOVE),
    # cells under any name
    ("v1", [f"person{n}@example.org" for n in range(50)] * 4, REMOVE),
    ("v2", PHONES, REMOVE),
    ("v3", [f"https://example.org/{n % 40}" for n in range(ROWS)], REMOVE),
    ("v4", [f"10.0.0.{n % 40}" for n in range(ROWS)], REMOVE),
    ("v5", [f"1HGCM82633A{n % 40:06d}" for n in range(ROWS)], REMOVE),
    ("v6", [f"42.{n % 40 + 1000}, -71.{n % 40 + 1000}" for n in range(ROWS)], REMOVE),
    ("v7", FULL, ASK),
    ("v8", SURNAMES, ASK),
    ("v9", OVER_89, ASK),
    ("v10", [float(age) for age in OVER_89], ASK),
    ("v11", [str(age) for age in OVER_89], ASK),
    ("v12", GROUPS, ASK),
    ("v13", [int(day) for day in DAYS], YEAR),
    ("v14", DAYS, YEAR),
    ("v15", some("12 Mar 2020", "March 3, 2019", "1. Mai 2018"), YEAR),
    ("v16", some("03/04/20", "05/06/21", "11/12/19"), REMOVE),
    ("v17", some("January", "March", "May", "July"), ASK),
    ("v18", ZIPS, ASK),
    ("v19", [6175550100 + n % 60 for n in range(ROWS)], ASK),
    ("v20", NOTES, ASK),
    ("Pat-Nr", GIVEN_OUT, REMOVE),
    ("PatNr", GIVEN_OUT, REMOVE),
    ("Pat.-Nr.", GIVEN_OUT, REMOVE),
    ("subject_no", GIVEN_OUT, REMOVE),
    ("KV-Nummer", [f"K{n}" for n in GIVEN_OUT], REMOVE),
    ("birth_mo", whole(1, 12), REMOVE),
    ("veh_plate", [f"AB{n % 60}" for n in GIVEN_OUT], REMOVE),
    ("v28", GIVEN_OUT, ASK),
    ("lab_no", GIVEN_OUT, ASK),
    ("v21", [f"Hauptstraße {n % 40}" for n in range(ROWS)], REMOVE),
    ("v22", [f"+49 171 {n % 40 + 2345678}" for n in range(ROWS)], REMOVE),
    ("v23", whole(1915, 2005), ASK),
    ("v24", some("seen by Dr. Grant", "no complaint", "stable"), ASK),
    ("v25", ["2020-03", "2021-11"] * 100, YEAR),
    ("v26", [f"0170/12345{n % 40:02d}" for n in range(ROWS)], REMOVE),
    ("v27", [f"06 12 34 56 {n % 40:02d}" for n in range(ROWS)], REMOVE),
    ("v28", some("nichts", "Tel 0176 12345678 anrufen", "gut"), ASK),
    ("v29", some("none", "dob 03/04/1961", "see chart"), ASK),
    ("v30", some("none", "lives at 12 Elm Street", "see chart"), ASK),
    ("v31", some("none", "MRN 445566", "see chart"), ASK),
    ("v32", some("Lefèvre", "Nowak", "Öztürk", "Ibáñez"), ASK),
    ("v33", some("camille garnier", "lukas nowak", "iker vidal"), ASK),
    ("v34", some("07/2020", "11/2019", "09/2022"), YEAR),
    ("v35", some("17.07.", "28.11.", "23.09."), REMOVE),
    ("v36", some(202007, 201911, 202209, 202010, 202101), ASK),
    ("v37", some("1er février 2020", "3 août 2019", "12 de enero de 2021"), YEAR),
    ("v38", some("17072020", "28111999", "03092022"), YEAR),
    ("v39", some("janvier", "février", "juin"), ASK),
    ("v40", some("Mo", "Di", "Mi"), ASK),
    ("v41", some("lunes", "martes"), ASK),
    # what the name says and the cells do not show
    ("age", whole(200, 900), ASK),
    ("visit_date", whole(40000, 44000), ASK),
    ("month", whole(1, 12), ASK),
    ("hospital", some("A", "B", "C"), ASK),
    ("comments", some("fine", "ill", "better", "worse"), ASK),
    ("birthplace", some("here", "there", "elsewhere"), ASK),
    # names with other meanings, and forms that other codes have, are not removed without a question
    ("vin", some("rouge", "blanc", "rose"), ASK),
    ("vin", [f"1HGCM82633A00{n % 50:04d}" for n in range(ROWS)], REMOVE),
    ("portable_xray", some("yes", "no", "unknown"), ASK),
    ("serial_dilution", whole(1, 9), ASK),
    ("serial_no", whole(1, 90), REMOVE),
    ("ip_op", some("IP", "OP"), ASK),
    ("mbi", [n / 40 for n in range(ROWS)], ASK),
    ("fips", whole(1, 56), ASK),
    ("fips", whole(1001, 56045), REMOVE),
    ("lot", some("01-12345", "02-23456", "03-99999"), ASK),
    ("measurement", [f"0{n + 100} {n + 45678}" for n in range(ROWS)], ASK),
    ("software_version", [datetime.date(2020, 1 + n % 12, 10) for n in range(ROWS)], ASK),
]

HARMLESS = [
    ("sex", some("f", "m")),
    ("gender", some("female", "male", "other")),
    ("race", some("White", "Black", "Asian", "Brown", "Other")),
    ("ethnicity", some("Hispanic", "Non-Hispanic")),
    ("state", some("MA", "NY", "CA")),
    ("state_name", some("New York", "North Carolina", "West Virginia", "Texas")),
    ("state_fips", whole(1, 56)),
    ("country_of_birth", some("Italy", "Jordan", "Chad")),
    ("region", some("North", "South")),
    ("cholesterol", whole(110, 320)),
    ("bmi", [18 + n / 13 for n in range(ROWS)]),
    ("weight_kg", whole(38, 118)),
    ("height_cm", whole(140, 205)),
    ("diastolic", whole(38, 112)),
    ("systolic_bp", whole(85, 210)),
    ("heart_rate", whole(40, 120)),
    ("hours_per_week", whole(1, 99)),
    ("score", whole(0, 100)),
    ("exam_score_pct", whole(0, 100)),
    ("diagnosis_code", some("E11", "I10", "J45", "F32")),
    ("diagnosis", some("asthma", "type 2 diabetes", "major depression")),
    ("drug_name", some("aspirin", "metformin", "ibuprofen")),
    ("medication", some("Aspirin", "Metformin", "Ibuprofen")),
    ("number_of_visits", whole(0, 30)),
    ("num_of_addresses", whole(1, 9)),
    ("phone_calls_count", whole(0, 40)),
    ("length_of_stay_days", whole(0, 60)),
    ("days_in_hospital", whole(0, 60)),
    ("years_at_address", whole(0, 60)),
    ("months_since_diagnosis", whole(0, 90)),
    ("year_of_admission", whole(2005, 2020)),
    ("admission_year", whole(2005, 2020)),
    ("birth_year", whole(1940, 2005)),
    ("admission_type", some("emergency", "elective", "newborn")),
    ("discharge_status", some("home", "transfer", "deceased")),
    ("sex_at_birth", some("F", "M")),
    ("birth_weight", whole(1800, 4700)),
    ("ward", some("A", "B", "C")),
    ("page_views", whole(0, 5000)),
    ("amount_paid", [int(1.05**n) for n in range(ROWS)]),
    ("gestational_age_days", whole(200, 294)),
    ("age", whole(18, 89)),
    ("age_group", some("20-39", "40-59", "60-89", "90+")),
    ("age_top_coded", whole(18, 90)),
    ("age_band", some("child", "adult", "senior")),
    ("age_months", whole(0, 200)),
    ("phone", some(0, 1)),
    ("has_email", some("yes", "no")),
    ("member", some(True, False)),
    ("employed", some("yes", "no")),
    ("marital_status", some("Never Married", "Married", "Divorced", "Widowed")),
    ("education", some("High School", "Some College", "Bachelor Degree", "Doctorate")),
    ("education_num", whole(1, 16)),
    ("occupation", some("Sales", "Craft Repair", "Exec Managerial", "Tech Support")),
    ("workclass", some("Private", "Self-emp-not-inc", "Federal-gov")),
    ("income", whole(0, 250_000)),
    ("capital_gain", some(0, 0, 0, 7688, 99999)),
    ("zip3", some("021", "902", "100")),
    ("white_cells", whole(3, 12)),
    ("blood_type", some("A", "B", "AB", "0")),
    ("stage", some("I", "II", "III", "IV")),
    ("wage", [7.5 + n / 7 for n in range(ROWS)]),
    ("language", some("English", "Spanish", "German")),
    ("smoker", some("never", "former", "current")),
    ("tumor_size", whole(1, 90)),
    ("children", whole(0, 9)),
    ("household_size", whole(1, 9)),
    ("insurance_type", some("private", "public", "none")),
    ("mothers_education", some("primary", "secondary", "tertiary")),
    ("glucose", whole(55, 250)),
    ("velocity", [n / 3 for n in range(ROWS)]),
    ("percentage", whole(0, 100)),
    ("numero_de_hijos", whole(0, 60)),
    ("Gewicht", whole(38, 118)),
    ("Medikamentenname", some("Aspirin", "Metformin")),
    ("candidate", some("first", "second", "third")),
    ("specialty", some("general", "genetic", "marriage", "decision")),
    ("icd10", some("E11.9", "I10", "J45.909")),
    ("poids", whole(38, 118)),
    ("Puls", whole(38, 118)),
    ("steps", whole(0, 100)),
    ("triglycerides", whole(40, 110)),
    ("city_mpg", whole(8, 60)),
    ("species_name", some("setosa", "virginica", "versicolor")),
    ("team_name", some("red", "blue", "green")),
    ("generic_name", some("aspirin", "metformin", "ibuprofen")),
    ("name_of_drug", some("aspirin", "metformin", "ibuprofen")),
    ("nom_du_produit", some("un", "deux", "trois")),
    ("nombre_del_medicamento", some("uno", "dos", "tres")),
    ("urinary_tract_infection", some("yes", "no", "unknown")),
    ("street_drugs", some("yes", "no", "refused")),
    ("initial_diagnosis", some("influenza", "asthma", "none")),
    ("gene_signature", some("basal", "luminal", "other")),
    ("ward_round", whole(0, 5)),
    ("image_modality", some("CT", "MRI", "US")),
    ("email_frequency", some("weekly", "monthly", "never")),
    ("product_id", whole(1, 9)),
    ("region_id", some("r1", "r2", "r3")),
    ("nir", [n / 40 for n in range(ROWS)]),
    ("liquidate", some("first", "second", "third")),
]


def inspected(name, cells):
    return POLICY.inspect(pa.table({name: cells})).findings


@pytest.mark.parametrize(("name", "cells", "action"), FOUND, ids=[f"{row[0]}-{n}" for n, row in enumerate(FOUND)])
def test_an_identifier_is_removed_made_coarse_or_asked_about(name, cells, action):
    assert [found.action for found in inspected(name, cells)] == [action]


@pytest.mark.parametrize(("name", "cells"), HARMLESS, ids=[name for name, _ in HARMLESS])
def test_what_identifies_nobody_is_not_asked_about(name, cells):
    assert not inspected(name, cells)


def test_the_tables_are_long_enough_to_mean_something():
    assert len(FOUND) >= 60 and len(HARMLESS) >= 60


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("homePhone", "home_phone"),
        ("HOME-PHONE", "home_phone"),
        ("homephone2", "home_phone"),
        ("DOBDay", "dob_day"),
        ("zipcodeofresidence", "zip_code_of_residence"),
        ("prénoms", "prenom"),
        ("mothers", "mother"),
        ("ethnicity", "ethnicity"),  # no city
        ("postage", "postage"),  # no age
        ("stage", "stage"),
        ("address", "address"),
        ("days", "days"),  # a duration, unlike a day
        ("poids", "poids"),  # no plural
        ("steps", "steps"),
        ("accommodate", "accommodate"),  # no date
    ],
)
def test_a_name_is_read_as_words(name, words):
    assert divide_words(name) == words


def test_a_long_name_without_separators_is_read_at_once():
    started = time.perf_counter()
    for repeated in (6, 20, 2000):
        divide_words("dateofbirth" * repeated + "zz")
    assert time.perf_counter() - started < 5.0


def test_words_of_measures_are_found_as_they_are_written():
    for word in re.findall(r"[a-z]{3,}", f"{topics()['measures']}|{topics()['harmless']}"):
        assert divide_words(word) == word
