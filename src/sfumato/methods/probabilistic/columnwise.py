"""What the methods share that make each quasi-identifier anonymous by itself.

Numbers and dates are grouped as the method says; ordered categories are joined to runs; other categories are cut at
their tree, or the rare ones are pooled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import CannotRelease
from sfumato.methods.base import Method
from sfumato.methods.probabilistic.buckets import Buckets
from sfumato.methods.probabilistic.category_recoding import with_at_least, with_at_most
from sfumato.methods.probabilistic.claims import AtMostValues, EachColumnAnonymous, Truthful
from sfumato.methods.probabilistic.recoding import Recoding, RecodingPlan, ValueMap
from sfumato.schema.schema import Column, Role, Schema
from sfumato.survey.survey import Distinct, Survey
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from sfumato.methods.claims import Claim
    from sfumato.randomness import Randomness
    from sfumato.table.table import Table


@dataclass(frozen=True)
class Goal:
    """What every column must reach: at least k rows for each value shown, or at most so many values."""

    k: int | None
    buckets: int | None = None

    def groups(self, rows: float) -> int:
        """Number of groups to divide this many rows into."""
        return self.buckets if self.buckets is not None else max(1, int(rows // (self.k or 1)))

    def coarsened(self, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
        """Categories that reach the goal; a missing value does not count among the buckets."""
        if self.buckets is not None:
            return with_at_most(self.buckets + distinct.values.null_count, column, kind, distinct)
        return with_at_least(self.k or 1, column, kind, distinct)

    def claim(self, columns: Mapping[str, tuple[str, ...]]) -> Claim:
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
    def group(self, survey: Survey, sample: Table, name: str, randomness: Randomness) -> Buckets:
        """The groups of one numeric column."""

    def plan(self, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Recode each quasi-identifier, from the survey alone."""
        quasi = schema.names(Role.QUASI)
        require_rows(survey.rows, self.goal.k)
        sample = survey.sample(quasi)
        recodings: list[Recoding] = []
        for name in quasi:
            if sample.kinds[name].is_numeric and schema[name].tree is None:
                recodings.append(self.group(survey, sample, name, randomness))
            else:
                coarse = self.goal.coarsened(schema[name], sample.kinds[name], survey.distinct(name))
                recodings += [] if coarse.is_unchanged else [coarse]
        return recoding_plan(schema, recodings, self.goal, blocks_of(survey))


def recoding_plan(schema: Schema, recodings: list[Recoding], goal: Goal, parts: int) -> RecodingPlan:
    """The plan of these recodings, with the promises that go with them."""
    quasi = schema.names(Role.QUASI)
    released = {name: (name,) for name in quasi} | {recoding.name: recoding.released_names for recoding in recodings}
    return RecodingPlan(
        columns=tuple(column.name for column in schema.columns),
        quasi=quasi,
        recodings=tuple(recodings),
        promises=(goal.claim(released), *truth_of(recodings)),
        parts=parts,
    )


def truth_of(recodings: Sequence[Recoding]) -> tuple[Truthful, ...]:
    """The promise that ranges and words hold what they stand for; medians and means promise nothing of the kind."""
    ranges = tuple(one.name for one in recodings if isinstance(one, Buckets) and one.shown == "range")
    covers = {one.name: one.covers for one in recodings if isinstance(one, ValueMap)}
    return (Truthful(ranges=ranges, covers=covers),) if ranges or covers else ()


def require_rows(rows: int, k: int | None) -> None:
    """Raise when there are fewer rows than k."""
    if k is not None and rows < k:
        raise CannotRelease(
            f"At least {k:,} rows are needed to hide everyone among {k:,}.", found=f"{rows:,}", fix="a smaller k"
        )


def blocks_of(survey: Survey) -> int:
    """Number of blocks that the engine wants."""
    return 1 if survey.block_rows is None else max(1, -(-survey.rows // survey.block_rows))
