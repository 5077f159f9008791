"""What tables with many more columns than rows cost: genotypes of people, as in genetics (TL §6.3).

    python benchmarks/studies/genotypes.py [--rows 2000] [--columns 100000] [--keep]

Genotypes (0, 1 or 2 copies of an allele, one byte each) of people of four populations are released by ``SvdSwap`` and
by ``PartitionedIca``, and the measures of an assessment compare a release with the original and with as many people
who never took part. Each is measured in a process of its own, whose peak memory includes the tables; seconds are those
of the clock. ``--keep`` adds the figures to those in ``scale_figures.json``.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
import pyarrow as pa

import scale_page
import sfumato as sf

POPULATIONS = 4
SPREAD = 8.0  # the share of an allele in a population is Beta distributed about the overall share, with this weight
METHODS = {"svd-swap": sf.SvdSwap(), "pica": sf.PartitionedIca()}
STEPS = {
    "svd-swap": "a release by `SvdSwap`",
    "pica": "a release by `PartitionedIca`",
    "assess": "the assessment of a release, with a reference",
}


def genotypes(rows: int, columns: int, people: int) -> sf.Table:
    """Return genotypes of people of several populations; ``people`` numbers the draw of the people."""
    shared, own = np.random.default_rng(0), np.random.default_rng([1, people])
    population = own.integers(0, POPULATIONS, rows)
    cells = {}
    for number in range(columns):
        share = shared.uniform(0.1, 0.9)
        shares = shared.beta(SPREAD * share, SPREAD * (1.0 - share), POPULATIONS)
        cells[f"snp{number}"] = pa.array(own.binomial(2, shares[population]).astype(np.int8))
    return sf.Table.from_arrow(pa.table(cells))


def measure(step: str, rows: int, columns: int) -> dict[str, float]:
    """Return what one step costs."""
    table = genotypes(rows, columns, 0)
    roles = {name: {"role": "quasi", "kind": "whole"} for name in table.names}  # also where nobody has two copies
    begun = time.perf_counter()
    release = METHODS.get(step, METHODS["svd-swap"]).release(table, schema=roles)
    if step == "assess":
        reference, begun = genotypes(rows, columns, 1), time.perf_counter()
        sf.assess(table, release, reference=reference)
    wall = time.perf_counter() - begun
    return {"wall": wall, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def main() -> None:
    """Measure each step in a process of its own, print and, if asked for, keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=100_000)
    parser.add_argument("--step", choices=STEPS, help="measure this one in this process")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    size = {"rows": options.rows, "columns": options.columns}
    if options.step:
        print(json.dumps(measure(options.step, **size)))
        return
    runs = []
    for step in STEPS:
        words = [f"--rows={options.rows}", f"--columns={options.columns}", f"--step={step}"]
        told = subprocess.run([sys.executable, __file__, *words], check=True, stdout=subprocess.PIPE, text=True)
        runs.append({"step": step, **json.loads(told.stdout.splitlines()[-1])})
        print(runs[-1], flush=True)
    if options.keep:
        scale_page.keep("genotypes", {**size, "runs": [{**run, "said": STEPS[str(run["step"])]} for run in runs]})


if __name__ == "__main__":
    main()
