"""The space that is cut into boxes: one axis for each quasi-identifier.

The coordinate of a number or a date is its value; the coordinate of a category is its rank in an order of similar
categories. A missing number has a coordinate one range below all others: a box with missing and other numbers would
be twice as wide as the range, so such boxes are avoided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.methods.partition import BoxPartition, SetLabels
from sfumato.plan.questions import Answers, Distinct, DistinctIn, ExtremesOf, MissingIn, MomentsOf, Question
from sfumato.schema.columns import Column, Role
from sfumato.schema.hierarchies import Ends, Tree, node_ends
from sfumato.schema.schema import Schema
from sfumato.schema.suggested_hierarchies import tree_for
from sfumato.table.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.table.table import Table


# The widths of the nodes of generalization trees, by which columns with a tree are cut.
#
# Values are ranked in the order of the tree, the missing one first. A tree is given to the kernels by its *steps*:
# the width of the node that covers each two neighbouring ranks.


def steps_of_categories(tree: Tree, values: pa.Array, column: str) -> NDArray[np.float64]:
    """Return the steps of categories: the number of values below a node minus one.

    ``values`` are those of the column by rank. Only the root covers the missing one. Values of the tree that do not
    occur in the column are not counted.
    """
    positions = tree.positions(values, column=column)
    nodes = tree.covering(np.maximum(positions[:-1], 0), positions[1:])
    low, high = np.empty((2, len(positions) - 1), dtype=np.int64)
    for level in range(tree.levels):
        here = nodes.levels == level
        low[here], high[here] = (tree.starts[level][nodes.nodes[here] + side] for side in (0, 1))
    covered = np.searchsorted(positions, high) - np.searchsorted(positions, low)
    is_root = (nodes.levels == tree.levels - 1) | (positions[:-1] < 0)
    return np.where(is_root, len(positions), covered) - 1.0


@dataclass(frozen=True, repr=False)
class NumberNodes:
    """The tree of a numeric column: a box is released as the interval of the node that covers it."""

    values: pa.Array  # by rank
    tree: Tree
    positions: NDArray[np.int64]  # place of each rank among the leaves; −1 for the missing value
    ends: tuple[Ends, ...]  # of the nodes of each level
    steps: NDArray[np.float64]  # lengths of the intervals of covering nodes

    @classmethod
    def of(cls, column: Column, tree: Tree, values: pa.Array) -> NumberNodes:
        """Rank the values of a column by its tree."""
        positions = tree.positions(values, column=column.name)
        order = np.argsort(positions, kind="stable")
        positions, ends = positions[order], tuple(node_ends(column, tree, values))
        nodes = cls(values.take(pa.array(order)), tree, positions, ends, np.empty(0))
        low, high = nodes.intervals(np.arange(len(order) - 1), np.arange(1, len(order)))
        steps = high - low
        if len(steps) and positions[0] < 0:  # a box with missing and other numbers costs as much as two ranges
            span = float(ends[-1][1][0] - ends[-1][0][0])
            steps[0] = 2.0 * (span if span > 0.0 else 1.0)
        return cls(nodes.values, tree, positions, ends, steps)

    def ranks(self, rows: Table, name: str) -> NDArray[np.float64]:
        """Return the rank of each row's value."""
        coded = rows.coded(name)
        rank = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        return np.asarray(rank.astype(np.float64)[coded.codes])

    def intervals(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> Ends:
        """Return the ends of the node that covers the values from a first to a last rank, neither missing."""
        nodes = self.tree.covering(np.maximum(self.positions[first], 0), np.maximum(self.positions[last], 0))
        low, high = np.empty((2, len(first)))
        for level, (lower, upper) in enumerate(self.ends):
            here = nodes.levels == level
            low[here], high[here] = lower[nodes.nodes[here]], upper[nodes.nodes[here]]
        return low, high


MOST_VALUES = 1_000_000  # largest number of values of a categorical column
NOTICEABLE = 2.0**-40  # relative difference of two numbers that no rounding removes


@dataclass(frozen=True, repr=False)
class NumberAxis:
    """A numeric or date column."""

    name: str
    kind: Kind
    low: float  # smallest and largest number of the column; NaN if all are missing
    high: float
    has_missing: bool
    domain: tuple[float, float] | None  # declared range
    nodes: NumberNodes | None = None  # its tree, if it is cut by it

    @property
    def missing_at(self) -> float:
        """The coordinate of a missing number: one range below the others; further than rounding if that is 0."""
        if np.isnan(self.low):
            return 0.0
        span = self.high - self.low
        return self.low - (span if span > 0.0 else max(1.0, abs(self.low) * NOTICEABLE))

    @property
    def extent(self) -> float:
        """The range of the coordinates, including that of a missing number."""
        if np.isnan(self.low):
            return 0.0
        return self.high - (self.missing_at if self.has_missing else self.low)

    @property
    def steps(self) -> NDArray[np.float64] | None:
        """Widths of the nodes that cover neighbouring values, if it is cut by its tree."""
        return None if self.nodes is None else self.nodes.steps

    @property
    def missing_place(self) -> float:
        """The place of a missing number: its coordinate, or its rank in the tree."""
        return self.missing_at if self.nodes is None else 0.0

    def places(self, rows: Table) -> NDArray[np.float64]:
        """Return the place of each row in the space that is cut: its coordinate, or its rank in the tree."""
        return self.coordinates(rows) if self.nodes is None else self.nodes.ranks(rows, self.name)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """Return the coordinate of each row."""
        numbers = rows.numbers(self.name)
        return np.where(np.isnan(numbers), self.missing_at, numbers) if self.has_missing else numbers


@dataclass(frozen=True, repr=False)
class SetAxis:
    """A categorical column: its values, including a missing one, in an order in which neighbours are similar."""

    name: str
    values: pa.Array  # by rank
    tree: Tree | None
    steps: NDArray[np.float64] | None = None  # widths of covering nodes, if it is cut by its tree

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.values)

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is among them."""
        return bool(self.values.null_count)

    @property
    def names(self) -> int:
        """Number of values that are not missing."""
        return self.size - self.has_missing

    @property
    def extent(self) -> float:
        """The width of the widest set: the number of values minus one."""
        return max(self.size - 1.0, 0.0)

    def places(self, rows: Table) -> NDArray[np.float64]:
        """Return the rank of each row's value."""
        return self.coordinates(rows)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """Return the rank of each row's value."""
        coded = rows.coded(self.name)
        rank = pc.index_in(coded.values, value_set=self.values).to_numpy(zero_copy_only=False)
        return np.asarray(rank.astype(np.float64)[coded.codes])


