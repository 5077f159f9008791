"""The base of the methods that make each quasi-identifier anonymous by itself.

Numbers and dates are grouped by the method. Ordered categories are joined to runs. Other categories are generalized
by their tree or, without a tree, by pooling rare values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sfumato.methods.base import Method
from sfumato.methods.claims import AtMostValues, EachColumnAnonymous
from sfumato.methods.options import require_rows
from sfumato.methods.recodings.buckets import Buckets
from sfumato.methods.recodings.category_recoding import with_at_least, with_at_most
from sfumato.methods.recodings.promises import truth_of
from sfumato.methods.recodings.quasi_columns import MOST_VALUES
from sfumato.methods.recodings.recoding import Recoding, RecodingPlan, ValueMap, released_columns
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.survey.questions import Answers, Distinct, DistinctIn, Question
from sfumato.survey.survey import Survey, blocks_wanted
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness

Ties = Literal["split", "together"]  # of equal values: between groups, or in one
TIES: tuple[Ties, ...] = ("split", "together")


@dataclass(frozen=True)
class Goal:
    """What every column must reach: at least k rows per released value, or at most ``buckets`` values."""

    k: int | None
    buckets: int | None = None

    def groups(self, rows: float) -> int:
        """Return the number of groups into which this many rows are divided."""
        return self.buckets if self.buckets is not None else max(1, int(rows // (self.k or 1)))

    def coarsened(self, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
        """Return a recoding of categories that reaches the goal; a missing value does not count as a bucket."""
        if self.buckets is not None:
            return with_at_most(self.buckets, column, kind, distinct, counts_missing=False)
        return with_at_least(self.k or 1, column, kind, distinct)

    def claim(self, columns: Mapping[str, tuple[str, ...]]) -> Claim[Any]:
        if self.buckets is not None:
            return AtMostValues(most=self.buckets, columns=columns)
        return EachColumnAnonymous(k=self.k or 1, columns=columns)


class ColumnwiseMethod(Method):
    """A method that recodes each quasi-identifier by itself."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """What every column must reach."""

    @abstractmethod
    def questions(self, survey: Survey, name: str) -> Sequence[Question[Any]]:
        """Return the survey questions about a numeric column."""

    @abstractmethod
    def group(self, survey: Survey, answers: Answers, name: str, randomness: Randomness) -> Buckets:
        """Return the groups of one numeric column, from the answers to its questions."""

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Recode each quasi-identifier, from the survey alone."""
        quasi, kinds = schema.names(Role.QUASI), survey.sample.table.kinds
        require_rows(survey.rows, self.goal.k)
        numeric = [name for name in quasi if kinds[name].is_numeric and schema[name].tree is None]
        asked = [question for name in numeric for question in self.questions(survey, name)]
        answers = survey.ask([*asked, *(DistinctIn(name, MOST_VALUES) for name in quasi if name not in numeric)])
        recodings: list[Recoding] = []
        for name in quasi:
            if name in numeric:
                recodings.append(self.group(survey, answers, name, randomness))
            else:
                distinct = answers[DistinctIn(name, MOST_VALUES)].require_complete(name)
                coarse = self.goal.coarsened(schema[name], kinds[name], distinct)
                recodings += [] if coarse.is_unchanged else [coarse]
        return recoding_plan(schema, recodings, self.goal, blocks_wanted(survey))


def recoding_plan(schema: Schema, recodings: list[Recoding], goal: Goal, parts: int) -> RecodingPlan:
    """Return the plan for these recodings, with its promises."""
    quasi = schema.names(Role.QUASI)
    return RecodingPlan(
        columns=tuple(column.name for column in schema.columns),
        quasi=quasi,
        recodings=tuple(recodings),
        promises=(goal.claim(released_columns(quasi, recodings)), *truth_of(recodings)),
        parts=parts,
    )
