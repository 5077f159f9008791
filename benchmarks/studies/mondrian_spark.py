"""Sfumato and a published Mondrian for Spark on the same rows, machine and session.

    python benchmarks/studies/mondrian_spark.py [--rows 20000] [--only spark,memory,duckdb] [--seconds 1800] [--keep]

The rival is the algorithm of De Capitani di Vimercati, Facchinetti, Foresti, Oldani, Paraboschi, Rossi and Samarati,
"Scalable Distributed Data Anonymization for Large Datasets", IEEE Transactions on Big Data 9(3), 2023, whose program is
github.com/mosaicrown/mondrian: fragments by quantiles of one column of a sample, then strict Mondrian in each fragment
by a Pandas function. It is written anew here, with the same cuts in the same order, and without what the program
prints, counts and caches meanwhile. Where the program labels each row in the frame, this one fills an array, which is
faster, and texts are Python objects as in the pandas of the program. Two other published ones, spark-privacy-preserver
and polarfrost, run the same recursion on the whole table in a single task.

A Mondrian that takes longer than ``--seconds`` is stopped. ``--keep`` puts the figures into ``scale_figures.json``, in
place of those with the same name and number of rows; ``scale_page.py`` writes the page.

The rows have the nine columns of the Adult table with invented distributions. The loss of a release is the mean over
rows and columns of (width of the interval) / (range of the column), or (values in the set − 1) / (values − 1).
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import math
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import scale_page
import sfumato as sf

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Run = Callable[["SparkSession", Path, Path, int], None]  # with the rows, the target and k

FILES = 8
FRAGMENTS = 4  # the program's default number of workers
SAMPLE = 0.1  # share of the rows that quantiles are computed from
VALUES = {
    "sex": 2,
    "race": 5,
    "marital": 7,
    "education": 16,
    "country": 41,
    "workclass": 8,
    "occupation": 14,
    "salary": 2,
}
NAMES = ["age", *VALUES]


def make_rows(folder: Path, rows: int) -> None:
    """Write rows whose columns depend on a hidden variable; categories have the frequencies 1 : 1/2 : 1/3 …"""
    folder.mkdir()
    rng = np.random.default_rng(7)
    for number in range(FILES):
        count = rows // FILES
        hidden = rng.standard_normal(count)
        columns: dict[str, Any] = {"age": np.clip(38 + 13 * (0.5 * hidden + rng.standard_normal(count)), 17, 90)}
        columns["age"] = columns["age"].astype(np.int64)
        for name, size in VALUES.items():
            shares = np.cumsum(1 / np.arange(1, size + 1)) / np.sum(1 / np.arange(1, size + 1))
            mixed = 0.4 * hidden + np.sqrt(1 - 0.4**2) * rng.standard_normal(count)
            place = np.searchsorted(shares, np.argsort(np.argsort(mixed)) / count, side="right")
            columns[name] = pa.DictionaryArray.from_arrays(
                place, [f"{name} {value:02d}" for value in range(size)]
            ).dictionary_decode()
        pq.write_table(pa.table(columns), folder / f"part{number}.parquet")


def mondrian(spark: SparkSession, source: Path, target: Path, k: int) -> None:
    """Release rows by fragments and strict Mondrian in each."""
    from pyspark.sql.types import StringType, StructField, StructType

    frame = spark.read.parquet(f"file://{source}")
    column, ends = _quantiles(frame.sample(SAMPLE, seed=1).toPandas())
    cases = " ".join(f"WHEN `{column}` < {end} THEN {number}" for number, end in enumerate(ends))
    shape = StructType([StructField(name, StringType()) for name in NAMES])
    together = frame.selectExpr("*", f"CASE {cases} ELSE {len(ends)} END AS fragment").repartitionByRange("fragment")
    released = together.groupBy("fragment").applyInPandas(partial(_anonymized, k=k), shape)
    released.write.parquet(f"file://{target}")


def _quantiles(sample: pd.DataFrame) -> tuple[str, list[float]]:
    """Return the column of numbers with the most values, and its inner quantiles."""
    numbers = sample.select_dtypes("number")
    column = max(numbers.columns, key=lambda name: numbers[name].nunique())
    return column, sorted({float(numbers[column].quantile(n / FRAGMENTS)) for n in range(1, FRAGMENTS)})


def _anonymized(rows: pd.DataFrame, k: int) -> pd.DataFrame:
    import pandas as pd

    rows = rows[NAMES].reset_index(drop=True).astype(dict.fromkeys(VALUES, object))
    labels = {name: np.empty(len(rows), dtype=object) for name in NAMES}
    for part in _parts(rows, k):
        for name in NAMES:
            labels[name][part.index] = _label(part[name])
    return pd.DataFrame(labels)


def _parts(rows: pd.DataFrame, k: int) -> Iterator[pd.DataFrame]:
    """Cut breadth first, over the column with the most values that can be cut."""
    waiting = collections.deque([rows])
    while waiting:
        part = waiting.popleft()
        scores = sorted(((part[name].nunique(), name) for name in NAMES), reverse=True)
        for _, name in scores:
            left = _left(part[name])
            if k <= left.sum() <= len(part) - k:
                waiting += [part[left], part[~left]]
                break
        else:
            yield part


def _left(cells: pd.Series) -> pd.Series:
    """Return which rows are below the median, or have one of the most frequent values that make up half of the rows."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(cells):
        return cells < cells.median()
    counts = cells.value_counts()
    before = np.cumsum(counts.to_numpy())
    cut = int(np.searchsorted(before, len(cells) // 2)) + 1
    if before[cut - 1] - counts.iloc[cut - 1] > len(cells) - before[cut - 1]:
        cut -= 1  # the value in the middle goes to the smaller side
    return cells.isin(counts.index[:cut])


def _label(cells: pd.Series) -> str:
    import pandas as pd

    values = cells.unique()
    if len(values) == 1:
        return str(values[0])
    if pd.api.types.is_numeric_dtype(cells):
        return f"{cells.min()}..{cells.max()}"
    return "|".join(sorted(values))


def on_spark(spark: SparkSession, source: Path, target: Path, k: int) -> None:
    """Release rows by boxes, on Spark."""
    frame = spark.read.parquet(f"file://{source}")
    sf.Boxes(k=k).release(frame, schema=dict.fromkeys(NAMES, "quasi"), engine=sf.Spark(spark), into=target)


def in_memory(spark: SparkSession, source: Path, target: Path, k: int) -> None:
    """Release rows by boxes, in memory."""
    roles = dict.fromkeys(NAMES, "quasi")
    sf.Boxes(k=k).release(f"{source}/*.parquet", schema=roles, engine="memory", into=target)


def with_duckdb(spark: SparkSession, source: Path, target: Path, k: int) -> None:
    """Release rows by boxes, with DuckDB in 4 GB."""
    roles = dict.fromkeys(NAMES, "quasi")
    sf.Boxes(k=k).release(f"{source}/*.parquet", schema=roles, engine=sf.DuckDB(memory="4GB"), into=target)


def measured(target: Path, rows: int) -> dict[str, float]:
    """Return the smallest group, the mean group and the loss of a release, from its files."""
    import duckdb

    files = [str(file) for file in target.rglob("*.parquet") if file.is_file()]
    found = duckdb.read_parquet(files)
    own = "age_low" in found.columns
    ends = ("age_low", "age_high") if own else [f"CAST(split_part(age, '..', {n}) AS DOUBLE)" for n in (1, -1)]
    parts = [f"avg({ends[1]} - {ends[0]}) / 73"]
    parts += [f"avg(length({name}) - length(replace({name}, '|', ''))) / {size - 1}" for name, size in VALUES.items()]
    keys = ", ".join([*(("age_low", "age_high") if own else ("age",)), *VALUES])
    (loss, count), *_ = duckdb.sql(f"SELECT ({' + '.join(parts)}) / {len(NAMES)}, count(*) FROM found").fetchall()
    sizes = f"SELECT count(*) AS n FROM found GROUP BY {keys}"
    (least, groups), *_ = duckdb.sql(f"SELECT min(n), count(*) FROM ({sizes})").fetchall()
    assert count == rows
    return {"least": least, "mean group": count / groups, "loss": loss}


def processor_seconds() -> float:
    """Return the processor time of this process and of all that descend from it: Java and the Python workers."""
    spent: dict[int, tuple[int, float]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended meanwhile
            fields = file.read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])  # of the process, and of the system for it
            spent[int(file.parent.name)] = int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")

    def is_ours(pid: int) -> bool:
        while pid in spent and pid != os.getpid():
            pid = spent[pid][0]
        return pid == os.getpid()

    return sum(used for pid, (_, used) in spent.items() if is_ours(pid))


def compare(
    spark: SparkSession, names: Sequence[str], rows: int, k: int, limit: float = math.inf
) -> Iterator[dict[str, Any]]:
    """Release the same rows in each way; yield seconds and losses."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in"
        make_rows(source, rows)
        for name in names:
            target, title = Path(folder) / name, TITLES[name]
            start, used = time.perf_counter(), processor_seconds()
            ended = _ended(spark, partial(RUNS[name], spark, source, target, k), limit)
            found = {"name": title, "rows": rows, "seconds": time.perf_counter() - start}
            found["processor"] = processor_seconds() - used
            yield found | (measured(target, rows) if ended else {})


def _ended(spark: SparkSession, work: Callable[[], None], limit: float) -> bool:
    """Do the work; return whether it ended, and was not cancelled, within so many seconds."""
    late = threading.Event()

    def cancel() -> None:
        late.set()
        spark.sparkContext.cancelAllJobs()

    clock = threading.Timer(limit, cancel)
    if math.isfinite(limit):
        clock.start()
    try:
        work()
    except Exception:
        if not late.is_set():
            raise
    finally:
        clock.cancel()
    return not late.is_set()


def keep(found: Sequence[dict[str, Any]]) -> None:
    """Put runs in the place of those with the same name and number of rows."""
    known = scale_page.kept().get("mondrian", {}).get("runs", [])
    runs = {(run["name"], run["rows"]): run for run in (*known, *found)}
    scale_page.keep("mondrian", {"runs": list(runs.values())})


RUNS: dict[str, Run] = {"memory": in_memory, "duckdb": with_duckdb, "spark": on_spark, "mondrian": mondrian}
TITLES = {
    "memory": "boxes in memory, verified and written",
    "duckdb": "boxes with DuckDB, verified and written",
    "spark": "boxes on Spark, verified and written",
    "mondrian": "Mondrian on Spark",
}


def main() -> None:
    """Run all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--only", default=",".join(RUNS))
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    if find_spec("pyspark") is None or shutil.which("java") is None:
        print("not measured: Java or PySpark is not installed (pip install 'sfumato[spark]')")
        return
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "3g"}
    spark = SparkSession.builder.master(options.master).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    names = options.only.split(",")
    list(compare(spark, names, FILES * 250, options.k))  # starts the workers and compiles
    for found in compare(spark, names, options.rows // FILES * FILES, options.k, options.seconds):
        print(json.dumps(found), flush=True)
        if options.keep:
            keep([found])
    spark.stop()


if __name__ == "__main__":
    main()
