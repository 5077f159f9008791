"""Loss and time of microaggregation, as ratios to MDAV in the same run.

    python benchmarks/microaggregation.py [seconds of each search, default 10]

The loss is 100 SSE/SST on standardised columns. The tables of the CASC project are looked for in SFUMATO_DATA, or
shared/data beside the repository; without them only the table of normal numbers is used.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import sfumato as sf

FOLDER = Path(os.environ.get("SFUMATO_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data") / "casc"
PUBLISHED = {"Census": {3: 5.692, 5: 9.088, 10: 14.156}, "EIA": {3: 0.483, 5: 1.667, 10: 3.840}}
KINDS = ("mdav", "vmdav", "tree", "search", "fuzzy", "single", "projection")
FASTEST = 3  # runs of a short measurement, of which the fastest counts


def tables() -> dict[str, pd.DataFrame]:
    """Return the benchmark tables; EIA's eleven columns are those of the published figures."""
    if not FOLDER.is_dir():
        return {}
    census, eia = (pd.read_csv(FOLDER / f"{name}.csv") for name in ("census", "eia"))
    chosen = ["UTILITYID", *(name for name in eia if name.endswith(("REVENUE", "SALES")))]
    return {"Census": census.astype(float), "EIA": eia[chosen].astype(float)}


def loss(table: pd.DataFrame, k: int, **options: object) -> float:
    """Return 100 SSE/SST: group means keep the mean, so what is lost is what the variance loses."""
    release = sf.Microaggregate(k=k, **options).release(table, schema=dict.fromkeys(table, "quasi"), seed=1)
    released = release.table.to_pandas()[list(table)]
    return 100.0 * float(np.mean(1.0 - released.var(ddof=0) / table.var(ddof=0)))


def compared(name: str, table: pd.DataFrame, seconds: float) -> None:
    """Print the loss of each kind."""
    for k, published in PUBLISHED[name].items():
        print(f"{name}, k = {k}; published for MDAV: {published}")
        base = loss(table, k, kind="mdav")
        for kind in KINDS:
            found = loss(table, k, kind=kind, **({"search": seconds} if kind == "search" else {}))
            print(f"  {kind:12} loss {found:7.3f} %, {found / base:5.3f} × MDAV")


def grouped(rows: int) -> None:
    """Print loss and processor time of the tree and of MDAV, without the rest of a release."""
    from sfumato.methods.microaggregate.grouping import GROUPINGS, squared_error

    matrix, generator = np.random.default_rng(42).normal(size=(rows, 10)), np.random.default_rng(1)
    times, losses = {}, {}
    for kind in ("mdav", "tree"):
        GROUPINGS[kind](matrix[:3000], 5, generator)  # compiles the kernels
        taken = []
        for _ in range(1 if kind == "mdav" and rows > 20_000 else FASTEST):
            begun = time.process_time()
            labels = GROUPINGS[kind](matrix, 5, generator)
            taken.append(time.process_time() - begun)
        times[kind], losses[kind] = min(taken), 100.0 * squared_error(matrix, labels) / matrix.var(axis=0).sum() / rows
    print(f"{rows:,} × 10 normal numbers, k = 5: MDAV {losses['mdav']:.2f} % in {times['mdav']:.2f} s; ", end="")
    print(f"tree {losses['tree'] / losses['mdav']:.3f} × its loss, 1/{times['mdav'] / times['tree']:.0f} of its time")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, table in tables().items():
        compared(name, table, float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
    for rows in (20_000, 100_000):
        grouped(rows)
