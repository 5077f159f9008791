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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim, Evidence
    from sfumato.randomness import Randomness
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Outcome:
    """A transformed block: its released rows and, for the verification only, where each came from.

    ``origin[i]`` is the position in the block of released row i, so rows in = rows out + suppressed, always.
    """

    released: Table
    origin: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return self.released.rows


class Plan(ABC):
    """What will be done to every row, decided from the survey alone."""

    @property
    @abstractmethod
    def claims(self) -> tuple[Claim, ...]:
        """What the release promises."""

    @property
    def blocks(self) -> int:
        """Number of blocks; one unless the plan splits the table."""
        return 1

    def route(self, rows: Table) -> NDArray[np.int64]:
        """The block of each row, from 0 to blocks − 1."""
        import numpy as np

        return np.zeros(rows.rows, dtype=np.int64)

    @abstractmethod
    def transform(self, block: Table, number: int) -> Outcome:
        """The released rows of one block, in any order; ``number`` is the block's."""

    def limit(self, evidence: Evidence) -> object | None:
        """How near the release comes to what theory allows, as aggregates; None for a method without such a theory."""
        return None

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the manifest may say of the method's choices: words and aggregate numbers, never a cell."""
        return {}


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """Options of an anonymization method, checked when they are made."""

    name: ClassVar[str]  # the registry's word for it, e.g. "boxes"

    @abstractmethod
    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> Plan:
        """Decide what to do, from the survey alone."""

    def release(
        self,
        table: Any,
        *,
        schema: Schema | Mapping[str, str] | str | Path | None = None,
        seed: int | None = None,
    ) -> Release:
        """Anonymize a table (a Table, a path or any data frame) and verify the result on its own rows.

        ``schema`` is a Schema, a mapping of column to role, or the path of a schema file; columns it does not name get
        a conservative suggestion. ``seed`` is for tests: it makes the order of rows repeatable, and so undoable.
        """
        from sfumato.pipeline import release

        return release(self, table, schema=schema, seed=seed)
