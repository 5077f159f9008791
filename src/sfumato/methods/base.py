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

from sfumato.params import check_options, with_options

if TYPE_CHECKING:
    from sfumato.engines.base import Engine
    from sfumato.plan.plan import Plan
    from sfumato.plan.survey import Survey
    from sfumato.randomness import Randomness
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema


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
        from sfumato.job.release import release

        return release(self, table, schema=schema, seed=seed, engine=engine, into=into, key=key)
