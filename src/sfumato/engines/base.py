"""The interface of all engines, and their registry: an engine is one folder and one line of ``ENGINES``.

    open → survey → (Method.plan) → run → verify → diagnose → write

Engines and methods do not know each other: they communicate through the survey, the plan and its claims. The memory
engine is the reference. Every other engine must give the same results, or raise before any work if it cannot.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.errors import CannotRelease, OptionError, ReadError
from sfumato.machine import available_memory, memory_from
from sfumato.schema.columns import Role
from sfumato.sources.base import Destination, TableSource
from sfumato.sources.files import FileSource
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.plan.answers import ComparedRows
    from sfumato.plan.plan import Claim, Diagnostics, Evidence, Finding, Plan
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.release.assessment import Assessment
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.release.verify import ColumnChanges
    from sfumato.risk.safe_shares import SafeShares
    from sfumato.schema.schema import FittedTable, Schema


class Opened(Protocol):
    """A source that an engine has opened: every column has a role and a kind."""

    @property
    def schema(self) -> Schema:
        """Roles of all columns."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Kinds of all columns."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def with_all_columns(self) -> Self:
        """The same table with no column as an identifier, so that a survey sees all columns."""

    def only(self, names: Sequence[str]) -> Self:
        """Return these columns of the table, none of them as an identifier."""


class Work(Protocol):
    """Rows that a plan has transformed, wherever the engine keeps them."""

    @property
    def released(self) -> Table:
        """The released rows; those in files are read when they are asked for."""


def without_identifiers(schema: Schema) -> Schema:
    """Return the schema with the role "other" for all identifiers, also for those that are to be pseudonyms."""
    plain = (
        replace(one, role=Role.OTHER, pseudonym=False) if one.role is Role.IDENTIFIER else one for one in schema.columns
    )
    return replace(schema, columns=tuple(plain))


def others_of(schema: Schema, names: Sequence[str]) -> Schema:
    """Return the schema of these columns, with the role "other"."""
    return type(schema)(tuple(replace(schema[name], role=Role.OTHER, pseudonym=False) for name in names))


