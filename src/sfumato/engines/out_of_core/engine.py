"""The base of the engines for tables larger than memory: their workspace, their work and their session.

The workspace is a private folder: it holds original rows, so nobody else may read it. It is locked while its run lives
and removed at its end. What a killed run left is removed at the next start of a run with the same target.
"""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.engines.base import PairedSample, RowKeys, Session, Verified
from sfumato.engines.out_of_core.blocks import Blocks, Parts, PartWriter, ReleasedPart
from sfumato.engines.out_of_core.scan import OutOfCoreSurvey, Scan
from sfumato.engines.out_of_core.source import OutOfCoreTable, Relation, StoredRows, require_finite, rows_of
from sfumato.errors import OptionError
from sfumato.machine import MemoryBudget
from sfumato.plan.plan import Claim, Diagnostics, Evidence, Plan, Trace
from sfumato.plan.questions import Question
from sfumato.private_folder import PrivateFolder
from sfumato.randomness import Randomness
from sfumato.release import target as place
from sfumato.release.bundle import sha256, write_parts
from sfumato.release.destination import Folder, StoreFolder
from sfumato.release.release import Release
from sfumato.release.rows import StoredTable
from sfumato.release.target import PARQUET
from sfumato.release.verify import AskedOfRelease, Gists, PartTallies, SettledTallies, TallyFiles, require_held
from sfumato.schema.columns import Column
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.base import Destination
from sfumato.table.table import Table


@contextlib.contextmanager
def workspace(into: Destination | None) -> Iterator[Path]:
    """Yield a new private folder on the disk of the target, or of temporary files if nothing is written."""
    temporary = Path(tempfile.gettempdir()).resolve() / "sfumato"
    target = place.resolve_folder(into.path) if isinstance(into, Folder) else temporary
    with place.parents_of(target):
        private = _make_folder(target)
        try:
            yield private.path
        finally:
            private.remove()


def _make_folder(target: Path) -> PrivateFolder:
    try:
        return PrivateFolder.create(place.prefix(target), target.parent, ".work")
    except OSError as error:
        failure = error.strerror or type(error).__name__
    raise OptionError(f"No folder for temporary rows can be made next to {target.name!r}: {failure}.", fix="another -o")


@dataclass(frozen=True, repr=False)
class OutOfCoreWork:
    """Rows that were written in parts."""

    parts: Parts

    @cached_property
    def released(self) -> StoredTable:
        """The released rows, in their files."""
        return self.stored_in(self.parts.folder)

    def stored_in(self, folder: Path) -> StoredTable:
        """Return the released rows in this folder; how many there are is known, so that no file is read."""
        numbers = sorted(part.number for part in self.parts.parts)
        return StoredTable([folder / place.part_name(one) for one in numbers], self.parts.kinds, self.parts.rows)


def _tally(parts: Parts, files: TallyFiles, part: ReleasedPart) -> Gists:
    """Count one part with its original rows, and leave its tallies in a file."""
    return files.write(part.number, PartTallies.of(files.claims, parts.evidence(part)))


def _answer(reads: Sequence[str], parts: Parts, files: TallyFiles, part: ReleasedPart) -> Gists:
    """Count the released rows of one part, and leave its tallies in a file."""
    released = parts.released(part, reads or None)
    evidence = Evidence(released, released.select([]), np.arange(released.rows))
    return files.write(part.number, PartTallies(tuple(claim.tally(evidence) for claim in files.claims)))


