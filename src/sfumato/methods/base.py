"""The base classes of all methods: options with one verb, ``release``, and a plan that any engine can run.

    survey → Method.plan → Plan.route → Plan.transform → rows

A method asks a survey and makes a plan. The plan routes rows to blocks and transforms each block independently.
Therefore a method is written once and does not depend on an engine, and no engine depends on a method.
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
    """A transformed block: its released rows, a trace of the work and, for verification only, the origin of each row.

    ``origin[i]`` is the position in the block of released row i. Rows in = rows out + suppressed rows.
    """

    released: Table
    origin: NDArray[np.int64]
    trace: Trace = NOTHING_HAPPENED

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return self.released.rows


class Plan(ABC):
    """What is done to every row, decided from the survey alone: frozen and picklable.

    ``route`` and ``transform`` are pure: they may be called in any process, in any order and repeatedly, and the same
    rows give the same result. Diagnostics are returned in the outcome's trace, and random numbers come from streams
    named after the block.
    """

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim[Any], ...]:
        """The promises of the release, as code."""

    @property
    def blocks(self) -> int:
        """Number of blocks; 1 unless the plan splits the table."""
        return 1

    @property
    def needs_whole_table(self) -> bool:
        """Whether the plan can only be run on all rows at once."""
        return False

    @property
    def bytes_per_row(self) -> int:
        """Memory that one row takes while it is transformed and verified, beyond the table itself; 0: not known."""
        return 0

    @property
    def numbered(self) -> tuple[str, ...]:
        """Released columns of integer labels that the plan itself made, such as ``box``; renumbered at random."""
        return ()

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the block of each row, from 0 to blocks − 1.

        A pure function of a row's content and of its key, a number that identifies the row for every reader. Rows may
        therefore be routed in any batches.
        """
        import numpy as np

        return np.zeros(rows.rows, dtype=np.int64)

    @abstractmethod
    def transform(self, block: Table, number: int) -> Outcome:
        """Return the released rows of one block, in any order; ``number`` is the number of the block."""

    def diagnostics(self, trace: Trace, evidence: Evidence) -> Diagnostics:
        """Return what to report to the custodian: the merged trace and, if known, the distance to the optimum."""
        return Diagnostics(searches=trace.searches, rules=trace.rules)

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the manifest may report about the method's choices: text and aggregate numbers, never a cell.

        Only names that the method declares in ``manifest_notes`` are written.
        """
        return {}


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Options of an anonymization method, checked when it is created."""

    name: ClassVar[str]  # in the registry and on the command line, e.g. "boxes"
    theory: ClassVar[str] = ""  # page of docs/theory that says what the method claims, from which source
    manifest_notes: ClassVar[Mapping[str, str]] = {}  # names that the plan's notes may contain, with their meanings
    one_row_per_person: ClassVar[bool] = False  # whether each released row corresponds to exactly one input row
    block_effect: ClassVar[str] = (
        ""  # how a release in blocks differs from one in memory; "": the docs say what is seen
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Add the declared options to the docstring."""
        super().__init_subclass__(**options)
        cls.__doc__ = with_options(cls.__dict__.get("__doc__") or "", cls)

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def needs_whole_table(self) -> bool:
        """Whether these options need the whole table at once, so that an engine must not plan from a sample."""
        return False

    @abstractmethod
    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Make the plan, from the survey alone."""

    def release(
        self,
        table: Any,
        *,
        schema: Schema | Mapping[str, Any] | str | Path | None = None,
        seed: int | None = None,
        engine: str | Engine = "auto",
        into: Any = None,
        key: str | Path | None = None,
    ) -> Release:
        """Anonymize a table and verify every promise on the released rows.

        Parameters
        ----------
        table : Table, path or data frame
            A :class:`sfumato.Table`, the path of a file, or a data frame (pandas, polars, Arrow, a mapping of columns).
        schema : Schema, mapping or path, optional
            A :class:`sfumato.Schema`, a mapping from column to role, or the path of a schema file. Columns that it does
            not name get a suggested role. Default: all roles are suggested, which gives a :class:`SfumatoWarning`.
        seed : int, optional
            Seed that makes the released rows repeatable, for tests only. It is a secret, and a warning says so: whoever
            knows it can undo the random parts of the release. The order of the rows and the numbers of boxes never
            depend on it. Default: random numbers from the operating system.
        engine : str or Engine, default "auto"
            Engine that runs the method, such as "memory". "auto" chooses one that fits the table.
        into : path, optional
            Folder to write the release to; either all files are written or none. Default: nothing is written.
        key : str or Path, optional
            File with the secret key of pseudonyms and shifted dates, if the schema asks for them. It is made if it does
            not exist, for its owner only. Keep it apart from the release. The same key links tables of the same people.

        Returns
        -------
        Release
            The released rows with their manifest.

        Raises
        ------
        PromiseError
            If a promise does not hold on the released rows. Nothing is written then.
        """
        from sfumato.pipeline import release

        return release(self, table, schema=schema, seed=seed, engine=engine, into=into, key=key)
