"""Spectral methods and the search for neighbours, against the clock, against memory and against others.

    python benchmarks/studies/spectral.py [--quick]

Neighbours are exact, and beside them stands the k-d tree of SciPy on a tenth of the rows (on two cores as well), scaled
by rows². Releases are planned and transformed; processor seconds are those of all cores together, so they tell the same
on a busy machine, and memory is the peak of the process. Quality stands as a ratio to the plain swap on the same rows.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pyarrow as pa
from scipy.spatial import cKDTree

from sfumato.engines.memory.engine import MemorySurvey
from sfumato.kernels.neighbours import nearest
from sfumato.measures.privacy.prediction import find_in_cells
from sfumato.measures.utility.moments import moment_changes
from sfumato.methods.matrix import MatrixMethod
from sfumato.methods.spectral.histograms import SpectralHistogram
from sfumato.methods.spectral.pica import PartitionedIca
from sfumato.methods.spectral.svd_swap import SvdSwap
from sfumato.randomness import Randomness
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.table.table import Table


def people(rows: int, seed: int = 0) -> Table:
    """Thirty columns: 26 numbers of eight kinds of people, and four columns of categories that hang on them."""
    draw = np.random.default_rng(seed)
    numbers = 2 * draw.normal(size=(8, 26))[draw.integers(8, size=rows)]
    numbers += draw.normal(size=(rows, 26)) @ (0.3 * draw.normal(size=(26, 26)))
    columns: dict[str, object] = {f"x{place}": numbers[:, place] for place in range(26)}
    for place in range(4):
        level = np.clip((numbers[:, place] // 2).astype(int) + 1, 0, 3)
        columns[f"c{place}"] = np.array(["low", "middle", "high", "top"])[level]
    return Table.from_arrow(pa.table(columns))


def released(method: MatrixMethod, table: Table) -> Table:
    schema = Schema(tuple(Column(name=name, role=Role.QUASI) for name in table.names))
    return method.plan(MemorySurvey(table), schema, Randomness(1)).transform(table, 0).released


def neighbours(rows: int) -> None:
    print(f"the 5 nearest of {rows:,} × 30 among as many")
    print(f"{'cloud':>12} {'seconds':>8} {'processor':>10} {'÷ k-d tree':>11}")
    draw = np.random.default_rng(0)
    stretch = draw.normal(size=(30, 30)) * np.linspace(1, 0.1, 30)
    for name, turn in (("round", np.eye(30)), ("stretched", stretch)):
        points, queries = draw.normal(size=(rows, 30)) @ turn, draw.normal(size=(rows, 30)) @ turn
        nearest(queries[:100], points[:1000], 5)  # compiles, or loads what was compiled
        start, busy = time.perf_counter(), time.process_time()
        nearest(queries, points, 5)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        few = rows // 10
        start = time.perf_counter()
        cKDTree(points[:few]).query(queries[:few], 5, workers=-1)
        tree = 100 * (time.perf_counter() - start)
        print(f"{name:>12} {seconds:>8.1f} {busy:>10.1f} {seconds / tree:>11.2f}", flush=True)


def cells(rows: int) -> None:
    draw = np.random.default_rng(0)
    points = draw.normal(size=(rows, 8)) @ draw.normal(size=(8, 30)) + 0.1 * draw.normal(size=(rows, 30))
    queries = points + 0.05 * draw.normal(size=points.shape)
    start = time.perf_counter()
    found = find_in_cells(queries, points, 5, draw)
    print(f"\nby cells, {rows:,} × 30: {time.perf_counter() - start:.1f} s, recall {found.recall:.3f}")


def releases(rows: int) -> None:
    table = people(rows)
    print(f"\na release of {rows:,} × 30")
    print(f"{'method':>22} {'seconds':>8} {'processor':>10} {'peak GB':>8} {'change of correlations ÷ plain swap':>36}")
    names = [name for name in table.names if name.startswith("x")]
    before, plain = table.matrix(names), 0.0
    for word, method in (
        ("plain svd-swap", SvdSwap(repair=False)),
        ("svd-swap", SvdSwap()),
        ("spectral-rhs", SpectralHistogram(k=5)),
        ("pica, clusters of 300", PartitionedIca(cluster_size=300)),
    ):
        start, busy = time.perf_counter(), time.process_time()
        after = released(method, table).matrix(names)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        change = moment_changes(before, after).correlation
        plain = plain or change
        print(f"{word:>22} {seconds:>8.1f} {busy:>10.1f} {peak:>8.2f} {change / plain:>36.3f}", flush=True)


if __name__ == "__main__":
    quick = "--quick" in sys.argv
    neighbours(20_000 if quick else 100_000)
    cells(50_000 if quick else 1_000_000)
    releases(50_000 if quick else 1_000_000)
