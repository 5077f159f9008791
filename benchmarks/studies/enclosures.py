"""What boxes say about statistics: how tight, against which rivals, and how fast.

    python benchmarks/studies/enclosures.py [--quick]

Three parts. *Speed*: a million records in 200,000 boxes. *Tightness*: for each table and k, every column and every pair
of columns, the share of the certain interval that is not attained (the gap, worst and median, against the bar that each
statistic has to meet), the linear half-width of the papers beside the certain one, and for the correlation the naive
rival: the certain interval of the covariance divided by the certain intervals of both standard deviations.
*Regressions* on two to five columns, whose gap grows with their number.

Times are of one estimate after the kernels are compiled; memory is the peak of the whole process. Real tables are taken
where SFUMATO_DATA or shared/data beside the repository has them.
"""

from __future__ import annotations

import itertools
import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import sfumato as sf
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.language import parse
from sfumato.statistics.statistic import estimate

WORDS = ("mean({x})", "var({x})", "cov({x}, {y})", "corr({x}, {y})", "regress({y} ~ {x})")
BARS = {"var": 1e-6, "cov": 1e-3, "corr": 1e-3, "slope": 1e-2, "intercept": 1e-2}
LABORATORY = ["wbc", "hemoglobin", "mcv", "platelets", "albumin", "alt", "ast", "bun", "cholesterol", "glucose"]
LABORATORY += ["triglycerides", "uric_acid", "creatinine"]


@dataclass(frozen=True)
class Case:
    """A table to be boxed and asked about."""

    name: str
    table: pa.Table
    ks: tuple[int, ...]


def data_folder() -> Path:
    return Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def read(path: str, columns: list[str]) -> pa.Table | None:
    file = data_folder() / path
    return pyarrow.csv.read_csv(file).select(columns) if file.is_file() else None


def gaussian(rows: int, axes: int = 2, seed: int = 7) -> pa.Table:
    covariance = np.full((axes, axes), 0.5) + 0.5 * np.eye(axes)
    records = np.random.default_rng(seed).multivariate_normal(np.zeros(axes), covariance, rows)
    return pa.table({f"x{axis}": records[:, axis] for axis in range(axes)})


def cases(quick: bool) -> Iterator[Case]:
    yield Case("Gaussian", gaussian(2_000 if quick else 20_000), (3, 5, 10))
    for columns in (
        ["AGI", "FEDTAX"],
        ["AGI", "FEDTAX", "PTOTVAL", "FICA"],
        ["POTHVAL", "INTVAL", "ERNVAL", "AFNLWGT"],
    ):
        table = read("casc/census.csv", columns)
        if table is not None:
            yield Case("Census", table, (3, 5, 10))
    table = read("nhanes/nhanes_complete.csv.gz", LABORATORY)
    if table is not None:
        yield Case("NHANES", table, (5,))


@dataclass(frozen=True)
class Asked:
    """One estimate, and the time it took."""

    kind: str  # a key of BARS
    one: Estimate
    seconds: float


def asked(release: sf.Release, words: str) -> list[Asked]:
    started = time.perf_counter()
    parts = release.estimates(words)
    seconds = time.perf_counter() - started
    if len(parts) == 1:
        return [Asked(words.split("(", 1)[0], parts[0], seconds)]
    return [Asked("slope" if number else "intercept", one, seconds) for number, one in enumerate(parts)]


def all_asked(release: sf.Release, columns: list[str], most_pairs: int) -> list[Asked]:
    """Every column, and every pair (or a fixed choice of so many), both ways for the regressions."""
    pairs = list(itertools.combinations(columns, 2))
    if len(pairs) > most_pairs:
        chosen = np.random.default_rng(0).choice(len(pairs), most_pairs, replace=False)
        pairs = [pairs[number] for number in chosen]
    words = [f"var({x})" for x in columns]
    for x, y in pairs:
        words += [f"cov({x}, {y})", f"corr({x}, {y})", f"regress({y} ~ {x})", f"regress({x} ~ {y})"]
    return [answer for statistic in words for answer in asked(release, statistic)]


def half(one: Estimate) -> float:
    return (one.high - one.low) / 2.0


