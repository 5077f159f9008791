"""Time, memory and quality of quasi-identifier search and one-column anonymity, beside a baseline in the same run.

    python benchmarks/studies/probabilistic.py [words of the benchmarks to run]

Real tables are looked for in SFUMATO_DATA, or shared/data beside the repository; without them their benchmarks are left
out. microagg1d is a peer, not a dependency: SFUMATO_PEERS names a Python that has it (``python -m venv peers &&
peers/bin/pip install microagg1d``), else that comparison is left out.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.kernels.grouping_1d import SQUARED, cheapest_groups
from sfumato.plan.answers import Extremes
from sfumato.plan.questions import Answers, ExtremesOf, MissingIn, PointsOf, Question
from sfumato.plan.sketches import QuantileSketch
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.schema.schema import Schema
from sfumato.sources.frames import as_table
from sfumato.table.table import Table

FOLDER = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
ADULT_QUASI = (0, 1, 3, 5, 6, 7, 8, 9, 12, 13)
PEER = """
import sys, time, numpy as np
from microagg1d import univariate_microaggregation as group
x = np.load(sys.argv[1])
for method in ("auto", "staggered"):
    group(x[:1000], k=10, method=method)
    begun = time.perf_counter()
    labels = group(x, k=10, method=method)
    seconds = time.perf_counter() - begun
    rows = np.bincount(labels)
    print(method, seconds, ((x - (np.bincount(labels, x) / rows)[labels]) ** 2).sum())
