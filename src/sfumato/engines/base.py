"""The interface of all engines.

    open → survey → (Method.plan) → run → shuffle → verify → diagnose → write

Engines and methods do not know each other: they communicate through the survey, the plan and its claims. The memory
engine is the reference. Every other engine must give the same results, or raise before any work if it cannot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, Self, TypeVar

from sfumato.errors import CannotRelease, OptionError
from sfumato.release.destination import destination_of
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sfumato.disclosure.safe_shares import SafeShares
    from sfumato.measures.assess import Assessment
    from sfumato.methods.base import Plan
    from sfumato.methods.claims import Claim, Evidence, Finding
    from sfumato.methods.diagnostics import Diagnostics
    from sfumato.randomness import Randomness
    from sfumato.release.comparison import Comparison
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.schema.schema import FittedTable, Schema
    from sfumato.survey.equal_rows import ComparedRows
    from sfumato.survey.survey import Survey
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table


class Opened(Protocol):
    """A source that an engine has opened: every column has a role and a kind."""

    @property
    def schema(self) -> Schema:
        """Roles of all columns."""
        ...

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Kinds of all columns."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def unprotected(self) -> Self:
        """The same table with no column as an identifier, so that a survey sees all columns."""
        ...


class Work(Protocol):
    """Rows that a plan has transformed, wherever the engine keeps them."""

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        """Names and kinds of the released columns."""
        ...

    @property
    def released_rows(self) -> int:
        """Number of released rows."""
        ...


def without_identifiers(schema: Schema) -> Schema:
    """Return the schema with the role "other" for all identifiers."""
    return schema.with_roles(dict.fromkeys(schema.names(Role.IDENTIFIER), Role.OTHER))


Source = TypeVar("Source", bound=Opened)
Rows = TypeVar("Rows", bound=Work)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was measured on the released rows. All claims hold; otherwise verification raises."""

    findings: tuple[Finding, ...]
    altered: tuple[str, ...]  # columns whose cells were changed
    unaltered: tuple[str, ...]  # columns with more than one value whose cells are exactly the original ones
    constant: tuple[str, ...] = ()  # the same for columns with one value, which tells people apart in no way

    @classmethod
    def of(cls, findings: tuple[Finding, ...], compared: Comparison) -> Verified:
        """Return the findings with what the comparison of released and original cells shows."""
        return cls(
            findings=findings, altered=compared.altered, unaltered=compared.unaltered, constant=compared.constant
        )


class Engine(ABC):
    """An engine that users choose: it starts a session for each release."""

    name: ClassVar[str]  # name by which users choose it, e.g. "memory"
    in_memory: ClassVar[bool] = False  # whether it holds the whole table, so that every figure is exact

    def require_target(self, into: Any) -> None:
        """Raise before any work if the release could not be written to ``into``."""
        if destination := destination_of(into):
            destination.require_free()

    @abstractmethod
    def session(self, into: Any) -> AbstractContextManager[Session[Any, Any]]:
        """Start the making of one release; what it needs meanwhile is removed at the end, also on failure."""


class Session(ABC, Generic[Source, Rows]):
    """The making of one release: it reads a source, carries out a plan and writes the release."""

    name: ClassVar[str]  # of the engine

    @abstractmethod
    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> Source:
        """Open the source and give every column its role and kind."""

    def prepared(self, source: Source, prepare: Callable[[FittedTable], FittedTable]) -> Source:
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
        """Route every row to its block and transform each block."""

    @abstractmethod
    def shuffle(self, rows: Rows, plan: Plan) -> Rows:
        """Put the rows in random order and renumber the plan's numbered columns, so that neither shows the origin.

        The randomness is that of the operating system, never of a seed.
        """

    @abstractmethod
    def verify(self, claims: Sequence[Claim[Any]], rows: Rows) -> Verified:
        """Measure every claim on the rows that will be written; raise if one does not hold."""

    @abstractmethod
    def diagnose(self, plan: Plan, rows: Rows) -> Diagnostics:
        """Return what the plan reports to the custodian."""

    @abstractmethod
    def write(
        self,
        rows: Rows,
        manifest: Manifest,
        diagnostics: Diagnostics,
        into: Any,
        *,
        assessment: Assessment | None = None,
        before: tuple[SafeShares, ...] = (),
    ) -> Release:
        """Return the release; if ``into`` is given, also write it there, all or nothing.

        The report shows the ``assessment`` if there is one, and the distributions ``before`` the release.
        """

    def compare(self, source: Source, released: Iterable[Table], keys: RowKeys) -> ComparedRows:
        """Compare all rows of the source with released rows, by their keys."""
        raise OptionError(
            f"The engine {self.name!r} does not compare all rows with their release.",
            fix="engine='duckdb', or a sample of the table in memory",
        )

    def paired_sample(
        self, rows: Rows, size: int, together: Sequence[str], generator: np.random.Generator
    ) -> PairedSample:
        """Return about ``size`` random released rows, with the original row of each.

        Rows that are equal in the released columns ``together`` are drawn as a group.
        """
        raise OptionError(
            f"The engine {self.name!r} does not assess a release while it makes it.",
            fix="engine='duckdb', or release first and then assess",
        )


@dataclass(frozen=True, repr=False)
class PairedSample:
    """Released rows that were drawn at random, in groups, with the original row of each."""

    pairs: Evidence
    draws: int  # groups that were drawn independently


class RowKeys(Protocol):
    """Functions that give rows 128-bit keys: columns ``known_a``, ``known_b``, ``whole_a`` and ``whole_b``.

    Rows have equal keys if they are equal in the columns that others know, or in all columns. Released rows also have
    ``shown_a`` and ``shown_b``, which are equal if the columns that others know are released alike.
    """

    def original(self, rows: Table) -> pa.Table:
        """Return the keys of original rows."""
        ...

    def released(self, rows: Table) -> pa.Table:
        """Return the keys of released rows."""
        ...


def nothing_released() -> CannotRelease:
    """Return the error for a release without rows, which the engines find in different places."""
    return CannotRelease(
        "At least one row must be released.",
        found="all rows suppressed",
        fix="a smaller k (or larger epsilon), or fewer protected columns",
    )