Axis = NumberAxis | SetAxis


@dataclass(frozen=True, repr=False)
class Axes:
    """The axes of all quasi-identifiers, numbers first."""

    numbers: tuple[NumberAxis, ...]
    sets: tuple[SetAxis, ...]

    @staticmethod
    def questions(schema: Schema, kinds: Mapping[str, Kind], *, by_tree: bool = False) -> list[Question[Any]]:
        """Return the survey questions about the quasi-identifiers; ``by_tree``: columns with a tree are cut by it."""
        quasi = schema.names(Role.QUASI)
        numbers = tuple(name for name in quasi if kinds[name].is_numeric)
        asked: list[Question[Any]] = [ExtremesOf(name) for name in numbers]
        asked += [MissingIn(name) for name in numbers]
        others = [name for name in quasi if name not in numbers]
        ranked = [name for name in numbers if by_tree and schema[name].tree]
        asked += [DistinctIn(name, at_most=MOST_VALUES) for name in ranked]
        asked += [DistinctIn(name, at_most=MOST_VALUES) for name in others]
        return [*asked, MomentsOf(numbers)] if numbers and others else asked

    @classmethod
    def of(cls, answers: Answers, sample: Table, schema: Schema, *, by_tree: bool = False) -> Axes:
        """Return the axes, from the answers to these questions and sampled rows."""
        quasi, kinds = schema.names(Role.QUASI), sample.kinds
        numbers = tuple(
            _make_number_axis(answers, schema, name, kinds[name], by_tree=by_tree)
            for name in quasi
            if kinds[name].is_numeric
        )
        numbers = tuple(sorted(numbers, key=lambda axis: axis.nodes is not None))  # trees last, beside those of sets
        others = [name for name in quasi if not kinds[name].is_numeric]
        if not others:
            return cls(numbers, ())
        likeness = Likeness.of(answers, sample, tuple(name for name in quasi if kinds[name].is_numeric))
        sets = [_make_set_axis(answers, schema, name, kinds[name], likeness) for name in others]
        if by_tree:
            sets = sorted(map(_cut_by_tree, sets), key=lambda axis: axis.steps is None)  # trees first, for the kernels
        return cls(numbers, tuple(sets))

    @property
    def all(self) -> tuple[Axis, ...]:
        """Every axis, numbers first."""
        return self.numbers + self.sets

    @property
    def have_trees(self) -> bool:
        """Whether an axis is cut by its tree."""
        return any(axis.steps is not None for axis in self.all)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(axis.name for axis in self.all)

    def coordinates(self, rows: Table) -> NDArray[np.float64]:
        """Return the place of each row in the space that is cut: one column per axis."""
        places = np.empty((rows.rows, len(self.all)))
        for position, axis in enumerate(self.all):
            places[:, position] = axis.places(rows)
        return places


