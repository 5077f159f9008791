"""What a survey tells about the quasi-identifiers, and the nested groupings of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from sfumato.methods.options import importance_of
from sfumato.methods.recodings.buckets import Buckets
from sfumato.methods.recodings.value_groupings import (
    Groupings,
    number_groupings,
    ordered_groupings,
    pooled_groupings,
    tree_groupings,
    weighted,
)
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.schema.trees import tree_for
from sfumato.survey.quantile_sketches import Points, all_points
from sfumato.survey.questions import DistinctIn, FactsOf
from sfumato.survey.survey import Sample, Survey
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.buckets import Shown
    from sfumato.survey.questions import Distinct
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
    points: Mapping[str, Points]  # of the numeric columns: the values of the sample, the missing of the whole table
    facts: Mapping[str, ColumnFacts]  # of the numeric columns, in the whole table
    distinct: Mapping[str, Distinct]  # of the other columns

    @classmethod
    def of(
        cls,
        survey: Survey,
        schema: Schema,
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
        )

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of values of each column, including a missing one."""
        counted = {name: facts.distinct_values + (facts.missing > 0) for name, facts in self.facts.items()}
        counted |= {name: len(distinct.values) for name, distinct in self.distinct.items()}
        return {name: counted[name] for name in self.names}

    def buckets(self, name: str, ends: NDArray[np.int64]) -> Buckets:
        """Group a numeric column into buckets with these ends."""
        buckets = Buckets.of_points(self.sample.table, name, self.points[name], ends, shown=self.represent)
        return buckets.as_cells(self.schema[name].domain or (self.facts[name].low, self.facts[name].high))

    @cached_property
    def groupings(self) -> tuple[Groupings, ...]:
        """The columns, with the groupings of their values that the search chooses between."""
        return weighted([self._groupings_of(name) for name in self.names], list(self.importance.values()))

    def _groupings_of(self, name: str) -> Groupings:
        if name in self.points:
            points, numbers = self.points[name], self.sample.table.numbers(name)
            values = np.where(np.isnan(numbers), len(points.values), np.searchsorted(points.values, numbers))
            return number_groupings(name, values.astype(np.int32), points, lambda ends: self.buckets(name, ends))
        coded, distinct = self.sample.table.coded(name), self.distinct[name]
        places = pc.index_in(coded.values, value_set=distinct.values).to_numpy(zero_copy_only=False)
        values = places.astype(np.int32)[coded.codes]
        tree = tree_for(self.schema[name], distinct.values)
        if tree is not None:
            return tree_groupings(name, values, distinct, tree)
        is_ordered = self.sample.table.kinds[name] is Kind.ORDERED
        return (ordered_groupings if is_ordered else pooled_groupings)(name, values, distinct)
