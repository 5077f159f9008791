"""Bring a source into Parquet files of the workspace, which all later steps read.

Rows that Spark reads are written once, in an order that depends on their content alone. The number of a row is then the
same however the cluster divides the work and whichever tasks it repeats, and a table that changes meanwhile is read in
one state.
"""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.base import is_spark_frame
from sfumato.engines.out_of_core.source import Relation, StoredRows, orders_in, plain_batches, spool_tables
from sfumato.engines.spark.cluster import Cluster, partition_keys, tasks_at_once
from sfumato.errors import SchemaError, TableError
from sfumato.formats.raw_files import file_format
from sfumato.release.rows import file_url
from sfumato.schema.columns import Column
from sfumato.schema.schema import convert
from sfumato.sources.base import TableSource, may_name_table, scheme_of
from sfumato.sources.files import FileSource, Partitions, is_hidden, matching_files
from sfumato.sources.frames import as_table
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructField

BATCH_ROWS = 1 << 17
PLAIN = ("boolean", "byte", "short", "integer", "long", "decimal", "date", "timestamp_ntz")
TEXT = ("string", "char", "varchar", "void")  # also with a collation, under which different texts could count as equal
START = "TIMESTAMP_NTZ'1970-01-01 00:00:00'"  # of the counts of microseconds
DELTA = "_delta_log"
STAGES = 2  # of the copy: share the rows out, and write them
FILE_ROWS, WORTH_A_FILE = 1_000_000, 50_000  # of a file of the copy, which one task reads
BLOCK, KEY, PLACE = "sfumato_block", "sfumato_key", "sfumato_place"  # columns of temporary files and frames only


def relation_of(source: Any, cluster: Cluster) -> Relation:
    """Return the rows of a source as a relation in the folder of the cluster."""
    read = _frame(source, cluster)
    if read is not None:
        return replace(_copy_rows(read.frame, cluster), orders=read.orders)
    if isinstance(source, TableSource) and not isinstance(source, FileSource):
        relation = spool_tables(plain_batches(source.batches()), cluster.folder, "source")
        require_names(relation.types)
        return relation
    table = as_table(source)
    require_names(table.names)
    slices = (table.arrow.slice(start, BATCH_ROWS) for start in range(0, max(table.rows, 1), BATCH_ROWS))
    return spool_tables(slices, cluster.folder, "source")


@dataclass(frozen=True, repr=False)
class _Frame:
    """What Spark reads, and the categories of ordered columns, which are text to Spark."""

    frame: DataFrame
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def _frame(source: Any, cluster: Cluster) -> _Frame | None:
    """Return what Spark itself reads; None otherwise.

    That is a frame, Parquet files, a folder or URL of Parquet files, or the name of a view or table of the session, if
    no file is called so.
    """
    if is_spark_frame(source):
        return _Frame(source)
    if isinstance(source, str | Path):
        source = FileSource(source)
    if not isinstance(source, FileSource):
        return None
    path = str(source.path)
    if scheme_of(path):
        return _Frame(cluster.run(lambda: cluster.spark.read.parquet(path)))
    folder = Path(path).expanduser()
    if folder.is_dir():
        inside = _files_alike(folder, cluster)
        return _Frame(cluster.run(lambda: cluster.spark.read.parquet(file_url(folder))), orders_in(inside))
    if may_name_table(path) and cluster.run(lambda: cluster.spark.catalog.tableExists(path)):
        return _Frame(cluster.run(lambda: cluster.spark.table(path)))
    files = matching_files(source.path)
    if {file_format(file) for file in files} != {"parquet"}:
        return None
    source.require_no_header(files[0])
    Relation.of(files, look=cluster.look)  # names the file that is broken or has other columns
    above = _above_partitions(files) if Partitions.of(source.path, files) else None
    return _Frame(cluster.read(files, above), orders_in(files))


def _above_partitions(files: Sequence[Path]) -> Path:
    """Return the folder above all folders such as ``year=2020``, whose names are columns to Spark."""
    shared = Path(os.path.commonpath([file.absolute().parent for file in files]))
    return next((folder.parent for folder in reversed((shared, *shared.parents)) if "=" in folder.name), shared)


def _files_alike(folder: Path, cluster: Cluster) -> list[Path]:
    """Return the files in a folder; raise unless they have the same columns: Spark takes those of one for all."""
    if (folder / DELTA).is_dir():
        raise TableError(
            "The files of a Delta table also hold rows that were deleted.",
            found=f"a folder {DELTA}",
            fix="read it with Spark, and pass the frame",
        )
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and not is_hidden(file.relative_to(folder))]
    if files:  # otherwise Spark says what is missing
        Relation.of(files, look=cluster.look)
    return files