@dataclass(frozen=True, repr=False)
class Likeness:
    """A score of each sampled row, by which categories are ordered: its first principal component."""

    sample: Table
    scores: NDArray[np.float64] | None

    @classmethod
    def of(cls, answers: Answers, sample: Table, numbers: tuple[str, ...]) -> Likeness:
        """Compute the first principal component of the standardised numbers; no score if there are none."""
        moments = answers[MomentsOf(numbers)] if numbers else None
        if moments is None or not moments.records:
            return cls(sample, None)
        spread = np.where(moments.sd > 0.0, moments.sd, np.inf)
        direction = np.linalg.eigh(moments.covariance / np.outer(spread, spread))[1][:, -1]
        centred = np.nan_to_num((sample.matrix(numbers) - moments.mean) / spread)
        return cls(sample, centred @ (direction * np.sign(direction.sum() or 1.0)))

    def order(self, name: str, distinct: Distinct) -> NDArray[np.int64]:
        """Return the positions of the values of a column by increasing mean score, or by frequency without scores.

        A value that is not in the sample has the score of an average row, 0.
        """
        if self.scores is None:
            return np.argsort(-distinct.counts, kind="stable")
        coded = self.sample.coded(name)
        place = pc.index_in(coded.values, value_set=distinct.values).to_numpy(zero_copy_only=False).astype(np.int64)
        counts, totals = np.zeros(len(distinct.values)), np.zeros(len(distinct.values))
        counts[place] = np.bincount(coded.codes, minlength=coded.size)
        totals[place] = np.bincount(coded.codes, weights=self.scores, minlength=coded.size)
        return np.argsort(totals / np.maximum(counts, 1), kind="stable")


def _make_number_axis(answers: Answers, schema: Schema, name: str, kind: Kind, *, by_tree: bool) -> NumberAxis:
    ends, column, nodes = answers[ExtremesOf(name)], schema[name], None
    if by_tree and column.tree and not np.isnan(ends.low):
        values = answers[DistinctIn(name, at_most=MOST_VALUES)].require_complete(name).values
        tree = tree_for(column, values)
        nodes = None if tree is None else NumberNodes.of(column, tree, values)
    return NumberAxis(name, kind, ends.low, ends.high, answers[MissingIn(name)] > 0, column.domain, nodes)


def _make_set_axis(answers: Answers, schema: Schema, name: str, kind: Kind, likeness: Likeness) -> SetAxis:
    distinct = answers[DistinctIn(name, at_most=MOST_VALUES)].require_complete(name)
    values = distinct.values
    tree = tree_for(schema[name], values) if schema[name].tree else None
    if tree is not None:
        order = np.argsort(tree.positions(values, column=name), kind="stable")
    elif kind is Kind.ORDERED:
        order = np.arange(len(values))  # distinct values of an ordered column are already in order
    else:
        order = likeness.order(name, distinct)
    return SetAxis(name, values.take(pa.array(order)), tree)


def _cut_by_tree(axis: SetAxis) -> SetAxis:
    return axis if axis.tree is None else replace(axis, steps=steps_of_categories(axis.tree, axis.values, axis.name))


def nodes(boxes: BoxPartition, ranks: NDArray[np.float64], axis: SetAxis) -> SetLabels:
    """Return the lowest node of the column's tree that covers each box; the root also covers a missing value."""
    assert axis.tree is not None
    positions = axis.tree.positions(axis.values, column=axis.name)[ranks.astype(np.int64)][boxes.order]
    first = np.minimum.reduceat(positions, boxes.starts[:-1])  # −1 if a value is missing
    last = np.maximum.reduceat(positions, boxes.starts[:-1])
    covering = axis.tree.covering(np.maximum(first, 0), np.maximum(last, 0))
    labels = [node for level in axis.tree.names for node in level]
    offsets = np.cumsum([0, *map(len, axis.tree.names)])
    label_of = offsets[covering.levels] + covering.nodes
    label_of[first < 0] = len(labels) - 1  # the root, even if a node below it covers all values but the missing one
    label_of[last < 0] = len(labels)
    return SetLabels(pa.array([*labels, None], pa.string()), label_of)


def values_by_node(axis: SetAxis) -> Mapping[str | None, frozenset[str | None]]:
    """Return the values below each node of the column's tree, by the node's name."""
    assert axis.tree is not None
    below: dict[str, set[str | None]] = {}
    for level in range(axis.tree.levels):
        for value, node in axis.tree.level(level).items():
            below.setdefault(node, set()).add(value)
    below[axis.tree.names[-1][0]].add(None)
    return {node: frozenset(values) for node, values in below.items()}


def box_widths(axes: Axes, low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the widths of boxes from their lowest and highest coordinates, one column per axis.

    The width along an axis with a tree is that of the covering node.
    """
    widths = high - low
    if not axes.have_trees:
        return widths
    from sfumato.methods.boxes.tally_kernels import covering_widths, trees_of

    trees = trees_of([axis.steps for axis in axes.all])
    for position, axis in enumerate(axes.all):
        if axis.steps is not None:
            widths[:, position] = covering_widths(trees, position, low[:, position], high[:, position])
    return widths
