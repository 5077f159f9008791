"""What the largest releases cost that a disk holds: the command line, with DuckDB, from files to files.

    python benchmarks/studies/largest.py [--rows 100000000] [--columns 4] [--single] [--folder DIR] [--keep]

Gaussian rows with correlation 0.5 are written as Parquet files; ``--single`` gives numbers of 4 bytes, which need half
of the disk. The release is a process of its own. Seconds are those of the clock and of all processors, memory is the
peak of the process, and disk is the least that was free before less the least that was free meanwhile. ``--keep`` adds
the figures to those in ``scale_figures.json``, in the place of an earlier release of the same size.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scale_page

CHUNK = 5_000_000  # rows of a file
MEMORY = "4GB"
FIELDS = ("rows", "columns", "bytes")  # which tell releases apart


def make_rows(folder: Path, rows: int, columns: int, kind: type[np.floating]) -> None:
    """Write Gaussian rows with correlation 0.5, without compression."""
    folder.mkdir()
    generator, shared = np.random.default_rng(7), np.sqrt(kind(0.5))
    for number, start in enumerate(range(0, rows, CHUNK)):
        size = min(CHUNK, rows - start)
        common = generator.standard_normal(size, dtype=kind)
        cells = {f"x{i}": shared * (common + generator.standard_normal(size, dtype=kind)) for i in range(columns)}
        file = folder / f"part{number:04d}.parquet"
        pq.write_table(pa.table(cells), file, use_dictionary=False, compression="NONE")


def released(source: Path, target: Path, columns: int) -> dict[str, float]:
    """Release the rows as a user would; return what it cost."""
    names = ",".join(f"x{i}" for i in range(columns))
    words = ["-k", "5", "--quasi", names, "--keep", "corr(x0, x1)", "--engine", "duckdb", "--memory", MEMORY]
    begun, free = time.perf_counter(), shutil.disk_usage(source).free
    command = [sys.executable, "-m", "sfumato", "release", f"{source}/*.parquet", "-o", str(target), *words]
    process, least = subprocess.Popen(command, stdout=subprocess.DEVNULL), [free]

    def watch() -> None:
        while process.poll() is None:
            least.append(shutil.disk_usage(source).free)
            time.sleep(1.0)

    watching = threading.Thread(target=watch)
    watching.start()
    if process.wait():
        raise SystemExit(f"the release ended with {process.returncode}")
    wall, used = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    watching.join()
    return {
        "wall": wall,
        "processor": used.ru_utime + used.ru_stime,
        "memory": used.ru_maxrss * 1024,
        "disk": free - min(least),
    }


def main() -> None:
    """Measure one release, print and, if asked for, keep its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--single", action="store_true", help="numbers of 4 bytes instead of 8")
    parser.add_argument("--folder", type=Path, help="where rows and releases are kept meanwhile")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    kind = np.float32 if options.single else np.float64
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        source = Path(name) / "rows"
        make_rows(source, options.rows, options.columns, kind)
        cost = released(source, Path(name) / "out", options.columns)
    run = {"rows": options.rows, "columns": options.columns, "bytes": np.dtype(kind).itemsize, **cost}
    print(json.dumps(run))
    if options.keep:
        before = scale_page.kept().get("largest", {"runs": []})["runs"]
        others = [one for one in before if any(one[name] != run[name] for name in FIELDS)]
        runs = sorted([*others, run], key=lambda one: [one[name] for name in FIELDS])
        scale_page.keep("largest", {"memory": MEMORY, "runs": runs})


if __name__ == "__main__":
    main()
