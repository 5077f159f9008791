"""What an engine can tell about a table: answers to questions, and a random sample of the rows.

Nothing in a plan may depend on the sample being the whole table: it says which share of the rows it is. In memory it is
the whole table, unless an engine is told to sample.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sfumato.survey.questions import Answers, Question
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Sample:
    """Random rows of a table with all its columns: one and the same sample, whoever asks."""

    table: Table
    of_rows: int  # rows of the table that it was drawn from

    @property
    def rows(self) -> int:
        """Rows in the sample."""
        return self.table.rows

    @property
    def share(self) -> float:
        """The share of the table's rows that it is, from 0 to 1."""
        return self.table.rows / self.of_rows if self.of_rows else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether it holds every row."""
        return self.table.rows == self.of_rows


class Survey(Protocol):
    """What an engine can tell about a table."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def block_rows(self) -> int | None:
        """Rows that the engine wants in a block, or None when one block may hold them all."""
        ...

    @property
    def sample(self) -> Sample:
        """Random rows, and which share of the table they are."""
        ...

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        """Answer all questions, in one scan where the engine can."""
        ...


def is_whole(survey: Survey) -> bool:
    """Whether the sample is the whole table and one block may hold it."""
    return survey.sample.is_whole and (survey.block_rows is None or survey.block_rows >= survey.rows)


def blocks_wanted(survey: Survey, *, least_rows: int = 1) -> int:
    """Number of blocks that the engine wants, each with at least ``least_rows`` rows on average."""
    if survey.block_rows is None:
        return 1
    return max(1, min(-(-survey.rows // survey.block_rows), survey.rows // max(least_rows, 1)))
