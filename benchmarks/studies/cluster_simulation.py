"""What a release of 10¹⁰ rows on a cluster would take, simulated from measured costs of blocks and of the driver.

    python benchmarks/studies/cluster_simulation.py [--rows 200000] [--keep]

Releases of ``Boxes`` run on a local Spark with one task at a time. Measured are seconds of processor, which other
programs on the machine do not change much: of Java and the Python workers during each step, and of the driver's Python
all the time. A few blocks of ``--rows`` rows give the cost of a row in each step. Many small blocks, twice and eight
times as many, give what each block costs beyond its rows, on the cluster and on the driver.

The simulation counts for each step how many tasks one after the other a processor does, and adds the driver's time,
during which all processors wait. It does not count networks and disks, which are not measured here, nor tasks that
fail. ``--keep`` puts the figures into ``scale_figures.json``; ``scale_page.py`` writes the page.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scale_page
import sfumato as sf
from sfumato.engines.spark.cluster import Cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS, K = 4, 5
LARGE_BLOCKS, SMALL_ROWS, SMALL_BLOCKS = 4, 2_000, (16, 128)
BLOCK_ROWS = 2_000_000  # of the simulated cluster: the most that a block has
ROWS, PROCESSORS = (10**8, 10**9, 10**10), (64, 512, 4096)
TICKS = os.sysconf("SC_CLK_TCK")


def processor_of_children() -> float:
    """Return the seconds of processor that all descendants of this process have used, those that ended included."""
    parents, used = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(folder.name)] = int(fields[1])
        used[int(folder.name)] = sum(map(int, fields[11:15])) / TICKS

    def is_below(process: int) -> bool:
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return sum(seconds for process, seconds in used.items() if process != os.getpid() and is_below(process))


@contextmanager
def measured_steps() -> Iterator[dict[str, float]]:
    """Yield the seconds of processor of the cluster in each step, by the words of the log."""
    steps: dict[str, float] = defaultdict(float)
    plain = Cluster.run_stages

    def run_stages(self: Cluster, work: Any, what: str, stages: int = 1) -> Any:
        before = processor_of_children()
        try:
            return plain(self, work, what, stages)
        finally:
            steps[what] += processor_of_children() - before

    Cluster.run_stages = run_stages  # type: ignore[method-assign]
    try:
        yield steps
    finally:
        Cluster.run_stages = plain  # type: ignore[method-assign]


def measure(spark: SparkSession, blocks: int, rows: int, folder: Path) -> dict[str, Any]:
    """Return the cost of a release in so many blocks of so many rows."""
    draw = np.random.default_rng(0)
    source = folder / f"{blocks}-{rows}.parquet"
    pq.write_table(pa.table({f"x{one}": draw.normal(size=blocks * rows) for one in range(COLUMNS)}), source)
    roles = {f"x{one}": "quasi" for one in range(COLUMNS)}
    driver = time.process_time()
    with measured_steps() as steps:
        engine = sf.Spark(spark, block_rows=rows)
        sf.Boxes(k=K, l=1).release(source, schema=roles, engine=engine, into=folder / f"out-{blocks}-{rows}")
    return {"blocks": blocks, "rows": rows, "steps": dict(steps), "driver": time.process_time() - driver}


def costs(runs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the cost of a row and of a block in each step, and the driver's fixed cost and that of a block."""
    large, few, many = runs
    difference = many["blocks"] - few["blocks"]
    per_block = {
        step: max((many["steps"].get(step, 0.0) - few["steps"].get(step, 0.0)) / difference, 0.0)
        for step in large["steps"]
    }
    rows = large["blocks"] * large["rows"]
    per_row = {
        step: max(seconds - large["blocks"] * per_block[step], 0.0) / rows for step, seconds in large["steps"].items()
    }
    each = max((many["driver"] - few["driver"]) / difference, 0.0)
    return {"row": per_row, "block": per_block, "driver": large["driver"], "driver block": each}


def simulate(found: Mapping[str, Any], rows: int, processors: int) -> dict[str, float]:
    """Return the hours that a release of so many rows takes, and the share of them in which only the driver works."""
    blocks = math.ceil(rows / BLOCK_ROWS)
    rounds = math.ceil(blocks / processors)
    cluster = sum(rounds * (found["block"][step] + found["row"][step] * rows / blocks) for step in found["row"])
    driver = found["driver"] + found["driver block"] * blocks
    return {
        "rows": rows,
        "processors": processors,
        "blocks": blocks,
        "seconds": cluster + driver,
        "driver": driver,
        "processor": rows * sum(found["row"].values()) + blocks * sum(found["block"].values()),
    }


def main() -> None:
    """Measure and simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        measure(spark, 2, SMALL_ROWS, place)  # compilers and caches are warm afterwards
        runs = [measure(spark, LARGE_BLOCKS, options.rows, place)]
        runs += [measure(spark, blocks, SMALL_ROWS, place) for blocks in SMALL_BLOCKS]
    spark.stop()
    found = costs(runs)
    simulated = [simulate(found, rows, processors) for rows in ROWS for processors in PROCESSORS]
    for one in simulated:
        print({name: round(value, 1) for name, value in one.items()})
    for step, seconds in found["row"].items():
        print(f"{step}: {1e6 * seconds:.2f} s per million rows, {found['block'][step]:.3f} s per block")
    print(f"driver: {found['driver']:.1f} s and {found['driver block']:.4f} s per block")
    if options.keep:
        shape = {"columns": COLUMNS, "k": K, "block rows": BLOCK_ROWS, "measured rows": LARGE_BLOCKS * options.rows}
        scale_page.keep("simulation", {**shape, "costs": found, "simulated": simulated})


if __name__ == "__main__":
    main()
