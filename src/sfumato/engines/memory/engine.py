"""The memory engine: it holds the whole table, answers exactly, and is the reference for all other engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.engines.base import (
    Engine,
    PairedSample,
    RowKeys,
    Session,
    Verified,
    no_row_error,
    others_of,
    without_identifiers,
)
from sfumato.engines.finish_rows import finish_rows
from sfumato.errors import OutOfMemory
from sfumato.machine import available_memory
from sfumato.params import require_int
from sfumato.plan.answers import ComparedRows, EqualRowCounts
from sfumato.plan.plan import Claim, Diagnostics, Evidence, Plan, Trace
from sfumato.plan.questions import Answers, Question
from sfumato.plan.survey import Sample
from sfumato.randomness import Randomness
from sfumato.release.verify import ColumnChanges, verify
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.base import Destination
from sfumato.sources.frames import as_table
from sfumato.table.group_counts import GroupSizes
from sfumato.table.groups import KeyedGroups
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

# A table in memory with its schema, and its survey, which answers from all rows at once.


@dataclass(frozen=True, repr=False)
class MemoryTable:
    """A table in memory with its schema."""

    fitted: FittedTable

    @property
    def schema(self) -> Schema:
        return self.fitted.schema

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.fitted.table.kinds

    @property
    def rows(self) -> int:
        return self.fitted.table.rows

    @property
    def with_all_columns(self) -> MemoryTable:
        return MemoryTable(FittedTable(self.fitted.table, without_identifiers(self.schema)))

    def only(self, names: Sequence[str]) -> MemoryTable:
        return MemoryTable(FittedTable(self.fitted.table.select(names), others_of(self.schema, names)))

    @cached_property
    def releasable(self) -> Table:
        """All columns except identifiers: the columns that a method may see."""
        return self.fitted.table.select([column.name for column in self.schema.without(Role.IDENTIFIER).columns])


@dataclass(frozen=True, repr=False)
class MemorySurvey:
    """A survey of a table in memory, with exact answers; the sample is the table unless ``sample_rows`` is given."""

    table: Table
    block_rows: int | None = None
    sample_rows: int | None = None
    randomness: Randomness = field(default_factory=Randomness)

    @property
    def rows(self) -> int:
        return self.table.rows

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.table.kinds

    @cached_property
    def sample(self) -> Sample:
        if self.sample_rows is None or self.sample_rows >= self.rows:
            return Sample(self.table, self.rows)
        chosen = self.randomness.stream("sample").choice(self.rows, self.sample_rows, replace=False, shuffle=False)
        return Sample(self.table.take(np.sort(chosen)), self.rows)

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        return Answers({question: question.finish(question.of(self.table)) for question in questions})


if TYPE_CHECKING:
    pass


@dataclass(frozen=True, repr=False)
class MemoryWork:
    """Released rows with the original rows they come from, and what the blocks reported."""

    evidence: Evidence
    trace: Trace

    @property
    def released(self) -> Table:
        """The released rows."""
        return self.evidence.released

    @property
    def origin(self) -> NDArray[np.int64]:
        """Index of the original row that each released row comes from."""
        return self.evidence.origin


LITTLE = 1 << 26  # bytes that every machine has


def require_memory(plan: Plan, rows: int) -> None:
    """Raise before the work if the machine does not have the memory that it will take."""
    needed = plan.bytes_per_row * rows
    if needed > LITTLE and needed > (available := available_memory()):
        raise OutOfMemory(
            "There must be enough memory to transform all rows.",
            found=f"about {needed / 1e9:.1f} GB needed for {rows:,} rows, {available / 1e9:.1f} GB available",
            fix="fewer quasi-identifiers, engine='duckdb', which works in blocks, or a machine with more memory",
        )


def run(plan: Plan, table: Table, *, batch_rows: int | None = None) -> MemoryWork:
    """Route the rows, transform each block and concatenate the blocks, in the order of the blocks."""
    block_of = _blocks_of(plan, table, batch_rows)
    order = np.argsort(block_of, kind="stable")
    starts = np.searchsorted(block_of[order], np.arange(plan.blocks + 1))
    released, origins, traces = [], [], []
    for number in range(plan.blocks):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size or plan.blocks == 1:
            outcome = plan.transform(table if plan.blocks == 1 else table.take(rows), number)
            released.append(outcome.released)
            origins.append(outcome.origin if plan.blocks == 1 else rows[outcome.origin])
            traces.append(outcome.trace)
    arrow = pa.concat_tables([part.arrow for part in released])
    evidence = Evidence(Table(arrow, released[0].kinds), table, np.concatenate(origins))
    return MemoryWork(evidence, Trace.merged(traces))


def _blocks_of(plan: Plan, table: Table, batch_rows: int | None) -> NDArray[np.int64]:
    if plan.blocks == 1:
        return np.zeros(table.rows, dtype=np.int64)
    keys = np.arange(table.rows, dtype=np.uint64)
    if batch_rows is None:
        return plan.route(table, keys)
    parts = [slice(start, start + batch_rows) for start in range(0, table.rows, batch_rows)]
    tables = (Table(table.arrow.slice(part.start, batch_rows), table.kinds) for part in parts)
    return np.concatenate([plan.route(rows, keys[part]) for rows, part in zip(tables, parts, strict=True)])


@dataclass(frozen=True, kw_only=True)
class Memory(Engine, Session[MemoryTable, MemoryWork]):
    """The engine that holds the whole table in memory.

    The options make it behave like an engine that cannot, to test plans.
    """

    name: ClassVar[str] = "memory"
    in_memory: ClassVar[bool] = True

    block_rows: int | None = None  # rows per block; None: one block
    sample_rows: int | None = None  # rows in the sample of the survey; None: all
    batch_rows: int | None = None  # rows that are routed together; None: all

    def __post_init__(self) -> None:
        for name in ("block_rows", "sample_rows", "batch_rows"):
            if getattr(self, name) is not None:
                require_int(getattr(self, name), name=name, at_least=1)

    def session(self, into: Destination | None) -> AbstractContextManager[Memory]:
        return nullcontext(self)

    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> MemoryTable:
        if isinstance(source, FittedTable) and schema is None:
            return MemoryTable(source)
        table = source.table if isinstance(source, FittedTable) else as_table(source)
        return MemoryTable(FittedTable.of(table, schema))

    def replace_table(self, source: MemoryTable, prepare: Callable[[FittedTable], FittedTable]) -> MemoryTable:
        return MemoryTable(prepare(source.fitted))

    def survey(self, source: MemoryTable, randomness: Randomness) -> MemorySurvey:
        source.releasable.require_finite(source.releasable.names)
        return MemorySurvey(source.releasable, self.block_rows, self.sample_rows, randomness)

    def run(self, plan: Plan, source: MemoryTable) -> MemoryWork:
        require_memory(plan, source.rows)
        work = run(plan, source.releasable, batch_rows=self.batch_rows)
        if not work.released.rows:
            raise no_row_error()
        randomness = Randomness()  # never the seed of the release
        renumber = partial(_random_numbers, randomness)
        return replace(work, evidence=finish_rows(work.evidence, plan.numbered, randomness.stream("order"), renumber))

    def verify(self, claims: Sequence[Claim[Any]], work: MemoryWork) -> Verified:
        return Verified.of(verify(claims, [work.evidence]), ColumnChanges.of(work.evidence))

    def diagnose(self, plan: Plan, work: MemoryWork) -> Diagnostics:
        return plan.diagnostics(work.trace, work.evidence)

    def sample(
        self, work: MemoryWork, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        """Return all released rows, which are held anyway."""
        return PairedSample(work.evidence, None)

    def compare(self, source: MemoryTable, released: Table, keys: RowKeys) -> ComparedRows:
        shown = pa.concat_tables(map(keys.key_released, released.parts()))
        return compare_keys(keys.key_original(source.fitted.table), shown)


def _random_numbers(randomness: Randomness, name: str, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers from 0 for the groups of a column, at random."""
    return randomness.stream(f"{name} numbers").permutation(int(groups.max()) + 1)[groups]


