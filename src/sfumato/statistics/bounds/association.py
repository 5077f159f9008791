"""Tables of counts and pairs of records of which only a part is certain: the ranges of measures of association."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import stats

from sfumato.statistics.conditions import Condition
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.weighted_boxes import WeightedBoxes

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


# Pairs of records whose order is certain: ranks, Mann–Whitney's U and Kendall's S over all values in the boxes.


def weight_below(values: Array, weight: Array, limits: Array, *, or_equal: bool = False) -> Array:
    """Return for each limit the total weight of the values below it."""
    order = np.argsort(values, kind="stable")
    totals = np.concatenate([[0.0], np.cumsum(weight[order])])
    return totals[np.searchsorted(values[order], limits, side="right" if or_equal else "left")]


def rank_ends(low: Array, high: Array, weight: Array) -> tuple[Array, Array]:
    """Return the smallest and the largest rank of the records of each group; ties have the mean of their ranks."""
    total = float(weight.sum())
    point = low == high
    tied = np.where(
        point, _weight_equal(low[point], weight[point], low), 1.0
    )  # certainly equal, with the record itself
    least = weight_below(high, weight, low) + 0.5 + tied / 2.0
    most = total - weight_below(-low, weight, -high) + 0.5 - tied / 2.0
    return least, most


def _weight_equal(values: Array, weight: Array, limits: Array) -> Array:
    return weight_below(values, weight, limits, or_equal=True) - weight_below(values, weight, limits)


@dataclass(frozen=True, eq=False, repr=False)
class UStatistic:
    """How often a value of one group exceeds one of another, ties half, over all values in the boxes."""

    value: float
    ends: Ends
    z_ends: Ends
    p_value: float

    @classmethod
    def of(cls, one: WeightedBoxes, other: WeightedBoxes) -> UStatistic:
        """Count pairs; a record that may be in a group is in a pair if that widens the interval."""
        low = _wins(one.low[:, 0], one.weight, other.high[:, 0], other.weight)
        high = _wins(one.high[:, 0], one.weight + one.extra, other.low[:, 0], other.weight + other.extra)
        value = _wins(one.midpoints[:, 0], one.likely_weight, other.midpoints[:, 0], other.likely_weight)
        sizes = [(float(side.weight.sum()), float((side.weight + side.extra).sum())) for side in (one, other)]
        likely = [float(side.likely_weight.sum()) for side in (one, other)]
        ends = np.concatenate([one.low[:, 0], other.low[:, 0]]), np.concatenate([one.high[:, 0], other.high[:, 0]])
        weight = np.concatenate([side.weight + side.extra for side in (one, other)])
        middle = (ends[0] + ends[1]) / 2.0
        certain = np.concatenate([side.weight for side in (one, other)])
        equal = _weight_equal(middle, np.concatenate([side.likely_weight for side in (one, other)]), middle)
        guess = np.concatenate([side.likely_weight for side in (one, other)])
        error = _error(likely[0], likely[1], float(guess @ (equal**2 - 1.0)))
        point = ends[0] == ends[1]
        least_ties = float(certain[point] @ (_weight_equal(ends[0][point], certain[point], ends[0][point]) ** 2 - 1.0))
        overlap = weight.sum() - weight_below(ends[1], weight, ends[0]) - weight_below(-ends[0], weight, -ends[1])
        overlap = np.where(
            point & (overlap <= _weight_equal(ends[0][point], weight[point], ends[0])),
            _weight_equal(ends[0][point], weight[point], ends[0]),
            overlap,
        )
        most_ties = float(weight @ (overlap**2 - 1.0))
        errors = (_error(sizes[0][0], sizes[1][0], most_ties), _error(sizes[0][1], sizes[1][1], least_ties))
        half = (sizes[0][0] * sizes[1][0] / 2.0, sizes[0][1] * sizes[1][1] / 2.0)
        gaps = (low - half[1], high - half[0])
        far = max(abs(gaps[0]), abs(gaps[1])) - 0.5
        near = max(gaps[0], -gaps[1], 0.0) - 0.5
        z_ends = (
            max(near, -0.5) / errors[1] if errors[1] > 0.0 else 0.0,
            far / errors[0] if errors[0] > 0.0 else math.inf,
        )
        z = (abs(value - likely[0] * likely[1] / 2.0) - 0.5) / error if error > 0.0 else math.nan
        return cls(value, (low, high), z_ends, min(1.0, 2.0 * float(stats.norm.sf(z))))


def _wins(first: Array, first_weight: Array, second: Array, second_weight: Array) -> float:
    below = weight_below(second, second_weight, first)
    return float(first_weight @ (below + weight_below(second, second_weight, first, or_equal=True))) / 2.0


def _error(first: float, second: float, ties: float) -> float:
    """Return the standard deviation of U; ``ties`` is Σ (t³ − t) over groups of t equal values."""
    records = first + second
    if records < 2.0:
        return 0.0
    return math.sqrt(max(first * second / 12.0 * (records + 1.0 - ties / (records * (records - 1.0))), 0.0))


@dataclass(frozen=True, eq=False, repr=False)
class KendallPairs:
    """Pairs of records that are certainly concordant, discordant or tied."""

    pairs: float
    concordant: float
    discordant: float
    tied: tuple[float, float, float]  # in the first column, in the second, in both
    possibly_tied: Ends

    @classmethod
    def of(cls, boxes: WeightedBoxes) -> KendallPairs:
        """Count all pairs in O(n log n)."""
        weight, total = boxes.weight, float(boxes.weight.sum())
        pairs = total * (total - 1.0) / 2.0
        (ax, ay), (bx, by) = boxes.low.T, boxes.high.T
        ties, possible = [], []
        for columns in ([0], [1], [0, 1]):
            point = (boxes.low[:, columns] == boxes.high[:, columns]).all(axis=1)
            _, label = np.unique(boxes.low[point][:, columns], axis=0, return_inverse=True)
            sizes = np.bincount(label.ravel(), weights=weight[point])
            ties.append(float((sizes * (sizes - 1.0)).sum()) / 2.0)
        for low, high in ((ax, bx), (ay, by)):
            possible.append(pairs - float(weight @ weight_below(high, weight, low)))
        concordant = count_dominated(ax, bx, ay, by, weight)
        discordant = count_dominated(ax, bx, -by, -ay, weight)
        return cls(pairs, concordant, discordant, (ties[0], ties[1], ties[2]), (possible[0], possible[1]))

    @property
    def ends(self) -> Ends:
        """The interval of τ-b."""
        tied = self.tied[0] + self.tied[1] - self.tied[2]
        high = self.pairs - tied - 2.0 * self.discordant
        low = -(self.pairs - tied - 2.0 * self.concordant)
        widest = math.sqrt((self.pairs - self.tied[0]) * (self.pairs - self.tied[1]))
        narrowest = math.sqrt((self.pairs - self.possibly_tied[0]) * (self.pairs - self.possibly_tied[1]))
        return -_ratio(-low, narrowest, widest), _ratio(high, narrowest, widest)


def _ratio(number: float, narrowest: float, widest: float) -> float:
    divisor = narrowest if number > 0.0 else widest
    return min(number / divisor * (1.0 + 1e-12) if divisor > 0.0 else 1.0, 1.0)


def count_dominated(low_x: Array, high_x: Array, low_y: Array, high_y: Array, weight: Array) -> float:
    """Return the weight of pairs of which one record is certainly larger in both columns."""
    edges, place = np.unique(high_y, return_inverse=True)
    below = np.searchsorted(edges, low_y, side="left")
    return float(
        _count_dominated(
            np.argsort(low_x, kind="stable"),
            np.argsort(high_x, kind="stable"),
            low_x,
            high_x,
            below,
            place,
            weight,
            len(edges),
        )
    )


@njit(cache=False)  # type: ignore[untyped-decorator]
def _count_dominated(
    by_low: NDArray[np.int64],
    by_high: NDArray[np.int64],
    low: Array,
    high: Array,
    below: NDArray[np.int64],
    place: NDArray[np.int64],
    weight: Array,
    size: int,
) -> float:
    """Insert records in the order of their high ends into a Fenwick tree, and ask it in the order of the low ends."""
    tree, total, entered = np.zeros(size + 1), 0.0, 0
    for record in by_low:
        while entered < len(by_high) and high[by_high[entered]] < low[record]:
            at = place[by_high[entered]] + 1
            while at <= size:
                tree[at] += weight[by_high[entered]]
                at += at & (-at)
            entered += 1
        at, found = below[record], 0.0
        while at > 0:
            found += tree[at]
            at -= at & (-at)
        total += found * weight[record]
    return total
