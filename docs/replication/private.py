"""Write private.md: intervals of kept statistics at ε = 1 beside those of plain boxes, on Adult and NHANES.

    python docs/replication/private.py [folder of the real tables]

The folder contains ``adult/`` and ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository.
Without the tables the page is not changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from boxes import adult
from sfumato.release.release import Release
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.table.table import Table
from spectral import folder

PAGE = Path(__file__).with_suffix(".md")
EPSILONS = (0.5, 1.0, 4.0)
RUNS = 5  # releases whose widths the median is taken of


@dataclass(frozen=True)
class Study:
    """A table, the declared domains of its columns, and the statistics to keep."""

    name: str
    table: Table
    domains: Mapping[str, tuple[float, float]]
    keep: tuple[str, ...]

    def truth(self, text: str) -> float:
        """Return the statistic of the original."""
        part = parse(text).parts()[-1]
        return part.value(Moments.of(self.table.matrix(part.columns)))


def studies(data: Path) -> list[Study]:
    """Return the tables, of complete rows."""
    census = adult(data)
    ages = {"age": (0.0, 120.0), "education_num": (0.0, 20.0), "hours": (0.0, 100.0)}
    whole = sf.read(data / "nhanes" / "nhanes_complete.csv.gz")
    blood = {"hemoglobin": (5.0, 20.0), "albumin": (1.0, 6.0), "cholesterol": (50.0, 450.0), "uric_acid": (0.0, 15.0)}
    return [
        Study(
            "Adult",
            _columns(census, ages),
            ages,
            ("mean(age)", "mean(hours)", "corr(age, hours)", "regress(hours ~ education_num): education_num"),
        ),
        Study(
            "NHANES",
            _columns(whole, blood),
            blood,
            (
                "mean(hemoglobin)",
                "mean(cholesterol)",
                "corr(hemoglobin, albumin)",
                "regress(uric_acid ~ hemoglobin): hemoglobin",
            ),
        ),
    ]


def _columns(table: Table, domains: Mapping[str, tuple[float, float]]) -> Table:
    """Return the columns of numbers, moved into their domains."""
    return Table.from_arrow(pa.table({name: np.clip(table.numbers(name), *ends) for name, ends in domains.items()}))


def widths(release: Release, study: Study) -> list[float]:
    """Return the widths of the kept statistics."""
    found = [release.estimate(text) for text in study.keep]
    return [float(one.high - one.low) for one in found]


def measure(study: Study) -> list[str]:
    """Return the lines of the table of one study."""
    boxes = dict.fromkeys(study.domains, "quasi")
    private = {name: {"role": "quasi", "domain": list(ends)} for name, ends in study.domains.items()}
    columns: dict[str, list[float]] = {}
    for k in (5, 50):
        release = sf.Boxes(k=k, keep=list(study.keep)).release(study.table, schema=boxes)
        columns[f"boxes, k = {k}"] = widths(release, study)
    for epsilon in EPSILONS:
        method = sf.PrivateBoxes(epsilon=epsilon, delta=1e-6, keep=list(study.keep))
        runs = [widths(method.release(study.table, schema=private), study) for _ in range(RUNS)]
        columns[f"ε = {epsilon:g}"] = list(np.median(runs, axis=0))
    lines = [f"## {study.name}, {study.table.rows:,} rows", "", f"| statistic | value | {' | '.join(columns)} |"]
    lines += ["|---|" + "---|" * (1 + len(columns))]
    for place, text in enumerate(study.keep):
        cells = " | ".join(f"{own[place]:.3g}" for own in columns.values())
        lines.append(f"| `{text}` | {study.truth(text):.4g} | {cells} |")
    return [*lines, ""]


HEAD = """\
# What a proof costs

Widths of the intervals of kept statistics: certain ones of `Boxes`, and those of `PrivateBoxes`, which hold with
probability 0.95, at δ = 10⁻⁶ (median of {runs} releases). Written by `python docs/replication/private.py`.

Noise does not grow with the table: the larger it is, the less a proof costs. Domains were declared
without looking at the tables: ages from 0 to 120, hours from 0 to 100.

"""


def main() -> None:
    data = folder()
    if data is None:
        print("no tables: private.md is not changed")
        return
    warnings.simplefilter("ignore", sf.SfumatoWarning)
    lines = [line for study in studies(data) for line in measure(study)]
    PAGE.write_text(HEAD.format(runs=RUNS) + "\n".join(lines))


if __name__ == "__main__":
    main()
