"""What a release of Boxes costs by rows, columns and k, in memory and with DuckDB.

    python benchmarks/studies/scale.py [--quick] [--largest ROWS] [--minutes 30] [--keep] [--page FILE]

Each release runs in a process of its own on Parquet files of Gaussian rows with correlation 0.5. Times are those of the
wall clock and of all processors, from the start of the release to its files being in place; memory is the peak of the
process. ``--minutes`` bounds the whole: a release that would not end in time is left out or stopped, and one that fails
does not keep the others from being measured; both are listed. ``--keep`` puts the results into ``scale_figures.json``
after each release. ``--page`` does so too, and writes the page from all kept figures (see ``scale_page.py``).
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scale_page

CHUNK = 1_000_000
MEMORY = "4GB"
PACE = 2e-6  # seconds per cell, before anything is measured
MAKING = 5e-7  # seconds for one cell of the rows that are made
MARGIN = 1.5  # a release may take so many times the time that the releases before it suggest
RELEASE = """
    import json, resource, sys, time, warnings
    import sfumato as sf
    warnings.simplefilter("ignore")
    source, target, columns, k, engine, memory = sys.argv[1:]
    roles = {f"x{i}": "quasi" for i in range(int(columns))}
    sf.Boxes(k=5).release({name: [1.0, 2.0] * 20 for name in roles}, schema=roles)  # loads the kernels
    chosen = sf.DuckDB(memory=memory) if engine == "duckdb" else engine
    processor = lambda: sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    wall, used = time.perf_counter(), processor()
    released = sf.Boxes(k=int(k), keep=["corr(x0, x1)"]).release(source, schema=roles, engine=chosen, into=target)
    figures = {"wall": time.perf_counter() - wall, "processor": processor() - used}
    figures |= {"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "rows": released.manifest.rows_out}
    print(json.dumps(figures))
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One release to measure."""

    engine: str = "duckdb"
    rows: int
    columns: int = 4
    k: int = 5

    @property
    def cells(self) -> int:
        """Number of cells of the table."""
        return self.rows * self.columns

    def __str__(self) -> str:
        return f"{self.engine:7} {self.rows:>11,} x {self.columns:<3} k = {self.k:<3}"


@dataclass(kw_only=True)
class Measurements:
    """The releases that were measured so far, and those that could not be."""

    folder: Path
    deadline: float
    keep: bool
    page: Path | None
    runs: list[dict[str, object]] = field(default_factory=list)
    missing: list[dict[str, object]] = field(default_factory=list)
    largest: int = 0  # cells of the largest release that was measured
    pace: float = PACE  # seconds per cell, from that release

    def add(self, case: Case) -> None:
        """Measure a case if there is time, and write what is known."""
        reason = self._reason(case)
        if reason:
            self.missing.append({**asdict(case), "reason": f"not measured: {reason}"})
            print(f"{case} not measured: {reason}", flush=True)
        if self.keep:
            found = {"memory": MEMORY, "runs": self.runs, "missing": self.missing}
            scale_page.keep("scale", found)
        if self.page:
            self.page.write_text(scale_page.page(), encoding="utf-8")

    def _reason(self, case: Case) -> str:
        """Measure a case; return why it could not be measured, or nothing."""
        if self.deadline - time.monotonic() < case.cells * (MAKING + self.pace):
            return "no time left"
        source = self.folder / f"rows-{case.rows}-{case.columns}"
        try:
            if not source.exists():
                make_rows(source, case.rows, case.columns)
            found = released(case, source, self.folder, timeout=max(self.deadline - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            return "stopped, no time left"
        except subprocess.CalledProcessError as error:
            print(error.stderr[-2000:], file=sys.stderr, flush=True)
            return f"failed: {(error.stderr.strip().splitlines() or ['without a message'])[-1][:200]}"
        except OSError as error:
            return f"failed: {error.strerror}"
        finally:
            if case.rows > CHUNK:  # the smallest rows are released many times
                shutil.rmtree(source, ignore_errors=True)
        self.runs.append({**asdict(case), **found})
        if case.cells >= self.largest:
            self.largest, self.pace = case.cells, MARGIN * found["wall"] / case.cells
        print(
            f"{case} {found['wall']:7.1f} s, {found['processor']:7.1f} s of processor, {found['memory'] / 1e9:5.2f} GB",
            flush=True,
        )
        return ""


def make_rows(folder: Path, rows: int, columns: int) -> None:
    """Write Gaussian rows with correlation 0.5 as Parquet files."""
    folder.mkdir()
    generator = np.random.default_rng(7)
    mix = np.linalg.cholesky(np.full((columns, columns), 0.5) + 0.5 * np.eye(columns)).T
    for number, start in enumerate(range(0, rows, CHUNK)):
        values = generator.standard_normal((min(CHUNK, rows - start), columns)) @ mix
        table = pa.table({f"x{i}": values[:, i] for i in range(columns)})
        pq.write_table(table, folder / f"part{number:04d}.parquet")


def released(case: Case, source: Path, folder: Path, *, timeout: float) -> dict[str, float]:
    """Release rows in a process of its own; return what it cost."""
    with tempfile.TemporaryDirectory(dir=folder) as target:
        arguments = [f"{source}/*.parquet", f"{target}/out", str(case.columns), str(case.k), case.engine, MEMORY]
        ended = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(RELEASE), *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout,
        )
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    if found.pop("rows") != case.rows:
        raise subprocess.CalledProcessError(1, "release", stderr="rows were lost")
    return found


def cases(smallest: int, largest: int) -> list[Case]:
    """Return what to measure: what others are compared with first, and the longest releases last."""
    middle = [smallest * factor for factor in (1, 3, 10) if smallest * factor <= largest]
    found = [Case(rows=rows) for rows in middle]
    found += [Case(rows=rows, engine="memory") for rows in middle[:2]]
    found += [Case(rows=smallest, columns=columns) for columns in (2, 8, 16)]
    found += [Case(rows=smallest, k=k) for k in (2, 20, 100)]
    found += [Case(rows=smallest * 10, columns=10)] if smallest * 10 <= largest else []
    return found + [Case(rows=smallest * factor) for factor in (100, 30) if smallest * factor <= largest]


def main() -> None:
    """Measure, print and, if asked for, keep the figures and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, at most 300,000")
    parser.add_argument("--largest", type=int, default=10_000_000)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    smallest, largest = (100_000, 300_000) if options.quick else (1_000_000, max(options.largest, 1_000_000))
    subprocess.run([sys.executable, "-m", "sfumato", "warm"], check=True)  # kernels are compiled once, not per release
    with tempfile.TemporaryDirectory() as folder:
        measured = Measurements(
            folder=Path(folder),
            deadline=time.monotonic() + 60.0 * options.minutes,
            keep=options.keep or options.page is not None,
            page=options.page,
        )
        for case in cases(smallest, largest):
            measured.add(case)
    if not measured.runs:
        raise SystemExit("nothing was measured")


if __name__ == "__main__":
    main()
