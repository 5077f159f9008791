"""Write boxes.md: boxes compared with Mondrian on real tables.

    python docs/replication/boxes.py [folder of the real tables]

The folder contains ``adult/``, ``nhanes/`` and ``arx/``. By default it is SFUMATO_DATA, or shared/data next to the
repository. Without the tables the page is not changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.schema.hierarchies import Tree
from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.language import parse
from sfumato.table.intervals import parse_set
from sfumato.table.table import Table

PAGE = Path(__file__).with_suffix(".md")
K = 5
ADULT = ["age", "education_num", "hours", "fnlwgt", "capital_gain", "capital_loss"]
ADULT_PLACES = [0, 4, 12, 2, 10, 11]  # positions of these columns in adult.data
LABORATORY = [
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


def folder() -> Path | None:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SFUMATO_DATA")
    found = Path(given) if given else Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return found if found.is_dir() else None


def frame(columns: dict[str, np.ndarray]) -> Table:
    return Table.from_arrow(pa.table(columns))


def adult(data: Path) -> Table:
    whole = sf.read(data / "adult" / "adult.data")
    return frame({name: whole.numbers(whole.names[place]) for name, place in zip(ADULT, ADULT_PLACES, strict=True)})


def nhanes(data: Path) -> Table:
    whole = sf.read(data / "nhanes" / "nhanes_complete.csv.gz")
    return frame({name: np.log(whole.numbers(name)) for name in LABORATORY})


def strict_mondrian(values: np.ndarray, k: int) -> np.ndarray:
    """Group by LeFevre's strict Mondrian: widest normalised range first, cut at the median, equal values together."""
    span = np.ptp(values, axis=0)
    labels, pending, groups = np.empty(len(values), dtype=np.int64), [np.arange(len(values))], 0
    while pending:
        rows = pending.pop()
        for axis in np.argsort(-np.ptp(values[rows], axis=0) / span):
            column = values[rows, axis]
            sides = [
                side
                for side in (column <= np.median(column), column < np.median(column))
                if min(side.sum(), (~side).sum()) >= k
            ]
            if sides and np.ptp(column) > 0:
                pending += [rows[sides[0]], rows[~sides[0]]]
                break
        else:
            labels[rows], groups = groups, groups + 1
    return labels


def as_release(table: Table, labels: np.ndarray) -> sf.Release:
    """Return the hulls of the groups as a release."""
    columns = {}
    for name in table.names:
        numbers = table.numbers(name)
        low, high = np.full(labels.max() + 1, np.inf), np.full(labels.max() + 1, -np.inf)
        np.minimum.at(low, labels, numbers)
        np.maximum.at(high, labels, numbers)
        columns[f"{name}_low"], columns[f"{name}_high"] = low[labels], high[labels]
    return sf.Release(frame(columns))


def linear_widths(release: sf.Release, keep: Sequence[str]) -> np.ndarray:
    """Return twice the longer side of each interval: a wide interval of a correlation is cut off at −1 or 1."""
    estimates = [release.estimate(text, budget=EstimateBudget(gap=1.0)) for text in keep]
    return np.array([2.0 * max(one.linear_high - one.value, one.value - one.linear_low) for one in estimates])


def column_widths(release: sf.Release, names: Sequence[str]) -> np.ndarray:
    return np.array([(release.table.numbers(f"{n}_high") - release.table.numbers(f"{n}_low")).mean() for n in names])


def against_mondrian(title: str, table: Table, keep: list[str]) -> list[str]:
    others = [name for name in table.names if not any(name in parse(text).columns for text in keep)]
    ours = sf.Boxes(k=K, keep=keep).release(table, seed=1)
    relaxed = sf.Boxes(k=K, keep=keep, cut="median").release(table, seed=1)
    strict = as_release(table, strict_mondrian(table.matrix(table.names), K))
    rows = [
        f"### {title}: {table.rows:,} rows, {len(table.names)} quasi-identifiers, k = {K}",
        "",
        "| | " + " | ".join(f"`{text}`" for text in keep) + " | mean | columns not kept |",
        "|---|" + "---:|" * (len(keep) + 2),
    ]
    for name, baseline in (('÷ Mondrian, as `cut="median"`', relaxed), ("÷ strict Mondrian", strict)):
        ratios = linear_widths(ours, keep) / linear_widths(baseline, keep)
        span = np.ptp(table.matrix(others), axis=0)
        rest = (column_widths(ours, others) / span).mean() / (column_widths(baseline, others) / span).mean()
        rows.append(
            f"| {name} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + f" | {ratios.mean():.3f} | {rest:.2f} |"
        )
    rows += ["", *(f"- {finding.claim}: {finding.found}" for finding in ours.findings[:1]), ""]
    return rows


