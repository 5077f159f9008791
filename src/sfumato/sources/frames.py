"""Convert data frames to tables: any Arrow-compatible frame is accepted, and its index is dropped."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import ReadError, TableError, items_without_cause, without_cause
from sfumato.formats.text import HALF_CHARACTER
from sfumato.sources.base import CELL_BYTES, TableSource
from sfumato.sources.files import read
from sfumato.table.kinds import invalid_columns
from sfumato.table.table import Table

NO_NAMES = ("None", "nan", "NaT", "<NA>")  # text of column labels that mean "no name"


LAZY = {  # tables that are not read yet: the module that has been imported if there is one, and its class
    "polars": "LazyFrame",
    "duckdb": "DuckDBPyRelation",
    "pyarrow.dataset": "Dataset",
    "ibis.expr.types": "Table",
}
BATCH_ROWS = 1 << 17


def is_lazy(source: Any) -> bool:
    """Return whether this is a lazy frame of polars, a relation of DuckDB, a dataset of Arrow or a table of ibis."""
    kinds = [getattr(sys.modules[module], name, None) for module, name in LAZY.items() if module in sys.modules]
    return isinstance(source, (pa.RecordBatchReader, *(kind for kind in kinds if kind is not None)))


@dataclass(frozen=True, repr=False)
class LazySource(TableSource):
    """A table of another library that is not read yet, such as a lazy frame: an engine reads it in batches."""

    frame: Any

    def read(self) -> Table:
        """Read all rows."""
        return as_table(pa.concat_tables(self.batches()).unify_dictionaries())

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in batches, as the library of the table computes them; at least one batch has the columns."""
        read = without_cause(lambda: _stream(self.frame), Exception, _unreadable)
        yield read.schema.empty_table()
        for batch in items_without_cause(read, Exception, _unreadable):
            yield pa.Table.from_batches([batch])

    def memory_needed(self) -> int:
        """Estimate the bytes that all rows take, by their number; a stream that can be read once is not counted."""
        if isinstance(self.frame, pa.RecordBatchReader):
            return 0
        rows, columns = without_cause(lambda: _shape(self.frame), Exception, _unreadable)
        return CELL_BYTES * rows * columns


def _stream(frame: Any) -> pa.RecordBatchReader:
    """Start to read a lazy table."""
    if isinstance(frame, pa.RecordBatchReader):
        return frame
    if hasattr(frame, "to_pyarrow_batches"):  # ibis
        return frame.to_pyarrow_batches(chunk_size=BATCH_ROWS)
    if hasattr(frame, "collect_schema"):  # polars
        schema = frame.head(0).collect().to_arrow().schema
        parts = frame.collect_batches(chunk_size=BATCH_ROWS, lazy=True, engine="streaming")
        batches = (batch for part in parts for batch in part.to_arrow().to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)
    if hasattr(frame, "scanner"):  # Arrow
        return frame.scanner(batch_size=BATCH_ROWS).to_reader()
    return pa.RecordBatchReader.from_stream(frame)


def _shape(frame: Any) -> tuple[int, int]:
    """Count the rows and the columns of a lazy table; its library knows shortcuts."""
    if hasattr(frame, "to_pyarrow_batches"):
        return int(frame.count().execute()), len(frame.columns)
    if hasattr(frame, "collect_schema"):
        counted = frame.select(sys.modules["polars"].len()).collect(engine="streaming")
        return int(counted.item()), len(frame.collect_schema())
    if hasattr(frame, "scanner"):
        return int(frame.count_rows()), len(frame.schema)
    return int(frame.aggregate("count(*)").fetchall()[0][0]), len(frame.columns)


def _unreadable(error: Exception) -> ReadError:
    return ReadError("The lazy table cannot be computed.", found=type(error).__name__, fix="try to collect it yourself")


def as_table(source: Any) -> Table:
    """Return a Table from a Table, a path or a data frame.

    Accepted frames are pandas, polars, Arrow tables and record batches, mappings of column names to arrays, tables that
    are not read yet (:class:`LazySource`), and everything that narwhals or the Arrow PyCapsule interface supports.
    """
    if is_lazy(source):
        source = LazySource(source)
    if isinstance(source, Table):
        return source
    if isinstance(source, str | Path):
        return read(source)
    if isinstance(source, TableSource):
        return source.read()
    arrow = _arrow(source)
    if arrow.num_columns == 0:
        raise TableError("A table must have columns.", found="no columns")
    wrong = invalid_columns(arrow)
    if wrong:
        raise TableError(
            "Cells must be valid: text in UTF-8, and values that fit their type.",
            found=f"cells that are not in {', '.join(map(repr, wrong))}",
        )
    return Table.from_arrow(arrow)