def _draw(parts: Parts, size: int, together: Sequence[str], wanted: tuple[ReleasedPart, int]) -> PairedSample:
    """Draw rows of one part, where it is."""
    part, seed = wanted
    return parts.draw(part, size, together, np.random.default_rng(seed))


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
        """Return the rows with the kinds and orders that the schema declares for these columns."""

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
        declared = [one for one in completed.columns if one.kind is not None or one.domain is not None or one.words]
        typed = self.with_declared_kinds(stored, declared) if declared else stored
        completed.require_fit(self.scan(typed).facts)
        return OutOfCoreTable(typed, completed)

    def survey(self, source: OutOfCoreTable, randomness: Randomness) -> OutOfCoreSurvey:
        rows = source.releasable
        scan = self.scan(rows)
        require_finite(scan.facts(rows.names))
        return OutOfCoreSurvey.of(rows, scan, self.memory_for(rows), self.given_block_rows, randomness)

    def run(self, plan: Plan, source: OutOfCoreTable) -> OutOfCoreWork:
        writer = PartWriter.of(plan, self.route(plan, source.releasable), self.folder)
        written = self.each(writer.write, writer.blocks_in_random_order, "anonymizing blocks")
        parts, alike = writer.parts(written)
        different = [part for part in parts.parts if alike.changes(part)]
        again = {part.number: part for part in self.each(alike.write_again, different, "making types equal")}
        return OutOfCoreWork(replace(parts, parts=[again.get(part.number, part) for part in parts.parts]))

    def verify(self, claims: Sequence[Claim[Any]], work: OutOfCoreWork) -> Verified:
        files = TallyFiles.create(self.folder / "tallies", claims, work.parts.rows)
        told = self._count(files, partial(_tally, work.parts.alone), work)
        findings = told.findings(claims)
        require_held(findings)
        assert told.compared is not None  # there is at least one part
        return Verified.of(findings, told.compared)

    def diagnose(self, plan: Plan, work: OutOfCoreWork) -> Diagnostics:
        """Return what the blocks reported."""
        trace = Trace.merged([part.trace for part in work.parts.parts])
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    def place(self, work: OutOfCoreWork, release: Release, into: Destination | None) -> Release:
        """Write the release; a folder ``into`` takes over the files, all or nothing."""
        manifest = release.manifest
        assert manifest is not None
        if isinstance(into, StoreFolder):
            private = PrivateFolder.create(place.prefix(self.folder), self.folder.parent, ".rows")
            made = self.place(work, release, into.staged(private.path / "release"))
            into.publish(private.path / "release")
            assert isinstance(made.table, StoredTable)
            return replace(made, table=made.table.owning(private.remove)).knowing(made)
        if not isinstance(into, Folder):
            return replace(super().place(work, release, into), table=self.keep(work))  # the files will be removed
        asking = replace(release, _ask=partial(self.ask, work))
        files = sorted(work.parts.folder.iterdir())
        sums = dict(zip([file.name for file in files], self.each(sha256, files, "computing checksums"), strict=True))
        report = asking.report_files(language=into.language)
        folder = write_parts(work.parts.folder, manifest, report, into.path, sums, into.language)
        return replace(release, table=work.stored_in(folder / PARQUET)).knowing(asking)

    def ask(self, work: OutOfCoreWork, questions: Sequence[Question[Any]]) -> dict[Question[Any], Any]:
        """Answer questions about the released rows, each part where it is."""
        asked = [AskedOfRelease(question) for question in questions]
        files = TallyFiles.create(self.folder / f"answers-{secrets.token_hex(4)}", asked, work.parts.rows)
        reads = list(dict.fromkeys(name for question in questions for name in question.reads))
        told = self._count(files, partial(_answer, reads, work.parts.alone), work)
        return {question: question.finish(own[0]) for question, own in zip(questions, told.of_claims, strict=True)}

    def _count(
        self, files: TallyFiles, count: Callable[[TallyFiles, ReleasedPart], Gists], work: OutOfCoreWork
    ) -> SettledTallies:
        """Count all parts, and merge the shares of their groups."""
        gists = self.merge_each(partial(count, files), work.parts.parts, Gists.merge, "counting released rows")
        shares = [[one] for one in range(files.shares)]
        join = partial(SettledTallies.merge, claims=files.claims)
        whole: SettledTallies
        whole = self.merge_each(partial(files.settle, gists), shares, join, "merging counts of groups")
        return whole

    def merge_each(self, work: Callable[[Item], T], items: Sequence[Item], merge: Callable[[T, T], T], what: str) -> T:
        """Do the work for all items, and merge the results, in any grouping but in their order."""
        return reduce(merge, self.each(work, items, what))

    def keep(self, work: OutOfCoreWork) -> Table:
        """Return the released rows so that they outlive the files of this run: in memory."""
        return work.released.select(work.released.names)

    def sample(
        self, work: OutOfCoreWork, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        """Return about ``size`` random released rows of all parts, each drawn where its part is."""
        parts = work.parts.parts
        seeds = generator.integers(0, 2**63, len(parts)).tolist()
        draw = partial(_draw, work.parts.alone, size, tuple(together))
        drawn = self.each(draw, list(zip(parts, seeds, strict=True)), "drawing a sample")
        return PairedSample.joined([one for one in drawn if one.pairs.released.rows] or drawn[:1])

    def keys_of(self, source: OutOfCoreTable, keys: RowKeys) -> Iterator[pa.Table]:
        """Yield the keys of all original rows, which are read in batches."""
        for _, rows in source.stored.tables(self.memory_for(source.stored).batch_rows):
            yield keys.key_original(rows)

    def memory_for(self, rows: StoredRows) -> MemoryBudget:
        """Return how the memory is divided for these columns."""
        return replace(self.memory, columns=len(rows.names))
