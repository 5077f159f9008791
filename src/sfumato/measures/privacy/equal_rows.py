"""Which rows of original, release and reference are equal, cell by cell, whatever types the tables use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.table.encoded_columns import finite
from sfumato.table.groups import refine
from sfumato.table.intervals import Intervals, is_interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.table.table import Table

NO_VALUE = np.inf  # a released cell that is not one number, so that it equals no original cell


@dataclass(frozen=True, repr=False)
class EqualRows:
    """Labels of rows: two rows of any of the tables have the same label if they are equal in the chosen columns."""

    original: NDArray[np.int64]
    released: NDArray[np.int64]
    reference: NDArray[np.int64]  # empty without a reference
    labels: int

    @classmethod
    def of(cls, cells: Sequence[Cells], rows: tuple[int, int, int]) -> EqualRows:
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
class Cells:
    """One column of all three tables, one below the other, as codes that are equal where the cells are equal."""

    name: str
    codes: NDArray[np.int32]
    size: int


def cells_of(subject: MeasuredRelease) -> tuple[Cells, ...]:
    """Return the compared columns as codes, in the order of ``subject.names``."""
    return tuple(_coded(subject, name) for name in subject.names)


def _coded(subject: MeasuredRelease, name: str) -> Cells:
    tables = [subject.original, subject.released] + ([] if subject.reference is None else [subject.reference])
    if subject.original.kinds[name].is_numeric:
        cells = np.concatenate([_numbers(table, name) for table in tables])
        values, codes = np.unique(cells, return_inverse=True)  # NaN is one value
        return Cells(name, codes.astype(np.int32), len(values))
    places: dict[str | None, int] = {}
    parts = []
    for table in tables:
        coded = table.coded(name)
        texts = pc.cast(coded.values, pa.string()).to_pylist()
        parts.append(np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int32)[coded.codes])
    return Cells(name, np.concatenate(parts), len(places))


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
