"""A likely distribution of one column, given its boxes, as the value in place of midpoints.

The values of a column are taken for draws from one distribution, of which a box tells the interval and how many lie in
it (Turnbull 1976). The faces of hulls are values themselves: one value lies at each end, and the others between them.
The distribution has a weight at each end of a box and between neighbouring ends, where it is even. A few steps of the
EM algorithm raise its likelihood: in each step a box divides its values as the weights inside it. Records in wide boxes
are thus placed where narrower boxes show that there are many, and a midpoint is not taken for a value. The maximum
itself lies on a few points; the first steps smooth it (Silverman, Jones, Wilson and Nychka 1990).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.statistics.bounds.enclosure import EstimateBudget
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.statistic import ConditionalStatistic, Statistic
from sfumato.table.groups import first_rows
from sfumato.table.intervals import interval_names, missing_name
from sfumato.table.table import Table

Array = NDArray[np.float64]
BY_LIKELIHOOD = "the value is that of the most likely distribution of the column, given its boxes"
BY_MIDPOINTS = (
    "the value is that at the midpoints: the likelihood is used for one numeric column in boxes, without weights"
)
STEPS = 3  # of the EM algorithm from even densities: at the maximum itself the weights would lie on a few points


@dataclass(frozen=True, eq=False, repr=False)
class BoxedColumn:
    """The intervals of a column, one per box, and how many values lie in each."""

    low: Array  # (B,)
    high: Array
    values: Array
    ends_are_values: bool
    is_whole: bool

    @classmethod
    def of(cls, released: Table, name: str, labels: NDArray[np.int64], *, hulls: bool, whole: bool) -> BoxedColumn:
        """Read a column of a released table; ``labels`` number the boxes."""
        first = first_rows(labels)
        low, high = (released.numbers(end)[first] for end in interval_names(name)[:2])
        values = np.bincount(labels).astype(np.float64)
        if missing_name(name) in released.kinds:
            values -= released.numbers(missing_name(name))[first]
        kept = (values > 0.0) & ~np.isnan(low)
        return cls(low[kept], high[kept], values[kept], hulls, whole)

    def distribution(self) -> CountedBoxes | None:
        """Return a likely distribution as weighted values, of which a piece has two; None if all are known."""
        if (self.low == self.high).all():
            return None
        ends = np.unique(np.concatenate([self.low, self.high]))
        first, last = (2 * np.searchsorted(ends, one) for one in (self.low, self.high))
        gaps = np.diff(ends) - (1.0 if self.is_whole else 0.0)  # whole numbers in it, or its length
        size = np.zeros(2 * len(ends) - 1)  # ends and the pieces between them, in turn
        size[1::2], size[::2] = gaps, float(self.is_whole)
        known = np.zeros(len(size))
        open_ = np.where(first == last, 0.0, self.values)
        np.add.at(known, first[first == last], self.values[first == last])
        if self.ends_are_values:
            at_end = np.where(first < last, np.minimum(self.values / 2.0, 1.0), 0.0)
            np.add.at(known, first, at_end)
            np.add.at(known, last, at_end)
            open_ = np.maximum(open_ - 2.0 * at_end, 0.0)
        weight = _maximise(size, known, open_, first, last)
        spread = np.sqrt(np.maximum(gaps**2 - float(self.is_whole), 0.0) / 12.0)
        middle = (ends[1:] + ends[:-1]) / 2.0
        points = np.concatenate([ends, middle - spread, middle + spread])
        weights = np.concatenate([weight[::2], weight[1::2] / 2.0, weight[1::2] / 2.0])
        kept = weights > 1e-9 * weights.max()
        total = weights[kept] * self.values.sum() / weights[kept].sum()
        return CountedBoxes.make(("x",), points[kept, None], points[kept, None], weight=total)


def _maximise(size: Array, known: Array, open_: Array, first: NDArray[np.int64], last: NDArray[np.int64]) -> Array:
    """Return the weights of ends and pieces: what is known, and what each interval has open, divided as the weights."""

    def divide(weight: Array) -> Array:
        sums = np.concatenate([[0.0], np.cumsum(weight)])
        rate = np.where(open_ > 0.0, open_ / np.maximum(sums[last + 1] - sums[first], 1e-300), 0.0)
        changes = np.zeros(len(size) + 1)
        np.add.at(changes, first, rate)
        np.add.at(changes, last + 1, -rate)
        return np.asarray(weight * np.maximum(np.cumsum(changes)[:-1], 0.0))

    seen, found = _smooth(known, size), divide(size)
    for _ in range(STEPS):
        found = divide(found + seen)
    return found + known


def _smooth(known: Array, size: Array) -> Array:
    """Return known values as a density: one value tells of its neighbourhood, repeated ones of themselves."""
    beside = np.concatenate([[0.0], size[1::2], [0.0]]) > 0.0
    single = np.minimum(known[::2], 1.0) / np.maximum(beside[:-1].astype(float) + beside[1:], 1.0)
    smooth = known.copy()
    smooth[::2] -= np.where(beside[:-1], single, 0.0) + np.where(beside[1:], single, 0.0)
    smooth[1::2] += np.where(beside[1:-1], single[:-1] + single[1:], 0.0)
    return np.maximum(smooth, 0.0)


def replace_value(part: Statistic, found: Estimate, table: CountedBoxes, column: BoxedColumn | None) -> Estimate:
    """Return the estimate with the value of a likely distribution, within its interval, and say so."""
    records = column.distribution() if column is not None else None
    if column is None or records is None or found.unit not in ("", "count"):
        return found if column is not None else replace(found, notes=(*found.notes, BY_MIDPOINTS))
    (name,) = part.columns
    inner = part.unconditional
    wanted = ConditionalStatistic(inner.population, part.where) if part is not inner else inner.population
    (likely,) = wanted.estimate_parts(replace(records, names=(name,), whole=table.whole), EstimateBudget(gap=1.0))
    value = float(likely.value) * inner.factor(part.records_in(table)).likely
    if not math.isfinite(value):
        return found
    return replace(found, value=min(max(value, found.low), found.high), notes=(*found.notes, BY_LIKELIHOOD))
