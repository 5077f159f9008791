"""Groups of released rows: the intervals that cover their cells, their missing cells, and their sampling weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.statistics.released_columns import ReadColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class RowGroups:
    """The rows of each group: ``order[starts[g]]`` and the following ``count[g]`` rows."""

    labels: NDArray[np.int64]  # (N,), dense
    order: NDArray[np.int64]  # (N,)
    starts: NDArray[np.int64]  # (G,)
    count: NDArray[np.int64]  # (G,)

    @classmethod
    def of(cls, labels: NDArray[np.int64]) -> RowGroups:
        """Group rows by dense labels."""
        count = np.bincount(labels).astype(np.int64)
        return cls(labels, np.argsort(labels, kind="stable"), np.cumsum(count) - count, count)

    @property
    def first(self) -> NDArray[np.int64]:
        """The first row of each group."""
        return self.order[self.starts]

    def least(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the smallest value of each group; NaN only if it has no other."""
        found: NDArray[np.float64] = np.fmin.reduceat(values[self.order], self.starts)
        return found

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value of each group; NaN only if it has no other."""
        return -self.least(-values)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum of each group."""
        return np.bincount(self.labels, weights=values, minlength=len(self.count)).astype(np.float64)

    def ends(self, column: ReadColumn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the interval that covers the cells of each group."""
        return self.least(column.low), self.largest(column.high)

    def missing(self, column: ReadColumn) -> NDArray[np.float64]:
        """Count the missing cells: as the box states them, or those of the group itself."""
        if column.missing is not None:
            return column.missing[self.first].astype(np.float64)
        return self.sums(np.isnan(column.low).astype(np.float64))

    def as_matrix(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return one column per array, and one row per group."""
        return np.column_stack(columns) if columns else np.empty((len(self.count), 0))


@dataclass(frozen=True, eq=False, repr=False)
class GroupWeights:
    """Total weight of each group, and limits of the weight of a single row."""

    total: NDArray[np.float64]
    lightest: NDArray[np.float64]
    heaviest: NDArray[np.float64]

    @classmethod
    def of(cls, groups: RowGroups, weight: NDArray[np.float64]) -> GroupWeights:
        """Return the weights of groups in which the weight of every row is known."""
        return cls(groups.sums(weight), groups.least(weight), groups.largest(weight))

    @classmethod
    def pooled(cls, groups: RowGroups, weight: NDArray[np.float64]) -> GroupWeights:
        """Return the weights of groups of which only the total is known, because the rows show its mean.

        The mean was rounded, so a total that is whole up to that rounding is taken as whole: totals of whole weights
        are then exact.
        """
        known = cls.of(groups, weight)
        total = np.where(known.lightest == known.heaviest, groups.count * known.lightest, known.total)
        whole = np.rint(total)
        total = np.where(np.abs(total - whole) <= 2.0 * EPS * total, whole, total)
        return cls(total, np.zeros(len(total)), total)
