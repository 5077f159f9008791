"""The memory engine: it holds the whole table and answers exactly. All other engines are compared with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.engines.base import Engine, PairedSample, Session, Verified, nothing_released, without_identifiers
from sfumato.engines.machine import available_memory
from sfumato.errors import OutOfMemory
from sfumato.methods.claims import Evidence
from sfumato.methods.diagnostics import Trace
from sfumato.params import require_int
from sfumato.randomness import Randomness
from sfumato.release.comparison import Comparison
from sfumato.release.destination import destination_of
from sfumato.release.release import Release
from sfumato.release.verify import verify
from sfumato.schema.columns import Role
from sfumato.schema.schema import FittedTable, Schema
from sfumato.statistics.moments import Moments
from sfumato.survey.combination_sketches import CombinationSketches
from sfumato.survey.quantile_sketches import QuantileSketch, all_points
from sfumato.survey.questions import (
    Answers,
    CombinationsOf,
    Distinct,
    DistinctIn,
    Extremes,
    ExtremesOf,
    FactsOf,
    GroupSizes,
    GroupSizesOf,
    MissingIn,
    MomentsOf,
    PointsOf,
    QuantilesOf,
    Question,
)
from sfumato.survey.survey import Sample
from sfumato.table.facts import facts_of
from sfumato.table.frames import as_table
from sfumato.table.groups import group_sizes
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.disclosure.safe_shares import SafeShares
    from sfumato.measures.assess import Assessment
    from sfumato.methods.base import Plan
    from sfumato.methods.claims import Claim
    from sfumato.methods.diagnostics import Diagnostics
    from sfumato.release.manifest import Manifest


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
        return Answers({question: ANSWERS[type(question)](self.table, question) for question in questions})


def _present(table: Table, column: str) -> NDArray[np.float64]:
    numbers = table.numbers(column)
    return numbers[~np.isnan(numbers)]


def _extremes(table: Table, question: ExtremesOf) -> Extremes:
    present = _present(table, question.column)
    return Extremes(float(present.min()), float(present.max())) if present.size else Extremes(np.nan, np.nan)


def _quantiles(table: Table, question: QuantilesOf) -> NDArray[np.float64]:
    present = _present(table, question.column)
    return np.quantile(present, question.shares) if present.size else np.full(len(question.shares), np.nan)


def _distinct(table: Table, question: DistinctIn) -> Distinct:
    coded = table.coded(question.column)
    counts = np.bincount(coded.codes, minlength=coded.size).astype(np.int64)
    if question.at_most is None or coded.size <= question.at_most:
        return Distinct(coded.values, counts)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: question.at_most])
    return Distinct(coded.values.take(pa.array(frequent)), counts[frequent], is_complete=False)


def _moments(table: Table, question: MomentsOf) -> Moments:
    weights = None if question.weight is None else table.numbers(question.weight)
    return Moments.of(table.matrix(question.columns), weights, names=question.columns)


ANSWERS: dict[type[Question[Any]], Callable[[Table, Any], Any]] = {
    FactsOf: lambda table, asked: facts_of(table, [asked.column], asked.count_distinct)[asked.column],
    ExtremesOf: _extremes,
    MissingIn: lambda table, asked: int(table.arrow.column(asked.column).null_count),
    QuantilesOf: _quantiles,
    PointsOf: lambda table, asked: (
        QuantileSketch(asked.epsilon).update(table.numbers(asked.column)).points()
        if asked.epsilon
        else all_points(table.numbers(asked.column))
    ),
    DistinctIn: _distinct,
    GroupSizesOf: lambda table, asked: GroupSizes.of(group_sizes(table, asked.columns)),
    MomentsOf: _moments,
    CombinationsOf: lambda table, asked: CombinationSketches(asked.sets, asked.size, asked.salt).update(table).each,
}


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
    def unprotected(self) -> MemoryTable:
        return MemoryTable(FittedTable(self.fitted.table, without_identifiers(self.schema)))

    @cached_property
    def releasable(self) -> Table:
        """All columns except identifiers: the columns that a method may see."""
        return self.fitted.table.select([column.name for column in self.schema.without(Role.IDENTIFIER).columns])


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

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        return self.evidence.released.kinds

    @property
    def released_rows(self) -> int:
        return self.evidence.released.rows


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

    def session(self, into: Any) -> AbstractContextManager[Memory]:
        return nullcontext(self)

    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> MemoryTable:
        if isinstance(source, FittedTable) and schema is None:
            return MemoryTable(source)
        table = source.table if isinstance(source, FittedTable) else as_table(source)
        return MemoryTable(FittedTable.of(table, schema))

    def prepared(self, source: MemoryTable, prepare: Callable[[FittedTable], FittedTable]) -> MemoryTable:
        return MemoryTable(prepare(source.fitted))

    def survey(self, source: MemoryTable, randomness: Randomness) -> MemorySurvey:
        source.releasable.require_finite(source.releasable.names)
        return MemorySurvey(source.releasable, self.block_rows, self.sample_rows, randomness)

    def run(self, plan: Plan, source: MemoryTable) -> MemoryWork:
        require_memory(plan, source.rows)
        return run(plan, source.releasable, batch_rows=self.batch_rows)

    def shuffle(self, rows: MemoryWork, plan: Plan) -> MemoryWork:
        return MemoryWork(shuffled(rows.evidence, plan.numbered), rows.trace)

    def verify(self, claims: Sequence[Claim[Any]], rows: MemoryWork) -> Verified:
        findings = verify(claims, [rows.evidence])
        return Verified.of(findings, Comparison.of(rows.evidence))

    def diagnose(self, plan: Plan, rows: MemoryWork) -> Diagnostics:
        return plan.diagnostics(rows.trace, rows.evidence)

    def write(
        self,
        rows: MemoryWork,
        manifest: Manifest,
        diagnostics: Diagnostics,
        into: Any,
        *,
        assessment: Assessment | None = None,
        before: tuple[SafeShares, ...] = (),
    ) -> Release:
        released = rows.evidence.released
        release = Release(released, manifest, diagnostics=diagnostics, assessment=assessment, before=before)
        if destination := destination_of(into):
            destination.write(release)
        return release

    def paired_sample(
        self, rows: MemoryWork, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        """Return all released rows: a table in memory is measured as a whole."""
        return PairedSample(rows.evidence, rows.released_rows)


def require_memory(plan: Plan, rows: int) -> None:
    """Raise before the work if the machine does not have the memory that it will take."""
    needed, available = plan.bytes_per_row * rows, available_memory()
    if needed > available:
        raise OutOfMemory(
            "There must be enough memory to transform all rows.",
            found=f"about {needed / 1e9:.1f} GB needed for {rows:,} rows, {available / 1e9:.1f} GB available",
            fix="fewer quasi-identifiers, engine='duckdb', which works in blocks, or a machine with more memory",
        )


def run(plan: Plan, table: Table, *, batch_rows: int | None = None) -> MemoryWork:
    """Route the rows, transform each block and concatenate the blocks; the rows are not shuffled yet."""
    block_of = _blocks_of(plan, table, batch_rows)
    order = np.argsort(block_of, kind="stable")
    starts = np.searchsorted(block_of[order], np.arange(plan.blocks + 1))
    released, origins, traces = [], [], []
    for number in range(plan.blocks):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size:
            outcome = plan.transform(table if plan.blocks == 1 else table.take(rows), number)
            released.append(outcome.released)
            origins.append(rows[outcome.origin])
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
    return np.concatenate([plan.route(_part(table, part), keys[part]) for part in parts])


def _part(table: Table, rows: slice) -> Table:
    return Table(table.arrow.slice(rows.start, rows.stop - rows.start), table.kinds)


def shuffled(evidence: Evidence, numbered: Sequence[str]) -> Evidence:
    """Put the rows in random order, and give random numbers to the groups in ``numbered`` columns.

    Both come from the operating system even if the release has a seed: whoever knew the seed could otherwise undo them
    and read the order of the original.
    """
    randomness = Randomness()
    if not evidence.released.rows:
        raise nothing_released()
    mixed = in_random_order(evidence, randomness.stream("order"))
    arrow = mixed.released.arrow
    for name in numbered:
        numbers = _renumbered(arrow.column(name), randomness.stream(f"{name} numbers"))
        arrow = arrow.set_column(arrow.column_names.index(name), name, numbers)
    ordered = cells_only(with_original_types(Table(arrow, mixed.released.kinds), evidence.original))
    return Evidence(ordered, evidence.original, mixed.origin)


def in_random_order(evidence: Evidence, generator: np.random.Generator) -> Evidence:
    """Put the rows of a block in random order, with their origins."""
    released = evidence.released.arrow
    order = generator.permutation(released.num_rows)
    mixed = Table(released.take(pa.array(order)), evidence.released.kinds)
    return Evidence(mixed, evidence.original, evidence.origin[order])


def _renumbered(column: pa.ChunkedArray, generator: np.random.Generator) -> pa.Array:
    """Number the same groups at random, from 0."""
    labels = pa.array(column.to_numpy()).dictionary_encode().indices.to_numpy()
    numbers = generator.permutation(int(labels.max()) + 1)
    return pa.array(numbers[labels])


def with_original_types(released: Table, original: Table) -> Table:
    """Give columns that were released as text the order of their categories, or booleans, back.

    Only where each released cell is a single value of the original: sets and words of a tree stay text.
    """
    columns, kinds = {}, dict(released.kinds)
    for one in released.arrow.schema:
        column = columns[one.name] = released.arrow.column(one.name)
        kind = original.kinds.get(one.name)
        if kind in (Kind.ORDERED, Kind.BOOLEAN) and pt.is_string(one.type):
            typed = _typed(column, original.coded(one.name).values.drop_null(), kind)
            if typed is not None:
                columns[one.name], kinds[one.name] = typed, kind
    return Table(pa.table(columns), kinds)


def _typed(column: pa.ChunkedArray, values: pa.Array, kind: Kind) -> pa.ChunkedArray | pa.Array | None:
    """Return the column with the type of the original, or None if a cell is not one of its values."""
    words = values.cast(pa.string())
    codes = pc.index_in(column, value_set=words)
    if codes.null_count > column.null_count or pc.any(pc.match_substring_regex(words, r"[|\\]")).as_py():
        return None
    if kind is Kind.BOOLEAN:
        return values.take(codes.combine_chunks())
    return pa.DictionaryArray.from_arrays(codes.combine_chunks().cast(pa.int32()), words, ordered=True)


def cells_only(released: Table) -> Table:
    """Drop metadata and unused dictionary values, which may come from suppressed rows."""
    columns = {
        field.name: _tight_dictionary(released, field) if pt.is_dictionary(field.type) else column
        for field, column in zip(released.arrow.schema, released.arrow.columns, strict=True)
    }
    return Table(pa.table(columns), released.kinds)


def _tight_dictionary(released: Table, field: pa.Field) -> pa.DictionaryArray:
    coded = released.coded(field.name)
    values = coded.values.drop_null()
    codes = pa.array(coded.codes, mask=coded.codes == len(values))
    return pa.DictionaryArray.from_arrays(codes, values, ordered=field.type.ordered)