def _copy_rows(frame: DataFrame, cluster: Cluster) -> Relation:
    """Write the rows in the order of a hash of all cells; equal rows are neighbours and interchangeable.

    Hashes are spread evenly, so each task gets a range of them that is known beforehand. Whatever the number of tasks
    is, their files have the rows in the same order.
    """
    from pyspark.sql import functions

    require_names(frame.columns)
    folder = cluster.folder / "source"
    plain = frame.select([_plain(field) for field in frame.schema.fields])
    names = [functions.col(quote_name(name)) for name in plain.columns]
    rows = cluster.run_stages(frame.count, "counting rows")
    tasks = max(-(-rows // FILE_ROWS), min(tasks_at_once(cluster.spark), -(-rows // WORTH_A_FILE)), 1)
    key = functions.xxhash64(*names)
    ranked = (functions.shiftright(key, 33) + (1 << 30)) * tasks  # the upper 31 bits of the key, in ascending order
    place = functions.get(functions.lit(partition_keys(tasks).tolist()), functions.shiftright(ranked, 31).cast("int"))
    ordered = plain.repartition(tasks, place).sortWithinPartitions(key, *names)
    writer = ordered.write.option("maxRecordsPerFile", 2 * FILE_ROWS)  # many equal rows are in several files
    cluster.run_stages(lambda: writer.parquet(f"file://{folder}"), "copying rows", STAGES)
    files = sorted(folder.glob("part-*.parquet"))
    if not rows or not files:
        raise TableError("A table must have rows to be released.", found="no rows")
    return Relation.of(files, look=cluster.look)


def require_names(names: Iterable[str]) -> None:
    """Raise unless Spark can tell these columns from each other and from its own."""
    counted = Counter([name.lower() for name in names] + [BLOCK, KEY, PLACE])
    repeated = sorted(name for name, times in counted.items() if times > 1)
    if repeated:
        raise TableError(
            f"Column names must be unique, also without regard to case, and not {BLOCK!r}, {KEY!r} or {PLACE!r}.",
            found=f"{', '.join(map(repr, repeated))} more than once or reserved",
            fix="rename the columns",
        )


def _plain(field: StructField) -> SparkColumn:
    """Return a column with one of the types that tables have; NaN is missing, and moments are in UTC."""
    from pyspark.sql import functions

    kind, column = re.split(r"\W", field.dataType.typeName())[0], functions.col(quote_name(field.name))
    if kind in ("float", "double"):
        return functions.when(~functions.isnan(column), column).alias(field.name)
    if kind == "timestamp":
        # by arithmetic: a cast would go by the clock of the session's zone, which leaves out an hour each spring
        moment = f"timestampadd(MICROSECOND, unix_micros({quote_name(field.name)}), {START})"
        return functions.expr(moment).alias(field.name)
    if kind in TEXT:
        return column.cast("string").alias(field.name)
    if kind not in PLAIN:
        raise TableError(
            f"Column {field.name!r} must hold numbers, text, dates or truth values.",
            found=f"type {field.dataType.typeName()}",
            fix="drop it, or take its parts as columns of their own",
        )
    return column


def quote_name(name: str) -> str:
    """Return a column name as Spark reads it."""
    return "`" + name.replace("`", "``") + "`"


def with_declared_kinds(rows: StoredRows, declared: Sequence[Column], cluster: Cluster) -> StoredRows:
    """Return the rows with the kinds and orders that the schema declares, written again by the executors."""
    for column in declared:
        if column.kind is Kind.DATE and pt.is_string(rows.relation.types[column.name]):
            raise SchemaError(
                f"Column {column.name!r} must hold dates.", found="text", fix="convert it with to_date in Spark"
            )
    conversion = _Conversion(rows, tuple(declared), cluster.folder)
    relations = cluster.each(conversion.write, rows.relation.files, "converting columns")
    files = [file for relation in relations for file in relation.files]
    stored = Relation.of(files, relations[0].orders, cluster.look)
    probe = convert(declared, rows.to_table(_empty(rows.relation)))
    return StoredRows(stored, dict(probe.kinds), rows.rows)


@dataclass(frozen=True, repr=False)
class _Conversion:
    """Converts files to the declared kinds."""

    rows: StoredRows
    declared: tuple[Column, ...]
    folder: Path

    def write(self, file: Path) -> Relation:
        """Write one file again, under a name of its own: another attempt may be writing it too."""
        tables = (table.arrow for table in self._tables(file))
        return spool_tables(tables, self.folder, f"declared-{secrets.token_hex(8)}")

    def _tables(self, file: Path) -> Iterator[Table]:
        relation = self.rows.relation
        one = StoredRows(Relation((file,), relation.types, relation.orders), self.rows.kinds, 0)
        yield convert(self.declared, one.to_table(_empty(relation)))  # a file without rows has columns too
        for _, table in one.tables(BATCH_ROWS):
            yield convert(self.declared, table)


def _empty(relation: Relation) -> pa.Table:
    return pa.table({name: pa.array([], kind) for name, kind in relation.types.items()})
