"""The page docs/scale.md: what releases of large tables cost, from figures that were measured at different times.

    python benchmarks/studies/scale_page.py [--page docs/scale.md]     # writes the page again, measures nothing

``scale.py``, ``largest.py``, ``genotypes.py``, ``cluster_simulation.py``, ``mondrian_spark.py`` and
``database_table.py`` each keep their own section of ``scale_figures.json``, so that measuring one of them again does
not lose the figures of the others.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FIGURES = Path(__file__).with_name("scale_figures.json")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"
LOAD = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0  # by other programs, before anything is measured
Record = Mapping[str, Any]


def machine() -> str:
    """Return what this machine has, in words."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    busy = f", busy when it began (load {LOAD:.1f})" if LOAD > 0.5 else ""
    return f"a machine with {os.cpu_count()} processors and {memory:.0f} GB of memory{busy}"


def kept(figures: Path = FIGURES) -> dict[str, Any]:
    """Return all sections that were measured so far."""
    return dict(json.loads(figures.read_text(encoding="utf-8"))) if figures.exists() else {}


def keep(section: str, found: Record, figures: Path = FIGURES) -> None:
    """Replace one section, with the machine it was measured on; the others stay."""
    sections = kept(figures) | {section: {"machine": machine(), **found}}
    text = json.dumps(sections, indent=1, sort_keys=True, allow_nan=False)
    temporary = figures.with_suffix(".new")
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(figures)


def exponent(runs: Sequence[Record], size: str) -> float:
    """Return the slope of log time over log size; not a number if fewer than two sizes were measured."""
    if len({run[size] for run in runs}) < 2:
        return math.nan
    sizes = np.log([run[size] for run in runs])
    return float(np.polyfit(sizes, np.log([run["processor"] for run in runs]), 1)[0])


HEAD = """
    Written by `python benchmarks/studies/scale_page.py` from measured figures
    (`benchmarks/studies/scale_figures.json`); do not edit by hand. Seconds are those of the clock; seconds of processor
    are summed over all processors.
"""
SCALE = """
    `python benchmarks/studies/scale.py`, on {machine}. Releases of `Boxes` with a kept correlation, from Parquet files
    of Gaussian rows, each in its own process, verification and writing included. The DuckDB engine was given {memory}.
"""
LARGEST = """
    `python benchmarks/studies/largest.py`, on {machine}. Releases of `Boxes` with k = 5 and a kept correlation by the
    command line with `--engine duckdb --memory {memory}`, from Parquet files to a folder with its report.
"""
BEYOND = """
    From {few:,} to {many:,} rows of {columns} columns, the time of all processors grows {processor:.2f} times as much
    as the rows, and the time on the clock {clock:.2f} times: {used:.2f} processors work on average, and {before:.2f}
    for the smaller table, whose files stay in memory.
"""
GENOTYPES = """
    `python benchmarks/studies/genotypes.py`, on {machine}: genotypes of {rows:,} people in {columns:,} columns of one
    byte. Memory is the peak of the process, tables included.
"""
DATABASE = """
    `python benchmarks/studies/database_table.py`, on {machine}: {rows:,} rows × {columns} columns are read from one
    table of a PostgreSQL server on the same machine, anonymized, verified and written to another table.
"""
MONDRIAN = """
    `python benchmarks/studies/mondrian_spark.py`, on {machine}: rows with the nine columns of the Adult table and
    invented distributions, k = 5. *Mondrian on Spark* is the algorithm of De Capitani di Vimercati and others (IEEE
    Transactions on Big Data 9(3), 2023; github.com/mosaicrown/mondrian), written anew after their program: fragments by
    quantiles, then strict Mondrian in each by a Pandas function. Two other published ones (spark-privacy-preserver,
    polarfrost) run the same recursion on the whole table in one task. Runs on Spark share one `local[2]` session that
    is already warm. The loss is the mean share of a column's range or values that a released interval or set covers
    beyond one value: 0 is the original.
"""
SIMULATION = """
    `python benchmarks/studies/cluster_simulation.py`, on {machine}: releases of `Boxes` with k = {k} and {columns}
    columns on a local Spark with one task at a time, {rows:,} rows in few blocks and small tables in many. Each step
    costs seconds of processor for a million rows, and for a block; the driver costs {fixed:.1f} s and {block:.3f} s for
    each block.
"""
SIMULATED = """
    From these costs follows what more rows take with blocks of {size:,} rows. The tasks of a step are done in rounds of
    one task per processor, and while the driver works alone, all processors wait. Networks and disks are not counted.
"""
ARX = """
    ARX 3.9.2 with its best setting for local recoding took 807 s of one processor and 5.3 GB on a table of the same
    shape (1,185,424 rows, nine columns with other invented distributions, k = 5), measured on a machine with two
    processors.
"""


