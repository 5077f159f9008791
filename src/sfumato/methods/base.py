"""What every method is: a frozen choice of options with one verb, and a plan that any engine can carry out.

    survey → Method.plan → Plan.route → Plan.transform → rows

A method asks a survey, makes a plan, and the plan routes rows to blocks and transforms each block alone. So a method is
written once and knows no engine, and no engine knows a method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sfumato.methods.diagnostics import Diagnostics, Trace
from sfumato.params import check_options, with_options

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.engines.base import Engine
    from sfumato.methods.claims import Claim, Evidence
    from sfumato.randomness import Randomness
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table

NOTHING_HAPPENED = Trace()


@dataclass(frozen=True, repr=False)
class Outcome:
    """A transformed block: its released rows, what happened, and, for the verification only, where each row came from.

    ``origin[i]`` is the position in the block of released row i, so rows in = rows out + suppressed, always.
    """

    released: Table
    origin: NDArray[np.int64]
    trace: Trace = NOTHING_HAPPENED

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return self.released.rows


class Plan(ABC):
    """What will be done to every row, decided from the survey alone: frozen, picklable, and pure.

    ``route`` and ``transform`` may be called in any process, in any order and again: the same rows give the same
    result. What happened is returned in the outcome's trace, and random numbers come from streams named by the block.
    """

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim[Any], ...]:
        """What the release promises."""

    @property
    def blocks(self) -> int:
        """Number of blocks; one unless the plan splits the table."""
        return 1

    @property
    def needs_whole_table(self) -> bool:
        """Whether the plan can only be carried out on all rows at once."""
        return False

    @property
    def numbered(self) -> tuple[str, ...]:
        """Released columns of whole numbers that the plan itself made, such as ``box``: renumbered at random."""
        return ()

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The block of each row, from 0 to blocks − 1.

        A pure function of a row's content and of its key, a number that stays with the row whoever reads it. So rows
        may be routed in any batches.
        """
        import numpy as np

        return np.zeros(rows.rows, dtype=np.int64)

    @abstractmethod
    def transform(self, block: Table, number: int) -> Outcome:
        """The released rows of one block, in any order; ``number`` is the block's."""

    def diagnostics(self, trace: Trace, evidence: Evidence) -> Diagnostics:
        """What to report to the custodian: what the blocks traced and, where theory has a limit, how near it is."""
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the manifest may say of the method's choices: words and aggregate numbers, never a cell.

        Only names that the method declares in ``noted`` are written.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Options of an anonymization method, checked when they are made."""

    name: ClassVar[str]  # in the registry and on the command line, e.g. "boxes"
    noted: ClassVar[Mapping[str, str]] = {}  # what the plan's notes may hold, by name, with its meaning

    def __init_subclass__(cls, **options: Any) -> None:
        """Explain the options in the docstring, from where they are declared."""
        super().__init_subclass__(**options)
        cls.__doc__ = with_options(cls.__dict__.get("__doc__") or "", cls)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def needs_whole_table(self) -> bool:
        """Whether these options need the whole table at once, so that no engine may plan from a sample."""
        return False

    @abstractmethod
    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Decide what to do, from the survey alone."""

    def release(
        self,
        table: Any,
        *,
        schema: Schema | Mapping[str, Any] | str | Path | None = None,
        seed: int | None = None,
        engine: str | Engine[Any, Any] = "auto",
        into: Any = None,
    ) -> Release:
        """Anonymize a table and verify the result on its own rows.

        Parameters
        ----------
        table
            A Table, a path, or any data frame (pandas, polars, Arrow, a mapping of columns).
        schema
            A Schema, a mapping of column to role, or the path of a schema file. Columns that it does not name get a
            suggested role: identifier or quasi.
        seed
            A whole number that makes the release repeatable, for tests. Whoever knows it can undo the random parts.
            By default random numbers come from the operating system.
        engine
            Where the work is done: "memory", or "auto" (default), which chooses by the table.
        into
            A folder to write the release to, all or nothing. By default nothing is written.

        Returns
        -------
        Release
            The released rows with their manifest; a promise that does not hold raises instead.
        """
        from sfumato.pipeline import release

        return release(self, table, schema=schema, seed=seed, engine=engine, into=into)
