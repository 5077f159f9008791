"""What an analyst knows about the records: the distinct boxes of a release, and the number of records in each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.types as pt
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
from sfumato.statistics.units import Calendar
from sfumato.statistics.weighted_boxes import (
    CategoricalColumn,
    MeetingRows,
    NumericColumn,
    Unseen,
    WeightedBoxes,
    WeightPools,
)
from sfumato.table.coding import Coded
from sfumato.table.groups import labels_of
from sfumato.table.intervals import (
    ANY,
    BOX,
    Intervals,
    Member,
    box_columns,
    interval_names,
    is_interval,
    low_name,
    missing_name,
    original_names,
    parse_set,
    parse_set_of_text,
)
from sfumato.table.kinds import MARKS, Kind
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
        from_text: bool = False,
    ) -> CountedBoxes:
        """Read columns of a released table: ``x_low`` and ``x_high`` (and ``x_missing``), or ``x`` itself.

        Rows are grouped by equal boxes. ``sets`` are the columns whose cells are sets; None if that is not known.
        ``nodes`` are those whose cells are nodes of trees: for each value that is listed, the nodes that cover it.
        ``numbered`` says whether a column ``box`` numbers the boxes. If a column has missing cells and the boxes are
        not numbered, it is open how many boxes look alike. ``pooled`` says that only the total weight of each box, and
        its range if it is released, are those of the original (:mod:`.weighted_boxes`). ``from_text`` says that the
        rows are those of a text file, which does not tell a category such as NA from a missing one.
        """
        rows = released.counted(_find_needed(released, columns, sets or (), weight, pooled=pooled))
        released, repeats = rows.table, rows.count
        read = {
            name: _read_nodes(released, name, nodes[name])
            if nodes and name in nodes
            else _read_column(released, name, sets, from_text=from_text)
            for name in columns
        }
        row_weight = np.ones(released.rows) if weight is None else _read_weights(released, weight)
        keys = [key for column in read.values() for key in column.keys]
        by_box = pooled or any(column.missing is not None for column in read.values())
        boxes = _ReleasedBoxes.of(released, repeats, sets or (), numbered=numbered) if by_box else None
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
            np.bincount(labels, weights=row_weight * repeats, minlength=len(first)).astype(np.float64),
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
            pools=WeightPools.of(boxes.labels, repeats, row_weight, first, _weight_ends(released, weight))
            if boxes and pooled
            else None,
            whole=frozenset(name for name in numeric if _is_whole(released, name)),
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
        least = np.where(
            out_most == 0, self.weight, np.maximum(self.weight - out_most * self.heaviest, rows.least * self.lightest)
        )
        most = np.where(
            out_least == 0, self.weight, np.minimum(self.weight - out_least * self.lightest, rows.most * self.heaviest)
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


def _find_needed(
    released: Table, columns: Sequence[str], sets: Collection[str], weight: str | None, *, pooled: bool
) -> tuple[str, ...]:
    """Return the released columns that these columns are read from, with what tells their boxes apart."""
    for column in columns:
        if column not in released.kinds and not is_interval(column, released.kinds):
            names = ", ".join(map(repr, original_names(released.names)))
            raise StatisticError(f"The release has no column {column!r}.", found=f"columns {names}")
    shown = [name for column in columns for name in (column, *interval_names(column, counts_missing=True))]
    if pooled or any(missing_name(column) in released.kinds for column in columns):
        shown += [*box_columns(released.names, sets), BOX]
    needed = tuple(dict.fromkeys(name for name in [*shown, *_weight_names(weight)] if name in released.kinds))
    return needed or released.names[:1]  # a count needs the rows, whatever they hold


def _weight_names(weight: str | None) -> tuple[str, ...]:
    return () if weight is None else (weight, *interval_names(weight))


def _as_matrix(columns: Sequence[NDArray[np.float64]], rows: int) -> NDArray[np.float64]:
    return np.column_stack(columns) if columns else np.empty((rows, 0))


def _missing(columns: Sequence[_ReadColumn], first: NDArray[np.int64]) -> NDArray[np.int64]:
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
        cls, released: Table, repeats: NDArray[np.int64], sets: Collection[str], *, numbered: bool
    ) -> _ReleasedBoxes:
        """Use the column ``box`` if it numbers boxes: then its rows are the same in all that a box has in common."""
        shared = tuple(released.coded(name) for name in box_columns(released.names, sets))
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


@dataclass(frozen=True, eq=False, repr=False)
class _ReadColumn:
    """A column of a release: interval ends of every row or, for categories, the set of every code."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    keys: tuple[Coded, ...]  # what distinguishes rows
    missing: NDArray[np.int64] | None = None  # missing rows of the box, if the release counts them
    calendar: Calendar | None = None
    sets: tuple[tuple[Member, ...], ...] | None = None  # indexed by the codes of the only key
    plain: tuple[str | None, ...] | None = None  # the cells as they are, if it is open whether they are sets
    listed: frozenset[str] = frozenset()  # values of which the sets that contain them are known


