"""Write ``patients.csv``, the table of the tutorials: 1,000 invented patients, none of whom exists."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS = 1_000
FIRST = [
    "Ada",
    "Ben",
    "Clara",
    "David",
    "Emma",
    "Felix",
    "Greta",
    "Hugo",
    "Ida",
    "Jonas",
    "Klara",
    "Leo",
    "Mia",
    "Noah",
    "Olga",
    "Paul",
    "Rosa",
    "Sam",
    "Tina",
    "Victor",
]
LAST = [
    "Albers",
    "Baumann",
    "Cordes",
    "Dietz",
    "Engel",
    "Fischer",
    "Graf",
    "Hartmann",
    "Jansen",
    "Keller",
    "Lorenz",
    "Maurer",
    "Nowak",
    "Otto",
    "Peters",
    "Roth",
]
ZIPS = ["10115", "10117", "10119", "10435", "10437", "20095", "20097", "20099", "80331", "80333"]
DIAGNOSES = ["hypertension", "diabetes", "asthma", "angina", "migraine", "fracture"]


def patients() -> list[dict[str, object]]:
    """Return the rows. Blood pressure grows with age and BMI, and so do diagnoses and cost."""
    random = np.random.default_rng(20_260_701)
    rows = []
    for number in range(ROWS):
        age = int(np.clip(random.normal(54, 17), 18, 96))
        sex = str(random.choice(["f", "m"]))
        bmi = float(np.clip(random.normal(25.5 + 0.03 * (age - 54), 4.2), 15, 48))
        pressure = round(float(random.normal(124 + 0.45 * (age - 54) + 1.5 * (bmi - 25.5), 11)))
        chances = np.array([max(pressure - 105, 4), max(bmi - 17, 2) * 2, 14, max(age - 30, 2) / 2, 14, 10])
        diagnosis = str(random.choice(DIAGNOSES, p=chances / chances.sum()))
        stay = 1 + int(random.poisson(2 + age / 30))
        cost = round(float(600 + 780 * stay + 9 * age + random.gamma(2.0, 260)), 2)
        rows.append(
            {
                "patient_id": 100_000 + 7 * number + int(random.integers(7)),
                "name": f"{random.choice(FIRST)} {random.choice(LAST)}",
                "age": age,
                "sex": sex,
                "zip": str(random.choice(ZIPS, p=np.arange(10, 0, -1) / 55)),
                "bmi": round(bmi, 1),
                "blood_pressure": pressure,
                "diagnosis": diagnosis,
                "stay_days": stay,
                "cost": cost,
            }
        )
    return rows


if __name__ == "__main__":
    table = patients()
    with (Path(__file__).parent / "patients.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, table[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)
