"""Groups of neighbouring values of one numeric column, and what is released for each group (LT §4.1)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.kernels.grouping_1d import merge_small
from sfumato.methods.recodings.recoding import Recoded, Recoding
from sfumato.plan.sketches import WeightedPoints
from sfumato.table.intervals import interval_names
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shown = Literal["median", "mean", "range", "label"]
SHOWN: tuple[Shown, ...] = ("median", "mean", "range", "label")


@dataclass(frozen=True, kw_only=True, repr=False)
class Buckets(Recoding):
    """Groups of neighbouring values, cut by value, or by rank if equal values may be in different groups.

    ``low`` and ``high`` are the smallest and the largest value of each group, or the ends of the cell around it.
    """

    name: str
    kind: Kind
    type: pa.DataType
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    median: NDArray[np.float64]  # a value of the group
    mean: NDArray[np.float64]
    sizes: NDArray[np.float64]  # rows; estimated if only a summary of the column is known
    cuts: NDArray[np.float64] | None  # smallest value of each group but the first; None: cut by rank
    ties: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # values in several groups, sorted
    tie_ranks: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(0, dtype=np.int64)
    )  # rows with smaller values
    missing: int = 0
    hidden: int = -1  # the group that is released as missing, so that a few missing values do not stand out
    shown: Shown = "median"
    error: float = 0.0  # largest error of the rank of a cut, in rows

    @classmethod
    def of_ranks(cls, table: Table, name: str, ends: NDArray[np.int64], *, shown: Shown) -> Buckets:
        """Make groups of rows, sorted by value, that end at these ranks."""
        numbers = table.numbers(name)
        present = np.sort(numbers[~np.isnan(numbers)])
        starts = np.append(0, ends)[:-1]
        sizes = (ends - starts).astype(np.float64)
        low, high = present[starts], present[ends - 1]
        ties = np.unique(low[1:][low[1:] == high[:-1]])
        offset = present[0] if len(present) else 0.0  # sums are more accurate near zero
        return cls(
            name=name,
            kind=table.kinds[name],
            type=table.arrow.column(name).type,
            low=low,
            high=high,
            median=present[(starts + ends - 1) // 2],
            mean=np.add.reduceat(present - offset, starts) / sizes + offset if len(ends) else np.zeros(0),
            sizes=sizes,
            cuts=None,
            ties=ties,
            tie_ranks=np.searchsorted(present, ties),
            missing=len(numbers) - len(present),
            shown=shown,
        )

    @classmethod
    def of_points(
        cls,
        table: Table,
        name: str,
        points: WeightedPoints,
        ends: NDArray[np.int64],
        *,
        shown: Shown,
        shares: NDArray[np.float64] | None = None,
    ) -> Buckets:
        """Make groups of points that end at these positions; equal values stay together.

        Between two groups of continuous numbers the cut is at a share of the way: ``shares`` has one for each point
        but the last. None: half-way.
        """
        starts = np.append(0, ends)[:-1]
        values, weights = points.values, points.weights
        before = np.concatenate([[0.0], np.cumsum(weights)])
        sizes = before[ends] - before[starts]
        middle = np.searchsorted(before, before[starts] + sizes / 2.0, side="left") - 1
        offset = values[0] if len(values) else 0.0
        totals = np.add.reduceat((values - offset) * weights, starts) if len(ends) else np.zeros(0)
        kind = table.kinds[name]
        return cls(
            name=name,
            kind=kind,
            type=table.arrow.column(name).type,
            low=values[starts],
            high=values[ends - 1],
            median=values[np.clip(middle, starts, ends - 1)],
            mean=totals / sizes + offset,
            sizes=sizes,
            cuts=_cuts(
                values[ends[:-1] - 1], values[starts[1:]], kind, 0.5 if shares is None else shares[ends[:-1] - 1]
            ),
            missing=points.missing,
            shown=shown,
            error=points.error,
        )

    @property
    def values(self) -> int:
        return len(self.sizes) - (self.hidden >= 0) + (self.missing > 0)

    @property
    def rank_difference(self) -> int:
        """Sum over the rows of the distance between a row's rank and the median rank of its group (LT Definition 8)."""
        sizes = np.rint(self.sizes).astype(np.int64)
        return int((sizes * sizes // 4).sum())

    def as_cells(self, domain: tuple[float, float] | None = None) -> Buckets:
        """Return the same groups with touching ends, so that every value of the domain is in one of them.

        A group of integers or days ends one before the next group. Without a declared domain the outermost ends are the
        smallest and the largest value.
        """
        if self.cuts is None or not len(self.sizes):
            return self
        low, high = np.append(self.low[0], self.cuts), np.append(self.cuts, self.high[-1])
        if self.kind is not Kind.CONTINUOUS:
            high[:-1] -= 1.0
        if domain is not None:
            low[0], high[-1] = min(low[0], domain[0]), max(high[-1], domain[1])
        return replace(self, low=low, high=high)

    def spanning(self, ends: tuple[float, float]) -> Buckets:
        """Return the same groups, extended to at least these ends, because a summary may not contain the extremes."""
        if not len(self.sizes):
            return self
        low, high = self.low.copy(), self.high.copy()
        low[0], high[-1] = min(low[0], ends[0]), max(high[-1], ends[1])
        return replace(self, low=low, high=high)

    def anonymous(self, k: int | None) -> Buckets:
        """Return the same groups, one of them released as missing if fewer than k rows are missing or present."""
        present = float(self.sizes.sum())
        if k is None or not self.missing or not len(self.sizes) or (self.missing >= k and present >= k):
            return self
        return replace(self, hidden=int(np.argmin(self.sizes)))

    @property
    def released_names(self) -> tuple[str, ...]:
        return interval_names(self.name) if self.shown == "range" else (self.name,)

    @property
    def by_rank(self) -> bool:
        """Whether equal values are in different groups, assigned by the order of their rows."""
        return bool(len(self.ties))

    @property
    def code_size(self) -> int:
        """Number of groups, plus one for what is released as missing."""
        return len(self.sizes) + 1

    def codes(self, table: Table) -> NDArray[np.int64]:
        """Return the group of each row; the number of groups if it is released as missing."""
        numbers = table.numbers(self.name)
        is_missing = np.isnan(numbers)
        cuts = self.low[1:] if self.cuts is None else self.cuts
        codes = np.searchsorted(cuts, numbers, side="right")
        if len(self.ties):
            self._assign_ties(codes, numbers)
        codes[is_missing] = len(self.sizes)
        if self.hidden >= 0:
            codes[codes == self.hidden] = len(self.sizes)
        return codes

    def _assign_ties(self, codes: NDArray[np.int64], numbers: NDArray[np.float64]) -> None:
        """Assign the rows of a value that is in several groups to these groups, according to their sizes."""
        place = np.searchsorted(self.ties, numbers)
        tied = np.flatnonzero(self.ties[np.minimum(place, len(self.ties) - 1)] == numbers)
        order = tied[np.argsort(place[tied], kind="stable")]
        which = place[order]
        before = np.searchsorted(which, np.arange(len(self.ties)))  # tied rows of smaller values
        ranks = self.tie_ranks[which] + np.arange(len(order)) - before[which]
        codes[order] = np.searchsorted(np.cumsum(self.sizes), ranks, side="right")

    def show(self, codes: NDArray[np.int64]) -> tuple[Recoded, ...]:
        """Return the released columns: one, or two for a range."""
        if self.shown == "range":
            low, high = self.released_names
            ends = _cells(self.low, self.type), _cells(self.high, self.type)
            return (Recoded(low, _each(ends[0], codes), self.kind), Recoded(high, _each(ends[1], codes), self.kind))
        if self.shown == "label":
            return (Recoded(self.name, _each(pa.array(self.labels, pa.string()), codes), Kind.NOMINAL),)
        if self.shown == "median":
            return (Recoded(self.name, _each(_cells(self.median, self.type), codes), self.kind),)
        if self.kind is Kind.DATE:
            return (Recoded(self.name, _each(_cells(np.rint(self.mean), self.type), codes), self.kind),)
        return (Recoded(self.name, _each(pa.array(self.mean), codes), Kind.CONTINUOUS),)

    @property
    def note(self) -> dict[str, object]:
        return {
            "how": f"{len(self.sizes):,} groups of neighbouring values, each released as its {self.shown}",
            "values after": self.values,
            "rank difference": self.rank_difference,
            **({"largest error of the rank of a cut": round(self.error)} if self.error else {}),
        }

    @property
    def labels(self) -> list[str]:
        """The label of each group."""
        low, high = (_cells(ends, self.type).cast(pa.string()).to_pylist() for ends in (self.low, self.high))
        if self.kind is Kind.CONTINUOUS:
            return [f"[{first:.12g}, {last:.12g}]" for first, last in zip(self.low, self.high, strict=True)]
        return [first if first == last else f"{first}–{last}" for first, last in zip(low, high, strict=True)]


def quantile_ends(weights: NDArray[np.float64], buckets: int) -> NDArray[np.int64]:
    """Return the ends (exclusive) of at most ``buckets`` runs of points of nearly equal weight.

    With one row per point the runs have ⌊n/b⌋ or ⌈n/b⌉ rows (LT Definition 9). No other choice of b runs has a smaller
    rank difference.
    """
    if not len(weights):
        return np.zeros(0, dtype=np.int64)
    before = np.concatenate([[0.0], np.cumsum(weights)])
    wanted = np.floor(before[-1] * np.arange(1, buckets + 1) / buckets + 1e-9)
    right = np.clip(np.searchsorted(before, wanted), 1, len(weights))
    nearer_left = wanted - before[right - 1] < before[right] - wanted
    ends = np.unique(right - nearer_left)
    ends = ends[ends > 0]
    return ends if len(ends) and ends[-1] == len(weights) else np.append(ends, len(weights))


def merge_to_at_least(k: int, ends: NDArray[np.int64], sizes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the ends that remain when runs of fewer than k rows are joined to their neighbours."""
    merged = merge_small(np.floor(sizes).astype(np.int64), k)
    return ends[np.append(np.diff(merged) > 0, True)] if len(ends) else ends


def _cuts(
    last: NDArray[np.float64], first: NDArray[np.float64], kind: Kind, shares: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Return where groups begin: continuous ones at a share of the way to the next group, so that no end is a value."""
    if kind is not Kind.CONTINUOUS:
        return first
    between = (1.0 - shares) * last + shares * first
    return np.where((between > last) & (between < first), between, first)


def _cells(numbers: NDArray[np.float64], kind: pa.DataType) -> pa.Array:
    """Convert numbers of a column, in the units of :meth:`Table.numbers`, to the type of the column."""
    if pt.is_date(kind):
        return pa.array(numbers.astype(np.int32)).cast(pa.date32()).cast(kind)
    if pt.is_timestamp(kind):
        return pa.array(numbers.astype(np.int64)).cast(pa.timestamp("us", tz=kind.tz)).cast(kind, safe=False)
    if pt.is_integer(kind):
        return pa.array(numbers.astype(np.int64))
    return pa.array(numbers)


def _each(cells: pa.Array, codes: NDArray[np.int64]) -> pa.Array:
    """Return one cell per row; the code after the last cell means missing."""
    return pa.concat_arrays([cells, pa.nulls(1, cells.type)]).take(pa.array(codes))
