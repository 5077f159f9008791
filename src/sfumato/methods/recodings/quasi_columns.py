"""What recodings share: the surveyed quasi-identifiers, their promise, and the base of column-wise methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow.compute as pc

from sfumato.methods.base import Method, require_rows
from sfumato.methods.options import importance_of
from sfumato.methods.recodings.buckets import Buckets, Shown
from sfumato.methods.recodings.categories import coarsen_to_at_least, coarsen_to_at_most
from sfumato.methods.recodings.group_rules import make_rules
from sfumato.methods.recodings.groupings import (
    Groupings,
    group_by_order,
    group_by_pooling,
    group_by_tree,
    group_numbers,
    weight_columns,
)
from sfumato.methods.recodings.recoding import Recoding, RecodingPlan, ValueMap, released_columns
from sfumato.plan.claims.containment import Containment
from sfumato.plan.claims.each_column import AtMostValues, EachColumnAnonymous
from sfumato.plan.plan import Evidence
from sfumato.plan.questions import Answers, Distinct, DistinctIn, FactsOf, GroupSizesOf, Question
from sfumato.plan.sketches import WeightedPoints, all_points
from sfumato.plan.survey import Sample, Survey, is_whole
from sfumato.schema.columns import Column, Role
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.plan import Claim
    from sfumato.randomness import Randomness
    from sfumato.table.facts import ColumnFacts

MOST_VALUES = 1_000_000  # largest number of values of a categorical column


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class QuasiColumns:
    """The quasi-identifiers of a table, as far as the survey knows them."""

    schema: Schema
    names: tuple[str, ...]
    importance: Mapping[str, float]
    represent: Shown  # what is released for groups of numbers without a tree
    sample: Sample
    points: Mapping[
        str, WeightedPoints
    ]  # of the numeric columns: the values of the sample, the missing of the whole table
    facts: Mapping[str, ColumnFacts]  # of the numeric columns, in the whole table
    distinct: Mapping[str, Distinct]  # of the other columns
    randomness: Randomness

    @classmethod
    def of(
        cls,
        survey: Survey,
        schema: Schema,
        randomness: Randomness,
        *,
        importance: Mapping[str, float] | None = None,
        represent: Shown = "range",
    ) -> QuasiColumns:
        """Ask the survey about the quasi-identifiers."""
        names, sample = schema.names(Role.QUASI), survey.sample
        kinds = sample.table.kinds
        numeric = [name for name in names if kinds[name].is_numeric and schema[name].tree is None]
        others = [name for name in names if name not in numeric]
        answers = survey.ask(
            [
                *(FactsOf(name, count_distinct=True) for name in numeric),
                *(DistinctIn(name, MOST_VALUES) for name in others),
            ]
        )
        facts = {name: answers[FactsOf(name, count_distinct=True)] for name in numeric}
        return cls(
            schema=schema,
            names=names,
            importance=importance_of(importance, names),
            represent=represent,
            sample=sample,
            points={
                name: replace(all_points(sample.table.numbers(name)), missing=facts[name].missing) for name in numeric
            },
            facts=facts,
            distinct={name: answers[DistinctIn(name, MOST_VALUES)].require_complete(name) for name in others},
            randomness=randomness,
        )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of values of each column, including a missing one."""
        counted = {name: facts.distinct_values + (facts.missing > 0) for name, facts in self.facts.items()}
        counted |= {name: len(distinct.values) for name, distinct in self.distinct.items()}
        return {name: counted[name] for name in self.names}

    @cached_property
    def _face_places(self) -> dict[str, NDArray[np.float64]]:
        """Where buckets end between two neighbouring numbers, drawn once: half-way, an end would tell these numbers."""
        return {
            name: self.randomness.stream(f"faces {name}").random(len(points.values))
            for name, points in self.points.items()
        }

    def buckets(self, name: str, ends: NDArray[np.int64]) -> Buckets:
        """Group a numeric column into buckets with these ends."""
        table, points, shares = self.sample.table, self.points[name], self._face_places[name]
        buckets = Buckets.of_points(table, name, points, ends, shown=self.represent, shares=shares)
        return buckets.as_cells(self.schema[name].domain or (self.facts[name].low, self.facts[name].high))

    @cached_property
    def groupings(self) -> tuple[Groupings, ...]:
        """The columns, with the groupings of their values that the search chooses between."""
        return weight_columns([self._groupings_of(name) for name in self.names], list(self.importance.values()))

    def _groupings_of(self, name: str) -> Groupings:
        if name in self.points:
            points, numbers = self.points[name], self.sample.table.numbers(name)
            values = np.where(np.isnan(numbers), len(points.values), np.searchsorted(points.values, numbers))
            return group_numbers(name, values.astype(np.int32), points, lambda ends: self.buckets(name, ends))
        coded, distinct = self.sample.table.coded(name), self.distinct[name]
        places = pc.index_in(coded.values, value_set=distinct.values).to_numpy(zero_copy_only=False)
        values = places.astype(np.int32)[coded.codes]
        tree = tree_for(self.schema[name], distinct.values)
        if tree is not None:
            return group_by_tree(name, values, distinct, tree)
        is_ordered = self.sample.table.kinds[name] is Kind.ORDERED
        return (group_by_order if is_ordered else group_by_pooling)(name, values, distinct)


