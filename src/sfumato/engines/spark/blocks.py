"""Rows routed to blocks: each task routes a file, and Spark brings the rows of a block together in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.out_of_core.source import StoredRows
from sfumato.engines.spark.cluster import Cluster, partition_keys
from sfumato.engines.spark.failures import without_text
from sfumato.engines.spark.scan import NumberedFile, numbered_files
from sfumato.engines.spark.source import BLOCK, KEY, PLACE, quote_name
from sfumato.errors import GuaranteeNotMet, items_without_cause
from sfumato.plan.plan import Plan
from sfumato.table.table import Table

STAGES = 2  # of the routing: route, and bring together


@dataclass(frozen=True, repr=False)
class SparkBlocks:
    """The original rows, block by block, in files of the workspace."""

    folder: Path
    stored: StoredRows
    rows: NDArray[np.int64]  # number of rows of each block

    def read(self, number: int) -> Table:
        """Return the original rows of a block, in the order of their numbers."""
        import pyarrow.parquet as pq

        files = _files(self.folder, number)  # Spark may write instants in nanoseconds, which end in the year 2262
        parts = [pq.read_table(file, partitioning=None, coerce_int96_timestamp_unit="us") for file in files]
        arrow = pa.concat_tables(parts)
        keys = arrow.column(KEY).to_numpy()
        if np.any(keys[1:] < keys[:-1]):
            arrow = arrow.take(pa.array(np.argsort(keys)))
        return self.stored.to_table(arrow.select(list(self.stored.names)))


def route_rows(plan: Plan, stored: StoredRows, cluster: Cluster, batch_rows: int) -> SparkBlocks:
    """Route every row to its block, and write each block into a folder of its own."""
    from pyspark.sql.types import IntegerType, LongType, StructType

    folder, files = cluster.folder / "blocks", numbered_files(stored.relation)
    fields = cluster.read(stored.relation.files).select([quote_name(name) for name in stored.names])
    shape = StructType([*fields.schema.fields])
    for name, kind in ((BLOCK, LongType()), (KEY, LongType()), (PLACE, IntegerType())):
        shape = shape.add(name, kind)
    numbers = cluster.spark.range(0, len(files), 1, len(files))
    routed = numbers.mapInArrow(_router(plan, stored, files, batch_rows), shape)
    together = routed.repartition(plan.blocks, PLACE).drop(PLACE)  # one task for each block
    writer = together.sortWithinPartitions(BLOCK, KEY).write.partitionBy(BLOCK)
    cluster.run_stages(lambda: writer.parquet(f"file://{folder}"), "sorting rows into blocks", STAGES)
    written = [(number, file) for number in range(plan.blocks) for file in _files(folder, number)]
    counts = [footer.rows for footer in cluster.look([file for _, file in written])]
    rows = np.bincount([number for number, _ in written], counts, minlength=plan.blocks).astype(np.int64)
    if rows.sum() != stored.rows:
        raise GuaranteeNotMet(
            "Every row must be in one block.", found=f"{rows.sum():,} rows of {stored.rows:,}", fix="release again"
        )
    return SparkBlocks(folder, stored, rows)


def _router(
    plan: Plan, stored: StoredRows, files: Sequence[NumberedFile], batch_rows: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def route(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = _route_file(plan, stored, files[number], batch_rows)
                yield from items_without_cause(rows, Exception, without_text)

    return route


def _route_file(plan: Plan, stored: StoredRows, file: NumberedFile, batch_rows: int) -> Iterator[pa.RecordBatch]:
    places = partition_keys(plan.blocks)
    for keys, arrow in file.batches(stored, stored.names, batch_rows):
        blocks = plan.route(stored.to_table(arrow), keys)
        named = {
            BLOCK: pa.array(blocks, pa.int64()),
            KEY: pa.array(keys.astype(np.int64)),
            PLACE: pa.array(places[blocks]),
        }
        yield from pa.table([*arrow.columns, *named.values()], names=[*arrow.column_names, *named]).to_batches()


def _files(folder: Path, number: int) -> list[Path]:
    return sorted((folder / f"{BLOCK}={number}").glob("*.parquet"))
