"""A table as hospitals export them, made up: nobody in it exists. It is messy in every way that real ones are.

Semicolons, Windows-1252 umlauts, German dates, decimal commas, points between thousands, marks of missing values in
several spellings, codes with leading zeros, a sex that was typed by hand, and a remark that names the patient.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import numpy as np

ROWS = 2000
PLANTED = "Kanarienvögel"  # the surname of one patient, who is named in the remark
PLANTED_NUMBER, PLANTED_COST = "2023771177", 71177.25  # and whose record number and bill nobody else has
SURNAMES = [
    "Müller",
    "Schäfer",
    "Weiß",
    "Köhler",
    "Schröder",
    "Krüger",
    "Böhm",
    "Günther",
    "Jäger",
    "Möller",
    "Groß",
    "Strauß",
    "Yildiz",
    "Öztürk",
    "Nowak",
]
GIVEN = [
    "Jürgen",
    "Käthe",
    "Björn",
    "Sören",
    "Annegret",
    "Zoë",
    "Hüseyin",
    "Renate",
    "Günter",
    "Lucia",
    "Ayse",
    "Hannelore",
    "Uwe",
    "Jörg",
    "Silke",
]
SEXES = {"m": ("m", "M", "männlich"), "w": ("w", "W", "weiblich")}
MISSING = ("n/a", "k.A.", "", "-", "unbekannt")
# category of the diagnosis, share of the patients, mean age, mean of HbA1c, mean stay
DIAGNOSES = (
    ("E11", 0.16, 66, 7.9, 6),
    ("E14", 0.08, 68, 8.4, 8),
    ("E10", 0.04, 38, 8.1, 5),
    ("I10", 0.14, 69, 5.9, 4),
    ("I21", 0.09, 67, 6.1, 9),
    ("I50", 0.10, 77, 6.2, 11),
    ("J44", 0.09, 71, 5.8, 9),
    ("J18", 0.08, 70, 5.7, 8),
    ("K35", 0.07, 34, 5.4, 4),
    ("S72", 0.09, 82, 5.7, 13),
    ("C50", 0.06, 61, 5.6, 6),
)


def hospital_columns(seed: int = 14, rows: int = ROWS) -> dict[str, list[object]]:
    """Return the true values by column: texts, dates, numbers, and None where one is missing."""
    numbers = np.random.default_rng(seed)
    shares = np.array([share for _, share, *_ in DIAGNOSES])
    picked = numbers.choice(len(DIAGNOSES), rows, p=shares / shares.sum())
    age = np.clip(np.round(numbers.normal([DIAGNOSES[one][2] for one in picked], 11.0)), 18, 98).astype(int)
    hba1c = np.round(np.clip(numbers.normal([DIAGNOSES[one][3] for one in picked], 0.6), 4.2, 14.0), 1)
    creatinine = np.round(np.exp(numbers.normal(-0.35 + 0.008 * age, 0.22)), 2)
    stay = np.maximum(1, numbers.poisson([DIAGNOSES[one][4] for one in picked] + (age - 60) / 15.0)).astype(int)
    cost = np.round(900.0 + 640.0 * stay * np.exp(numbers.normal(0.0, 0.25, rows)), 2)
    admitted = [date(2023, 1, 1) + timedelta(days=int(day)) for day in numbers.integers(0, 365, rows)]
    born = [
        day - timedelta(days=int(365.25 * years) + int(numbers.integers(0, 365)))
        for day, years in zip(admitted, age, strict=True)
    ]
    surname, given = numbers.choice(SURNAMES, rows).tolist(), numbers.choice(GIVEN, rows).tolist()
    record = [f"2023{number:06d}" for number in numbers.permutation(700_000)[:rows]]
    surname[7], record[7], cost[7] = PLANTED, PLANTED_NUMBER, PLANTED_COST
    towns = [f"{region}{place:02d}" for region in ("010", "011", "041", "091", "120") for place in range(1, 85, 7)]
    details = numbers.choice(["0", "1", "4", "9"], rows, p=[0.2, 0.2, 0.1, 0.5])
    return {
        "Nachname": surname,
        "Vorname": given,
        "Fallnummer": record,
        "Geburtsdatum": born,
        "Geschlecht": numbers.choice(["m", "w"], rows).tolist(),
        "PLZ": numbers.choice(towns, rows).tolist(),
        "Alter": age.tolist(),
        "Aufnahme": admitted,
        "Entlassung": [day + timedelta(days=int(days)) for day, days in zip(admitted, stay, strict=True)],
        "Verweildauer": stay.tolist(),
        "ICD10": [f"{DIAGNOSES[one][0]}.{detail}" for one, detail in zip(picked, details, strict=True)],
        "HbA1c": [
            None if lost else value for value, lost in zip(hba1c.tolist(), numbers.random(rows) < 0.06, strict=True)
        ],
        "Kreatinin": [
            None if lost else value
            for value, lost in zip(creatinine.tolist(), numbers.random(rows) < 0.04, strict=True)
        ],
        "Kosten": cost.tolist(),
        "Bemerkung": [_remark(one, two, numbers) for one, two in zip(surname, given, strict=True)],
    }


def write_hospital(path: Path, columns: Mapping[str, list[object]], seed: int = 15) -> Path:
    """Write the columns as a hospital would: nothing is written in one way only."""
    numbers = np.random.default_rng(seed)
    lines = [";".join(columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append(";".join(_written(name, value, numbers) for name, value in zip(columns, row, strict=True)))
    path.write_bytes("\r\n".join(lines).encode("cp1252", errors="replace") + b"\r\n")
    return path


def _with_gaps(values: np.ndarray, share: float, numbers: np.random.Generator) -> list[object]:
    lost = numbers.random(len(values)) < share
    return [None if gap else value for value, gap in zip(values.tolist(), lost, strict=True)]


def _remark(surname: str, given: str, numbers: np.random.Generator) -> str:
    said = numbers.choice(
        [
            f"Pat. {surname} kommt in Begleitung; Rückruf an {given}",
            f"Frau/Herr {surname} wünscht Verlegung, Ehepartner {given} informiert",
            "unauffälliger Verlauf",
            "Entlassung in gutem Allgemeinzustand",
            f"{given} {surname}: Allergie gegen Penicillin, s. Akte {numbers.integers(1000, 9999)}",
        ]
    )
    return f'"{said}"' if ";" in said else str(said)


def _written(name: str, value: object, numbers: np.random.Generator) -> str:
    if value is None:
        return str(numbers.choice(MISSING))
    if isinstance(value, date):
        return value.strftime("%d.%m.%Y")
    if name == "Geschlecht":
        return str(numbers.choice(SEXES[str(value)], p=[0.7, 0.2, 0.1]))
    if name == "Kosten":
        return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
    return str(value).replace(".", ",") if isinstance(value, float) else str(value)