def promise_containment(recodings: Sequence[Recoding]) -> tuple[Containment, ...]:
    """Return the promise that released ranges and categories contain the original values; not for medians and means."""
    ranges = tuple(one.name for one in recodings if isinstance(one, Buckets) and one.shown == "range")
    covers = {one.name: one.covers for one in recodings if isinstance(one, ValueMap)}
    columns = (*ranges, *covers)  # a group may be released as missing, which says nothing about its values
    return (Containment(columns=columns, covers=covers, empty_is_unknown=True),) if columns else ()


# The base of the methods that make each quasi-identifier anonymous by itself.
#
# Numbers and dates are grouped by the method. Ordered categories are joined to runs. Other categories are generalized
# by their tree or, without a tree, by pooling rare values.


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

    def coarsen(self, column: Column, kind: Kind, distinct: Distinct) -> ValueMap:
        """Return a recoding of categories that reaches the goal; a missing value does not count as a bucket."""
        if self.buckets is not None:
            return coarsen_to_at_most(self.buckets, column, kind, distinct, counts_missing=False)
        return coarsen_to_at_least(self.k or 1, column, kind, distinct)

    def claim(self, columns: Mapping[str, tuple[str, ...]]) -> Claim[Any]:
        if self.buckets is not None:
            return AtMostValues(most=self.buckets, columns=columns)
        return EachColumnAnonymous(k=self.k or 1, columns=columns)


class ColumnwiseMethod(Method):
    """A method that recodes each quasi-identifier by itself.

    It forms no groups of whole rows, so it cannot make them diverse: diversity is counted on the released rows, and a
    release in which it does not hold is refused.
    """

    l: int | None

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
        if schema.person is None or self.goal.k is None:
            return self._plan(self, survey, schema, randomness)
        return self._plan_for_people(self.goal.k, schema.person, survey, schema, randomness)

    def _plan_for_people(
        self, k: int, person: str, survey: Survey, schema: Schema, randomness: Randomness
    ) -> RecodingPlan:
        """Make groups of more rows, until each is that of k people.

        k × the rows that a person has at most are surely enough; where the whole table is known, fewer are tried first.
        """
        question, sample = GroupSizesOf((person,)), survey.sample.table
        largest = min(k * int(survey.ask([question])[question].sizes.max()), survey.rows)
        size = k if is_whole(survey) else largest
        while True:
            larger: Any = self
            plan = self._plan(replace(larger, k=size), survey, schema, randomness)
            if size >= largest:
                return plan
            made = plan.transform(sample, 0)
            evidence = Evidence(made.released, sample, made.origin)
            if plan.promises[0].count_people(person).measure(evidence).held:
                return plan
            size = min(largest, max(size + 1, size * 5 // 4))

    def _plan(self, grouping: ColumnwiseMethod, survey: Survey, schema: Schema, randomness: Randomness) -> RecodingPlan:
        """Recode each quasi-identifier as ``grouping`` does, and promise what this method does."""
        quasi, kinds = schema.names(Role.QUASI), survey.sample.table.kinds
        require_rows(survey.rows, self.goal.k)
        numeric = [name for name in quasi if kinds[name].is_numeric and schema[name].tree is None]
        asked = [question for name in numeric for question in grouping.questions(survey, name)]
        answers = survey.ask([*asked, *(DistinctIn(name, MOST_VALUES) for name in quasi if name not in numeric)])
        recodings: list[Recoding] = []
        for name in quasi:
            if name in numeric:
                recodings.append(grouping.group(survey, answers, name, randomness))
            else:
                distinct = answers[DistinctIn(name, MOST_VALUES)].require_complete(name)
                coarse = grouping.goal.coarsen(schema[name], kinds[name], distinct)
                recodings += [] if coarse.is_unchanged else [coarse]
        shown = released_columns(quasi, recodings)
        return RecodingPlan(
            columns=tuple(column.name for column in schema.columns),
            quasi=quasi,
            recodings=tuple(recodings),
            promises=(
                self.goal.claim(shown),
                *self._promise_diversity(survey, schema, tuple(chain.from_iterable(shown.values()))),
                *promise_containment(recodings),
            ),
        ).in_blocks(survey)

    def _promise_diversity(self, survey: Survey, schema: Schema, columns: tuple[str, ...]) -> tuple[Claim[Any], ...]:
        """Return the promises about sensitive columns in groups of rows that are equal in these released columns."""
        k = self.goal.k or max(1, survey.rows // (self.goal.buckets or 1))
        return make_rules(survey, schema, k=k, l=self.l).claims(columns)[1:]