Source = TypeVar("Source", bound=Opened)
Rows = TypeVar("Rows", bound=Work)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was measured on the released rows. All claims hold; otherwise verification raises."""

    findings: tuple[Finding, ...]
    altered: tuple[str, ...]  # columns whose cells were changed
    unaltered: tuple[str, ...]  # columns with more than one value whose cells are exactly the original ones
    constant: tuple[str, ...] = ()  # unaltered columns with a single value

    @classmethod
    def of(cls, findings: tuple[Finding, ...], compared: ColumnChanges) -> Verified:
        """Return the findings with what the comparison of released and original cells shows."""
        return cls(
            findings=findings, altered=compared.altered, unaltered=compared.unaltered, constant=compared.constant
        )


class Engine(ABC):
    """An engine that users choose: it starts a session for each release."""

    name: ClassVar[str]  # name by which users choose it, e.g. "memory"
    in_memory: ClassVar[bool] = False  # whether the whole table is held in memory

    def require_target(self, into: Destination | None) -> None:
        """Raise before any work if the release could not be written to ``into``."""
        if into is not None:
            into.require_free()

    @abstractmethod
    def session(self, into: Destination | None) -> AbstractContextManager[Session[Any, Any]]:
        """Start the making of one release; what it needs meanwhile is removed at the end, also on failure."""


class Session(ABC, Generic[Source, Rows]):
    """The making of one release: it reads a source, carries out a plan and writes the release."""

    name: ClassVar[str]  # of the engine

    @abstractmethod
    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> Source:
        """Open the source and give every column its role and kind."""

    def replace_table(self, source: Source, prepare: Callable[[FittedTable], FittedTable]) -> Source:
        """Return the source with the table that ``prepare`` makes of it."""
        raise OptionError(
            f"The engine {self.name!r} makes no pseudonyms and shifts no dates.",
            fix="engine='memory', or prepare the table with pseudonyms and shifted dates in the database",
        )

    @abstractmethod
    def survey(self, source: Source, randomness: Randomness) -> Survey:
        """Return a survey of all columns except identifiers."""

    @abstractmethod
    def run(self, plan: Plan, source: Source) -> Rows:
        """Route every row to its block, transform each block, and finish its rows.

        The rows are in random order, and the plan's numbered columns have random numbers, so that neither shows the
        origin. This randomness is that of the operating system, never of a seed.
        """

    @abstractmethod
    def verify(self, claims: Sequence[Claim[Any]], work: Rows) -> Verified:
        """Measure every claim on the rows that will be written; raise if one does not hold."""

    @abstractmethod
    def diagnose(self, plan: Plan, work: Rows) -> Diagnostics:
        """Return what the plan reports to the custodian."""

    @abstractmethod
    def sample(self, work: Rows, size: int, together: Sequence[str], generator: np.random.Generator) -> PairedSample:
        """Return about ``size`` random released rows, with the original row of each, or all of them.

        Rows that are equal in the released columns ``together`` are drawn as a group.
        """

    @abstractmethod
    def compare(self, source: Source, released: Table, keys: RowKeys) -> ComparedRows:
        """Compare all rows of the source with released rows, by their keys."""

    def write(
        self,
        work: Rows,
        manifest: Manifest,
        diagnostics: Diagnostics,
        into: Destination | None,
        *,
        assessment: Assessment | None = None,
        before: tuple[SafeShares, ...] = (),
    ) -> Release:
        """Return the release; if ``into`` is given, also write it there, all or nothing.

        The report shows the ``assessment`` if there is one, and the distributions ``before`` the release.
        """
        from sfumato.release.release import Release

        table = work.released
        release = Release(table, manifest, diagnostics=diagnostics, assessment=assessment, before=before)
        return self.place(work, release, into)

    def place(self, work: Rows, release: Release, into: Destination | None) -> Release:
        """Write the release to ``into``, if it is given, and return it."""
        if into is not None:
            into.write(release)
        return release


@dataclass(frozen=True, repr=False)
class PairedSample:
    """Released rows that were drawn at random, in groups, with the original row of each."""

    pairs: Evidence
    draws: int | None  # groups that were drawn independently; None if these are all rows

    @classmethod
    def joined(cls, samples: Sequence[PairedSample]) -> PairedSample:
        """Return the rows of several samples that were drawn of different parts."""
        evidence = type(samples[0].pairs)
        released, original = (
            Table(pa.concat_tables([table.arrow for table in tables]).unify_dictionaries(), tables[0].kinds)
            for tables in zip(*((one.pairs.released, one.pairs.original) for one in samples), strict=True)
        )
        pairs = evidence(released, original, np.arange(released.rows))
        return cls(pairs, sum(one.draws or 0 for one in samples))


class RowKeys(Protocol):
    """Functions that give rows 128-bit keys: columns ``known_a``, ``known_b``, ``whole_a`` and ``whole_b``.

    Rows have equal keys if they are equal in the columns that others know, or in all columns. Released rows also have
    ``shown_a`` and ``shown_b``, which are equal if the columns that others know are released alike, and original rows
    ``person_a`` and ``person_b`` if a column tells people apart: then people are counted and not rows.
    """

    def key_original(self, rows: Table) -> pa.Table:
        """Return the keys of original rows."""

    def key_released(self, rows: Table) -> pa.Table:
        """Return the keys of released rows."""


def no_row_error() -> CannotRelease:
    """Return the error for a release without rows, which the engines find in different places."""
    return CannotRelease(
        "At least one row must be released.",
        found="all rows suppressed",
        fix="a smaller k (or larger epsilon), or fewer protected columns",
    )


def is_spark_frame(source: Any) -> bool:
    """Return whether this is a frame of Spark, classic or Connect, without importing Spark."""
    return type(source).__module__.startswith("pyspark.sql.") and hasattr(source, "mapInArrow")


# name → module and class, imported when used. To add an engine, add a file and one line here.
ENGINES: dict[str, tuple[str, str]] = {
    "memory": ("sfumato.engines.memory.engine", "Memory"),
    "duckdb": ("sfumato.engines.duckdb.engine", "DuckDB"),
    "spark": ("sfumato.engines.spark.engine", "Spark"),
}
AUTO = "auto"
TAKEN_BY = {"memory": "duckdb", "master": "spark"}  # options, and the engine that takes each
REFUSALS = {"memory": "cannot keep to a limit of memory", "master": "has no master"}
FREE_SHARE = 0.7  # share of the free memory that the memory engine may be expected to take

log = logging.getLogger("sfumato")


def engine_for(
    chosen: str | Engine, source: Any = None, *, memory: str | int | None = None, master: str | None = None
) -> Engine:
    """Return the engine with this name, or the engine itself; "auto" takes one that fits the source.

    ``memory`` is the limit of the whole process, for the engine duckdb. ``master`` is the URL of a cluster, for the
    engine spark.
    """
    if not isinstance(chosen, str):
        return chosen
    name = _fitting(source, memory, master) if chosen == AUTO else chosen
    if name not in ENGINES:
        raise OptionError(
            f"There is no engine {name!r}.", found=repr(name), fix=f"one of {', '.join([AUTO, *ENGINES])}"
        )
    options = {key: value for key, value in (("memory", memory), ("master", master)) if value is not None}
    for option, value in options.items():
        if TAKEN_BY[option] != name:
            raise OptionError(
                f"The engine {name!r} {REFUSALS[option]}.",
                found=f"{option} {value}",
                fix=f"--engine {TAKEN_BY[option]}",
            )
    module, class_name = ENGINES[name]
    engine: Engine = getattr(import_module(module), class_name)(**options)
    return engine


def _fitting(source: Any, memory: str | int | None, master: str | None) -> str:
    """Choose Spark for what is on a cluster, memory if the table fits into it, otherwise DuckDB; the log says why."""
    if master is not None or is_spark_frame(source):
        log.info("engine spark: %s", "a frame of Spark" if master is None else "a master is given")
        return "spark"
    if isinstance(source, str | Path):
        source = FileSource(source)
    if not isinstance(source, TableSource):
        if memory is not None:
            log.info("engine duckdb: a limit of memory is given")
        return "duckdb" if memory is not None else "memory"
    try:
        need = source.memory_needed()
    except ReadError:  # the reader reports the error later, after the target was checked
        return "memory" if memory is None else "duckdb"
    there = available_memory() if memory is None else memory_from(memory)
    name = "memory" if memory is None and need <= FREE_SHARE * there else "duckdb"
    log.info("engine %s: the table needs about %s, and there are %s of memory", name, _amount(need), _amount(there))
    return name


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 10**9 else f"{size / 1e6:.0f} MB"
