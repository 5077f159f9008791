"""What an analyst knows about the records: the distinct boxes of a release, and the number of records in each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import StatisticError, TableError
from sfumato.statistics.condition_counts import CategoricalColumn, NumericColumn, RowCounts
from sfumato.statistics.conditions import ALWAYS, Condition
from sfumato.statistics.dates import Calendar
from sfumato.statistics.released_columns import ReleasedBoxes, read_column, read_weights
from sfumato.statistics.row_groups import GroupWeights, RowGroups
from sfumato.statistics.weighted_boxes import Unseen, WeightedBoxes
from sfumato.table.groups import labels_of
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False, repr=False)
class CountedBoxes:
    """Distinct boxes of some columns with counts; a group is a set of rows that look the same.

    For each numeric column, ``missing`` counts the rows *of the released box* whose value is missing, and ``box_rows``
    counts the rows of that box. If the boxes are not numbered, boxes that look alike cannot be told apart: ``box_rows``
    then counts the rows of all of them, and at least ``missing`` and at most ``missing_most`` values are missing. A
    group is the whole box unless exact columns distinguish its rows. ``low`` and ``high`` are NaN if all values are
    missing. The weights of the rows of a group lie between ``lightest`` and ``heaviest``: those of its rows or, if only
    the total of a box is known, 0 and the total.
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
    as_released: CountedBoxes | None = None  # the released rows themselves, if pooled weights merge rows that differ

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
        numbered: bool = True,
    ) -> CountedBoxes:
        """Read columns of a released table: ``x_low`` and ``x_high`` (and ``x_missing``), or ``x`` itself.

        Rows are grouped by equal boxes. ``sets`` are the columns whose cells are sets; None if that is not known.
        ``numbered`` says whether a column ``box`` numbers the boxes. If a column has missing cells and the boxes are
        not numbered, it is open how many boxes look alike. ``pooled`` says that only the total weight of each box is
        that of the original. The weight of each of its rows may then be anything from 0 to the total, so a group is a
        whole box, whose intervals cover the cells of all its rows.
        """
        read = {name: read_column(released, name, sets) for name in columns}
        row_weight = np.ones(released.rows) if weight is None else read_weights(released, weight)
        keys = [key for column in read.values() for key in column.keys]
        by_box = pooled or any(column.missing is not None for column in read.values())
        boxes = ReleasedBoxes.of(released, sets or (), numbered=numbered) if by_box else None
        alike = labels_of([*keys, *(boxes.keys if boxes else ())], released.rows)
        groups = RowGroups.of(boxes.labels if boxes and pooled else alike)
        numeric = {name: column for name, column in read.items() if column.sets is None}
        ends = [groups.ends(column) for column in numeric.values()]
        missing = groups.as_matrix([groups.missing(column) for column in numeric.values()]).astype(np.int64)
        box_rows = boxes.rows_of(groups.first) if boxes else groups.count
        weights = GroupWeights.pooled(groups, row_weight) if pooled else GroupWeights.of(groups, row_weight)
        table = cls(
            tuple(numeric),
            groups.as_matrix([low for low, _ in ends]),
            groups.as_matrix([high for _, high in ends]),
            groups.count,
            weights.total,
            missing,
            box_rows,
            weights.lightest,
            weights.heaviest,
            boxes.missing_most(missing, box_rows) if boxes else missing,
            {name: column.calendar for name, column in numeric.items() if column.calendar},
            {
                name: CategoricalColumn(column.keys[0].codes, groups.labels, column.sets, groups.count, column.plain)
                for name, column in read.items()
                if column.sets is not None
            },
            weighted_by=weight,
        )
        table._check()
        if not pooled or int(alike.max(initial=-1)) + 1 == len(groups.count):
            return table
        rows = cls.of(released, columns, weight=weight, sets=sets, numbered=numbered)
        return replace(table, as_released=rows)

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
            raise StatisticError(f"Column {name!r} must be numeric.", found=found)
        at = self.names.index(name)
        ends = self.low[:, at], self.high[:, at], self.missing[:, at]
        return NumericColumn(*ends, self.box_rows, self.count, self.missing_most[:, at], self.calendars.get(name))

    def meeting(self, columns: Sequence[str], condition: Condition = ALWAYS) -> WeightedBoxes:
        """Return the records that are complete in these columns and meet the condition (:mod:`.condition_counts`)."""
        rows, groups = RowCounts.every_row(self.count), len(self.count)
        boxes: list[NumericColumn] = []
        for name in columns:
            met, inside = self.numbers(name).meeting(condition.on(name))
            rows = rows.combined_with(met, self.count)
            boxes.append(inside)
        for name in condition.columns:
            if name in self.categories:
                rows = rows.combined_with(self.categories[name].meeting(condition.on(name)), self.count)
            elif name not in columns:
                rows = rows.combined_with(self.numbers(name).meeting_or_missing(condition.on(name)), self.count)
        low, high = [inside.low for inside in boxes], [inside.high for inside in boxes]
        return self._with_weights(rows, _matrix(low, groups), _matrix(high, groups))

    def _with_weights(self, rows: RowCounts, low: NDArray[np.float64], high: NDArray[np.float64]) -> WeightedBoxes:
        """Convert counts of rows to weights.

        It is not known which rows of a group count, so they may be the lightest or the heaviest ones.
        """
        out_most, out_least = self.count - rows.least, self.count - rows.most
        equal_weights = self.lightest == self.heaviest
        least = np.where(
            out_most == 0,
            self.weight,
            np.maximum(self.weight - out_most * self.heaviest, rows.least * self.lightest),
        )
        most = np.where(
            out_least == 0,
            self.weight,
            np.minimum(self.weight - out_least * self.lightest, rows.most * self.heaviest),
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


def _matrix(columns: Sequence[NDArray[np.float64]], rows: int) -> NDArray[np.float64]:
    return np.column_stack(columns) if columns else np.empty((rows, 0))
