"""The table class. It holds Arrow columns, and neither its repr nor its errors show the content of a cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.errors import MissingExtra, TableError, printable
from sfumato.machine import processors
from sfumato.table.coding import Coded, ColumnCoding
from sfumato.table.kinds import Kind, kind_of, to_plain_type, write_numbers

__all__ = ["Coded", "Table"]

MANY_ROWS = 100_000  # taking fewer ends before threads have begun
LABEL = b"sfumato label"  # of a column, in the metadata of its Arrow field
NULLABLE = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.bool_(): "boolean",
}


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A table of records: Arrow columns and the kind of each column.

    Tables are returned by :func:`sfumato.read`. Every function that takes a table also accepts a pandas, polars or
    Arrow frame, a mapping of column names to arrays, or a path, and converts it.

    The kind of a column states what its values mean. It does not have to follow from how the column is stored: for
    example, integers can be nominal codes.

    Parameters
    ----------
    arrow : pyarrow.Table
        The columns. Use :meth:`from_arrow` for Arrow tables of arbitrary types.
    kinds : mapping of str to Kind
        The kind of each column: ``"continuous"``, ``"whole"``, ``"ordered"``, ``"nominal"``, ``"date"``, ``"text"`` or
        ``"boolean"``.
    labels : mapping of str to str, optional
        What columns mean, in words, where the file says so: the variable labels of a statistics package.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import sfumato as sf
    >>> table = sf.Table.from_arrow(pa.table({"age": [34, 51, None], "sex": ["f", "m", "f"]}))
    >>> table
    Table(3 rows × 2 columns; age: whole, sex: nominal)
    >>> table.names
    ('age', 'sex')
    >>> table.numbers("age")
    array([34., 51., nan])
    """

    arrow: pa.Table
    kinds: Mapping[str, Kind]
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_arrow(cls, arrow: pa.Table, kinds: Mapping[str, Kind] | None = None) -> Table:
        """Return a table from Arrow columns of any types.

        Parameters
        ----------
        arrow : pyarrow.Table
            The columns, with unique names. They are converted to the few Arrow types that tables use.
        kinds : mapping of str to Kind, optional
            Kinds of some or all columns. By default kinds are inferred from types and cells.

        Returns
        -------
        Table
            The table, with a kind for every column.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import sfumato as sf
        >>> sf.Table.from_arrow(pa.table({"zip": ["02139", "10027"], "income": [1200.5, 1850.0]}))
        Table(2 rows × 2 columns; zip: nominal, income: continuous)
        """
        repeated = sorted(name for name, times in Counter(arrow.column_names).items() if times > 1)
        if repeated:
            raise TableError(
                "Column names must be unique.",
                found=f"{', '.join(map(repr, repeated))} more than once",
                fix="rename the columns",
            )
        names, given = arrow.column_names, kinds or {}
        if not names:
            return cls(arrow.replace_schema_metadata(None), {})
        columns = [to_plain_type(column, name=name) for name, column in zip(names, arrow.columns, strict=True)]
        all_kinds = {name: given.get(name) or kind_of(column) for name, column in zip(names, columns, strict=True)}
        return cls(pa.table(columns, names=names), all_kinds, column_labels(arrow))

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
        return printable(f"Table({self.rows:,} rows × {len(self.names)} columns; {kinds})")

    def _repr_html_(self) -> str:
        """Show shape, names, kinds and rounded distributions in a notebook; no cells."""
        from sfumato.report.notebook import show_table

        return show_table(self)

    def require(self, names: Iterable[str]) -> None:
        """Raise a TableError unless every name is a column.

        Parameters
        ----------
        names : iterable of str
            Names of columns.
        """
        require_known(names, self.kinds)

    def require_finite(self, names: Iterable[str]) -> None:
        """Raise a TableError unless every number in these columns is finite.

        Parameters
        ----------
        names : iterable of str
            Names of columns. Missing cells and columns that are not numeric pass the check.
        """
        infinite = {}
        for name in names:
            self.require([name])
            if pt.is_floating(self.arrow.column(name).type):
                infinite[name] = int(pc.sum(pc.is_inf(self.arrow.column(name))).as_py() or 0)
        counts = [f"{count:,} in {name!r}" for name, count in infinite.items() if count]
        if counts:
            raise TableError(
                "Numbers must be finite.",
                found=f"infinite numbers, {', '.join(counts)}",
                fix="make them missing, or remove these rows",
            )

    def select(self, names: Sequence[str]) -> Table:
        """Return a table with these columns, in this order.

        Parameters
        ----------
        names : sequence of str
            Names of columns.
        """
        self.require(names)
        labels = {name: self.labels[name] for name in names if name in self.labels}
        selected = Table(self.arrow.select(list(names)), {name: self.kinds[name] for name in names}, labels)
        selected._codings.update({name: self._coding(name) for name in names})
        return selected

    def take(self, positions: NDArray[np.integer[Any]]) -> Table:
        """Return a table with these rows, in this order.

        Parameters
        ----------
        positions : array of int
            Positions of rows, from 0. A position may occur several times.
        """
        return Table(take_rows(self.arrow, positions), self.kinds, self.labels)

    def parts(self, names: Sequence[str] | None = None) -> Iterator[Table]:
        """Yield the rows, or these columns of them, in parts that fit into memory: here one part with all rows."""
        yield self if names is None else self.select(names)

    def thinned(self, names: Sequence[str], most: int) -> Table:
        """Return every n-th row of these columns, with the smallest n that leaves at most so many.

        Parameters
        ----------
        names : sequence of str
            Names of columns.
        most : int
            Number of rows.
        """
        rows = self.select(names)
        return rows if self.rows <= most else rows.take(np.arange(0, self.rows, -(-self.rows // most)))

    def counted(self, names: Sequence[str]) -> CountedRows:
        """Return the rows of these columns and how often each counts: here once, and equal rows are not joined.

        Parameters
        ----------
        names : sequence of str
            Names of columns.
        """
        return CountedRows(self.select(names), np.ones(self.rows, dtype=np.int64))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a numeric or boolean column as floats, with NaN for missing cells.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        array of float, shape (rows,)
            Dates are in days and timestamps in microseconds since 1970-01-01 (in UTC if they have a time zone). Cells
            that would be rounded raise a TableError: whole numbers of 2⁵³ or more, nanoseconds, timestamps too far from
            1970, and decimals of more than 15 digits.
        """
        numbers = np.empty(self.rows)
        self._write_numbers(name, numbers)
        return numbers

    def matrix(self, names: Sequence[str]) -> NDArray[np.float64]:
        """Return numeric columns as a matrix.

        Parameters
        ----------
        names : sequence of str
            Names of columns.

        Returns
        -------
        array of float, shape (rows, columns)
            One row per record, with NaN for missing cells. Units are those of :meth:`numbers`.
        """
        matrix = np.empty((self.rows, len(names)))
        for position, name in enumerate(names):
            self._write_numbers(name, matrix[:, position])
        return matrix

    def coded(self, name: str) -> Coded:
        """Return a column of any kind as integer codes.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        Coded
            The code of each row, and the sorted values that the codes refer to. Missing is one of the values. It is
            computed once and shared with tables that this column was selected from or is selected into, so it must not
            be changed.
        """
        self.require([name])
        return self._coding(name).of(self.arrow.column(name), ordered=self.kinds[name] is Kind.ORDERED)

    def to_arrow(self) -> pa.Table:
        """Return the Arrow table."""
        return self.arrow

    def to_pandas(self) -> Any:
        """Return a pandas data frame; whole numbers and booleans with missing cells get nullable types."""
        return pandas_frame(self.arrow)

    def to_polars(self) -> Any:
        """Return a polars data frame; ordered categories become an Enum."""
        return polars_frame(self.arrow)

    @property
    def _codings(self) -> dict[str, ColumnCoding]:
        codings: dict[str, ColumnCoding] = self.__dict__.setdefault("_kept_codings", {})
        return codings

    def _coding(self, name: str) -> ColumnCoding:
        return self._codings.setdefault(name, ColumnCoding())  # atomic, so that threads share one

    def __getstate__(self) -> dict[str, Any]:
        # another process codes the columns itself if it needs to
        return {name: value for name, value in self.__dict__.items() if name != "_kept_codings"}

    def _write_numbers(self, name: str, out: NDArray[np.float64]) -> None:
        self.require([name])
        if not (self.kinds[name].is_numeric or self.kinds[name] is Kind.BOOLEAN):
            raise TableError(f"Column {name!r} must be numeric.", found=f"kind {self.kinds[name]}")
        write_numbers(self.arrow.column(name), out, name=name)


@dataclass(frozen=True, eq=False, repr=False)
class CountedRows:
    """Rows, each of which stands for a number of equal rows."""

    table: Table
    count: NDArray[np.int64]

    @classmethod
    def of(cls, table: Table, names: Sequence[str]) -> CountedRows:
        """Return the different rows of these columns with their numbers."""
        return cls.merge([CountedRows(table.select(names), np.ones(table.rows, dtype=np.int64))], names)

    @classmethod
    def merge(cls, groups: Sequence[CountedRows], names: Sequence[str]) -> CountedRows:
        """Return the different rows among all of these, with their numbers added up."""
        kinds = {name: groups[0].table.kinds[name] for name in names}
        rows = pa.concat_tables([one.table.arrow for one in groups]).unify_dictionaries()
        counts = np.concatenate([one.count for one in groups])
        if not names:
            return cls(Table(rows, kinds), counts)
        key = [f"k{position}" for position in range(len(names))]
        keyed = pa.table([*rows.columns, pa.array(counts)], names=[*key, "count"])
        sums = keyed.group_by(key).aggregate([("count", "sum")])
        different = pa.table([sums.column(one) for one in key], names=list(names))
        return cls(Table(different, kinds), sums.column("count_sum").to_numpy().astype(np.int64))


def require_known(names: Iterable[str], known: Collection[str]) -> None:
    """Raise a TableError unless every name is one of the ``known`` columns."""
    absent = [name for name in names if name not in known]
    if absent:
        raise TableError(
            f"There is no column {', '.join(map(repr, absent))}.", found=f"columns {', '.join(map(repr, known))}"
        )


def replace_columns(arrow: pa.Table, cells: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Table:
    """Return the table with other cells in some columns; the time is that of all columns, however many are replaced."""
    fields = [pa.field(one.name, cells[one.name].type) if one.name in cells else one for one in arrow.schema]
    columns = [cells.get(name, column) for name, column in zip(arrow.column_names, arrow.columns, strict=True)]
    return pa.table(columns, schema=pa.schema(fields, arrow.schema.metadata)) if fields else arrow


def column_labels(arrow: pa.Table) -> dict[str, str]:
    """Return the labels of the columns that have one."""
    return {
        field.name: field.metadata[LABEL].decode()
        for field in arrow.schema
        if field.metadata and LABEL in field.metadata
    }


def pandas_frame(arrow: pa.Table) -> Any:
    """Return a pandas data frame; whole numbers and booleans with missing cells get nullable types."""
    pandas = _library("pandas")

    def series(column: pa.ChunkedArray) -> Any:
        dtype = NULLABLE.get(column.type) if column.null_count else None
        return column.to_pandas(types_mapper=lambda _: pandas.api.types.pandas_dtype(dtype) if dtype else None)

    columns = {position: series(column) for position, column in enumerate(arrow.columns)}
    frame = pandas.DataFrame(columns, index=pandas.RangeIndex(arrow.num_rows))
    frame.columns = arrow.column_names
    return frame


def polars_frame(arrow: pa.Table) -> Any:
    """Return a polars data frame; ordered categories become an Enum."""
    polars = _library("polars")
    frame = polars.from_arrow(arrow)
    enums = {
        name: polars.Enum(column.chunk(0).dictionary.cast(pa.string()).to_pylist())
        for name, column in zip(arrow.column_names, arrow.columns, strict=True)
        if pt.is_dictionary(column.type) and column.type.ordered and column.num_chunks
    }
    return frame.with_columns([polars.col(name).cast(enum) for name, enum in enums.items()])


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        pass
    raise MissingExtra(f"{name} is not installed.", fix=f"pip install {name}")


def take_rows(arrow: pa.Table, positions: NDArray[np.integer[Any]]) -> pa.Table:
    """Return these rows of a table, in this order; the columns of a large one are taken side by side."""
    rows = pa.array(positions)
    if len(rows) < MANY_ROWS:
        return arrow.take(rows)
    with ThreadPoolExecutor(processors()) as pool:
        columns = list(pool.map(lambda column: column.take(rows), arrow.columns))
    return pa.Table.from_arrays(columns, schema=arrow.schema)


def chosen_within(chosen: NDArray[np.int64], start: int, rows: int) -> NDArray[np.int64]:
    """Return where the chosen rows are in a part of ``rows`` rows from row ``start`` on; ``chosen`` ascends.

    Examples
    --------
    >>> import numpy as np
    >>> chosen_within(np.array([1, 5, 6, 11]), start=5, rows=5).tolist()
    [0, 1]
    """
    first, last = np.searchsorted(chosen, [start, start + rows])
    here: NDArray[np.int64] = chosen[first:last] - start
    return here


def draw_rows(table: Table, size: int, generator: np.random.Generator) -> Table:
    """Return ``size`` random rows of a table, which is read in parts, or all if there are fewer."""
    if table.rows <= size:
        return table.select(table.names)
    chosen = np.sort(generator.choice(table.rows, size, replace=False, shuffle=False))
    taken, start = [], 0
    for part in table.parts():
        here = chosen_within(chosen, start, part.rows)
        start += part.rows
        taken += [part.take(here).arrow] if here.size else []
    return Table(pa.concat_tables(taken).unify_dictionaries(), table.kinds)
