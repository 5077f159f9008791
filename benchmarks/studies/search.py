"""What a search gains: guaranteed widths with it against the same boxes without.

    python benchmarks/studies/search.py [seconds a case, default 60] [--more]

The width is that of the certain interval of the kept statistic, from the estimate that an analyst gets, with and
without search, same seed. Wanted within 60 s on two cores: at least 5 % narrower, and never wider. With several kept
statistics, each has a line; the search of them is one. ``--more`` adds k = 3 and 10 and records without correlation.
The real table is taken where SFUMATO_DATA or shared/data beside the repository has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf

WANTED = 5.0  # per cent narrower
CENSUS = ("AGI", "FEDTAX", "PTOTVAL", "FICA")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A table, and what is kept of it."""

    name: str
    table: pa.Table
    k: int
    keep: tuple[str, ...]


def gaussian(rows: int, correlation: float = 0.5, seed: int = 7) -> pa.Table:
    covariance = np.array([[1.0, correlation], [correlation, 1.0]])
    records = np.random.default_rng(seed).multivariate_normal(np.zeros(2), covariance, rows)
    return pa.table({"x": records[:, 0], "y": records[:, 1]})


def census() -> pa.Table | None:
    folder = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
    file = folder / "casc" / "census.csv"
    return pyarrow.csv.read_csv(file).select(CENSUS) if file.is_file() else None


def cases(more: bool) -> Iterator[Case]:
    sizes = (5, 3, 10) if more else (5,)
    for rows in (1_000, 10_000):
        for correlation in (0.5, 0.0) if more else (0.5,):
            name, table = f"Gaussian {rows:,}, r = {correlation:g}", gaussian(rows, correlation)
            yield Case(name=name, table=table, k=5, keep=("mean(x)",))
            yield Case(name=name, table=table, k=5, keep=("mean(x)", "mean(y)"))
            for k in sizes:
                yield Case(name=name, table=table, k=k, keep=("corr(x, y)",))
    real = census()
    if real is not None:
        for k in sizes:
            yield Case(name="Census 1,080 × 4", table=real, k=k, keep=("corr(AGI, FEDTAX)",))


def width(release: sf.Release, statistic: str) -> float:
    found = release.estimate(statistic)
    return found.high - found.low


def compare(case: Case, overlap: str, seconds: float) -> list[float]:
    """Print a line for each kept statistic; by how many per cent each became narrower."""
    options = {"k": case.k, "keep": list(case.keep)}
    without = sf.Boxes(**options).release(case.table, seed=1)
    searched = sf.Boxes(**options, search=sf.SearchBudget(seconds=seconds), overlap=overlap).release(case.table, seed=1)
    (trace,) = searched.diagnostics.searches
    gains = []
    for statistic in case.keep:
        before, after = (width(release, statistic) for release in (without, searched))
        gains.append(100.0 * (1.0 - after / before))
        print(
            f"{case.name:24} {case.k:>3} {statistic:18} {overlap:8} {before:>10.4g} {after:>10.4g} {gains[-1]:>7.2f} %"
            f" {trace.rounds:>7} {trace.seconds:>8.1f}{'  WIDER' if after > before else ''}",
            flush=True,
        )
    return gains


def main(seconds: float, more: bool) -> None:
    for overlap in ("none", "allowed"):  # compiles, or loads what was compiled
        sf.Boxes(k=5, keep=["corr(x, y)"], search=sf.SearchBudget(rounds=1), overlap=overlap).release(
            gaussian(100), seed=1
        )
    print(f"guaranteed widths without and with a search of {seconds:g} s; wanted: {WANTED:g} % narrower, never wider")
    print(
        f"{'table':24} {'k':>3} {'kept':18} {'overlap':8} {'without':>10} {'with':>10} {'gain':>9} {'rounds':>7}"
        f" {'seconds':>8}"
    )
    gains: dict[str, list[float]] = {"none": [], "allowed": []}
    for case in cases(more):
        for overlap, found in gains.items():
            found.extend(compare(case, overlap, seconds))
    for overlap, found in gains.items():
        missed = sum(gain < WANTED for gain in found)
        print(f"overlap {overlap}: gains {min(found):.2f} % to {max(found):.2f} %, {missed} of {len(found)} below 5 %")


if __name__ == "__main__":
    numbers = [word for word in sys.argv[1:] if not word.startswith("--")]
    main(float(numbers[0]) if numbers else 60.0, "--more" in sys.argv)
