"""What an analyst knows of numeric columns: distinct boxes, and how many records are in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import StatisticError, TableError
from sfumato.table.groups import labels_of
from sfumato.table.table import Coded, Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Sample:
    """The records that count for a statistic, as boxes: what every bound is computed from.

    The weight of a box is at least ``weight`` and at most ``weight + extra``; ``extra`` is zero unless missing cells
    leave open how many records of a box are complete. A box can be dealt out to ``parts`` records of equal weight.
    """

    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    weight: NDArray[np.float64]  # (G,), sum of weights of the records that are certainly complete
    extra: NDArray[np.float64]  # (G,), weight that may be complete too
    parts: NDArray[np.int64]  # (G,)
    records: int  # certainly complete

    box: NDArray[np.int64]  # (G,), which box of the table this is

    def dealt(self, limit: int) -> Sample:
        """The same sample with every record in a box of its own, unless there are more than ``limit``.

        The largest values of small tables part records that share a box.
        """
        if self.parts.sum() > limit or (self.parts == 1).all():
            return self
        again = np.repeat(np.arange(len(self.parts)), self.parts)
        share = 1.0 / self.parts[again]
        return Sample(
            self.low[again],
            self.high[again],
            self.weight[again] * share,
            self.extra[again] * share,
            np.ones(len(again), dtype=np.int64),
            self.records,
            self.box[again],
        )

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Centres of the boxes."""
        return self.low + (self.high - self.low) / 2.0

    @property
    def half_widths(self) -> NDArray[np.float64]:
        """Half-widths of the boxes."""
        return (self.high - self.low) / 2.0

    @property
    def likely_weight(self) -> NDArray[np.float64]:
        """Weights for a single best guess: half of what is open counts."""
        return self.weight + self.extra / 2.0

    @property
    def is_certain(self) -> bool:
        """Whether it is known how many records of each box are complete."""
        return not self.extra.any()


