"""What a release of Boxes costs by rows, columns and k, in memory and with DuckDB, and what a cluster would need.

    python benchmarks/scale.py [--quick] [--largest ROWS] [--page FILE]

Each release runs in a process of its own on Parquet files of Gaussian rows with correlation 0.5. Times are those of the
wall clock and of all processors, from the start of the release to its files being in place; memory is the peak of the
process. Exponents are slopes of log time over log size. ``--page`` writes the results as Markdown.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CHUNK = 1_000_000
MEMORY = "4GB"
WIDE_ROWS = 10_000_000  # also measured with ten columns
RELEASE = """
    import json, resource, sys, time, warnings
    import sfumato as sf
    warnings.simplefilter("ignore")
    source, target, columns, k, engine, memory = sys.argv[1:]
    roles = {f"x{i}": "quasi" for i in range(int(columns))}
    sf.Boxes(k=5).release({name: [1.0, 2.0] * 20 for name in roles}, schema=roles)  # compiles the kernels
    chosen = sf.DuckDB(memory=memory) if engine == "duckdb" else engine
    processor = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    wall, used = time.perf_counter(), processor()
    released = sf.Boxes(k=int(k), keep=["corr(x0, x1)"]).release(source, schema=roles, engine=chosen, into=target)
    figures = {"wall": time.perf_counter() - wall, "processor": processor() - used}
    figures |= {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "rows": released.manifest.rows_out}
    print(json.dumps(figures))
"""


@dataclass(frozen=True)
class Run:
    """One release, and what it cost."""

    engine: str
    rows: int
    columns: int
    k: int
    wall: float  # seconds
    processor: float  # seconds of all processors
    memory: float  # bytes


def make_rows(folder: Path, rows: int, columns: int) -> None:
    """Write Gaussian rows with correlation 0.5 as Parquet files."""
    folder.mkdir()
    generator = np.random.default_rng(7)
    mix = np.linalg.cholesky(np.full((columns, columns), 0.5) + 0.5 * np.eye(columns)).T
    for number, start in enumerate(range(0, rows, CHUNK)):
        values = generator.standard_normal((min(CHUNK, rows - start), columns)) @ mix
        table = pa.table({f"x{i}": values[:, i] for i in range(columns)})
        pq.write_table(table, folder / f"part{number:04d}.parquet")


def measure(engine: str, rows: int, columns: int, k: int, folder: Path) -> Run:
    """Release rows in a process of its own; the files are removed afterwards."""
    source = folder / f"rows-{rows}-{columns}"
    if not source.exists():
        make_rows(source, rows, columns)
    with tempfile.TemporaryDirectory(dir=folder) as target:
        arguments = [f"{source}/*.parquet", f"{target}/out", str(columns), str(k), engine, MEMORY]
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(RELEASE), *arguments], capture_output=True, text=True, check=False
        )
    if ended.returncode:
        raise SystemExit(ended.stderr[-2000:])
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["rows"] == rows
    run = Run(engine, rows, columns, k, found["wall"], found["processor"], found["memory"])
    print(
        f"{engine:7} {rows:>11,} x {columns:<3} k = {k:<3} {run.wall:7.1f} s, {run.processor:7.1f} s of processor, "
        f"{run.memory / 1e9:5.2f} GB",
        flush=True,
    )
    return run


def exponent(runs: list[Run], size: str) -> float:
    """Return the slope of log time over log size."""
    sizes = np.log([getattr(run, size) for run in runs])
    return float(np.polyfit(sizes, np.log([run.processor for run in runs]), 1)[0]) if len(runs) > 1 else math.nan


def cluster_hours(run: Run, rows: int, machines: int, cores: int) -> float:
    """Return the hours for many rows on a cluster, from the processor time per row measured here.

    Blocks are independent, so they are shared out evenly; reading and writing is taken to grow with the rows. This is a
    calculation, not a measurement.
    """
    return run.processor / run.rows * rows / (machines * cores) / 3600.0


def page(runs: list[Run], slopes: dict[str, float]) -> str:
    """Return the results as Markdown."""
    largest = max((run for run in runs if run.engine == "duckdb"), key=lambda run: run.rows)
    lines = [
        "# Cost by rows, columns and k",
        "",
        f"Written by `python benchmarks/scale.py --page docs/scale.md` on a machine with {os.cpu_count()} processors.",
        "Releases of `Boxes` with a kept correlation, from Parquet files of Gaussian rows, each in its own process,",
        f"verification and writing included. The DuckDB engine was given {MEMORY}.",
        "",
        "| engine | rows | columns | k | seconds | seconds of processor | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {run.engine} | {run.rows:,} | {run.columns} | {run.k} | {run.wall:.1f} | {run.processor:.1f} "
        f"| {run.memory / 1e9:.2f} GB |"
        for run in runs
    ]
    lines += ["", "Time (of all processors) grows with", ""]
    lines += [f"- {name}: exponent {slope:.2f}" for name, slope in slopes.items()]
    lines += [
        "",
        "## A thousand million rows",
        "",
        "Calculated, not measured: blocks are independent, so the processor time per row of the largest run above",
        "is shared out over the cores of a cluster. Moving rows over a network is not included.",
        "",
        "| cluster | 10⁹ rows × 4 columns |",
        "|---|---|",
    ]
    for machines, cores in ((1, 16), (8, 16), (32, 16)):
        minutes = 60 * cluster_hours(largest, 10**9, machines, cores)
        lines.append(f"| {machines} machines with {cores} cores | {minutes:.0f} minutes |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, if asked for, write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    sizes = [100_000, 300_000] if options.quick else [1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000]
    sizes = [size for size in sizes if size <= max(options.largest, 300_000)]
    middle = sizes[0]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        by_rows = [measure("duckdb", rows, 4, 5, place) for rows in sizes]
        by_columns = [measure("duckdb", middle, columns, 5, place) for columns in (2, 4, 8, 16)]
        by_k = [measure("duckdb", middle, 4, k, place) for k in (2, 5, 20, 100)]
        in_memory = [measure("memory", rows, 4, 5, place) for rows in sizes[:2]]
        wide = [measure("duckdb", WIDE_ROWS, 10, 5, place)] if sizes[-1] >= WIDE_ROWS else []
    slopes = {
        "rows": exponent(by_rows, "rows"),
        "columns": exponent(by_columns, "columns"),
        "k": exponent(by_k, "k"),
        "rows in memory": exponent(in_memory, "rows"),
    }
    for name, slope in slopes.items():
        print(f"time by {name}: exponent {slope:.2f}")
    if options.page:
        options.page.write_text(page([*by_rows, *wide, *by_columns, *by_k, *in_memory], slopes), encoding="utf-8")


if __name__ == "__main__":
    main()
