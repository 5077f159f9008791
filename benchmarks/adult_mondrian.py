"""Boxes on the task on which Mondrian of other packages was measured: UCI Adult, eight quasi-identifiers, k = 5.

The loss is the mean over cells of range ÷ domain for numbers and (values − 1) ÷ (values of the column − 1) for
categories. Adult is looked for in SFUMATO_DATA, or shared/data beside the repository.
"""

from __future__ import annotations

import csv
import os
import resource
import time
from pathlib import Path

import numpy as np

import sfumato as sf

NAMES = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"]
NAMES += ["race", "sex", "capital_gain", "capital_loss", "hours", "country", "salary"]
QUASI = ["age", "education", "marital_status", "occupation", "race", "sex", "hours", "country"]
NUMBERS = {"age", "hours"}


def adult() -> dict[str, list]:
    """Return the columns of the table."""
    folder = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    with (folder / "adult" / "adult.data").open(encoding="utf-8") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == len(NAMES)]
    columns = dict(zip(NAMES, zip(*rows, strict=True), strict=True))
    wanted = {name: list(columns[name]) for name in [*QUASI, "salary"]}
    return wanted | {name: [int(value) for value in wanted[name]] for name in NUMBERS}


def loss(release: sf.Release, original: dict[str, list]) -> float:
    """Return the mean loss of a cell."""
    shares = []
    for name in QUASI:
        if name in NUMBERS:
            width = release.table.numbers(f"{name}_high") - release.table.numbers(f"{name}_low")
            shares.append(float(np.mean(width)) / (max(original[name]) - min(original[name])))
        else:
            sets = release.table.arrow.column(name).to_pylist()
            covered = np.mean([value.count("|") for value in sets])
            shares.append(float(covered) / (len(set(original[name])) - 1))
    return float(np.mean(shares))


def main() -> None:
    """Print seconds, groups and loss of a release that is verified."""
    table = adult()
    roles = dict.fromkeys(QUASI, "quasi") | {"salary": "other"}
    sf.Boxes(k=5).release({name: values[:500] for name, values in table.items()}, schema=roles)  # compiles
    begun, processor = time.perf_counter(), time.process_time()
    release = sf.Boxes(k=5, set_names=None).release(table, schema=roles)
    print(f"{time.perf_counter() - begun:.2f} s, {time.process_time() - processor:.2f} s of processor, verified")
    print(release.findings[0].claim, "–", release.findings[0].found, f"loss {loss(release, table):.4f}")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