def divided(release: sf.Release, correlation: Estimate) -> float:
    """How many times as wide interval division makes a correlation, even if clipped to [−1, 1]."""
    x, y = parse(correlation.name).columns
    covariance, *sd = (release.estimates(words)[0] for words in (f"cov({x}, {y})", f"sd({x})", f"sd({y})"))
    least, most = sd[0].low * sd[1].low, sd[0].high * sd[1].high
    if least <= 0.0:
        return 1.0 / half(correlation)
    ends = [end / spread for end in (covariance.low, covariance.high) for spread in (least, most)]
    return (min(max(ends), 1.0) - max(min(ends), -1.0)) / 2.0 / half(correlation)


def room(correlation: Estimate) -> float:
    """How many times as wide an interval within [−1, 1] could be at most."""
    return 1.0 / half(correlation)


def tightness(quick: bool) -> None:
    for case in cases(quick):
        columns = case.table.column_names
        for k in case.ks:
            release = sf.Boxes(k=k, keep=[f"corr({columns[0]}, {columns[1]})"]).release(case.table, seed=1)
            boxes = len(CountedBoxes.of(release.table, columns).count)
            shape = f"{case.table.num_rows:,} × {len(columns)} ({columns[0]}, {columns[1]} …), {boxes:,} boxes"
            print(f"\n{case.name}, k = {k}, {shape}")
            print("statistic  number  gap: worst  median   (bar)  linear/certain   seconds: median   worst")
            answers = all_asked(release, columns, 10 if quick else 100)
            for kind, bar in BARS.items():
                print(line([answer for answer in answers if answer.kind == kind], kind, bar), flush=True)
            pairs = [answer.one for answer in answers if answer.kind == "corr"]
            rivals = [divided(release, one) for one in pairs]
            told = ", ".join(f"{rival:.2f} of {room(one):.2f}" for rival, one in zip(rivals[:6], pairs, strict=False))
            print(f"interval division ÷ certain (of what [−1, 1] has room for), correlation: {told}")


def line(answers: list[Asked], kind: str, bar: float) -> str:
    gaps = [answer.one.gap for answer in answers]
    seconds = [answer.seconds for answer in answers]
    linear = [(answer.one.linear_high - answer.one.linear_low) / 2.0 / half(answer.one) for answer in answers]
    told = "met" if max(gaps) <= bar else f"MISSED by {sum(gap > bar for gap in gaps)}"
    shown = (
        f"{kind:10s} {len(gaps):6d}  {max(gaps):10.1e} {np.median(gaps):7.1e} ({bar:.0e})  {np.median(linear):14.3f}"
    )
    return f"{shown}  {np.median(seconds):16.2f}  {max(seconds):6.2f}  {told}"


def regressions(quick: bool) -> None:
    """Several regressors: the gap of each coefficient within the time that the default budget gives."""
    print("\nregression                                        k  gap of each coefficient (intercept first)  seconds")
    asked_for = [
        ("casc/census.csv", "FEDTAX", ["AGI", "PTOTVAL", "FICA", "STATETAX", "EMCONTRB"], (3, 5)),
        (
            "nhanes/nhanes_complete.csv.gz",
            "uric_acid",
            ["creatinine", "hemoglobin", "triglycerides", "bun", "albumin"],
            (5,),
        ),
    ]
    for path, response, others, ks in asked_for:
        for number in (2, 3) if quick else (2, 3, 4, 5):
            words = f"regress({response} ~ {' + '.join(others[:number])})"
            table = read(path, [response, *others[:number]])
            for k in ks if table is not None else ():
                started = time.perf_counter()
                parts = sf.Boxes(k=k, keep=[words]).release(table, seed=1).estimates(words)
                gaps = "  ".join(f"{one.gap:.1e}" if np.isfinite(half(one)) else "no end" for one in parts)
                print(f"{words:50.50s} {k:2d}  {gaps}  {time.perf_counter() - started:6.1f}", flush=True)


def strips(rows: int, k: int) -> CountedBoxes:
    """A million Gaussian records in boxes of k, by sorting into strips: cheap to make, and they overlap like any."""
    records = np.column_stack([column.to_numpy() for column in gaussian(rows).columns])
    order = np.argsort(records[:, 0])
    strip = round((rows / k) ** 0.5) * k
    pieces = [part[np.argsort(records[part, 1])] for part in np.split(order, range(strip, rows, strip))]
    boxes = records[np.concatenate(pieces)].reshape(-1, k, 2)
    return CountedBoxes.make(["x0", "x1"], boxes.min(axis=1), boxes.max(axis=1), count=np.full(len(boxes), k))


def speed(rows: int) -> None:
    table = strips(rows, 5)
    print(f"{rows:,} records in {len(table.count):,} boxes")
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
    tightness(is_quick)
    regressions(is_quick)
