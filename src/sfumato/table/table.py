"""The table: Arrow inside, and nothing that can be shown holds a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import TableError
from sfumato.table.coding import Coded, coded
from sfumato.table.kinds import Kind, kind_of, plain
from sfumato.table.write import pandas_frame, polars_frame

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Coded", "Table"]

LARGEST_EXACT = 2**53  # from here on, floats leave out whole numbers


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Rows of people as Arrow columns with kinds. Made by :func:`sfumato.read` or from any data frame.

    A kind says what a column means, and need not follow from how it is stored: whole numbers may be nominal codes.
    """

    arrow: pa.Table
    kinds: Mapping[str, Kind]

    @classmethod
    def from_arrow(cls, arrow: pa.Table, kinds: Mapping[str, Kind] | None = None) -> Table:
        """A table over Arrow columns of any types; kinds that are not given are told by types and cells."""
        repeated = sorted(name for name, times in Counter(arrow.column_names).items() if times > 1)
        if repeated:
            raise TableError(
                "Every column must have a name of its own.",
                found=f"{', '.join(map(repr, repeated))} more than once",
                fix="rename the columns",
            )
        names, given = arrow.column_names, kinds or {}
        if not names:
            return cls(arrow.replace_schema_metadata(None), {})
        columns = [plain(column, name=name) for name, column in zip(names, arrow.columns, strict=True)]
        told = {name: given.get(name) or kind_of(column) for name, column in zip(names, columns, strict=True)}
        return cls(pa.table(columns, names=names), told)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.arrow.num_rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self.arrow.column_names)

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        kinds = ", ".join(f"{name}: {kind}" for name, kind in self.kinds.items())
        return f"Table({self.rows:,} rows × {len(self.names)} columns; {kinds})"

    def require(self, names: Iterable[str]) -> None:
        """Raise unless every name is a column."""
        absent = [name for name in names if name not in self.kinds]
        if absent:
            raise TableError(
                f"There is no column {', '.join(map(repr, absent))}.",
                found=f"columns {', '.join(map(repr, self.names))}",
            )

    def require_finite(self, names: Iterable[str]) -> None:
        """Raise unless every number in these columns is finite; missing ones and columns of words pass."""
        infinite = {}
        for name in names:
            self.require([name])
            if pt.is_floating(self.arrow.column(name).type):
                infinite[name] = int(pc.sum(pc.is_inf(self.arrow.column(name))).as_py() or 0)
        found = [f"{count:,} in {name!r}" for name, count in infinite.items() if count]
        if found:
            raise TableError(
                "Numbers must be finite.",
                found=f"infinite ones, {', '.join(found)}",
                fix="make them missing, or leave out these rows",
            )

    def select(self, names: Sequence[str]) -> Table:
        """These columns, in this order."""
        self.require(names)
        return Table(self.arrow.select(list(names)), {name: self.kinds[name] for name in names})

    def take(self, positions: NDArray[np.integer[Any]]) -> Table:
        """These rows, in this order."""
        return Table(self.arrow.take(pa.array(positions)), self.kinds)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A numeric or boolean column as floats, NaN where missing.

        A day counts in days and a moment in microseconds since 1970 (of UTC, where it has a time zone). Whole numbers
        from 2⁵³ on are refused: floats would make different ones equal.
        """
        numbers = np.empty(self.rows)
        self._write_numbers(name, numbers)
        return numbers

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Numeric columns side by side, one row a person, NaN where missing; units as in :meth:`numbers`."""
        matrix = np.empty((self.rows, len(names)))
        for position, name in enumerate(names):
            self._write_numbers(name, matrix[:, position])
        return matrix

    def coded(self, name: str) -> Coded:
        """A column of any kind as codes; see :class:`Coded`."""
        self.require([name])
        return coded(self.arrow.column(name), ordered=self.kinds[name] is Kind.ORDERED)

    def to_arrow(self) -> pa.Table:
        """The Arrow table."""
        return self.arrow

    def to_pandas(self) -> Any:
        """A pandas data frame; whole numbers and booleans with missing cells get pandas' nullable types."""
        return pandas_frame(self.arrow)

    def to_polars(self) -> Any:
        """A polars data frame; ordered categories become an Enum."""
        return polars_frame(self.arrow)

    def _write_numbers(self, name: str, out: NDArray[np.float64]) -> None:
        self.require([name])
        if not (self.kinds[name].is_numeric or self.kinds[name] is Kind.BOOLEAN):
            raise TableError(f"Column {name!r} must be numeric.", found=f"kind {self.kinds[name]}")
        column = self.arrow.column(name)
        if pt.is_int64(column.type) or pt.is_uint64(column.type):
            _require_exact(column, name)
        start = 0
        for chunk in column.chunks:
            out[start : start + len(chunk)] = _numeric(chunk).to_numpy(zero_copy_only=False)
            start += len(chunk)


def _require_exact(column: pa.ChunkedArray, name: str) -> None:
    ends = pc.min_max(column).as_py()
    if ends["min"] is not None and max(-ends["min"], ends["max"]) >= LARGEST_EXACT:
        raise TableError(
            f"Whole numbers must be below 2⁵³ to be computed with. Column {name!r} has larger ones.",
            fix="say that its kind is nominal or its role identifier, or divide it",
        )


def _numeric(chunk: pa.Array) -> pa.Array:
    """Something that NumPy takes as numbers."""
    kind = chunk.type
    if pt.is_date(kind):
        return chunk.cast(pa.date32()).cast(pa.int32())
    if pt.is_timestamp(kind):  # unsafe: nanoseconds are cut off
        return chunk.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.int64())
    if pt.is_boolean(kind):
        return chunk.cast(pa.uint8())
    if pt.is_decimal(kind):  # by way of text, for Arrow's own cast is not always the nearest float
        return chunk.cast(pa.string()).cast(pa.float64())
    return chunk.cast(pa.float64()) if pt.is_null(kind) else chunk
