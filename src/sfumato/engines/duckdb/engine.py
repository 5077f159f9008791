"""The DuckDB engine: files larger than memory, answered by SQL, cut into blocks on disk, verified as written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from sfumato.engines.base import Engine, Session, Verified
from sfumato.engines.duckdb.blocks import Blocks, route_rows
from sfumato.engines.duckdb.compare import compared
from sfumato.engines.duckdb.connection import Connection, connected
from sfumato.engines.duckdb.facts import facts_of
from sfumato.engines.duckdb.queries import DuckDBQueries
from sfumato.engines.duckdb.source import relation_of, with_declared_kinds
from sfumato.engines.machine import available_memory, memory_from, processors
from sfumato.engines.progress import Progress
from sfumato.engines.stored.memory import MemoryPlan
from sfumato.engines.stored.opened import StoredTableSource, require_finite, rows_of
from sfumato.engines.stored.parts import Parts, PartWriter
from sfumato.engines.stored.relation import Rows
from sfumato.engines.stored.released import ReleasedRows
from sfumato.engines.stored.survey import StoredSurvey
from sfumato.engines.stored.workspace import workspace
from sfumato.params import require_int
from sfumato.release.comparison import Comparison
from sfumato.release.verify import Recount, require_held
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.table import Table

if TYPE_CHECKING:
    import numpy as np

    from sfumato.engines.base import RowKeys
    from sfumato.methods.base import Plan
    from sfumato.methods.claims import Claim, Evidence
    from sfumato.methods.diagnostics import Diagnostics
    from sfumato.randomness import Randomness
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.survey.equal_rows import ComparedRows

T = TypeVar("T")
SHARE = 0.5  # share of the free memory that is used if no limit is given


@dataclass(frozen=True, kw_only=True)
class DuckDB(Engine):
    """The engine for tables larger than memory: Parquet, CSV and other files, without a server.

    Questions about the table are answered by SQL, rows are sorted into blocks in a private folder next to the target,
    and each block is anonymized by itself. Every promise is verified on the files that were written before they are put
    in place. The released rows are a folder ``released.parquet`` of several files; there is no ``released.csv``.

    Parameters
    ----------
    memory : str or int, optional
        Memory that the whole process should keep to, such as ``"4GB"``; a number is in bytes. Default: half of the
        memory that is free.
    block_rows : int, optional
        Rows of a block. Default: as many as the memory allows.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> people = {"x": np.random.default_rng(0).normal(size=500)}
    >>> release = sf.Boxes(k=5).release(people, schema={"x": "quasi"}, engine=sf.DuckDB(memory="1GB"), into="large")
    >>> sorted(path.name for path in __import__("pathlib").Path("large").iterdir())
    ['manifest.json', 'released.parquet', 'report.html']
    """

    name: ClassVar[str] = "duckdb"

    memory: str | int | None = None
    block_rows: int | None = None

    def __post_init__(self) -> None:
        if self.memory is not None:
            memory_from(self.memory)
        if self.block_rows is not None:
            require_int(self.block_rows, name="block_rows", at_least=1)

    @contextmanager
    def session(self, into: Any) -> Iterator[Session[Any, Any]]:
        total = int(available_memory() * SHARE) if self.memory is None else memory_from(self.memory)
        memory = MemoryPlan(total, 1, processors())
        with workspace(into) as folder, connected(folder, memory.database, memory.workers) as connection:
            yield _Session(folder, connection, memory, self.block_rows)


@dataclass(frozen=True, repr=False)
class RoutedRows:
    """Rows in blocks, not transformed yet."""

    blocks: Blocks


@dataclass(frozen=True, repr=False)
class _Session(Session[StoredTableSource, Any]):
    """One run of the engine, with its private folder and its connection."""

    name: ClassVar[str] = "duckdb"

    folder: Path
    connection: Connection
    memory: MemoryPlan
    given_block_rows: int | None

    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> StoredTableSource:
        if isinstance(source, FittedTable):
            source, schema = source.table, schema or source.schema
        relation = relation_of(source, self.folder, self.connection, self.memory.rows_bytes)
        count = partial(facts_of, self.connection, relation)
        stored = rows_of(relation, count, source.kinds if isinstance(source, Table) else None)
        completed = Schema.of(schema).completed(stored.names, partial(self._facts, stored))
        typed = with_declared_kinds(stored, completed.columns, self.folder, self.connection)
        completed.require_fit(partial(self._facts, typed))
        return StoredTableSource(typed, completed)

    def _facts(self, stored: Rows, names: Sequence[str], count_distinct: bool) -> Mapping[str, Any]:
        return facts_of(self.connection, stored.relation, names, count_distinct, stored.kinds)

    def survey(self, source: StoredTableSource, randomness: Randomness) -> StoredSurvey:
        rows = source.releasable
        require_finite(self._facts(rows, rows.names, False))
        memory = replace(self.memory, columns=len(rows.names))
        queries = DuckDBQueries(rows, self.connection, memory.batch_rows)
        return StoredSurvey.of(rows, queries, memory, self.given_block_rows, randomness)

    def run(self, plan: Plan, source: StoredTableSource) -> RoutedRows:
        rows = source.releasable
        memory = replace(self.memory, columns=len(rows.names))
        progress = Progress("sorting rows into blocks", rows.rows)
        tables = rows.tables(memory.batch_rows)
        return RoutedRows(route_rows(tables, plan.route, plan.blocks, self.folder / "blocks", progress.add))

    def shuffle(self, rows: RoutedRows, plan: Plan) -> ReleasedRows:
        """Transform each block, and write its rows in random order and with random numbers."""
        writer = PartWriter.of(plan, rows.blocks, self.folder)
        return ReleasedRows(writer.parts(self._each(writer.write, writer.in_work, "anonymizing blocks")))

    def verify(self, claims: Sequence[Claim[Any]], rows: ReleasedRows) -> Verified:
        recounts = [Recount(claim) for claim in claims]
        seen: list[Comparison] = []
        for evidence in _prefetched(rows.parts):
            for recount in recounts:
                recount.add(evidence)
            seen[:] = [Comparison.of(evidence).merge(seen[0]) if seen else Comparison.of(evidence)]
        findings = tuple(recount.finding() for recount in recounts)
        require_held(findings)
        return Verified.of(findings, seen[0])

    def diagnose(self, plan: Plan, rows: ReleasedRows) -> Diagnostics:
        return rows.diagnostics()

    def write(self, rows: ReleasedRows, manifest: Manifest, diagnostics: Diagnostics, into: Any) -> Release:
        return rows.write(manifest, diagnostics, into)

    def compare(self, source: StoredTableSource, released: Iterable[Table], keys: RowKeys) -> ComparedRows:
        batch_rows = replace(self.memory, columns=len(source.stored.names)).batch_rows
        people = (keys.original(rows) for _, rows in source.stored.tables(batch_rows))
        return compared(people, (keys.released(rows) for rows in released), self.folder, self.connection)

    def paired_sample(self, rows: ReleasedRows, size: int, generator: np.random.Generator) -> Evidence:
        return rows.parts.sample(size, generator)

    def _each(self, work: Callable[[int], T], items: Sequence[int], what: str) -> list[T]:
        """Do the work for all items, several at a time."""
        progress = Progress(what, len(items))
        done = []
        with ThreadPoolExecutor(self.memory.workers) as pool:
            try:
                for result in pool.map(work, items):
                    done.append(result)
                    progress.add()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return done


def _prefetched(parts: Parts) -> Iterator[Any]:
    """Yield evidence while the next one is read."""
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for part in parts.parts:
            ready, waiting = waiting, pool.submit(parts.evidence, part)
            if ready is not None:
                yield ready.result()
        if waiting is not None:
            yield waiting.result()
