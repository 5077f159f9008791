"""Nested groupings of the values of a column, and the joint counts by which a search chooses between them.

Level 0 has every value in a group of its own, each level joins groups of the level below, and the highest level has
one group. A tree gives its levels; numbers and ordered categories are halved at their quantiles; of other categories
the most frequent are kept and the others pooled. A missing value is in a group of its own, except on the highest
level.

The loss of a row is the share of the column's values that its group leaves open: (values in the group − 1) ÷ values.
One minus the mean loss, divided by the largest possible one, is the *granularity*: 1 for the original, 0 if nothing
is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.recodings.buckets import Buckets, quantile_ends
from sfumato.methods.recodings.categories import TreeBranch, cut_tree, join_runs, leave_empty, pool_values
from sfumato.plan.claims.sensitive_groups import SensitiveCounts
from sfumato.table.groups import first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.methods.recodings.group_rules import GroupRules, SensitiveColumn
    from sfumato.methods.recodings.recoding import Recoding
    from sfumato.plan.questions import Distinct
    from sfumato.plan.sketches import WeightedPoints
    from sfumato.schema.hierarchies import Tree

HALVINGS = 12  # at most 2¹² groups of numbers below the values themselves


@dataclass(frozen=True, eq=False, repr=False)
class Groupings:
    """The nested groupings of one column, and how a grouping is released."""

    name: str
    value_of_row: NDArray[np.int32]  # position of each row's value among the values
    levels: tuple[NDArray[np.int32], ...]  # group of each value, from the values themselves to one group
    recode: Callable[[NDArray[np.int32]], Recoding | None] = lambda groups: None  # None: released as it is
    weight: float = 1.0  # importance of the column ÷ largest loss of all columns, so that losses add up to at most 1

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.levels[0])

    @cached_property
    def covered(self) -> tuple[NDArray[np.int64], ...]:
        """Number of values in the group of each value, for each level."""
        return tuple(np.bincount(level)[level] for level in self.levels)

    def losses(self, covered: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weighted loss of each value, given how many values its group has."""
        return self.weight * (covered - 1.0) / self.size

    def loss(self, groups: NDArray[np.int32]) -> float:
        """Return the weighted mean loss of the rows, from 0 to the column's part of 1."""
        rows = np.bincount(self.value_of_row, minlength=self.size)
        return float(rows @ self.losses(np.bincount(groups)[groups]) / max(1, len(self.value_of_row)))

    def of_rows(self, rows: NDArray[np.int64]) -> Groupings:
        """Return the same groupings for some of the rows."""
        return replace(self, value_of_row=self.value_of_row[rows])


def weight_columns(columns: Sequence[Groupings], importance: Sequence[float]) -> tuple[Groupings, ...]:
    """Give the columns weights such that the loss is 1 if all columns have one group."""
    most = sum(one * (1.0 - 1.0 / column.size) for one, column in zip(importance, columns, strict=True))
    return tuple(replace(column, weight=one / (most or 1.0)) for one, column in zip(importance, columns, strict=True))


def group_by_tree(name: str, values: NDArray[np.int32], distinct: Distinct, tree: Tree) -> Groupings:
    """Group the values by the levels of a tree."""
    places = tree.positions(distinct.values, column=name)
    present = places >= 0
    levels = [
        _add_missing(np.searchsorted(starts, places[present], side="right") - 1, present) for starts in tree.starts
    ]

    def recode(groups: NDArray[np.int32]) -> Recoding | None:
        if _is_one_group(groups) and not present.all():
            return leave_empty(name, distinct)
        first, last = np.full(groups.max() + 1, tree.size), np.full(groups.max() + 1, -1)
        np.minimum.at(first, groups[present], places[present])
        np.maximum.at(last, groups[present], places[present])
        branches = tree.covering(first[last >= 0], last[last >= 0])
        cut = [TreeBranch(*branch) for branch in zip(branches.levels.tolist(), branches.nodes.tolist(), strict=True)]
        return cut_tree(name, distinct, tree, cut)

    return Groupings(name, values, _nest(levels), _skip_unchanged(recode))


def group_by_order(name: str, values: NDArray[np.int32], distinct: Distinct) -> Groupings:
    """Halve the values of an ordered column at their quantiles."""
    present = np.arange(len(distinct.values)) < len(distinct.values) - distinct.values.null_count

    def recode(groups: NDArray[np.int32]) -> Recoding | None:
        if _is_one_group(groups) and not present.all():
            return leave_empty(name, distinct)
        return join_runs(name, distinct, _ends(groups[present]))

    halves = _halves(distinct.counts[present].astype(np.float64), present)
    return Groupings(name, values, halves, _skip_unchanged(recode))


