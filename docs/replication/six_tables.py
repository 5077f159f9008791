"""Write six-tables.md: from the first recommendation to a release that passes its privacy tests, on six tables.

python docs/replication/six_tables.py [FOLDER] [--rows N] [--only NAME]

The folder contains ``nhanes/``, ``adult/``, ``cps/`` and ``nist/``. By default it is SFUMATO_DATA, or shared/data next
to the repository. Without it the page is not changed. ``--only`` prints the result of one table and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

import sfumato as sf
from sfumato.job.demo_table import ROLES, diabetes_patients
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.table import Table

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = Path(__file__).with_name("six-tables.md")
ROWS, HOLDOUT, IMPROVEMENTS, SEED = 2000, 0.5, 2, 1
SECONDS = 3600.0  # for all changes, also on a busy machine
ADULT = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]
NHANES = [
    "age",
    "gender",
    "race",
    "marital",
    "education",
    "birth_country",
    "hiv",
    "street_drugs_ever",
    "wbc",
    "hemoglobin",
    "mcv",
    "platelets",
    "albumin",
    "alt",
    "ast",
    "bun",
    "cholesterol",
    "glucose",
    "triglycerides",
    "uric_acid",
    "creatinine",
]
CPS = [
    "age_head",
    "age_spouse",
    "MARS",
    "XTOT",
    "fips",
    "nu18",
    "n1820",
    "n21",
    "e00200",
    "e00300",
    "e00600",
    "e01500",
    "e02400",
    "s006",
]


@dataclass(frozen=True)
class Ending:
    """How it went with one table."""

    name: str
    rows: int
    columns: int
    recommended: str  # what was recommended first
    first: str  # what its tests found on people who were drawn anew
    improvements: tuple[str, ...]
    passed: bool
    sentence: str
    seconds: float


def demo(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return the 442 diabetes patients of the demo with their roles."""
    return diabetes_patients(), Schema.of(ROLES)


def nhanes(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return adults of NHANES: who they are, two sensitive answers and 13 laboratory values."""
    people = pd.read_csv(folder / "nhanes" / "nhanes_complete.csv.gz")
    return _sample(people[[name for name in NHANES if name in people]], rows), Schema.of(None)


def adult(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return people of the Adult table."""
    file = folder / "adult" / "adult.data"
    return _sample(pd.read_csv(file, header=None, names=ADULT, skipinitialspace=True), rows), Schema.of(None)


def cps(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return tax units of the Current Population Survey: people, state, six amounts and the weight."""
    units = pd.read_parquet(folder / "cps" / "cps_tax_units.parquet")
    return _sample(units[[name for name in CPS if name in units]], rows), Schema.of(None)


def nist(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return people of NIST's excerpt of the American Community Survey."""
    return _sample(pd.read_csv(folder / "nist" / "national2019.csv"), rows), Schema.of(None)


def messy(folder: Path, rows: int) -> tuple[Table, Schema]:
    """Return the made-up export of a hospital, with everything that is wrong with real ones."""
    sys.path.insert(0, str(REPOSITORY))
    from tests.messy_hospital import hospital_columns, write_hospital

    with tempfile.TemporaryDirectory() as place:
        return sf.read(write_hospital(Path(place) / "patients.csv", hospital_columns(rows=rows))), Schema.of(None)


TABLES: dict[str, Callable[[Path, int], tuple[Table, Schema]]] = {
    "demo": demo,
    "NHANES": nhanes,
    "Adult": adult,
    "CPS": cps,
    "NIST": nist,
    "messy export": messy,
}


def _sample(people: pd.DataFrame, rows: int) -> Table:
    return as_table(people.sample(min(rows, len(people)), random_state=SEED).reset_index(drop=True))


def follow(name: str, table: Table, schema: Schema) -> Ending:
    """Follow the first recommendation, and then at most two offered improvements."""
    started = time.monotonic()
    found = sf.recommend(table, schema=schema, seconds=SECONDS)
    told = f"{found.method}, {', '.join(f'{one} = {value}' for one, value in found.options.items())}".rstrip(", ")
    told += f", with {', '.join(found.roles)} protected too" if found.roles else ""
    roles = schema.with_roles({one: Role(role) for one, role in found.roles.items()})
    made = sf.release_and_assess(
        found.to_method(), table, holdout=HOLDOUT, schema=roles, seed=SEED, rows_not_people=True
    )
    release, first = made.release, made.assessment.is_private
    changes: list[str] = []
    sentence, passed = "passes its privacy tests on people who were drawn anew", first is True
    for _ in range(IMPROVEMENTS):
        if passed:
            break
        better = sf.improve(release, table, schema=roles, seed=SEED, rows_not_people=True)
        changes.append(better.verdict)
        sentence = better.verdict
        if better.release is None:
            break
        release, passed = better.release, bool(better.release.assessment and better.release.assessment.is_private)
    failed = [score.name for score in made.assessment.failed if score.family == "privacy"]
    said = "passed" if first else f"failed: {'; '.join(failed)}"
    said += "" if found.passed else " (nothing was recommended: this is what was chosen first)"
    size = (table.rows, len(table.names))
    return Ending(name, *size, told, said, tuple(changes), passed, sentence, time.monotonic() - started)


def page(endings: list[Ending], rows: int) -> str:
    """Return the page."""
    lines = [
        "# From failed to released, on six tables",
        "",
        "Written by `docs/replication/six_tables.py`; do not edit by hand.",
        "",
        f"Each table ({rows:,} random rows at most) was given to `sf.recommend` with the roles that are suggested.",
        "What it recommended was released and attacked, with half of the people held out, who were drawn anew. If a",
        "privacy test failed, `sf.improve` was asked, at most twice. It ends in a release that passes, or in the",
        "sentence that none was found and why.",
        "",
        "| table | rows | columns | first recommendation | its privacy tests | improvements | ends |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in endings:
        ends = "passed" if one.passed else one.sentence
        steps = "; ".join(one.improvements) or "none needed"
        cells = (one.name, f"{one.rows:,}", one.columns, one.recommended, one.first, steps, ends)
        lines.append(f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |")
    passed = sum(one.passed for one in endings)
    lines += ["", f"{passed} of {len(endings)} tables end in a release that passes.", ""]
    return "\n".join(lines)


def main() -> None:
    """Run all tables and write the page, or one and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default=os.environ.get("SFUMATO_DATA"))
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--only", choices=list(TABLES))
    given = parser.parse_args()
    folder = Path(given.folder) if given.folder else REPOSITORY.parent / "shared" / "data"
    if not (folder / "nist").is_dir() and given.only not in ("demo", "messy export"):
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
        return
    warnings.simplefilter("ignore")
    endings = []
    for name, read in TABLES.items():
        if given.only in (None, name):
            endings.append(follow(name, *read(folder, given.rows)))
            print(endings[-1], flush=True)
    if given.only is None:
        PAGE.write_text(page(endings, given.rows), encoding="utf-8")


if __name__ == "__main__":
    main()
