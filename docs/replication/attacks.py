"""Write attacks.md: attacks that know how a release was made, on real tables.

    python docs/replication/attacks.py [folder of the real tables]

The folder contains ``adult/`` and ``nhanes/``. By default it is SFUMATO_DATA, or shared/data next to the repository.
Without the tables the page is not changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.base import Method
from sfumato.randomness import Randomness
from sfumato.release.assessment import Assessment
from sfumato.release.release import Release
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table

PAGE = Path(__file__).with_suffix(".md")
ROWS, SEED = 2000, 11
LABORATORY = (
    *("wbc", "hemoglobin", "mcv", "platelets", "albumin", "alt", "ast", "bun", "cholesterol", "glucose"),
    *("triglycerides", "uric_acid", "creatinine"),
)
ADULT = {
    "workclass": 1,
    "education": 3,
    "marital": 5,
    "occupation": 6,
    "relationship": 7,
    "race": 8,
    "sex": 9,
}  # positions of these columns in adult.data

LEARNT = """\
**Learnt:** an intruder who knows the options of a method, or that its columns were grouped one by one, mostly finds
more people than one who only looks for near rows, and isolation and predicted cells tell less than matches do.
"""

HEAD = """# Attacks that know how a release was made

Written by `docs/replication/attacks.py`; do not edit by hand. The attacks are explained in
[theory](../theory/attacks.md). {rows:,} people of each table are released, and {rows:,} others never took part. Rates
are shares of people; "known mechanism" is the likelihood ratio of an intruder who reads the manifest, "nearest" the
best of the distance matchers (several intruders), "belief" the mean posterior probability of the true row.
"""


def folder() -> Path | None:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SFUMATO_DATA")
    found = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return found if found.is_dir() else None


def halves(table: Table) -> tuple[Table, Table]:
    """Return the people who are released and others who are not."""
    order = np.random.default_rng(SEED).permutation(table.rows)
    return table.take(order[:ROWS]), table.take(order[ROWS : 2 * ROWS])


def nhanes(data: Path) -> tuple[Table, Table]:
    whole = sf.read(data / "nhanes" / "nhanes_complete.csv.gz")
    return halves(Table.from_arrow(pa.table({name: np.log(whole.numbers(name)) for name in LABORATORY})))


def adult(data: Path) -> tuple[Table, Table]:
    whole = sf.read(data / "adult" / "adult.data")
    named = {name: whole.arrow.column(whole.names[place]) for name, place in ADULT.items()}
    return halves(Table.from_arrow(pa.table(named)))


def attacked(
    method: Method,
    people: Table,
    others: Table,
    measures: Sequence[str],
    knows: Mapping[str, float] | None = None,
) -> Assessment:
    """Release people while the origin of rows is known, and attack the release."""
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in people.names))
    made = method.plan(MemorySurvey(people), schema, Randomness(SEED)).transform(people, 0)
    manifest = method.release(people, schema=schema, seed=SEED).manifest  # tells what the intruder reads
    release = Release(made.released, manifest)
    return sf.assess(people, release, others, origin=made.origin, measures=measures, knows=knows, seed=SEED)


def page_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def percent(value: float) -> str:
    return f"{value:.1%}".replace("%", " %")


def matches(method: Method, name: str, people: Table, others: Table) -> list[str]:
    found = attacked(method, people, others, ["linkage", "fellegi-sunter", "known-mechanism", "isolation"])
    names = ("correct nearest matches", "correct Fellegi–Sunter links", "correct matches by the known mechanism")
    isolated = found["isolation"]
    note = isolated.note.rpartition("success rate ")[2].replace("%", " %")
    return [
        name,
        *(percent(found[one].value) for one in names),
        f"{found['probability of the true row, mean'].value:.2f}",
        f"{isolated.value:.2f} ({note})",
    ]


def matched(people: Table, others: Table, methods: Mapping[str, Method]) -> str:
    heads = ["release", "nearest", "Fellegi–Sunter", "known mechanism", "belief", "isolation, risk"]
    return page_table(heads, [matches(method, name, people, others) for name, method in methods.items()])


def stripped(people: Table, others: Table) -> str:
    """Columns that were microaggregated one by one."""
    rows = []
    for kind, k, width in [("each-column", k, width) for k in (5, 25) for width in (2, 4, 8, 13)] + [
        ("optimal-1d", 5, 13)
    ]:
        known, outside = (table.select(LABORATORY[:width]) for table in (people, others))
        found = attacked(sf.Microaggregate(k=k, kind=kind), known, outside, ["columnwise-groups", "noise-stripping"])
        score = found["people re-identified from columnwise groups"]
        left = score.note.partition("their own; ")[2].partition(" rows")[0]
        control = score.note.rpartition("is left of ")[2].partition(" of people")[0].replace("%", " %")
        svd = next((one.value for one in found.scores if one.name == "noise stripped by SVD"), 0.0)
        rows.append([kind, str(k), str(width), percent(score.value), left, control, percent(svd)])
    heads = ["kind", "k", "columns", "re-identified", "rows left, median", "one row left, outsiders", "stripped by SVD"]
    return page_table(heads, rows)


def predicted(people: Table, others: Table) -> str:
    rows = []
    for name, method in {
        "Suppress(k=3)": sf.Suppress(k=3, search=10.0),
        "Suppress(k=10)": sf.Suppress(k=10, search=10.0),
        'Suppress(k=10, kind="random")': sf.Suppress(k=10, kind="random", search=10.0),
    }.items():
        found = attacked(method, people, others, ["imputation", "suppression"])
        score = found["suppressed cells predicted"]
        usual, _, outside = score.note.partition("their rows; ")[2].partition(" by the most frequent value, ")
        usual, outside = (one.replace("%", " %") for one in (usual, outside.partition(" of the")[0]))
        rebuilt = percent(found["suppressed cells reconstructed"].value)
        rows.append([name, f"{score.rows:,}", percent(score.value), usual, outside, f"{score.gain:.2f}", rebuilt])
    heads = ["release", "cells", "predicted", "most frequent value", "outsiders", "gain", "reconstructed"]
    return page_table(heads, rows)


def coarser(people: Table, others: Table) -> str:
    rows = []
    for width in (0.0, 0.25, 0.5, 1.0, 2.0):
        knows = {name: width * float(people.numbers(name).std()) for name in people.names} if width else None
        found = attacked(sf.Noise(level=0.1), people, others, ["fellegi-sunter", "singling-out"], knows)
        names = ("correct Fellegi–Sunter links", "singling out")
        rows.append([f"{width:g}" if width else "exactly", *(percent(found[one].value) for one in names)])
    return page_table(["numbers known to, in standard deviations", "Fellegi–Sunter", "singling out, risk"], rows)


def write(data: Path) -> str:
    people, others = nhanes(data)
    noisy: dict[str, Method] = {f"Noise(level={b:g})": sf.Noise(level=b) for b in (0.1, 0.5, 1.0)}
    noisy |= {f'Noise(level={b:g}, kind="uncorrelated")': sf.Noise(level=b, kind="uncorrelated") for b in (0.5, 1.0)}
    noisy['Noise(level=0.5, kind="normal-scores")'] = sf.Noise(level=0.5, kind="normal-scores")
    noisy |= {f"Swap(window={w:g})": sf.Swap(window=w) for w in (0.05, 0.1, 0.2, 0.4)}
    parts = [HEAD.format(rows=ROWS), "## Matches and isolation, NHANES\n"]
    parts += [f"{len(LABORATORY)} laboratory values, as logarithms.\n", matched(people, others, noisy)]
    parts += ["## Columns grouped one by one, NHANES\n", stripped(people, others)]
    parts += [
        "## What is known less precisely, NHANES\n",
        "`Noise(level=0.1)`, with `knows=`.\n",
        coarser(people, others),
    ]
    people, others = adult(data)
    changed: dict[str, Method] = {f"Pram(keep={keep:g})": sf.Pram(keep=keep) for keep in (0.95, 0.8, 0.6, 0.4)}
    parts += ["## Changed categories, Adult\n", f"{len(ADULT)} categories.\n", matched(people, others, changed)]
    parts += ["## Predicted cells, Adult\n", predicted(people, others), LEARNT]
    return "\n".join(parts)


if __name__ == "__main__":
    found = folder()
    if found is None:
        print(f"{PAGE.name} is not changed: set SFUMATO_DATA to the folder of the real tables")
    else:
        PAGE.write_text(write(found), encoding="utf-8")
        print(f"{PAGE.name} is written")