def _read_column(released: Table, name: str, sets: Collection[str] | None, *, from_text: bool = False) -> _ReadColumn:
    """Read an interval, or the column itself: numbers as intervals of width 0, or sets."""
    if is_interval(name, released.kinds):
        ends = Intervals.of(released, name)
        parts = interval_names(name, counts_missing=ends.missing is not None)
        keys = tuple(released.coded(part) for part in parts)
        return _ReadColumn(ends.low, ends.high, keys, ends.missing, _calendar(released, low_name(name)))
    coded = released.coded(name)
    zero_or_one = released.kinds[name] is Kind.BOOLEAN and pt.is_integer(released.arrow.column(name).type)
    if released.kinds[name].is_numeric or zero_or_one:
        numbers = released.numbers(name)
        return _ReadColumn(numbers, numbers, (coded,), calendar=_calendar(released, name))
    cells = _cells(released, name, coded)
    is_set = sets is None or name in sets
    members = _members(cells, is_set=is_set, from_text=from_text)
    present = [one for one in members if one != (None,)]
    if present and all({*one} <= {"0", "1"} for one in present):
        low, high = (_ends(members, end)[coded.codes] for end in ("0", "1"))
        return _ReadColumn(low, high, (coded,))
    if from_text and is_set:
        members = tuple(map(parse_set_of_text, cells))
    nothing = np.empty(0)
    return _ReadColumn(nothing, nothing, (coded,), sets=members, plain=cells if sets is None else None)


def _read_nodes(released: Table, name: str, covers: Mapping[str, Sequence[str]]) -> _ReadColumn:
    """Read nodes of a tree as sets: of the listed values below them and, unless it is a listed value, of any others.

    An empty cell may be any value, too: some methods empty cells that they suppress.
    """
    coded = released.coded(name)
    nodes = {parse_set(member)[0]: frozenset(words) for member, words in covers.items()}
    inner = frozenset().union(*nodes.values())

    def members(cell: str | None) -> tuple[Member, ...]:
        if cell in nodes and cell is not None and cell not in inner:
            return (cell,)
        if cell is None:
            return (*nodes, ANY) if None in nodes else (*nodes, None, ANY)
        below = [value for value, words in nodes.items() if cell in words]
        return tuple(dict.fromkeys([*below, ANY, *([] if cell in nodes else [cell])]))

    sets = tuple(map(members, _cells(released, name, coded)))
    nothing = np.empty(0)
    listed = frozenset(value for value in nodes if isinstance(value, str))
    return _ReadColumn(nothing, nothing, (coded,), sets=sets, listed=listed)


def read_members(
    released: Table, name: str, sets: Collection[str] | None
) -> tuple[Coded, tuple[tuple[Member, ...], ...]]:
    """Return the codes of a column of categories, and the values that each code stands for."""
    coded = released.coded(name)
    return coded, _members(_cells(released, name, coded), is_set=sets is None or name in sets, from_text=False)


def _members(cells: Sequence[str | None], *, is_set: bool, from_text: bool) -> tuple[tuple[Member, ...], ...]:
    sure = [None if from_text and cell in MARKS else cell for cell in cells]
    return tuple(parse_set(cell) if is_set else (cell,) for cell in sure)


def _is_whole(released: Table, name: str) -> bool:
    """Return whether a numeric column holds whole numbers only."""
    kinds = [released.kinds[one] for one in (name, low_name(name)) if one in released.kinds]
    return all(kind not in (Kind.CONTINUOUS, Kind.DATE) for kind in kinds)


def _cells(released: Table, name: str, coded: Coded) -> tuple[str | None, ...]:
    values = coded.values.to_pylist()
    is_boolean = released.kinds[name] is Kind.BOOLEAN
    return tuple(None if value is None else str(value).lower() if is_boolean else str(value) for value in values)


def _ends(sets: Sequence[tuple[Member, ...]], end: str) -> NDArray[np.float64]:
    """Return the lower ("0") or upper ("1") ends of sets of 0 and 1, which are intervals; NaN for the missing one."""
    other = "1" if end == "0" else "0"
    return np.array([float(end if end in members else other) if members != (None,) else np.nan for members in sets])


def _calendar(released: Table, name: str) -> Calendar | None:
    kind = released.arrow.column(name).type
    if pt.is_date(kind):
        return Calendar.DAYS
    if pt.is_timestamp(kind):
        return Calendar.UTC_MOMENTS if kind.tz else Calendar.MOMENTS
    return None


def _weight_ends(released: Table, weight: str | None) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the range of the weights of each row's box, if the release shows it."""
    if weight is None or not is_interval(weight, released.kinds):
        return None
    low, high = (released.numbers(name) for name in interval_names(weight))
    if not (np.isfinite(low) & np.isfinite(high) & (low >= 0.0) & (low <= high)).all():
        raise TableError(f"The ranges of the weights in column {weight!r} must be finite and not negative.")
    return low, high


def _read_weights(released: Table, weight: str) -> NDArray[np.float64]:
    """Return the sampling weights of the rows."""
    row_weight = released.numbers(weight)
    if not np.isfinite(row_weight).all() or (row_weight < 0.0).any():
        raise TableError(f"The weights in column {weight!r} must be finite, not negative and not missing.")
    return row_weight