def page(figures: Path = FIGURES) -> str:
    """Return the page of all sections that were measured."""
    sections = kept(figures)
    lines = ["# Cost by rows, columns and k", "", *_lines(HEAD)]
    parts = {
        "scale": _scale,
        "largest": _largest,
        "genotypes": _genotypes,
        "simulation": _simulation,
        "database": _database,
        "mondrian": _mondrian,
    }
    for name, written in parts.items():
        if name in sections:
            lines += ["", *written(sections[name])]
    return "\n".join(lines) + "\n"


def _lines(text: str, **values: Any) -> list[str]:
    """Return a paragraph as lines of a page."""
    return textwrap.wrap(" ".join(text.split()).format(**values), 120, break_long_words=False, break_on_hyphens=False)


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a table of Markdown."""
    return [f"| {' | '.join(map(str, row))} |" for row in (headings, ["---"] * len(headings), *rows)]


def _scale(section: Record) -> list[str]:
    runs = section["runs"]
    names = ("engine", "rows", "columns", "k", "seconds", "seconds of processor", "peak memory")
    cases = [(run["engine"], f"{run['rows']:,}", run["columns"], run["k"]) for run in (*runs, *section["missing"])]
    costs = [(f"{run['wall']:.1f}", f"{run['processor']:.1f}", f"{run['memory'] / 1e9:.2f} GB") for run in runs]
    costs += [(one["reason"], "", "") for one in section["missing"]]
    return [
        "## Rows, columns and k",
        "",
        *_lines(SCALE, machine=section["machine"], memory=section["memory"]),
        "",
        *_table(names, [(*case, *cost) for case, cost in zip(cases, costs, strict=True)]),
        *_growth(runs),
    ]


def of_engine(runs: Sequence[Record], engine: str, **fixed: int) -> list[Record]:
    """Return the runs of an engine with these columns, rows or k."""
    return [run for run in runs if run["engine"] == engine and all(run[name] == value for name, value in fixed.items())]


def _growth(runs: Sequence[Record]) -> list[str]:
    by_rows, middle = of_engine(runs, "duckdb", columns=4, k=5), min((run["rows"] for run in runs), default=0)
    slopes = {
        "rows": exponent(by_rows, "rows"),
        "columns": exponent(of_engine(runs, "duckdb", rows=middle, k=5), "columns"),
        "k": exponent(of_engine(runs, "duckdb", rows=middle, columns=4), "k"),
        "rows in memory": exponent(of_engine(runs, "memory", columns=4, k=5), "rows"),
    }
    known = [f"- {name}: exponent {slope:.2f}" for name, slope in slopes.items() if math.isfinite(slope)]
    lines = ["", "The time of all processors grows with a power of the size, fitted to these runs:", "", *known]
    if math.isfinite(slopes["rows"]):
        first, last = (choice(by_rows, key=lambda run: run["rows"]) for choice in (min, max))
        ratio = last["wall"] / first["wall"] / (last["rows"] / first["rows"])
        sizes = f"From {first['rows']:,} to {last['rows']:,} rows"
        lines += ["", f"{sizes}, the time on the clock grows {ratio:.2f} times as much as the rows."]
    return lines if known else []


def _largest(section: Record) -> list[str]:
    names = ("rows", "columns", "bytes of a number", "minutes", "minutes of processor", "peak memory", "disk")
    runs = sorted(section["runs"], key=lambda run: (-run["bytes"], run["rows"]))
    rows = [
        (
            f"{run['rows']:,}",
            run["columns"],
            run["bytes"],
            f"{run['wall'] / 60:.1f}",
            f"{run['processor'] / 60:.1f}",
            f"{run['memory'] / 1e9:.2f} GB",
            f"{run['disk'] / 1e9:.0f} GB" if "disk" in run else "–",
        )
        for run in runs
    ]
    said = _lines(LARGEST, machine=section["machine"], memory=section["memory"])
    return ["## The largest tables", "", *said, "", *_table(names, rows), *_beyond_memory(runs)]


def _beyond_memory(runs: Sequence[Record]) -> list[str]:
    """Return how the time grows from the smallest to the largest release of equally wide rows."""
    largest = max(runs, key=lambda run: run["rows"])
    alike = [run for run in runs if (run["columns"], run["bytes"]) == (largest["columns"], largest["bytes"])]
    smallest = min(alike, key=lambda run: run["rows"])
    if smallest is largest:
        return []
    times = largest["rows"] / smallest["rows"]
    growth = {what: largest[of] / smallest[of] / times for what, of in (("clock", "wall"), ("processor", "processor"))}
    work = {what: run["processor"] / run["wall"] for what, run in (("used", largest), ("before", smallest))}
    sizes = {"few": smallest["rows"], "many": largest["rows"], "columns": largest["columns"]}
    return ["", *_lines(BEYOND, **sizes, **growth, **work)]


def _genotypes(section: Record) -> list[str]:
    rows = [(run["said"], f"{run['wall']:.0f}", f"{run['memory'] / 1e9:.2f} GB") for run in section["runs"]]
    said = _lines(GENOTYPES, **{name: section[name] for name in ("machine", "rows", "columns")})
    return ["## More columns than rows", "", *said, "", *_table(("", "seconds", "peak memory"), rows)]


def _simulation(section: Record) -> list[str]:
    costs = section["costs"]
    steps = [
        (step, f"{1e6 * seconds:.2f}", f"{costs['block'][step]:.3f}")
        for step, seconds in costs["row"].items()
        if 1e6 * seconds >= 0.01 or costs["block"][step] >= 0.001
    ]
    simulated = [
        (
            f"{one['rows']:,}",
            f"{one['processors']:,}",
            f"{one['blocks']:,}",
            f"{one['seconds'] / 60:.1f}",
            f"{one['driver'] / 60:.1f}",
        )
        for one in section["simulated"]
    ]
    measured = {"machine": section["machine"], "k": section["k"], "columns": section["columns"]}
    measured |= {"rows": section["measured rows"], "fixed": costs["driver"], "block": costs["driver block"]}
    names = ("rows", "processors", "blocks", "minutes", "minutes of the driver alone")
    return [
        "## On a cluster, simulated",
        "",
        *_lines(SIMULATION, **measured),
        "",
        *_table(("step", "seconds per million rows", "seconds per block"), steps),
        "",
        *_lines(SIMULATED, size=section["block rows"]),
        "",
        *_table(names, simulated),
    ]


def _database(section: Record) -> list[str]:
    names = ("method", "seconds", "seconds of processor, without the server", "peak memory")
    rows = [
        (run["method"], f"{run['wall']:.0f}", f"{run['processor']:.0f}", f"{run['memory'] / 1e9:.2f} GB")
        for run in section["runs"]
    ]
    said = _lines(DATABASE, machine=section["machine"], rows=section["rows"], columns=section["columns"])
    return ["## From table to table in PostgreSQL", "", *said, "", *_table(names, rows)]


def _mondrian(section: Record) -> list[str]:
    names = ("", "rows", "seconds", "seconds of processor", "rows of a group, mean", "loss")
    rows = [_compared(run) for run in sorted(section["runs"], key=lambda run: run["rows"])]
    said = _lines(MONDRIAN, machine=section["machine"])
    return ["## Compared with others", "", *said, "", *_table(names, rows), "", *_lines(ARX)]


def _compared(run: Record) -> tuple[str, ...]:
    size = f"{run['rows']:,}"
    if "loss" not in run:  # it was stopped
        return run["name"], size, f"more than {run['seconds']:.0f}", f"more than {run['processor']:.0f}", "–", "–"
    costs = (f"{run['seconds']:.3g}", f"{run['processor']:.3g}")
    return run["name"], size, *costs, f"{run['mean group']:.1f}", f"{run['loss']:.3f}"


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--figures", type=Path, default=FIGURES)
    options = parser.parse_args()
    if kept(options.figures):
        options.page.write_text(page(options.figures), encoding="utf-8")


if __name__ == "__main__":
    main()
