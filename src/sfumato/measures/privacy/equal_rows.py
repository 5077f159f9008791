"""Which rows of original, release and reference are equal, cell by cell, whatever types the tables use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.encoded_columns import finite
from sfumato.table.groups import refine
from sfumato.table.hashing import row_keys
from sfumato.table.intervals import Intervals, interval_names, is_interval
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.kinds import Kind

LANES = ((0, "a"), (1, "b"))  # the two halves of a key
NO_VALUE = np.inf  # a released cell that is not one number, so that it equals no original cell


@dataclass(frozen=True, repr=False)
class RowMatches:
    """Labels of rows: two rows of any of the tables have the same label if they are equal in the chosen columns."""

    original: NDArray[np.int64]
    released: NDArray[np.int64]
    reference: NDArray[np.int64]  # empty without a reference
    labels: int

    @classmethod
    def of(cls, cells: Sequence[ColumnCodes], rows: tuple[int, int, int]) -> RowMatches:
        """Label the rows by these columns; ``rows`` are those of the three tables."""
        labels = np.zeros(sum(rows), dtype=np.int64)
        for column in cells:
            labels = refine(labels, column.codes, column.size)
        first, second, third = np.split(labels, np.cumsum(rows)[:-1])
        return cls(first, second, third, int(labels.max(initial=-1)) + 1)

    def counts(self, side: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rows of a table have each label."""
        return np.bincount(side, minlength=self.labels).astype(np.int64)


@dataclass(frozen=True, repr=False)
class ColumnCodes:
    """One column of all three tables, one below the other, as codes that are equal where the cells are equal."""

    name: str
    codes: NDArray[np.int32]
    size: int


def cells_of(subject: MeasuredRelease) -> tuple[ColumnCodes, ...]:
    """Return the compared columns as codes, in the order of ``subject.names``."""
    return tuple(_coded(subject, name) for name in subject.names)


def _coded(subject: MeasuredRelease, name: str) -> ColumnCodes:
    tables = [subject.original, subject.released] + ([] if subject.reference is None else [subject.reference])
    if subject.original.kinds[name].is_numeric:
        cells = np.concatenate([_numbers(table, name) for table in tables])
        values, codes = np.unique(cells, return_inverse=True)  # NaN is one value
        return ColumnCodes(name, codes.astype(np.int32), len(values))
    places: dict[str | None, int] = {}
    parts = []
    for table in tables:
        coded = table.coded(name)
        texts = pc.cast(coded.values, pa.string()).to_pylist()
        parts.append(np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int32)[coded.codes])
    return ColumnCodes(name, np.concatenate(parts), len(places))


def _numbers(table: Table, name: str) -> NDArray[np.float64]:
    """Return the numbers of a column; an interval is a number only if its ends are equal and no value is missing."""
    if is_interval(name, table.kinds):
        ends = Intervals.of(table, name)
        single = ends.low == ends.high
        if ends.missing is not None:
            single &= ends.missing == 0
        return np.where(single, ends.low, NO_VALUE)
    if table.kinds[name].is_numeric:
        return finite(table, name)
    return np.full(table.rows, NO_VALUE)


@dataclass(frozen=True, repr=False)
class CellKeys:
    """Keys of rows that are equal where cells are equal, whatever types the tables use (see :class:`ColumnCodes`)."""

    names: tuple[str, ...]  # of the columns that are compared
    known: tuple[str, ...]  # those of them that others know
    shown: tuple[str, ...]  # released columns that these are released as
    kinds: Mapping[str, Kind]  # of the original

    @classmethod
    def of(cls, subject: MeasuredRelease) -> CellKeys:
        """Return the keys for rows like those of a sample."""
        known = tuple(name for name in subject.names if subject.quasi is None or name in subject.quasi) or subject.names
        kinds = subject.released.kinds
        shown = [face for name in known if is_interval(name, kinds) for face in interval_names(name) if face in kinds]
        shown += [name for name in known if name in kinds]
        return cls(subject.names, known, tuple(shown), subject.original.kinds)

    def original(self, rows: Table) -> pa.Table:
        """Return the keys of original rows."""
        cells = self._cells(rows)
        return _keyed(known=cells.select(self.known), whole=cells)

    def released(self, rows: Table) -> pa.Table:
        """Return the keys of released rows."""
        cells = self._cells(rows)
        return _keyed(known=cells.select(self.known), whole=cells, shown=rows.select(self.shown))

    def _cells(self, table: Table) -> Table:
        """Return the compared columns with the same types for all tables."""
        columns = {}
        for name in self.names:
            if self.kinds[name].is_numeric:
                columns[name] = pa.array(_numbers(table, name), from_pandas=True)
            else:
                columns[name] = table.arrow.column(name).cast(pa.string())
        return Table(pa.table(columns), {name: self.kinds[name] for name in self.names})


def _keyed(**tables: Table) -> pa.Table:
    keys = {name: row_keys(table) for name, table in tables.items()}
    return pa.table({f"{name}_{lane}": key[:, place] for name, key in keys.items() for place, lane in LANES})
