"""What an analyst knows about the records: the distinct boxes of a release, and the number of records in each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.conditions import (
    ALWAYS,
    Clause,
    Condition,
    NumberSet,
    Predicate,
    ValueSet,
    complement_clauses,
    join_clauses,
    read_clauses,
)
from sfumato.statistics.released_columns import (
    CategoricalColumn,
    MeetingRows,
    NumericColumn,
    ReadColumn,
    find_needed,
    is_whole,
    read_column,
    read_nodes,
    read_weight_ends,
    read_weights,
)
from sfumato.statistics.units import Calendar
from sfumato.statistics.weighted_boxes import (
    Unseen,
    WeightedBoxes,
    WeightPools,
    rounding_of_rest,
)
from sfumato.table.coding import Coded
from sfumato.table.groups import labels_of, sum_groups
from sfumato.table.intervals import (
    BOX,
    box_columns,
)
from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class CountedBoxes:
    """Distinct boxes of some columns with counts; a group is a set of rows that look the same.

    For each numeric column, ``missing`` counts the rows *of the released box* whose value is missing, and ``box_rows``
    counts the rows of that box. If the boxes are not numbered, boxes that look alike cannot be told apart: ``box_rows``
    then counts the rows of all of them, and at least ``missing`` and at most ``missing_most`` values are missing. A
    group is the whole box unless exact columns distinguish its rows. ``low`` and ``high`` are NaN if all values are
    missing. The released weights of the rows of a group lie between ``lightest`` and ``heaviest``.
    """

    names: tuple[str, ...]  # names of the numeric columns
    low: NDArray[np.float64]  # (G, n)
    high: NDArray[np.float64]  # (G, n)
    count: NDArray[np.int64]  # (G,)
    weight: NDArray[np.float64]  # (G,), sum of the weights of the rows
    missing: NDArray[np.int64]  # (G, n)
    box_rows: NDArray[np.int64]  # (G,)
    lightest: NDArray[np.float64]  # (G,)
    heaviest: NDArray[np.float64]  # (G,)
    missing_most: NDArray[np.int64]  # (G, n)
    calendars: Mapping[str, Calendar] = field(default_factory=dict)  # unit of the numeric columns that hold dates
    categories: Mapping[str, CategoricalColumn] = field(default_factory=dict)
    weighted_by: str | None = None  # column of the sampling weights
    unseen: Unseen | None = None  # rows of the original that were not released
    pools: WeightPools | None = None  # the boxes, if only their total weights are known
    whole: frozenset[str] = frozenset()  # numeric columns that hold whole numbers only

    @classmethod
    def make(
        cls,
        names: Sequence[str],
        low: ArrayLike,
        high: ArrayLike,
        *,
        count: ArrayLike | None = None,
        weight: ArrayLike | None = None,
    ) -> CountedBoxes:
        """Return boxes without missing cells.

        ``weight`` is the total weight of the records of a box, which have equal weights; by default it is the count.
        """
        lows, highs = (np.array(ends, dtype=np.float64, ndmin=2) for ends in (low, high))
        counts = np.ones(len(lows), dtype=np.int64) if count is None else np.asarray(count, dtype=np.int64)
        weights = counts.astype(np.float64) if weight is None else np.asarray(weight, dtype=np.float64)
        if lows.shape != highs.shape or lows.shape != (len(counts), len(names)) or weights.shape != counts.shape:
            raise StatisticError("Each box must have a low and a high end per column, one count and one weight.")
        if (counts < 1).any():
            raise StatisticError("Every box must hold at least one record.")
        row_weights = weights / counts
        missing = np.zeros(lows.shape, dtype=np.int64)
        table = cls(tuple(names), lows, highs, counts, weights, missing, counts, row_weights, row_weights, missing)
        table._check()
        return table

    @classmethod
    def of(
        cls,
        released: Table,
        columns: Sequence[str],
        *,
        weight: str | None = None,
        pooled: bool = False,
        sets: Collection[str] | None = None,
        nodes: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        numbered: bool = True,
        known: Collection[str] | None = None,
        from_text: bool = False,
    ) -> CountedBoxes:
        """Read columns of a released table: ``x_low`` and ``x_high`` (and ``x_missing``), or ``x`` itself.

        Rows are grouped by equal boxes. ``sets`` are the columns whose cells are sets; None if that is not known.
        ``nodes`` are those whose cells are nodes of trees: for each value that is listed, the nodes that cover it.
        ``numbered`` says whether a column ``box`` numbers the boxes. If a column has missing cells and the boxes are
        not numbered, it is open how many boxes look alike. ``pooled`` says that only the total weight of each box, and
        its range if it is released, are those of the original (:mod:`.weighted_boxes`). ``from_text`` says that the
        rows are those of a text file, which does not tell a category such as NA from a missing one. ``known`` are the
        columns of the original, if they are known: they are no ends of intervals, whatever they are called.
        """
        rows = released.counted(find_needed(released, columns, sets or (), weight, known, pooled=pooled))
        released, repeats = rows.table, rows.count
        read = {
            name: read_nodes(released, name, nodes[name])
            if nodes and name in nodes
            else read_column(released, name, sets, from_text=from_text)
            for name in columns
        }
        row_weight = np.ones(released.rows) if weight is None else read_weights(released, weight)
        keys = [key for column in read.values() for key in column.keys]
        by_box = pooled or any(column.missing is not None for column in read.values())
        boxes = _ReleasedBoxes.of(released, repeats, sets or (), known, numbered=numbered) if by_box else None
        labels = labels_of([*keys, *(boxes.keys if boxes else ())], released.rows)
        _, first = np.unique(labels, return_index=True)
        count = np.bincount(labels, weights=repeats, minlength=len(first)).astype(np.int64)
        box_rows = boxes.rows_of(first) if boxes else count
        lightest, heaviest = np.full(len(first), np.inf), np.zeros(len(first))
        np.minimum.at(lightest, labels, row_weight)
        np.maximum.at(heaviest, labels, row_weight)
        numeric = {name: column for name, column in read.items() if column.sets is None}
        missing = _missing(list(numeric.values()), first)
        table = cls(
            tuple(numeric),
            _as_matrix([column.low[first] for column in numeric.values()], len(first)),
            _as_matrix([column.high[first] for column in numeric.values()], len(first)),
            count,
            count.astype(np.float64) if weight is None else sum_groups(row_weight * repeats, labels),
            missing,
            box_rows,
            lightest,
            heaviest,
            boxes.missing_most(missing, box_rows) if boxes else missing,
            {name: column.calendar for name, column in numeric.items() if column.calendar},
            {
                name: CategoricalColumn(
                    column.keys[0].codes[first].astype(np.int64), column.sets, count, column.plain, column.listed
                )
                for name, column in read.items()
                if column.sets is not None
            },
            weighted_by=weight,
            pools=WeightPools.of(boxes.labels, repeats, row_weight, first, read_weight_ends(released, weight))
            if boxes and pooled
            else None,
            whole=frozenset(name for name in numeric if is_whole(released, name)),
        )
        table._check()
        return table

    def _check(self) -> None:
        for position, name in enumerate(self.names):
            low, high = self.low[:, position], self.high[:, position]
            if np.isinf(low).any() or np.isinf(high).any():
                raise TableError(f"The intervals of {name!r} must be finite.", fix="declare a domain for the column")
            if (np.isnan(low) != np.isnan(high)).any() or (low > high).any():
                raise TableError(f"The low end of every interval of {name!r} must not exceed its high end.")
        if not np.isfinite(self.weight).all() or (self.weight < 0.0).any():
            raise TableError("Weights must be finite and not negative.")
        if (self.missing > self.box_rows[:, None]).any() or (self.missing < 0).any():
            raise TableError("A box cannot have more missing values than rows.", fix="keep the column 'box'")

    def __repr__(self) -> str:
        names = ", ".join((*self.names, *self.categories))
        return f"CountedBoxes({names}; {int(self.count.sum()):,} records in {len(self.count):,} boxes)"

    def numbers(self, name: str) -> NumericColumn:
        """Return a numeric column."""
        if name not in self.names:
            found = "categories" if name in self.categories else "no such column"
            fix = f"count({name} = VALUE)" if name in self.categories else None
            raise StatisticError(f"Column {name!r} must be numeric.", found=found, fix=fix)
        at = self.names.index(name)
        ends = self.low[:, at], self.high[:, at], self.missing[:, at]
        return NumericColumn(*ends, self.box_rows, self.count, self.missing_most[:, at], self.calendars.get(name))

    def meeting(self, columns: Sequence[str], condition: Condition = ALWAYS) -> WeightedBoxes:
        """Return the records that are complete in these columns and meet the condition (:mod:`.conditions`)."""
        clauses = self.clauses(columns, condition)
        rows, (low, high) = self.rows_meeting(clauses), self.clip(columns, clauses)
        return self.with_weights(rows, low, high)

    def levels(self, name: str) -> tuple[str | int | float, ...]:
        """Return the values that a column can have: names of categories, or numbers that are whole or known."""
        if name in self.categories:
            return self.categories[name].levels
        column = self.numbers(name)
        low, high = (ends[~np.isnan(ends)] for ends in (column.low, column.high))
        if (low < high).any() and name not in self.whole:
            raise StatisticError(
                f"Column {name!r} must have groups.", found="intervals of numbers", fix="a condition such as x >= 50"
            )
        span = int(high.max() - low.min()) if len(low) else 0
        values = np.unique(low) if (low == high).all() else np.arange(low.min(), low.min() + min(span, 10_000) + 1)
        return tuple(int(value) if float(value).is_integer() else float(value) for value in values)

    def clauses(self, columns: Sequence[str], condition: Condition = ALWAYS) -> list[Clause]:
        """Return the alternatives that the condition is met and no value is missing in these columns."""
        for name in columns:
            self.numbers(name)
        return join_clauses([read_clauses(condition, self._values), [dict.fromkeys(columns, NumberSet())]])

    def rows_meeting(self, clauses: Sequence[Clause]) -> MeetingRows:
        """Count the rows of each group that meet one of the clauses; those that certainly do not meet the others."""
        most, likely = self._count(clauses)
        return MeetingRows(self.count - self._count(complement_clauses(clauses))[0], most, likely)

    def clip(
        self, columns: Sequence[str], clauses: Sequence[Clause]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of the boxes around the values that rows have if they meet one of the clauses."""
        groups = len(self.count)
        low = _as_matrix([np.full(groups, np.nan) for _ in columns], groups)
        high = low.copy()
        for clause in clauses:
            possible = self._count([clause])[0] > 0.0
            for position, name in enumerate(columns):
                column, values = self.numbers(name), clause.get(name, NumberSet())
                assert isinstance(values, NumberSet)
                start, end = (np.where(possible, ends, np.nan) for ends in column.clip(values))
                low[:, position] = np.fmin(low[:, position], start)
                high[:, position] = np.fmax(high[:, position], end)
        return low, high

    def _count(self, clauses: Sequence[Clause]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how many rows of each group may meet one of the clauses, and the best guess."""
        most, outside = np.zeros(len(self.count)), np.ones(len(self.count))
        for clause in clauses:
            possible, share = self.count.astype(np.float64), np.ones(len(self.count))
            for name, values in clause.items():
                rows, likely = self.column(name).rows_in(values)  # type: ignore[arg-type]
                possible, share = np.minimum(possible, rows), share * likely / np.maximum(self.count, 1)
            most, outside = most + possible, outside * (1.0 - share)
        return np.minimum(most, self.count), (1.0 - outside) * self.count

    def column(self, name: str) -> NumericColumn | CategoricalColumn:
        """Return a column."""
        return self.categories[name] if name in self.categories else self.numbers(name)

    def _values(self, predicate: Predicate) -> ValueSet:
        return self.column(predicate.column).values_meeting(predicate)

    @property
    def as_released(self) -> CountedBoxes:
        """The same rows, each with its released weight: what the best guess is computed from."""
        return replace(self, pools=None)

    def with_weights(self, rows: MeetingRows, low: NDArray[np.float64], high: NDArray[np.float64]) -> WeightedBoxes:
        """Return the records that count with these boxes: counts of rows become weights.

        If only total weights of boxes are known, all rows of a box are one part. Otherwise it is not known which rows
        of a group count, so they may be the lightest or the heaviest ones.
        """
        if self.pools is not None:
            return self.pools.gather(rows, self.count, low, high)
        out_most, out_least = self.count - rows.least, self.count - rows.most
        equal_weights = self.lightest == self.heaviest
        rounding = rounding_of_rest(self.weight, self.lightest, self.heaviest)
        least = np.where(
            out_most == 0,
            self.weight,
            np.maximum(self.weight - out_most * self.heaviest - rounding, rows.least * self.lightest),
        )
        most = np.where(
            out_least == 0,
            self.weight,
            np.minimum(self.weight - out_least * self.lightest + rounding, rows.most * self.heaviest),
        )
        extra = np.where(equal_weights & (rows.least == rows.most), 0.0, np.maximum(most - least, 0.0))
        likely = np.clip(rows.likely * self.weight / self.count, least, least + extra)
        parts = np.where(equal_weights & (rows.least == rows.most), np.maximum(rows.least, 1), 1).astype(np.int64)
        kept = (rows.most > 0) & (most > 0.0)
        return WeightedBoxes(
            low[kept],
            high[kept],
            least[kept],
            extra[kept],
            likely[kept],
            parts[kept],
            np.flatnonzero(kept),
            int(rows.least.sum()),
            int(rows.most.sum()),
        )


def _as_matrix(columns: Sequence[NDArray[np.float64]], rows: int) -> NDArray[np.float64]:
    return np.column_stack(columns) if columns else np.empty((rows, 0))


def _missing(columns: Sequence[ReadColumn], first: NDArray[np.int64]) -> NDArray[np.int64]:
    none = np.zeros(len(first), dtype=np.int64)
    counts = [none if column.missing is None else column.missing[first] for column in columns]
    return np.column_stack(counts) if counts else np.empty((len(first), 0), dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class _ReleasedBoxes:
    """What tells the boxes of a release apart: ``box``, or what their rows share, in which boxes may look alike."""

    keys: tuple[Coded, ...]
    labels: NDArray[np.int64]  # (N,), equal for rows that may share a box
    repeats: NDArray[np.int64]  # (N,), how often each row counts
    numbered: bool

    @classmethod
    def of(
        cls,
        released: Table,
        repeats: NDArray[np.int64],
        sets: Collection[str],
        known: Collection[str] | None,
        *,
        numbered: bool,
    ) -> _ReleasedBoxes:
        """Use the column ``box`` if it numbers boxes: then its rows are the same in all that a box has in common."""
        shared = tuple(released.coded(name) for name in box_columns(released.names, sets, known))
        if numbered and BOX in released.kinds:
            number = released.coded(BOX)
            if len(np.unique(labels_of([number, *shared], released.rows))) == number.size:
                return cls((number,), labels_of([number], released.rows), repeats, numbered=True)
        return cls(shared, labels_of(shared, released.rows), repeats, numbered=False)

    def rows_of(self, first: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the rows that may share a box with each of these rows."""
        counts: NDArray[np.int64] = np.bincount(self.labels, weights=self.repeats).astype(np.int64)
        return counts[self.labels[first]]

    def missing_most(self, missing: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many values may be missing among rows that may share a box, if m are missing in each box.

        A box that has a value has at least m + 1 rows, so R rows are at most R / (m + 1) boxes.
        """
        return missing if self.numbered else missing * (rows[:, None] // (missing + 1))