def as_texts(source: Any) -> Any:
    """Return a frame of pandas, or a mapping, with the cells of columns that have no type as text; others as they are.

    Otherwise Arrow would infer a type from all cells of such a column, and refuse cells of several types.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        named = _names(source.columns)
        columns = [source.iloc[:, place] for place in range(source.shape[1])]
        if len(set(named)) < len(named) or not any(map(_has_no_type, columns)):
            return source
        typed = [_cells_as_text(one) if _has_no_type(one) else _storable(one) for one in columns]
        return dict(zip(named, typed, strict=True))
    if isinstance(source, Mapping):
        return {name: _cells_as_text(own) if _has_no_type(own) else own for name, own in source.items()}
    return source


def _cells_as_text(cells: Iterable[Any]) -> pa.Array:
    """Return each cell as text, by itself; missing ones are missing."""
    return pa.array([None if _is_missing(cell) else str(cell) for cell in cells], pa.string())


def _is_missing(cell: Any) -> bool:
    return cell is None or (not isinstance(cell, str) and str(cell) in NO_NAMES)


def _has_no_type(column: Any) -> bool:
    """Return whether the cells of a column may be of any type: a list, or an array of objects."""
    return isinstance(column, list | tuple) or str(getattr(column, "dtype", "")) == "object"


def _arrow(source: Any) -> pa.Table:
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    pandas = sys.modules.get("pandas")  # if the source is a frame, its library has been imported
    if pandas is not None and isinstance(source, pandas.DataFrame):
        series = (source.iloc[:, place] for place in range(source.shape[1]))
        return _from_columns(source.columns, map(_storable, series))
    if isinstance(source, Mapping):
        return _from_columns(source.keys(), source.values())
    return _by_narwhals(source)


def _storable(series: Any) -> Any:
    """Convert a pandas column to a type that Arrow supports: intervals to text, periods to their first instant."""
    if series.dtype == "category" and str(series.cat.categories.dtype).startswith(("interval", "period")):
        return series.cat.rename_categories(series.cat.categories.astype(str))
    if str(series.dtype).startswith("interval"):
        return series.astype(str).where(series.notna(), None)
    if str(series.dtype).startswith("period"):
        return series.dt.to_timestamp()
    return series.sparse.to_dense() if str(series.dtype).startswith("Sparse") else series


def _from_columns(names: Iterable[Any], columns: Iterable[Any]) -> pa.Table:
    named = _names(names)
    arrays = [_array(column, name) for name, column in zip(named, columns, strict=True)]
    lengths = sorted({len(array) for array in arrays})
    if len(lengths) > 1:
        raise TableError("Every column must have the same number of cells.", found=" and ".join(map(str, lengths)))
    return pa.table(arrays, names=named)


def _names(names: Iterable[Any]) -> list[str]:
    """Return the names as strings; None or a tuple is not a name."""
    given = list(names)
    no_names = [
        name for name in given if isinstance(name, tuple) or (str(name) in NO_NAMES and not isinstance(name, str))
    ]
    if no_names:
        raise TableError(
            "Column names must be text or numbers.",
            found=f"{len(no_names)} of {len(given)} names that are empty or have several levels",
            fix="give each column one name, for example with frame.columns = [...]",
        )
    named = [str(name) for name in given]
    halves = [name for name in named if HALF_CHARACTER.search(name)]
    if halves:
        raise TableError("Column names must be valid text.", found=f"half of a character in {halves[0]!r}")
    return named


def _array(column: Any, name: str) -> pa.Array | pa.ChunkedArray:
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    shape = getattr(column, "shape", None)
    if shape is not None and len(shape) != 1:
        raise TableError(f"Column {name!r} must be one-dimensional.", found=f"shape {shape}")
    if isinstance(column, str | bytes) or not hasattr(column, "__len__"):
        raise TableError(f"Column {name!r} must be a list or an array.", found=type(column).__name__)
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # the error of the library quotes the cell
    types = Counter(type(cell).__name__ for cell in column if cell is not None)
    found = ", ".join(f"{count:,} {kind}" for kind, count in types.most_common(5))
    raise TableError(
        f"The cells of column {name!r} must be of one type.",
        found=found or "a type that is not supported",
        fix=f"convert it to text or numbers, for example with frame[{name!r}].astype(str)",
    )


def _by_capsule(source: Any) -> pa.Table:
    try:
        return pa.table(source)
    except (pa.ArrowException, TypeError, ValueError):
        pass
    raise TableError("The data frame could not be converted to Arrow.", found=type(source).__name__)


def _by_narwhals(source: Any) -> pa.Table:
    import narwhals

    frame = narwhals.from_native(source, pass_through=True)
    if isinstance(frame, narwhals.LazyFrame):
        return _arrow(frame.collect().to_native())
    if isinstance(frame, narwhals.DataFrame):
        return frame.to_arrow()
    if hasattr(source, "__arrow_c_stream__"):
        return _by_capsule(source)
    fix = "pass a mapping of names to columns, such as {'age': array[:, 0]}" if hasattr(source, "dtype") else None
    raise TableError(
        "A table must be a path, a data frame, or an object with the Arrow PyCapsule interface.",
        found=type(source).__name__,
        fix=fix,
    )
