"""The first release of every method in a fresh environment, where no kernel has been compiled.

    python benchmarks/studies/cold_start.py [--rows 500,5000,50000] [--only "NAME;…"] [--kernels]

Each release is made twice, each time in a process of its own: with an empty cache, and with the cache that the first
left. Times are those of all processors, imports included, so they tell about the same on a busy machine. Small tables
have a limit for the whole release; large ones have one for compiling, which is the difference of both releases. A
search that ends by the clock gets ``SEARCH`` seconds. ``--kernels`` lists what was compiled. The exit code is 1 if a
limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

WHOLE = {500: 4.0, 5_000: 10.0}  # seconds for the first release of a table with so many rows
COMPILING = {"boxes": 25.0}  # seconds for compiling what a method needs for a larger table
OTHERS = 10.0
SEARCH = 1.0
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {  # kinds that call other kernels
    "boxes, l = 1": ("boxes", {"l": 1}),
    "boxes, cells": ("boxes", {"l": 1, "edges": "cells"}),
    "mdav, tree": ("mdav", {"kind": "tree"}),
    "recode, local": ("recode", {"kind": "local"}),
}


def release(name: str, rows: int) -> None:
    """Release a table with six numeric columns and two of categories; print what it took."""
    import logging
    import warnings

    import numpy as np

    from sfumato.errors import SfumatoError
    from sfumato.methods.base import make_method, method_class
    from sfumato.params import options_of

    warnings.simplefilter("ignore")
    kernels: list[str] = []
    logger, handler = logging.getLogger("sfumato.kernels"), logging.Handler()
    handler.emit = lambda record: kernels.append(record.getMessage())  # type: ignore[method-assign]
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    generator = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{axis}": generator.normal(size=rows) for axis in range(6)}
    columns |= {"c": generator.choice(list("abc"), rows), "s": generator.choice(list("pq"), rows)}
    roles = dict.fromkeys(columns, "quasi") | {"s": "sensitive"}
    method, options = VARIANTS.get(name, (name, {}))
    known = {option.name: option for option in options_of(method_class(method))}
    options = {key: one.declared.strengths[1] for key, one in known.items() if one.is_required} | options
    if "k" in known:
        options["k"] = 5
    if method in ("recode", "suppress"):
        options["search"] = SEARCH
    answer = "released"
    try:
        make_method(method, **options).release(columns, schema=roles, seed=0)
    except SfumatoError as error:
        answer = error.message
    print(json.dumps({"seconds": time.process_time(), "answer": answer, "kernels": kernels[1:]}))


def measure(name: str, rows: int, cache: str) -> dict[str, Any]:
    """Return what a release takes in a process of its own."""
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, __file__, "--release", name, "--rows", str(rows)]
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    answer["seconds"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return answer


def show(name: str, rows: int, list_kernels: bool) -> bool:
    """Print a line with the figures of a release; return whether they are within their limit."""
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = measure(name, rows, cache), measure(name, rows, cache)
    compiling = max(cold["seconds"] - warm["seconds"], 0.0)
    if rows in WHOLE:
        taken, limit, of = cold["seconds"], WHOLE[rows], "whole"
    else:
        taken, limit, of = compiling, COMPILING.get(name.split(",", maxsplit=1)[0], OTHERS), "compiling"
    verdict = "ok" if taken <= limit else "TOO SLOW"
    note = "" if cold["answer"] == "released" else f"  ({cold['answer']})"
    figures = f"{cold['seconds']:8.1f} {warm['seconds']:8.1f} {compiling:10.1f}"
    print(f"{name:<16} {rows:>7,} {figures}   {of} at most {limit:.0f}: {verdict}{note}", flush=True)
    if list_kernels:
        for line in cold["kernels"]:
            print(f"    {line}")
    return taken <= limit


def main() -> int:
    """Measure every method on tables of all sizes."""
    from sfumato.methods.base import METHODS

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="500,5000,50000")
    parser.add_argument("--only", default="")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--release")
    given = parser.parse_args()
    if given.release:
        release(given.release, int(given.rows))
        return 0
    names = [name for name in given.only.split(";") if name] or sorted([*METHODS, *VARIANTS])
    print(f"{'method':<16} {'rows':>7} {'cold':>8} {'warm':>8} {'compiling':>10}   seconds of processor time")
    within = [show(name, int(rows), given.kernels) for rows in given.rows.split(",") for name in names]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
