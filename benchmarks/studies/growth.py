"""How time and memory grow with rows, columns, k and categories: fitted exponents for every method.

    python benchmarks/studies/growth.py [--quick] [--only NAME,…] [--limits]

Time is that of all processors, so it tells the same on a busy machine; memory is the peak above what the process used
before. Each measurement is made in a process of its own, after a small run that compiles the kernels. An exponent is
the slope of a line through the logarithms: 1 means proportional growth. Measurements of less than 0.1 s or 20 MB do not
count, because constant costs hide the growth; methods that take less than 0.2 s are measured on tables with more rows.
``--limits`` runs the large tables with a limit of their own. Every line ends with a verdict. The exit code is 1 if an
exponent or a limit is exceeded, or a measurement failed.

Two methods are searches that end after a time of their own; they get ``SEARCH`` seconds, so that what is measured is
the rest of their work. A kind that is known to be slower by its definition is named in ``KNOWN`` with the reason, and
has a limit of its own; the kind of the same method that is not is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

import sfumato as sf
from sfumato.engines.memory.engine import MemorySurvey
from sfumato.methods.base import METHODS, make_method, method_class
from sfumato.risk.inspection import inspect
from sfumato.schema.schema import FittedTable

SMALLEST = {"seconds": 0.1, "megabytes": 20.0}
MOST = {"rows": 1.15, "columns": 1.4}  # largest exponent of time and memory that is accepted
OTHERS = ("inspect", "estimate", "assess")
KINDS = ("mdav/tree", "synthesize/copula")  # kinds that are measured beside the default of their method
KNOWN = {
    ("mdav", "rows"): (2.1, "MDAV compares each group with all rows that are left; mdav/tree does not"),
}
SEARCH = 1.0  # seconds for the search of recode and of suppress
QUICK = 0.2  # seconds; methods that take less on the smallest table are measured on larger ones
LARGER = 8  # how many times as many rows they have
PATIENCE = 300.0  # seconds after which a measurement is given up


@dataclass(frozen=True)
class Case:
    """What is measured: a method, one kind of it ("mdav/tree"), or one of ``OTHERS``, on a table."""

    name: str
    rows: int = 20_000
    columns: int = 6
    k: int = 5
    categories: int = 20


@dataclass(frozen=True)
class Limit:
    """A large table, and what it may take."""

    case: Case
    seconds: float
    gigabytes: float


LIMITS = (
    Limit(Case("boxes", rows=5_000, columns=2_000, categories=0), seconds=180.0, gigabytes=4.0),
    Limit(Case("boxes", rows=280_005, columns=68), seconds=15.0, gigabytes=1.5),
    Limit(Case("assess", rows=100_000, columns=19), seconds=40.0, gigabytes=4.0),
)


def series(name: str, *, quick: bool) -> Iterator[tuple[str, list[Case]]]:
    """Yield the measurements of one method: sizes that double, one dimension at a time."""
    first, doubled = Case(name, rows=4_000 if quick else 16_000), (1, 2, 4) if quick else (1, 2, 4, 8)
    found = measured(first)
    start = replace(first, rows=first.rows * LARGER) if isinstance(found, dict) and found["seconds"] < QUICK else first
    yield "rows", [replace(start, rows=start.rows * factor) for factor in doubled]
    yield "columns", [replace(start, columns=16 * factor, rows=start.rows // 4) for factor in doubled]
    if name in OTHERS[1:] or "k" in options_of(name):
        yield "k", [replace(start, k=5 * factor) for factor in doubled[:3]]
    yield "categories", [replace(first, categories=120 * factor) for factor in doubled[-3:]]


def options_of(name: str) -> set[str]:
    """Return the names of the options of a method."""
    method = name.partition("/")[0]
    return {field.name for field in fields(method_class(method))} if method in METHODS else set()


def table_of(case: Case, seed: int = 0) -> dict[str, Any]:
    """Return correlated numbers, half of them with a shared value, and one column of categories."""
    draw = np.random.default_rng(seed)
    numbers = case.columns - (case.categories > 0)
    common = draw.normal(size=(case.rows, 3)) @ np.random.default_rng(1).normal(size=(3, numbers))
    values = common + draw.normal(size=(case.rows, numbers))
    values[:, ::2] = np.maximum(values[:, ::2], 0.0)
    columns: dict[str, Any] = {f"x{place}": values[:, place] for place in range(numbers)}
    if case.categories:
        codes = draw.integers(0, case.categories, case.rows)
        columns["c"] = pa.array([f"c{code:04d}" for code in range(case.categories)]).take(pa.array(codes))
    return columns


def work_of(case: Case) -> Callable[[], object]:
    """Return what is timed; what it needs is made before."""
    columns = table_of(case)
    table, roles = sf.Table.from_arrow(pa.table(columns)), dict.fromkeys(columns, "quasi")
    if case.name == "inspect":
        fitted = FittedTable.of(table, roles)
        return lambda: inspect(MemorySurvey(fitted.table), fitted.schema)
    if case.name in OTHERS:
        release = sf.Boxes(k=case.k, l=1).release(table, schema=roles, seed=1)
        if case.name == "estimate":
            return lambda: release.estimate("corr(x0, x1)")
        reference = sf.Table.from_arrow(pa.table(table_of(case, seed=2)))
        return lambda: sf.assess(table, release, reference, seed=1)
    name, _, kind = case.name.partition("/")
    options: dict[str, Any] = {"kind": kind} if kind else {}
    options |= {"k": case.k} if "k" in options_of(name) else {}
    options |= {"boxes": {"l": 1}, "recode": {"search": SEARCH}, "suppress": {"search": SEARCH}}.get(name, {})
    method = make_method(name, **options)
    return lambda: method.release(table, schema=roles, seed=1)


def measured_here(case: Case) -> dict[str, float]:
    """Return processor seconds and peak megabytes, in this process."""
    warnings.simplefilter("ignore")
    work_of(replace(case, rows=max(200, 4 * case.k), categories=min(case.categories, 20)))()
    work = work_of(case)
    peak, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    work()
    seconds = time.process_time() - start
    unit = 1e6 if sys.platform == "darwin" else 1e3  # bytes there, kilobytes elsewhere
    return {"seconds": seconds, "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) / unit}


def measured(case: Case) -> dict[str, float] | str:
    """Return the same, in a fresh process; if it failed or took too long, a text that says so."""
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"did not end within {PATIENCE:.0f} s"
    if done.returncode:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def exponent(sizes: list[float], amounts: list[float], least: float) -> float:
    """Return the slope of log(amount) over log(size) where the amount is at least ``least``; NaN without two such."""
    points = [(math.log(size), math.log(one)) for size, one in zip(sizes, amounts, strict=True) if one >= least]
    return float(np.polyfit(*zip(*points, strict=True), 1)[0]) if len(points) > 1 else math.nan


def report(name: str, dimension: str, cases: list[Case]) -> bool:
    """Measure one series and print its exponents and a verdict; return whether they are accepted."""
    found: list[dict[str, float]] = []
    for case in cases:
        one = measured(case)
        if isinstance(one, str):
            print(f"{name:>16} {dimension:>11}   {getattr(case, dimension):,}: {one}", flush=True)
            return False
        found.append(one)
    sizes = [float(getattr(case, dimension)) for case in cases]
    slopes = {unit: exponent(sizes, [one[unit] for one in found], least) for unit, least in SMALLEST.items()}
    verdict, is_fine = judged(name, dimension, slopes)
    shown = "  ".join(f"{'     –' if math.isnan(slope) else f'{slope:6.2f}'}" for slope in slopes.values())
    last = f"{sizes[-1]:>9,.0f}: {found[-1]['seconds']:8.2f} s {found[-1]['megabytes']:8,.0f} MB"
    print(f"{name:>16} {dimension:>11}   {shown}   {last}   {verdict}", flush=True)
    return is_fine


def judged(name: str, dimension: str, slopes: dict[str, float]) -> tuple[str, bool]:
    """Return the verdict on the exponents of one series, and whether they are accepted."""
    steepest = max((slope for slope in slopes.values() if not math.isnan(slope)), default=math.nan)
    most, reason = KNOWN.get((name, dimension), (MOST.get(dimension, math.inf), ""))
    if steepest > most:
        return f"too steep: at most {most:g}", False
    if reason and steepest > MOST[dimension]:
        return f"known: {reason}", True
    if math.isnan(steepest):
        return "ok: too little to grow", True
    return ("ok" if dimension in MOST else "ok: no limit"), True


def report_limit(limit: Limit) -> bool:
    """Measure one large table and print what it took; return whether it kept to its limit."""
    found, case = measured(limit.case), limit.case
    shape = f"{case.name} of {case.rows:,} × {case.columns:,}"
    if isinstance(found, str):
        print(f"{shape}: {found}", flush=True)
        return False
    is_fine = found["seconds"] <= limit.seconds and found["megabytes"] <= 1e3 * limit.gigabytes
    print(
        f"{shape}: {found['seconds']:.1f} s of processor (at most {limit.seconds:.0f}), "
        f"{found['megabytes'] / 1e3:.2f} GB (at most {limit.gigabytes:g})   {'ok' if is_fine else 'too much'}",
        flush=True,
    )
    return is_fine


def main() -> int:
    """Run the benchmark; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables")
    parser.add_argument("--only", default="", help="names of methods, inspect, estimate or assess, separated by commas")
    parser.add_argument("--limits", action="store_true", help="only the large tables with limits")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured_here(Case(**json.loads(given.one)))))
        return 0
    if given.limits:
        kept = [report_limit(limit) for limit in LIMITS]
        return 0 if all(kept) else 1
    print(f"{'':>16} {'':>11}   {'time^':>6}  {'mem^':>6}   largest", flush=True)
    names = given.only.split(",") if given.only else [*sorted([*METHODS, *KINDS]), *OTHERS]
    start = time.monotonic()
    fine = [report(name, dimension, cases) for name in names for dimension, cases in series(name, quick=given.quick)]
    print(f"{sum(fine)} of {len(fine)} lines ok, in {(time.monotonic() - start) / 60:.0f} minutes", flush=True)
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
