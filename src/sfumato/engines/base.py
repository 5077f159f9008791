"""What every engine does. Memory is the first one and the truth; every other agrees with it or says that it cannot.

    open → survey → (Method.plan) → run → shuffle → verify → write

An engine knows no method, and a method knows no engine: between them stand the survey, the plan and its claims.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from sfumato.methods.base import Plan
    from sfumato.methods.claims import Claim, Finding
    from sfumato.methods.diagnostics import Diagnostics
    from sfumato.randomness import Randomness
    from sfumato.release.manifest import Manifest
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.kinds import Kind


class Opened(Protocol):
    """A table that an engine can read: a role for every column, and the kinds that the schema declares."""

    @property
    def schema(self) -> Schema:
        """The role of every column."""
        ...

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of every column."""
        ...

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...


class Work(Protocol):
    """Rows that a plan has transformed, wherever they are."""

    @property
    def released_kinds(self) -> Mapping[str, Kind]:
        """Names and kinds of the released columns."""
        ...

    @property
    def released_rows(self) -> int:
        """Number of released rows."""
        ...


Source = TypeVar("Source", bound=Opened)
Rows = TypeVar("Rows", bound=Work)


@dataclass(frozen=True, kw_only=True)
class Verified:
    """What was measured on the released rows; every claim held, or nothing would be returned."""

    findings: tuple[Finding, ...]
    altered: tuple[str, ...]  # columns whose cells no longer hold what they held
    unaltered: tuple[str, ...]  # columns with more than one value whose cells are exactly as they were


class Engine(ABC, Generic[Source, Rows]):
    """Where the work is done."""

    name: ClassVar[str]  # by which users choose it, e.g. "memory"

    @abstractmethod
    def open(self, source: Any, schema: Schema | Mapping[str, Any] | str | Path | None) -> Source:
        """Resolve the schema against the source, once; nothing is changed yet."""

    @abstractmethod
    def survey(self, source: Source, randomness: Randomness) -> Survey:
        """Answer questions about the columns that may be released: those that identify people are not among them."""

    @abstractmethod
    def run(self, plan: Plan, source: Source) -> Rows:
        """Route every row to its block and transform each block."""

    @abstractmethod
    def shuffle(self, rows: Rows, plan: Plan, randomness: Randomness) -> Rows:
        """Put the rows in random order and renumber what the plan numbered: neither tells where a row was."""

    @abstractmethod
    def verify(self, claims: Sequence[Claim[Any]], rows: Rows) -> Verified:
        """Measure every claim on the rows as they will be written; raise where one does not hold."""

    @abstractmethod
    def diagnose(self, plan: Plan, rows: Rows) -> Diagnostics:
        """What the plan did, for the custodian."""

    @abstractmethod
    def write(self, rows: Rows, manifest: Manifest, diagnostics: Diagnostics, into: Any) -> Release:
        """The release; with ``into``, also written there, all or nothing."""
