"""The interface through which methods query a table: answers to questions, and a random sample of the rows.

A plan must not assume that the sample is the whole table; the sample states its share of the rows. In memory it is the
whole table, unless an engine is configured to sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from sfumato.plan.questions import Answers, Question
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Sample:
    """Random rows of a table with all its columns; every caller gets the same sample."""

    table: Table
    of_rows: int  # number of rows of the table from which the sample was drawn

    @property
    def rows(self) -> int:
        """Number of rows in the sample."""
        return self.table.rows

    @property
    def share(self) -> float:
        """Share of the table's rows that are in the sample, from 0 to 1."""
        return self.table.rows / self.of_rows if self.of_rows else 1.0

    @property
    def is_whole(self) -> bool:
        """Whether the sample contains every row."""
        return self.table.rows == self.of_rows


class Survey(Protocol):
    """Access to a table through questions and a sample; each engine implements it."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Kinds of all columns."""
        ...

    @property
    def block_rows(self) -> int | None:
        """Number of rows per block that the engine prefers; None if one block may hold all rows."""
        ...

    @property
    def sample(self) -> Sample:
        """Random rows and their share of the table."""
        ...

    def ask(self, questions: Iterable[Question[Any]]) -> Answers:
        """Answer all questions, in one scan if the engine supports it."""
        ...


EXACT_ROWS = 5_000_000  # of which an engine that reads tables in parts still keeps every value of a column


def rank_error(survey: Survey) -> float:
    """Return the largest error of the ranks of values that a plan asks for by default, as a share of the rows.

    It is 0 in memory, and of tables that are not large: every value is kept. Of larger ones a sketch is kept, so that
    an answer does not grow with the rows.
    """
    from sfumato.plan.questions import RANK_ERROR

    return 0.0 if is_whole(survey) or survey.rows <= EXACT_ROWS else RANK_ERROR


def is_whole(survey: Survey) -> bool:
    """Return whether the sample is the whole table and one block may hold it."""
    return survey.sample.is_whole and (survey.block_rows is None or survey.block_rows >= survey.rows)


def count_blocks(survey: Survey, *, least_rows: int = 1) -> int:
    """Return the number of blocks that the engine prefers, each with at least ``least_rows`` rows on average."""
    if survey.block_rows is None:
        return 1
    return max(1, min(-(-survey.rows // survey.block_rows), survey.rows // max(least_rows, 1)))
