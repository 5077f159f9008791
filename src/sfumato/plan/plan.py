"""What a method decides and an engine carries out: a plan, and the outcome of each of its blocks.

    survey → Method.plan → Plan.route → Plan.transform → rows

A plan routes rows to blocks and transforms each block independently. No engine depends on a method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.diagnostics import Diagnostics, Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.claims import Claim, Evidence
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


class RowwisePlan(Plan):
    """A plan that transforms each row by itself, so that any row may be in any block."""

    parts: int  # number of blocks

    @property
    def blocks(self) -> int:
        return self.parts

    def route(self, rows: Table, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (keys % np.uint64(self.parts)).astype(np.int64)
