"""What boxes say about statistics: how tight, against which rivals, and how fast.

    python benchmarks/enclosures.py [--quick]

For each table of boxes: the certain half-width, what of it is attained (1 − gap), the linear half-width of the papers
beside it, and, for the correlation, the naive rival: the certain interval of the covariance divided by the certain
intervals of both standard deviations. Times are of one estimate after the kernels are compiled; memory is the peak of
the whole process. Real tables are taken where SFUMATO_DATA or shared/data beside the repository has them.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf
from sfumato.statistics.bounds import estimate
from sfumato.statistics.interval_table import IntervalTable
from sfumato.statistics.language import parse

WORDS = ("mean({x})", "var({x})", "cov({x}, {y})", "corr({x}, {y})", "regress({y} ~ {x})")


def data_folder() -> Path:
    return Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def gaussian(rows: int, axes: int = 2, seed: int = 7) -> pa.Table:
    covariance = np.full((axes, axes), 0.5) + 0.5 * np.eye(axes)
    records = np.random.default_rng(seed).multivariate_normal(np.zeros(axes), covariance, rows)
    return pa.table({f"x{axis}": records[:, axis] for axis in range(axes)})


def tables(quick: bool) -> list[tuple[str, pa.Table, str, str]]:
    """Name, table, and the two columns asked for."""
    found = [("Gaussian 2-D", gaussian(2_000 if quick else 20_000), "x0", "x1")]
    census = data_folder() / "casc" / "census.csv"
    if census.is_file():
        read = pyarrow.csv.read_csv(census)
        found.append(("Census, 2 columns", read.select(["AGI", "FEDTAX"]), "AGI", "FEDTAX"))
        found.append(("Census, 4 columns", read.select(["AGI", "FEDTAX", "PTOTVAL", "FICA"]), "AGI", "FEDTAX"))
    return found


def divided(release: sf.Release, x: str, y: str) -> float:
    """Half-width of the correlation by interval division, clipped to [−1, 1]."""
    covariance = release.estimate(f"cov({x}, {y})")
    sd = [release.estimate(f"sd({name})") for name in (x, y)]
    least, most = sd[0].low * sd[1].low, sd[0].high * sd[1].high
    if least <= 0.0:
        return 1.0
    ends = [end / spread for end in (covariance.low, covariance.high) for spread in (least, most)]
    return (min(max(ends), 1.0) - max(min(ends), -1.0)) / 2.0


def tightness(quick: bool) -> None:
    print("half-widths              table                k  boxes   certain     gap  linear/certain  division/certain")
    for name, table, x, y in tables(quick):
        for k in (3, 5, 10):
            release = sf.Boxes(k=k, keep=[f"corr({x}, {y})"]).release(table, seed=1)
            for words in WORDS:
                one = release.estimates(words.format(x=x, y=y))[-1]
                half, linear = (one.high - one.low) / 2.0, (one.linear_high - one.linear_low) / 2.0
                rival = f"{divided(release, x, y) / half:10.2f}" if words.startswith("corr") else ""
                boxes = len(IntervalTable.of(release.table, [x, y]).count)
                label = f"{one.name:24.24s} {name:18s} {k:3d} {boxes:6d}"
                print(f"{label} {half:9.4g} {one.gap:7.1e} {linear / half:15.3f}  {rival}")


def strips(rows: int, k: int) -> IntervalTable:
    """A million Gaussian records in boxes of k, by sorting into strips: cheap to make, and they overlap like any."""
    records = np.column_stack([column.to_numpy() for column in gaussian(rows).columns])
    order = np.argsort(records[:, 0])
    strip = round((rows / k) ** 0.5) * k
    pieces = [part[np.argsort(records[part, 1])] for part in np.split(order, range(strip, rows, strip))]
    boxes = records[np.concatenate(pieces)].reshape(-1, k, 2)
    return IntervalTable.make(["x0", "x1"], boxes.min(axis=1), boxes.max(axis=1), count=np.full(len(boxes), k))


def speed(rows: int) -> None:
    table = strips(rows, 5)
    print(f"\n{rows:,} records in {len(table.count):,} boxes")
    for words in WORDS:
        statistic = parse(words.format(x="x0", y="x1"))
        estimate(statistic, strips(500, 5))  # compiles
        started = time.perf_counter()
        found = estimate(statistic, table)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{statistic!s:24s} {seconds:6.2f} s, gap {max(one.gap for one in found):.1e}, {peak:.0f} MB in all")


if __name__ == "__main__":
    is_quick = "--quick" in sys.argv
    speed(100_000 if is_quick else 1_000_000)
    print()
    tightness(is_quick)