@dataclass(frozen=True, eq=False, repr=False)
class IntervalTable:
    """Distinct boxes of some numeric columns with counts; a group is a set of rows that look alike.

    ``missing`` counts, for each column, the rows *of the released box* whose value is missing, and ``box_rows`` the
    rows of that box; a group is the whole box unless exact columns tell its rows apart. ``low`` and ``high`` are NaN
    where all are missing. Row weights of a group lie between ``lightest`` and ``heaviest``.
    """

    names: tuple[str, ...]
    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    count: NDArray[np.int64]  # (G,)
    weight: NDArray[np.float64]  # (G,), sum of the rows' weights
    missing: NDArray[np.int64]  # (G, n)
    box_rows: NDArray[np.int64]  # (G,)
    lightest: NDArray[np.float64]  # (G,)
    heaviest: NDArray[np.float64]  # (G,)

    @classmethod
    def make(
        cls,
        names: Sequence[str],
        low: ArrayLike,
        high: ArrayLike,
        *,
        count: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> IntervalTable:
        """Boxes without missing cells; ``weight`` is the sum over a box's records (alike), by default the count."""
        lows, highs = (np.array(ends, dtype=np.float64, ndmin=2) for ends in (low, high))
        counts = np.ones(len(lows), dtype=np.int64) if count is None else np.asarray(count, dtype=np.int64)
        weights = counts.astype(np.float64) if weight is None else np.asarray(weight, dtype=np.float64)
        if lows.shape != highs.shape or lows.shape != (len(counts), len(names)) or weights.shape != counts.shape:
            raise StatisticError("Boxes need a low and a high end for each column, and one count and weight each.")
        if (counts < 1).any():
            raise StatisticError("Every box must hold at least one record.")
        each = weights / counts
        table = cls(
            tuple(names), lows, highs, counts, weights, np.zeros(lows.shape, dtype=np.int64), counts, each, each
        )
        table._check()
        return table

    @classmethod
    def of(cls, released: Table, columns: Sequence[str], *, weight: str | None = None) -> IntervalTable:
        """Read columns of a released table: ``x_low`` and ``x_high`` (and ``x_missing``), or ``x`` itself.

        Rows are grouped by equal boxes. Where a column has missing cells, the released boxes are told apart by the
        column ``box`` or, without it, by all interval columns together.
        """
        read = [_Column.of(released, name) for name in columns]
        heft = np.ones(released.rows) if weight is None else _weights(released, weight)
        keys = [key for column in read for key in column.keys]
        any_missing = any(column.counts_missing for column in read)
        if any_missing:
            keys = [*keys, *(released.coded(name) for name in _box_keys(released))]
        labels = labels_of(keys, released.rows)
        _, first = np.unique(labels, return_index=True)
        count = np.bincount(labels).astype(np.int64) if released.rows else np.zeros(0, dtype=np.int64)
        box_rows = count
        if any_missing:
            boxes = labels_of((released.coded(name) for name in _box_keys(released)), released.rows)
            box_rows = np.bincount(boxes)[boxes[first]].astype(np.int64)
        lightest, heaviest = np.full(len(first), np.inf), np.zeros(len(first))
        np.minimum.at(lightest, labels, heft)
        np.maximum.at(heaviest, labels, heft)
        shape = (len(first), len(read))
        table = cls(
            tuple(columns),
            np.array([column.low[first] for column in read]).T.reshape(shape),
            np.array([column.high[first] for column in read]).T.reshape(shape),
            count,
            np.bincount(labels, weights=heft, minlength=len(first)).astype(np.float64),
            np.array([column.missing[first] for column in read]).T.reshape(shape),
            box_rows,
            lightest,
            heaviest,
        )
        table._check()
        return table

    def _check(self) -> None:
        for position, name in enumerate(self.names):
            low, high = self.low[:, position], self.high[:, position]
            if np.isinf(low).any() or np.isinf(high).any():
                raise TableError(f"The intervals of {name!r} must be finite.", fix="declare a domain for the column")
            if (np.isnan(low) != np.isnan(high)).any() or (low > high).any():
                raise TableError(f"Every interval of {name!r} must have a low end that is at most its high end.")
        if not np.isfinite(self.weight).all() or (self.weight < 0.0).any():
            raise TableError("Weights must be finite and not negative.")
        if (self.missing > self.box_rows[:, None]).any() or (self.missing < 0).any():
            raise TableError("A box cannot have more missing values than rows.", fix="keep the column 'box'")

    def __repr__(self) -> str:
        return f"IntervalTable({', '.join(self.names)}; {int(self.count.sum()):,} records in {len(self.count):,} boxes)"

    def sample(self, columns: Sequence[str]) -> Sample:
        """The records that are complete in these columns.

        Of the c rows of a group in a box of n rows with m_j missing values in column j, at least c − Σ m_j and at most
        min(c, n − max m_j) are complete: one number, and so exact, when the group is the box and one column is asked.
        """
        chosen = [self.names.index(name) for name in columns]
        low, high, missing = self.low[:, chosen], self.high[:, chosen], self.missing[:, chosen]
        empty = np.isnan(low).any(axis=1)
        least = np.where(empty, 0, np.maximum(self.count - missing.sum(axis=1), 0))
        most = np.where(empty, 0, np.minimum(self.count, self.box_rows - missing.max(axis=1, initial=0)))
        out_most, out_least = self.count - least, self.count - most
        weight = np.where(
            least == self.count, self.weight, np.maximum(self.weight - out_most * self.heaviest, least * self.lightest)
        )
        top = np.where(
            most == self.count, self.weight, np.minimum(self.weight - out_least * self.lightest, most * self.heaviest)
        )
        alike = self.lightest == self.heaviest
        kept = (most > 0) & (top > 0.0)
        return Sample(
            low[kept],
            high[kept],
            weight[kept],
            np.where(least == most, np.where(alike, 0.0, top - weight), top - weight)[kept],
            np.where(alike & (least == most), np.maximum(least, 1), 1)[kept],
            int(least.sum()),
            np.flatnonzero(kept),
        )


@dataclass(frozen=True, eq=False, repr=False)
class _Column:
    """A released column: interval ends and missing counts of every row."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    missing: NDArray[np.int64]  # rows of the box that are missing; a missing exact cell has NaN ends instead
    keys: tuple[Coded, ...]  # what tells rows apart
    counts_missing: bool

    @classmethod
    def of(cls, released: Table, name: str) -> _Column:
        low, high, missing = f"{name}_low", f"{name}_high", f"{name}_missing"
        none = np.zeros(released.rows, dtype=np.int64)
        if low in released.names and high in released.names:
            keys = (released.coded(low), released.coded(high))
            ends = released.numbers(low), released.numbers(high)
            if missing not in released.names:
                return cls(*ends, none, keys, False)
            counts = np.nan_to_num(released.numbers(missing)).astype(np.int64)
            return cls(*ends, counts, (*keys, released.coded(missing)), True)
        if name in released.names:
            numbers = released.numbers(name)
            return cls(numbers, numbers, none, (released.coded(name),), False)
        raise StatisticError(
            f"The release has no column {name!r}.", found=f"columns {', '.join(map(repr, released_names(released)))}"
        )


def released_names(released: Table) -> tuple[str, ...]:
    """The columns of the original that a release shows: ``x`` for ``x_low`` and ``x_high``, else the column itself."""
    names, present = [], set(released.names)
    for name in released.names:
        base = name.removesuffix("_low")
        if name.endswith("_low") and f"{base}_high" in present:
            names.append(base)
        elif not any(
            name.endswith(suffix)
            and {f"{name.removesuffix(suffix)}_low", f"{name.removesuffix(suffix)}_high"} <= present
            for suffix in ("_high", "_missing")
        ):
            names.append(name)
    return tuple(names)


def _box_keys(released: Table) -> tuple[str, ...]:
    if "box" in released.names:
        return ("box",)
    bases = [name for name in released_names(released) if f"{name}_low" in released.names]
    keys = [f"{base}{suffix}" for base in bases for suffix in ("_low", "_high", "_missing")]
    return tuple(key for key in keys if key in released.names)


def _weights(released: Table, weight: str) -> NDArray[np.float64]:
    heft: NDArray[Any] = released.numbers(weight)
    if not np.isfinite(heft).all() or (heft < 0.0).any():
        raise TableError(f"The weights in {weight!r} must be finite, not negative and not missing.")
    return heft