def granularity(original: Table, released: Table, below: dict[str, dict[str, int]] | None = None) -> float:
    """Return 1 − (mean cell share − mean smallest share) ÷ (1 − mean smallest share), shares of the column's values."""
    shares, least = [], []
    for name in original.names:
        values = original.coded(name).values.to_pylist()
        least.append(1 / len(values))
        if f"{name}_low" in released.kinds:
            low, high = released.numbers(f"{name}_low"), released.numbers(f"{name}_high")
            covered = np.searchsorted(values, high, "right") - np.searchsorted(values, low, "left")
        else:
            coded = released.coded(name)
            labels = coded.values.to_pylist()
            sizes = [below[name][label] if below else len(parse_set(label)) for label in labels]
            covered = np.array(sizes)[coded.codes]
        shares.append((covered / len(values)).mean())
    return 1 - (np.mean(shares) - np.mean(least)) / (1 - np.mean(least))


def leaves_below(path: Path, values: set[str]) -> dict[str, int]:
    """Return the number of values of the column below each node of a tree."""
    tree, below = Tree.read(path), {}
    for level in range(tree.levels):
        nodes: dict[str, int] = {}
        for value, node in tree.level(level).items():
            nodes[node] = nodes.get(node, 0) + (value in values)
        for node, count in nodes.items():
            below.setdefault(node, count)
    return below


def sets_and_nodes(data: Path) -> list[str]:
    table = sf.read(data / "arx" / "adult.csv")
    start = time.perf_counter()
    sets = sf.Boxes(k=K).release(table, seed=1)
    seconds = time.perf_counter() - start
    categorical = [name for name in table.names if not table.kinds[name].is_numeric]
    files = {name: data / "arx" / f"adult_hierarchy_{name}.csv" for name in categorical}
    schema = {name: {"role": "quasi", "tree": str(path)} for name, path in files.items()}
    nodes = sf.Boxes(k=K, categories="tree").release(table, schema=schema, seed=1)
    below = {name: leaves_below(path, set(table.coded(name).values.to_pylist())) for name, path in files.items()}
    kept = sf.Boxes(k=K, keep=["mean(age)"]).release(table, seed=1)
    plain, narrow = (linear_widths(release, ["mean(age)"])[0] for release in (sets, kept))
    lines = [
        f"### The table and task of ARX: {table.rows:,} rows, {len(table.names)} quasi-identifiers, k = {K}",
        "",
        "| release | granularity | rows | smallest group |",
        "|---|---:|---:|---|",
    ]
    for kind, release, covers in (("sets", sets, None), ("nodes of ARX's trees", nodes, below)):
        reached = granularity(table, release.table, covers)
        lines.append(f"| categories as {kind} | {reached:.4f} | {release.table.rows:,} | {release.findings[0].found} |")
    return [
        *lines,
        "",
        f"One release with sets took {seconds:.1f} s in total. With `keep=['mean(age)']` the interval",
        f"of that mean is {narrow:.3f} years wide instead of {plain:.3f}.",
        "",
        "Granularity is 1 − (mean cell share − mean smallest share) ÷ (1 − mean smallest share), where the share of a",
        "cell is the number of values it covers ÷ the number of values of its column. On the same table ARX reached",
        "0.805 with its defaults and 0.938 with its best local recoding.",
        "",
    ]


INTRODUCTION = """# Boxes on real tables

Written by `python docs/replication/boxes.py`, which `make replicate` runs; do not edit by hand.

Each number is the first-order width of our boxes ÷ that of the baseline on the same table, so below 1 is better. There
are two baselines, because Mondrian has two forms. Relaxed Mondrian (`Boxes(cut="median")`) halves the records and may
split equal values; it is the same code with another rule for the cut. Strict Mondrian keeps equal values together and
is implemented in the script; on tables with many ties, such as Adult, it is the stronger baseline. The last column
compares the mean width of the columns that no kept statistic names, in units of their range.
"""


def main() -> None:
    data = folder()
    if data is None:
        print("the real tables were not found; boxes.md is not changed")
        return
    pairs = ["corr(age, education_num)", "corr(age, hours)", "corr(education_num, hours)"]
    page = [INTRODUCTION]
    page += against_mondrian("Adult", adult(data), pairs)
    pairs = ["corr(alt, ast)", "corr(cholesterol, triglycerides)", "corr(uric_acid, creatinine)"]
    page += against_mondrian("NHANES, logarithms of 13 laboratory values", nhanes(data), pairs)
    page += sets_and_nodes(data)
    PAGE.write_text("\n".join(page).rstrip() + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