"""


def timed(work: Callable[[], object]) -> float:
    """Seconds of the second call: the first compiles kernels."""
    work()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def say(what: str, figure: str, beside: str) -> None:
    print(f"{what:<58} {figure:>16}   {beside}", flush=True)


def lattice() -> None:
    """All 1,023 sets of ten Adult columns, beside grouping each set from scratch by pandas."""
    file = FOLDER / "adult" / "adult.data"
    if not file.is_file():
        say("lattice of Adult", "left out", "no real tables here")
        return
    read = pyarrow.csv.read_csv(file, read_options=pyarrow.csv.ReadOptions(autogenerate_column_names=True))
    table = read.select([f"f{number}" for number in ADULT_QUASI])
    seconds = timed(lambda: sf.quasi_identifiers(table, alpha=1.0))  # which few sets reach, so nearly all are visited
    frame = table.to_pandas()
    names = table.column_names
    sets = [chosen for size in range(1, len(names) + 1) for chosen in combinations(names, size)][::40]
    begun = time.perf_counter()
    for columns in sets:
        (~frame.duplicated(list(columns), keep=False)).sum()
    scratch = (time.perf_counter() - begun) * 1023 / len(sets)
    say(
        "lattice of Adult, 1,023 sets",
        f"{seconds:.2f} s",
        f"limit 4 s; {scratch / seconds:.1f} × faster than pandas, set by set",
    )


def search() -> None:
    """Minimal 0.2-quasi-identifiers of the ACS table up to four columns."""
    file = FOLDER / "acs_pums" / "acs_income_2018.parquet"
    if not file.is_file():
        say("search in ACS", "left out", "no real tables here")
        return
    table = pyarrow.parquet.read_table(file)
    begun = time.perf_counter()
    found = sf.quasi_identifiers(table, alpha=0.2, max_size=4)
    seconds = time.perf_counter() - begun
    say(
        f"search in ACS, 665,800 × 11, size 4: {len(found)} found",
        f"{seconds:.1f} s",
        f"limit 60 s; peak {peak_gigabytes():.2f} GB, limit 2 GB",
    )


def optimal_groups() -> None:
    """A million sorted values in groups of ten, least squared error, beside microagg1d."""
    values = np.sort(np.random.default_rng(0).normal(size=10**6))
    ones = np.ones(len(values), dtype=np.int64)
    seconds = timed(lambda: cheapest_groups(values, ones, 10, SQUARED))
    cost = cheapest_groups(values, ones, 10, SQUARED)[1]
    say("optimal groups, 10⁶ values, k = 10, after sorting", f"{seconds:.2f} s", f"limit 1 s; squared error {cost:.6f}")
    peer = os.environ.get("SFUMATO_PEERS")
    if not peer:
        say("  beside microagg1d", "left out", "SFUMATO_PEERS names no Python that has it")
        return
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "values.npy", values)
        ran = subprocess.run(
            [peer, "-c", PEER, str(Path(folder) / "values.npy")], capture_output=True, text=True, check=True
        )
    for line in ran.stdout.splitlines():
        method, theirs, error = line.split()
        say(
            f"  microagg1d, {method}",
            f"{float(theirs):.2f} s",
            f"{float(theirs) / seconds:.1f} × ours; squared error {float(error):.6f}",
        )


def quantiles() -> None:
    """250,000 rows, k = 10,000: ten columns in memory."""
    rng = np.random.default_rng(1)
    table = as_table(pa.table({f"x{number}": rng.lognormal(size=250_000) for number in range(10)}))
    schema = Schema.for_table(table, dict.fromkeys(table.names, "quasi"))
    for words, method in (
        ("exact", sf.Quantiles(k=10_000)),
        ("sample of 20,000", sf.Quantiles(k=10_000, sample=20_000)),
        ("sketch, ε = 0.001", sf.Quantiles(k=10_000, epsilon=0.001)),
    ):
        seconds = timed(lambda m=method: m.plan(MemorySurvey(table), schema, Randomness(1)).transform(table, 0))
        say(f"quantiles, 250,000 × 10, {words}", f"{seconds:.2f} s", "limit 1 s; the paper took 100 s")


@dataclass(frozen=True)
class SurveyInParts:
    """A survey of a table that was read part by part, into sketches; ``part`` is one of its parts."""

    part: Table
    rows: int
    sketches: dict[str, QuantileSketch]
    block_rows: None = None

    @property
    def sample(self) -> Sample:
        return Sample(self.part, self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        points = {name: sketch.points() for name, sketch in self.sketches.items()}
        kinds = {
            PointsOf: lambda asked: points[asked.column],
            MissingIn: lambda asked: points[asked.column].missing,
            ExtremesOf: lambda asked: Extremes(points[asked.column].values[0], points[asked.column].values[-1]),
        }
        return Answers({question: kinds[type(question)](question) for question in questions})


def streaming() -> None:
    """250,000 rows × 261 columns from disk to disk, never held as a whole."""
    rows, columns, part = 250_000, 261, 25_000
    rng = np.random.default_rng(2)
    names = [f"x{number}" for number in range(columns)]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.parquet", Path(folder) / "out.parquet"
        writer = None
        for _ in range(rows // part):
            block = pa.table({name: rng.lognormal(size=part) for name in names})
            writer = writer or pyarrow.parquet.ParquetWriter(
                source, block.schema, compression="none", use_dictionary=False
            )
            writer.write_table(block)
        writer.close()
        before, begun = peak_gigabytes(), time.perf_counter()
        sketches = {name: QuantileSketch(0.004) for name in names}
        file = pyarrow.parquet.ParquetFile(source)
        for number in range(file.num_row_groups):
            block = as_table(file.read_row_group(number))
            for name, sketch in sketches.items():
                sketch.update(block.numbers(name))
        schema = Schema.for_table(block, dict.fromkeys(names, "quasi"))
        survey = SurveyInParts(block, rows, sketches)
        plan = sf.Quantiles(k=10_000, epsilon=0.004).plan(survey, schema, Randomness(1))
        out = None
        for number in range(file.num_row_groups):
            released = plan.transform(as_table(file.read_row_group(number)), 0).released.arrow
            out = out or pyarrow.parquet.ParquetWriter(target, released.schema)
            out.write_table(released)
        out.close()
        seconds = time.perf_counter() - begun
        size = source.stat().st_size / 1e9
        smallest = min(
            int(
                pa.compute.min(
                    pyarrow.parquet.read_table(target, columns=[name])[name].value_counts().field("counts")
                ).as_py()
            )
            for name in names[::20]
        )
    say(
        "quantiles, 250,000 × 261 from disk to disk",
        f"{seconds:.1f} s",
        f"limit 20 s; peak {peak_gigabytes():.2f} GB (before: {before:.2f}), file {size:.2f} GB; k found {smallest:,}",
    )


def curve() -> None:
    """The error of evenly spread values against 1/b²."""
    table = pa.table({"x": np.random.default_rng(3).random(250_000)})
    points = sf.privacy_utility_curve(table, "x", (2, 5, 10, 25, 50, 100, 250, 500)).points
    worst = max(abs(point.error / point.law - 1) for point in points)
    say("error against buckets, 2 to 500, beside 1/b²", f"{worst:.1%} off", "limit 10 %")


BENCHMARKS = {one.__name__: one for one in (lattice, search, optimal_groups, quantiles, streaming, curve)}

if __name__ == "__main__":
    for word in sys.argv[1:] or BENCHMARKS:
        BENCHMARKS[word]()