def compare_keys(people: pa.Table, rows: pa.Table) -> ComparedRows:
    """Compare the keys of all original rows, the people, and of all released rows; see :class:`RowKeys`."""
    known, whole = (_People.of(key, people, rows) for key in ("known", "whole"))
    shown = KeyedGroups.of_keys(_key("shown", rows))
    return ComparedRows(
        original_rows=people.num_rows,
        people=len(np.unique(known.owners)),
        released_rows=rows.num_rows,
        whole=whole.equal_rows(known.are_alone),
        known=known.equal_rows(known.are_alone),
        groups=GroupSizes.of(np.bincount(shown.labels)),
    )


@dataclass(frozen=True, repr=False)
class _People:
    """The label of each original row, and how many people and released rows have each label."""

    labels: NDArray[np.int64]
    owners: NDArray[np.int64]  # the person of each original row
    people: NDArray[np.int64]
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, key: str, people: pa.Table, rows: pa.Table) -> _People:
        """Label people and released rows by one of their keys."""
        groups = KeyedGroups.of_keys(np.concatenate([_key(key, people), _key(key, rows)]))
        labels, others = np.split(groups.labels, [people.num_rows])
        told_apart = "person_a" in people.column_names
        owners = KeyedGroups.of_keys(_key("person", people)).labels if told_apart else np.arange(len(labels))
        once = np.unique(np.column_stack([labels, owners]), axis=0)[:, 0]
        return cls(labels, owners, *(np.bincount(one, minlength=groups.size) for one in (once, others)))

    @property
    def are_alone(self) -> NDArray[np.bool_]:
        """Whether no other person has the label of each original row."""
        return np.asarray(self.people[self.labels] == 1)

    def equal_rows(self, is_alone: NDArray[np.bool_]) -> EqualRowCounts:
        """Count the people whom released rows equal; who is not alone in the ``known`` key is not unique."""
        is_unique = self.are_alone & is_alone
        return EqualRowCounts(
            unique=len(np.unique(self.owners[is_unique])),
            copied=len(np.unique(self.owners[is_unique & (self.rows[self.labels] > 0)])),
            pairs=int((self.people == 2).sum()),
            equal=int(self.rows[self.people > 0].sum()),
        )


def _key(name: str, keys: pa.Table) -> NDArray[np.uint64]:
    return np.column_stack([keys.column(f"{name}_{half}").to_numpy() for half in ("a", "b")])
