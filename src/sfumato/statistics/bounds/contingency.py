"""Tables of counts of which some people's cells are not known: the range of functions of the table."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.conditions import Condition
from sfumato.statistics.counted_boxes import CountedBoxes

Array = NDArray[np.float64]
Ends = tuple[float, float]


@dataclass(frozen=True, eq=False, repr=False)
class UncertainTable:
    """People by the set of cells in which they can be; the last cell means that they are in none."""

    shape: tuple[int, int]
    options: NDArray[np.bool_]  # (types, cells + 1)
    weight: Array  # (types,)
    likely: Array  # (cells,)

    @classmethod
    def of(cls, table: CountedBoxes, sides: Sequence[Sequence[Condition]], within: Condition) -> UncertainTable:
        """Find the cells that each group of records can be in: one condition of each side, and ``within``."""
        flat = [row.joined(column, within) for row in sides[0] for column in sides[1]]
        met = [table.rows_meeting(table.clauses([], cell)) for cell in flat]
        possible = np.column_stack([one.most > 0.0 for one in met])
        anywhere = within.joined(*(Condition(tuple(side), either=True) for side in sides))
        outside = table.rows_meeting(table.clauses([], anywhere)).least < table.count
        options = np.column_stack([possible, outside])
        weight, likely = table.weight, np.array([float(one.likely @ (table.weight / table.count)) for one in met])
        if table.pools is not None:
            joined = np.zeros((len(table.pools.total), options.shape[1]), dtype=bool)
            np.logical_or.at(joined, table.pools.box, options)
            options, weight = joined, table.pools.total
        kinds, label = np.unique(options, axis=0, return_inverse=True)
        return cls(
            (len(sides[0]), len(sides[1])), kinds, np.bincount(label.ravel(), weights=weight).astype(np.float64), likely
        )

    @property
    def ends(self) -> tuple[Array, Array]:
        """The smallest and largest count of each cell."""
        alone = self.options.sum(axis=1) == 1
        low = self.weight[alone] @ self.options[alone]
        high = self.weight @ self.options
        return low[:-1], high[:-1]

    @property
    def is_certain(self) -> bool:
        """Whether every count is known."""
        low, high = self.ends
        return bool((low == high).all())

    def odds_ratio(self) -> Ends:
        """Return the smallest and largest a d / (b c): both are exact, but for whole numbers when a d is split."""
        return 1.0 / self._largest_odds((1, 0, 3, 2)), self._largest_odds((0, 1, 2, 3))

    def _largest_odds(self, order: Sequence[int]) -> float:
        a, b, c, d, outside = (self.options[:, k] for k in (*order, 4))
        weight = self.weight
        either = float(weight[a & d].sum())
        first, second = float(weight[a & ~d].sum()), float(weight[d & ~a].sum())
        split = min(max((either + second - first) / 2.0, 0.0), either)
        rest = ~a & ~d & ~outside
        only_b, only_c = float(weight[rest & b & ~c].sum()), float(weight[rest & c & ~b].sum())
        both = float(weight[rest & b & c].sum())
        bottom = min((only_b + both) * only_c, only_b * (only_c + both))
        top = (first + split) * (second + either - split)
        return math.inf if bottom == 0.0 else top / bottom if top > 0.0 else 1e-300

    def bound(self, table: Array) -> Ends:
        """Return limits of χ² by the mean value theorem: at an even split, plus the largest change to any other."""
        even = self.options / self.options.sum(axis=1, keepdims=True)
        start = (self.weight @ even)[:-1].reshape(self.shape)
        low, high = (end.reshape(self.shape) for end in self.ends)
        limits = self._slopes(low, high)
        largest = float(high.sum()) * (min(self.shape) - 1)
        if limits is None:
            return 0.0, largest
        value, ends = chi_square(start), []
        bottom, top = (np.append(one.ravel(), 0.0) for one in limits)
        for sign in (-1.0, 1.0):
            up, down = (top, bottom) if sign > 0.0 else (-bottom, -top)
            gain = up[None, :, None] - down[None, None, :]  # from cell (last) to cell (middle)
            gain[:, np.arange(len(up)), np.arange(len(up))] = 0.0
            moved = np.einsum("kij,tj->ti", gain, even)
            moved = np.where(self.options, moved, -np.inf).max(axis=1)
            ends.append(value + sign * float(self.weight @ moved))
        return max(ends[0] - 1e-9 * value, 0.0), min(ends[1] + 1e-9 * value, largest)

    def _slopes(self, low: Array, high: Array) -> tuple[Array, Array] | None:
        """Return limits of the derivatives of χ² by each count; None if a margin may be 0."""
        rows = [end.sum(axis=1, keepdims=True) for end in (low, high)]
        columns = [end.sum(axis=0, keepdims=True) for end in (low, high)]
        if rows[0].min() <= 0.0 or columns[0].min() <= 0.0:
            return None
        total = float(low.sum()), float(high.sum())
        parts = [low**2 / (rows[1] * columns[1]), high**2 / (rows[0] * columns[0])]
        ratio = [low / (rows[1] * columns[1]), high / (rows[0] * columns[0])]
        by_row = [(part / row).sum(axis=1, keepdims=True) for part, row in zip(parts, (rows[1], rows[0]), strict=True)]
        by_column = [
            (part / one).sum(axis=0, keepdims=True) for part, one in zip(parts, (columns[1], columns[0]), strict=True)
        ]
        inside = [2.0 * ratio[end] - by_row[1 - end] - by_column[1 - end] for end in range(2)]
        scaled = [
            np.minimum(total[0] * inside[0], total[1] * inside[0]),
            np.maximum(total[0] * inside[1], total[1] * inside[1]),
        ]
        return parts[0].sum() + scaled[0] - 1.0, parts[1].sum() + scaled[1] - 1.0

    def whole_tables(self, most: int) -> list[Array] | None:
        """Return all tables of whole counts that are possible, and perhaps some that are not; None if too many."""
        low, high = self.ends
        sizes = (np.rint(high) - np.rint(low)).astype(int) + 1
        if math.prod(sizes.tolist()) > most:
            return None
        ranges = [np.arange(round(start), round(end) + 1) for start, end in zip(low, high, strict=True)]
        certain = float(self.weight[~self.options[:, -1]].sum())
        tables = (np.array(cells, dtype=np.float64) for cells in itertools.product(*ranges))
        whole = float(self.weight.sum())
        return [one.reshape(self.shape) for one in tables if certain - 0.5 <= one.sum() <= whole + 0.5]


def chi_square(table: Array) -> float:
    """Return Pearson's χ² of a table; rows and columns without counts are left out."""
    rows, columns, total = table.sum(axis=1), table.sum(axis=0), float(table.sum())
    kept = table[np.ix_(rows > 0.0, columns > 0.0)]
    expected = np.outer(rows[rows > 0.0], columns[columns > 0.0]) / total if total > 0.0 else kept
    return float(((kept - expected) ** 2 / expected).sum()) if kept.size else math.nan
