"""The record of a job: source, schema, method, engine, destination and what is to be assessed.

What a user passes (paths, frames, mappings, names of engines) is turned into objects here, once, and travels no
further as it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.engines.base import engine_for, is_spark_frame
from sfumato.errors import OptionError
from sfumato.measures.assess import ComparisonOptions, split_holdout
from sfumato.release.destination import Folder, destination_of
from sfumato.schema.schema import FittedTable, Schema
from sfumato.sources.base import Destination, TableSource
from sfumato.sources.files import FileSource
from sfumato.sources.frames import LazySource, as_table, as_texts, is_lazy
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.methods.base import Method
    from sfumato.plan.plan import Plan
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.release.assessment import Assessment
    from sfumato.release.privacy_budget import PrivacyBudget
    from sfumato.release.release import Release
    from sfumato.schema.pseudonyms import SecretKey

SchemaLike = Schema | Mapping[str, Any] | str | Path | None


@dataclass(frozen=True, kw_only=True, repr=False)
class AssessmentWishes:
    """How a release is assessed when it is made; see :func:`sfumato.release_and_assess`."""

    reference: Table | None = None  # people of the same population who are not in the table
    holdout: float | None = None  # or the share of the rows that is split off as the reference
    options: ComparisonOptions = field(default_factory=ComparisonOptions)
    require: bool = False  # whether nothing is written unless the assessment passes
    earlier: Sequence[Release] = ()  # of the same people, given away before
    measures: Sequence[str] | None = None  # None: all
    found: Assessment | None = None  # what was measured before, of a trial of this release: nothing is measured again

    def __post_init__(self) -> None:
        if self.holdout is not None and self.reference is not None:
            raise OptionError("Give a reference or a holdout, not both.", found="both", fix="leave one of them out")


def read_earlier(releases: Sequence[Release | str | Path]) -> tuple[Release, ...]:
    """Return releases that were given away before, before any work is done; a folder that was changed is refused."""
    if not releases:
        return ()
    from sfumato.release.composition import read_releases

    return tuple(read_releases(releases))


@dataclass(frozen=True, kw_only=True, repr=False)
class Job:
    """What is done with a table, where and by what; everything in it has been checked."""

    source: Any  # a Table, a FittedTable, a TableSource that is not read yet, or a frame of Spark
    engine: Engine
    schema: Schema | None = None  # None: all roles are suggested
    method: Method | None = None  # None: the table is only looked at
    destination: Destination | None = None  # None: nothing is written
    assessment: AssessmentWishes | None = None  # None: the release is not assessed
    key: str | Path | SecretKey | None = None  # secret key of pseudonyms and shifted dates, or the file with it
    make_plan: Callable[[Survey, Schema, Randomness], Plan] | None = None  # None: the method makes the plan
    rows_not_people: bool = False  # whether promises may count rows although a person may have several
    ledger: str | Path | None = None  # private file that knows what earlier releases told about whom
    budget: PrivacyBudget | str | Path | None = None  # what a differentially private release is paid from
    seed: int | None = None

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        schema: SchemaLike = None,
        engine: str | Engine = "auto",
        memory: str | int | None = None,
        master: str | None = None,
        into: Any = None,
        **others: Any,
    ) -> Job:
        """Return the job with what a user passes as ``table``, ``schema``, ``engine`` and ``into``.

        ``memory`` and ``master`` are options of an engine that is given by name; ``others`` are fields of the job.
        """
        method = others.get("method")
        is_private = method is not None and method.is_private
        source = _source_of(as_texts(table) if is_private else table)
        if is_private and engine == "auto":
            engine = "memory"  # the size of the table must not decide
        return cls(
            source=source,
            engine=engine_for(engine, source, memory=memory, master=master),
            schema=None if schema is None else Schema.of(schema),
            destination=None if into is None else destination_of(into),
            **others,
        )

    def require_no_holdout(self) -> None:
        """Raise if rows are to be held out of a table that is not in memory."""
        if self.assessment is not None and self.assessment.holdout is not None and not self.engine.in_memory:
            raise OptionError(
                "A holdout is split off only from a table in memory.",
                found=f"engine {self.engine.name!r}",
                fix="a reference, or --engine memory",
            )

    def require_ledger_possible(self) -> None:
        """Raise if a ledger is given, but the rows are not in memory, nothing is written, or it would be given away."""
        if self.ledger is None:
            return
        if not self.engine.in_memory or not isinstance(self.destination, Folder):
            raise OptionError(
                "With a ledger the table is released in memory, and into a folder: both are written in one step.",
                found=f"engine {self.engine.name!r}" if self.destination is not None else "no folder",
                fix="--engine memory -o DIR (in Python into='DIR')",
            )
        if Path(self.ledger).expanduser().resolve().is_relative_to(Path(self.destination.path).expanduser().resolve()):
            raise OptionError("The ledger must not be in the folder of the release.", fix="another folder")

    def hold_out(self) -> Job:
        """Return the job with the share of its rows that it holds out split off as the reference."""
        if self.assessment is None or self.assessment.holdout is None:
            return self
        person = self.source.schema.person
        kept, others = split_holdout(self.source.table, self.assessment.holdout, seed=self.seed, person=person)
        wishes = replace(self.assessment, holdout=None, reference=others)
        return replace(self, source=FittedTable(kept, self.source.schema), assessment=wishes)

    def read(self) -> Job:
        """Return the job with all rows read and a role for every column, if its engine works in memory."""
        return replace(self, source=self.fitted, schema=None) if self.engine.in_memory else self

    @property
    def fitted(self) -> FittedTable:
        """The table in memory, with a role for every column; it is read and fitted each time."""
        if self.method is not None and self.method.is_private:
            return self._as_declared
        if not isinstance(self.source, FittedTable):
            return FittedTable.of(as_table(self.source), self.schema)
        return self.source if self.schema is None else FittedTable.of(self.source.table, self.schema)

    @property
    def _as_declared(self) -> FittedTable:
        """The table with cells as the schema declares them, for a method whose release tells nothing else."""
        from sfumato.methods.private_columns import read_as_declared

        if isinstance(self.source, FittedTable):
            return read_as_declared(self.source.table, self.schema or self.source.schema)
        if not isinstance(self.source, TableSource):
            return read_as_declared(as_table(self.source), self.schema)
        table, is_typed = self.source.read_declared()
        decimal = (self.source.options.decimal if isinstance(self.source, FileSource) else None) or "."
        return read_as_declared(table, self.schema, is_typed=is_typed, decimal=decimal)

    def pay(self, table: Table, schema: Schema) -> None:
        """Pay for the release of this table from the budget; raise, before any work, if it is spent."""
        if self.budget is None:
            return
        from sfumato.methods.private_method import PrivateMethod
        from sfumato.release.privacy_budget import PrivacyBudget

        assert isinstance(self.method, PrivateMethod)
        budget = self.budget if isinstance(self.budget, PrivacyBudget) else PrivacyBudget(self.budget)
        if isinstance(self.destination, Folder):
            folder = Path(self.destination.path).expanduser().resolve()
            if budget.path.resolve().is_relative_to(folder):
                raise OptionError("The budget must not be in the folder of the release.", fix="another folder")
        budget.pay(self.method.promise(table, schema))

    def require_private_possible(self) -> None:
        """Raise if a private method is asked for what would tell more than its noisy measurements."""
        if self.method is None or not self.method.is_private:
            if self.budget is not None:
                raise OptionError(
                    "A privacy budget pays for differentially private releases.",
                    found="a method that is not private",
                    fix="private-boxes or private-synthesis, or leave the budget out",
                )
            return
        if self.seed is not None:
            raise OptionError(
                "A differentially private release takes no seed: whoever knows it takes the noise away.",
                found="a seed",
                fix="leave it out; noise comes from the operating system's secret bits",
            )
        if not self.engine.in_memory:
            raise OptionError(
                "A differentially private release is made in memory.",
                found=f"engine {self.engine.name!r}",
                fix="--engine memory (in Python engine='memory')",
            )


def _source_of(table: Any) -> Any:
    """Return what an engine opens: files and databases are not read yet, frames become tables."""
    if isinstance(table, str | Path):
        return FileSource(table)
    if isinstance(table, FittedTable | TableSource) or is_spark_frame(table):
        return table
    if is_lazy(table):
        return LazySource(table)
    return as_table(table)
