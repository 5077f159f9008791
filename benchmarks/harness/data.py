"""Where the real tables are, and how they are read with the standard library alone."""

from __future__ import annotations

import csv
import os
from pathlib import Path

ADULT = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"]
ADULT += ["race", "sex", "capital_gain", "capital_loss", "hours", "country", "salary"]


def data(*parts: str) -> Path:
    """Return a file of the data folder: SFUMATO_DATA, or shared/data beside the repository."""
    folder = os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
    path = Path(folder).joinpath(*parts)
    if not path.exists():
        raise SystemExit(f"{'/'.join(parts)} is not in SFUMATO_DATA")
    return path


def read_rows(path: Path, delimiter: str = ",") -> tuple[list[str], list[list[str]]]:
    """Return the names and the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file, delimiter=delimiter)
    return names, rows


def write_rows(path: Path, names: list[str], rows: list[list[str]]) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def adult(columns: list[str]) -> list[list[str]]:
    """Return the rows of UCI's Adult table, with these columns."""
    with data("adult", "adult.data").open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == len(ADULT)]
    places = [ADULT.index(name) for name in columns]
    return [[row[place] for place in places] for row in rows]
