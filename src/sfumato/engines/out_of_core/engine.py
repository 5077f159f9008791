"""The base of the engines for tables larger than memory: their workspace, their work and their session.

The workspace is a private folder: it holds original rows, so nobody else may read it. It is locked while its run lives
and removed at its end. What a killed run left is removed at the next start of a run with the same target.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.engines.base import Session
from sfumato.engines.machine import MemoryBudget
from sfumato.engines.out_of_core.blocks import Blocks, Parts, PartWriter
from sfumato.engines.out_of_core.scan import OutOfCoreSurvey, Scan
from sfumato.engines.out_of_core.source import OutOfCoreTable, Relation, StoredRows, require_finite, rows_of
from sfumato.errors import OptionError
from sfumato.plan.plan import Diagnostics, Trace
from sfumato.private_folder import is_abandoned, lock, unlock
from sfumato.release import target as place
from sfumato.release.bundle import write_parts
from sfumato.release.destination import Folder
from sfumato.release.release import Release
from sfumato.release.rows import StoredTable
from sfumato.release.target import PARQUET
from sfumato.schema.schema import FittedTable, Schema
from sfumato.table.table import Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sfumato.engines.base import PairedSample, RowKeys
    from sfumato.plan.plan import Plan
    from sfumato.randomness import Randomness
    from sfumato.release.assessment import Assessment
    from sfumato.release.manifest import Manifest
    from sfumato.risk.safe_shares import SafeShares
    from sfumato.schema.columns import Column
    from sfumato.sources.base import Destination
    from sfumato.table.kinds import Kind


ENDING = ".work"
PRIVATE = 0o700


@contextlib.contextmanager
def workspace(into: Destination | None) -> Iterator[Path]:
    """Yield a new private folder on the disk of the target, or of temporary files if nothing is written."""
    temporary = Path(tempfile.gettempdir()).resolve() / "sfumato"
    target = place.resolve_folder(into.path) if isinstance(into, Folder) else temporary
    _sweep(target)
    with place.parents_of(target):
        folder, locks = _make_folder(target)
        try:
            yield folder
        finally:
            try:
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                if folder.exists():  # a signal during the removal
                    shutil.rmtree(folder, ignore_errors=True)
                unlock(locks)


def _make_folder(target: Path) -> tuple[Path, list[int]]:
    failure = ""
    try:
        folder = target.with_name(f"{place.prefix(target)}{secrets.token_hex(8)}{ENDING}")
        folder.mkdir(PRIVATE)
        return folder, lock(folder)
    except OSError as error:
        failure = error.strerror or type(error).__name__
    raise OptionError(f"No folder for temporary rows can be made next to {target.name!r}: {failure}.", fix="another -o")


def _sweep(target: Path) -> None:
    """Remove what killed runs left."""
    left = re.compile(rf"{re.escape(place.prefix(target))}[0-9a-f]{{16}}{re.escape(ENDING)}")
    with contextlib.suppress(OSError):  # the parent does not exist yet, or cannot be listed
        for path in target.parent.iterdir():
            if left.fullmatch(path.name) and path.is_dir() and not path.is_symlink() and is_abandoned(path):
                shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True, repr=False)
class OutOfCoreWork:
    """Rows that were written in parts."""

    parts: Parts

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        return self.parts.kinds

    @property
    def released_rows(self) -> int:
        return self.parts.rows

    @property
    def released_table(self) -> StoredTable:
        """The released rows, in their files."""
        return self.parts.table()

    def diagnostics(self) -> Diagnostics:
        """Return what the blocks reported."""
        trace = Trace.merged([part.trace for part in self.parts.parts])
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    def write(self, release: Release, into: Destination | None) -> Release:
        """Return the release; a folder ``into`` takes over the files, all or nothing."""
        manifest = release.manifest
        assert manifest is not None
        if not isinstance(into, Folder):
            if into is not None:
                into.write(release)
            return replace(release, table=release.table.select(release.table.names))  # the files will be removed
        folder = write_parts(self.parts.folder, manifest, release.report_files(), into.path)
        kinds = {column.name: column.kind for column in manifest.released}
        return replace(release, table=StoredTable.of(folder / PARQUET, kinds))


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
        into: Destination | None,
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
