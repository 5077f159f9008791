"""The Spark engine: rows on a cluster, answered by aggregation, cut into blocks, verified as written."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.engines.base import Engine, RowKeys, Session
from sfumato.engines.out_of_core.engine import OutOfCoreSession, OutOfCoreWork, workspace
from sfumato.engines.out_of_core.scan import compare_keys
from sfumato.engines.out_of_core.source import OutOfCoreTable, Relation, StoredRows
from sfumato.engines.spark.blocks import SparkBlocks, route_rows
from sfumato.engines.spark.cluster import Cluster, memory_budget, require_spark, spark_session, tasks_at_once
from sfumato.engines.spark.scan import NumberedFile, SparkScan, numbered_files
from sfumato.engines.spark.source import relation_of, with_declared_kinds
from sfumato.errors import OptionError
from sfumato.formats.raw_files import write_whole
from sfumato.machine import MOST_BLOCK, MemoryBudget
from sfumato.params import require_int
from sfumato.plan.answers import ComparedRows
from sfumato.plan.plan import Plan
from sfumato.private_folder import PrivateFolder
from sfumato.release import target as place
from sfumato.release.rows import StoredTable, file_url
from sfumato.release.target import PARQUET
from sfumato.schema.columns import Column
from sfumato.sources.base import Destination
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


T = TypeVar("T")
Item = TypeVar("Item")
WORTH_A_TASK = 200_000  # rows of a block; smaller blocks widen boxes more than they save time


@dataclass(frozen=True, init=False)
class Spark(Engine):
    """The engine for tables on a cluster: frames of Spark, and Parquet files that Spark reads.

    The rows are written once into a private folder next to the target, and all steps read this copy. Questions about
    the table are answered by aggregation, each block is anonymized by one task, and every promise is verified by tasks
    that read the written files. A task that is repeated gives the same rows. The released rows are a folder
    ``released.parquet`` of several files; there is no ``released.csv``.

    The target must be on a file system that the driver and all executors share, sfumato must be installed on the
    executors, and they must run as the same user as the driver.

    Parameters
    ----------
    session : pyspark.sql.SparkSession, optional
        The session to use. Default: the active session, or a new one.
    master : str, optional
        URL of a cluster for a new session, such as ``"spark://host:7077"``; not together with ``session``.
    block_rows : int, optional
        Rows of a block. Default: as many as fit into ``spark.executor.pyspark.memory`` or, if that is not set, into
        ``spark.executor.memory``, but not more than leave work for every executor.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.Spark(master="local[2]", block_rows=100_000).block_rows
    100000
    """

    name: ClassVar[str] = "spark"

    spark: SparkSession | None = field(repr=False)
    master: str | None
    block_rows: int | None

    def __init__(
        self, session: SparkSession | None = None, *, master: str | None = None, block_rows: int | None = None
    ) -> None:
        if session is not None and master is not None:
            raise OptionError("Give a session or a master, not both.", found="both", fix="leave one of them out")
        if block_rows is not None:
            require_int(block_rows, name="block_rows", at_least=1)
        for name, value in (("spark", session), ("master", master), ("block_rows", block_rows)):
            object.__setattr__(self, name, value)

    def require_target(self, into: Destination | None) -> None:
        require_spark()
        super().require_target(into)

    @contextmanager
    def session(self, into: Destination | None) -> Iterator[Session[Any, Any]]:
        with workspace(into) as folder, spark_session(self.spark, self.master, folder) as spark:
            yield _Session(folder, memory_budget(spark), self.block_rows, Cluster(spark, folder))


def _key_original(rows: StoredRows, keys: RowKeys, batch_rows: int, folder: Path, file: NumberedFile) -> None:
    """Write the keys of the original rows in one file."""
    tables = [keys.key_original(rows.to_table(arrow)) for _, arrow in file.batches(rows, rows.names, batch_rows)]
    _write_keys(pa.concat_tables(tables), folder / f"{file.first}.parquet")


def _key_released(kinds: Mapping[str, Kind], keys: RowKeys, folder: Path, numbered: tuple[int, Path]) -> None:
    """Write the keys of the released rows in one file."""
    number, file = numbered
    part = next(StoredTable([file], kinds, 0).parts())
    _write_keys(keys.key_released(part), folder / f"{number}.parquet")


def _write_keys(keys: pa.Table, file: Path) -> None:
    """Write keys as the signed numbers that Spark has; a task that is repeated writes the same."""
    import pyarrow.parquet as pq

    signed = pa.table({name: pa.array(keys.column(name).to_numpy().view(np.int64)) for name in keys.column_names})
    write_whole(file, lambda opened: pq.write_table(signed, opened))


@dataclass(frozen=True, repr=False)
class _Session(OutOfCoreSession):
    """One run of the engine, with its cluster."""

    name: ClassVar[str] = "spark"

    cluster: Cluster

    def relation(self, source: Any) -> Relation:
        self.cluster.require_shared()
        return relation_of(source, self.cluster)

    def scan(self, rows: StoredRows) -> SparkScan:
        return SparkScan(rows, self.cluster, self.memory_for(rows).batch_rows)

    def with_declared_kinds(self, rows: StoredRows, columns: Sequence[Column]) -> StoredRows:
        return with_declared_kinds(rows, columns, self.cluster)

    def route(self, plan: Plan, rows: StoredRows) -> SparkBlocks:
        return route_rows(plan, rows, self.cluster, self.memory_for(rows).batch_rows)

    def memory_for(self, rows: StoredRows) -> MemoryBudget:
        """Return how the memory is divided; blocks are small enough that all executors have work."""
        share = -(-rows.rows // tasks_at_once(self.cluster.spark))
        return replace(super().memory_for(rows), most_rows=min(max(share, WORTH_A_TASK), MOST_BLOCK))

    def keep(self, work: OutOfCoreWork) -> StoredTable:
        """Return the released rows in files that live as long as the table, so that the driver never holds them."""
        private = PrivateFolder.create(place.prefix(self.folder), self.folder.parent, ".rows")
        parts = work.parts.folder.rename(private.path / PARQUET)
        return work.stored_in(parts).owning(private.remove)

    def compare(self, source: OutOfCoreTable, released: Table, keys: RowKeys) -> ComparedRows:
        """Compare the rows by aggregation; their keys are made by the executors, file by file."""
        people, shown = (self.folder / f"{what}-keys-{secrets.token_hex(4)}" for what in ("people", "released"))
        for folder in (people, shown):
            folder.mkdir(mode=0o700)
        batch_rows = self.memory_for(source.stored).batch_rows
        files = numbered_files(source.stored.relation)
        self.cluster.each(partial(_key_original, source.stored, keys, batch_rows, people), files, "comparing rows")
        if isinstance(released, StoredTable) and self.cluster.is_shared(released.files[0]):
            work = partial(_key_released, released.kinds, keys, shown)
            self.cluster.each(work, list(enumerate(released.files)), "comparing rows")
        else:
            for number, part in enumerate(released.parts()):
                _write_keys(keys.key_released(part), shown / f"{number}.parquet")
        told_apart = "person_a" in self.cluster.read([people]).columns
        original, rows = (f"parquet.`{file_url(folder)}`" for folder in (people, shown))
        return compare_keys(original, rows, told_apart, self.cluster.query)

    def each(self, work: Callable[[Item], T], items: Sequence[Item], what: str) -> list[T]:
        return self.cluster.each(work, items, what)

    def merge_each(self, work: Callable[[Item], T], items: Sequence[Item], merge: Callable[[T, T], T], what: str) -> T:
        return self.cluster.merge_each(work, items, merge, what)