def group_by_pooling(name: str, values: NDArray[np.int32], distinct: Distinct) -> Groupings:
    """Keep more and more of the most frequent values, and pool the others."""
    rank = np.empty(len(distinct.counts), dtype=np.int64)
    rank[np.argsort(-distinct.counts, kind="stable")] = np.arange(len(rank))
    kept = [number for number in _growing(len(rank)) if number <= len(rank) - 2]
    levels = [rank, *(np.minimum(rank, number) for number in reversed(kept))]

    def recode(groups: NDArray[np.int32]) -> Recoding | None:
        return pool_values(name, distinct, np.bincount(groups)[groups] == 1)

    return Groupings(name, values, _nest(levels), _skip_unchanged(recode))


def group_numbers(
    name: str, values: NDArray[np.int32], points: WeightedPoints, make: Callable[[NDArray[np.int64]], Buckets]
) -> Groupings:
    """Halve numbers at their quantiles; ``make`` returns the buckets with these ends."""
    present = np.arange(len(points.values) + (points.missing > 0)) < len(points.values)

    def recode(groups: NDArray[np.int32]) -> Recoding:
        buckets = make(_ends(groups[present]))
        return replace(buckets, hidden=0) if _is_one_group(groups) and not present.all() else buckets

    return Groupings(name, values, _halves(points.weights, present), _skip_unchanged(recode))


def _halves(weights: NDArray[np.float64], present: NDArray[np.bool_]) -> tuple[NDArray[np.int32], ...]:
    levels = [np.arange(len(present))]
    for halvings in range(HALVINGS, -1, -1):
        ends = quantile_ends(weights, 2**halvings)
        if 0 < len(ends) < len(weights) or halvings == 0:
            levels.append(_add_missing(np.searchsorted(ends, np.arange(len(weights)), side="right"), present))
    return _nest(levels)


def _growing(most: int) -> list[int]:
    """Return 0, 1, 2, 3, 4, 6, 8, 12, 16, … up to ``most``."""
    steps = [0, 1, *(number for power in range(1, 40) for number in (2**power, 3 * 2 ** (power - 1)))]
    return [number for number in steps if number <= most]


def _add_missing(groups: NDArray[np.int64], present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a group for every value, with the missing one in a group of its own."""
    with_missing = np.full(len(present), int(groups.max(initial=-1)) + 1, dtype=np.int64)
    with_missing[present] = groups
    return with_missing


def _nest(levels: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int32], ...]:
    """Number the groups of each level densely, leave out repeated levels, and end with one group."""
    nested: list[NDArray[np.int32]] = []
    for level in (*levels, np.zeros(len(levels[0]), dtype=np.int64)):
        dense = np.unique(level, return_inverse=True)[1].astype(np.int32)
        if not nested or int(dense.max(initial=0)) < int(nested[-1].max(initial=0)):
            nested.append(dense)
    return tuple(nested)


def _ends(groups: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return the ends (exclusive) of runs of equal groups."""
    return np.append(np.flatnonzero(np.diff(groups)) + 1, len(groups)) if len(groups) else np.zeros(0, np.int64)


def _is_one_group(groups: NDArray[np.int32]) -> bool:
    return bool(len(groups)) and bool((groups == groups[0]).all())


def _skip_unchanged(
    recode: Callable[[NDArray[np.int32]], Recoding | None],
) -> Callable[[NDArray[np.int32]], Recoding | None]:
    """Return None instead of a recoding if every value is in a group of its own."""
    return lambda groups: None if len(groups) == int(groups.max(initial=-1)) + 1 else recode(groups)


@dataclass(frozen=True, eq=False, repr=False)
class JointCounts:
    """The distinct combinations of values, and how many rows have each."""

    columns: tuple[Groupings, ...]  # one row per combination
    counts: NDArray[np.int64]
    of_row: NDArray[np.int64]  # the combination of each row

    @classmethod
    def of(cls, columns: Sequence[Groupings]) -> JointCounts:
        """Count the combinations of values of the rows."""
        labels = np.zeros(len(columns[0].value_of_row), dtype=np.int64)
        for column in columns:
            labels = refine(labels, column.value_of_row, column.size)
        first = first_rows(labels)
        return cls(tuple(column.of_rows(first) for column in columns), np.bincount(labels), labels)

    def share_allowed(
        self,
        recodings: Sequence[NDArray[np.int32]],
        rules: GroupRules,
        sensitive: Sequence[tuple[SensitiveColumn, SensitiveCounts]] = (),
    ) -> float:
        """Return the share of rows that the rules allow, if the values are recoded to these groups.

        ``sensitive`` are the sensitive columns with the counts of their values in each combination.
        """
        labels = np.zeros(len(self.counts), dtype=np.int64)
        for column, groups in zip(self.columns, recodings, strict=True):
            labels = refine(labels, groups[column.value_of_row], int(groups.max()) + 1)
        sizes = np.bincount(labels, weights=self.counts)
        counted = [
            (one.rule, SensitiveCounts.of(labels[pairs.group], pairs.value, pairs.values, pairs.count), one.values)
            for one, pairs in sensitive
        ]
        return float(sizes[rules.mark_allowed(sizes, counted)].sum() / sizes.sum())
