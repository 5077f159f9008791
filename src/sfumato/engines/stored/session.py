"""The base session of the engines for tables larger than memory, DuckDB and Spark."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.engines.base import Session
from sfumato.engines.stored.memory import MemoryBudget
from sfumato.engines.stored.opened import OutOfCoreTable, require_finite, rows_of
from sfumato.engines.stored.parts import Blocks, PartWriter
from sfumato.engines.stored.relation import Relation, StoredRows
from sfumato.engines.stored.released import OutOfCoreWork
from sfumato.engines.stored.survey import OutOfCoreSurvey, Scan
from sfumato.release.release import Release
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.table import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sfumato.disclosure.safe_shares import SafeShares
    from sfumato.engines.base import PairedSample, RowKeys
    from sfumato.measures.assess import Assessment
    from sfumato.methods.diagnostics import Diagnostics
    from sfumato.plan.plan import Plan
    from sfumato.randomness import Randomness
    from sfumato.release.manifest import Manifest
    from sfumato.schema.columns import Column

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True, repr=False)
class OutOfCoreSession(Session[OutOfCoreTable, Any]):
    """One run of an engine that keeps rows in files of a private folder."""

    folder: Path
    memory: MemoryBudget
    given_block_rows: int | None  # by the user

    @abstractmethod
    def relation(self, source: Any) -> Relation:
        """Bring the rows of a source into Parquet files."""

    @abstractmethod
    def scan(self, rows: StoredRows) -> Scan:
        """Return what reads and counts these rows."""

    @abstractmethod
    def with_declared_kinds(self, rows: StoredRows, columns: Sequence[Column]) -> StoredRows:
        """Return the rows with the kinds and orders that the schema declares."""

    @abstractmethod
    def route(self, plan: Plan, rows: StoredRows) -> Blocks:
        """Write each row into the block that the plan routes it to."""

    @abstractmethod
    def each(self, work: Callable[[Item], T], items: Sequence[Item], what: str) -> list[T]:
        """Do the work for all items, several at a time; the log tells how far ``what`` is."""

    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> OutOfCoreTable:
        if isinstance(source, FittedTable):
            source, schema = source.table, schema or source.schema
        relation = self.relation(source)
        untyped = self.scan(StoredRows(relation, {}, relation.rows))
        stored = rows_of(relation, untyped.facts, source.kinds if isinstance(source, Table) else None)
        completed = Schema.of(schema).completed(stored.names, self.scan(stored).facts)
        typed = self.with_declared_kinds(stored, completed.columns)
        completed.require_fit(self.scan(typed).facts)
        return OutOfCoreTable(typed, completed)

    def survey(self, source: OutOfCoreTable, randomness: Randomness) -> OutOfCoreSurvey:
        rows = source.releasable
        scan = self.scan(rows)
        require_finite(scan.facts(rows.names))
        return OutOfCoreSurvey.of(rows, scan, self.memory_for(rows), self.given_block_rows, randomness)

    def run(self, plan: Plan, source: OutOfCoreTable) -> OutOfCoreWork:
        writer = PartWriter.of(plan, self.route(plan, source.releasable), self.folder)
        return OutOfCoreWork(writer.parts(self.each(writer.write, writer.blocks_in_random_order, "anonymizing blocks")))

    def diagnose(self, plan: Plan, work: OutOfCoreWork) -> Diagnostics:
        return work.diagnostics()

    def write(
        self,
        work: OutOfCoreWork,
        manifest: Manifest,
        diagnostics: Diagnostics,
        into: Any,
        *,
        assessment: Assessment | None = None,
        before: tuple[SafeShares, ...] = (),
    ) -> Release:
        table = work.released_table
        release = Release(table, manifest, diagnostics=diagnostics, assessment=assessment, before=before)
        return work.write(release, into)

    def sample(
        self, work: OutOfCoreWork, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        return work.parts.sample(size, together, generator)

    def keys_of(self, source: OutOfCoreTable, keys: RowKeys) -> Iterator[pa.Table]:
        """Yield the keys of all original rows, which are read in batches."""
        for _, rows in source.stored.tables(self.memory_for(source.stored).batch_rows):
            yield keys.original(rows)

    def memory_for(self, rows: StoredRows) -> MemoryBudget:
        """Return how the memory is divided for these columns."""
        return replace(self.memory, columns=len(rows.names))
