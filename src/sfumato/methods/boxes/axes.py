"""The space that is cut into boxes: one axis for each quasi-identifier.

A number or a date is its own coordinate; a category is its rank in an order in which neighbours are alike. A missing
number stands one range below all others, so that a box which holds both is as wide as two ranges and is avoided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.schema.schema import Role, Schema
from sfumato.schema.trees import tree_for
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.schema.hierarchy import Tree
    from sfumato.survey.survey import Survey
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class NumberAxis:
    """A numeric or date column."""

    name: str
    kind: Kind
    low: float  # smallest and largest number of the column; NaN when all are missing
    high: float
    has_missing: bool
    domain: tuple[float, float] | None  # declared range

    @property
    def missing_at(self) -> float:
        """The coordinate of a missing number: one range (or 1, when there is none) below the others."""
        if np.isnan(self.low):
            return 0.0
        span = self.high - self.low
        return self.low - (span if span > 0.0 else 1.0)

    @property
    def extent(self) -> float:
        """The range of the coordinate, the missing one included."""
        if np.isnan(self.low):
            return 0.0
        return self.high - (self.missing_at if self.has_missing else self.low)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """The coordinate of each row."""
        numbers = rows.numbers(self.name)
        return np.where(np.isnan(numbers), self.missing_at, numbers) if self.has_missing else numbers


@dataclass(frozen=True, repr=False)
class SetAxis:
    """A categorical column: its values in an order in which neighbours are alike, the missing one included."""

    name: str
    values: pa.Array  # by rank
    tree: Tree | None

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is among them."""
        return bool(self.values.null_count)

    @property
    def extent(self) -> float:
        """The number of values less one, as wide as the widest set."""
        return max(self.size - 1.0, 0.0)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """The rank of each row's value."""
        coded = rows.coded(self.name)
        rank = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        ranks: NDArray[np.float64] = rank.astype(np.float64)[coded.codes]
        return ranks


Axis = NumberAxis | SetAxis


@dataclass(frozen=True, repr=False)
class Axes:
    """The axes of all quasi-identifiers, numbers first."""

    numbers: tuple[NumberAxis, ...]
    sets: tuple[SetAxis, ...]

    @classmethod
    def of(cls, survey: Survey, schema: Schema) -> Axes:
        """What the survey tells of each quasi-identifier."""
        quasi = schema.names(Role.QUASI)
        kinds = survey.sample(quasi).kinds
        numbers = tuple(_number_axis(survey, schema, name, kinds[name]) for name in quasi if kinds[name].is_numeric)
        others = [name for name in quasi if not kinds[name].is_numeric]
        if not others:
            return cls(numbers, ())
        likeness = Likeness.of(survey, [axis.name for axis in numbers])
        return cls(numbers, tuple(_set_axis(survey, schema, name, kinds[name], likeness) for name in others))

    @property
    def all(self) -> tuple[Axis, ...]:
        """Every axis, numbers first."""
        return self.numbers + self.sets

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(axis.name for axis in self.all)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """The place of each row: one column an axis."""
        places = np.empty((rows.rows, len(self.all)))
        for position, axis in enumerate(self.all):
            places[:, position] = axis.coordinates(rows)
        return places


@dataclass(frozen=True, repr=False)
class Likeness:
    """A score of each sampled row by which categories are put in order: its place along the numbers' main direction."""

    scores: NDArray[np.float64] | None

    @classmethod
    def of(cls, survey: Survey, numbers: Sequence[str]) -> Likeness:
        """The first principal component of the standardised numbers; no score when there are none."""
        if not numbers:
            return cls(None)
        moments = survey.moments(numbers)
        if not moments.records:
            return cls(None)
        spread = np.where(moments.sd > 0.0, moments.sd, np.inf)
        direction = np.linalg.eigh(moments.covariance / np.outer(spread, spread))[1][:, -1]
        centred = np.nan_to_num((survey.sample(numbers).matrix(numbers) - moments.mean) / spread)
        return cls(centred @ (direction * np.sign(direction.sum() or 1.0)))

    def order(self, survey: Survey, name: str) -> NDArray[np.int64]:
        """The codes of a column, those with a low mean score first; by frequency when there is no score."""
        if self.scores is None:
            return np.argsort(-survey.distinct(name).counts, kind="stable")
        coded = survey.sample([name]).coded(name)
        counts = np.bincount(coded.codes, minlength=coded.size)
        totals = np.bincount(coded.codes, weights=self.scores, minlength=coded.size)
        return np.argsort(totals / np.maximum(counts, 1), kind="stable")


def _number_axis(survey: Survey, schema: Schema, name: str, kind: Kind) -> NumberAxis:
    low, high = survey.extremes(name)
    return NumberAxis(name, kind, low, high, survey.missing(name) > 0, schema[name].domain)


def _set_axis(survey: Survey, schema: Schema, name: str, kind: Kind, likeness: Likeness) -> SetAxis:
    values = survey.distinct(name).values
    tree = tree_for(schema[name], values)
    if tree is not None:
        order = np.argsort(tree.positions(values, column=name), kind="stable")
    elif kind is Kind.ORDERED:
        order = np.arange(len(values))  # distinct values come in their own order
    else:
        order = likeness.order(survey, name)
    return SetAxis(name, values.take(pa.array(order)), tree)
