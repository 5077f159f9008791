"""Rows in Parquet files as a relation of DuckDB, and the same rows as a stream of batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ReadError, TableError, translated, translated_items
from sfumato.release.stored import rows_in
from sfumato.table.kinds import Kind
from sfumato.table.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

ERRORS = (pa.ArrowException, OSError)


@dataclass(frozen=True, repr=False)
class Relation:
    """Parquet files with the same columns. ``orders`` are the values of ordered columns, which are stored as text.

    The files are read several times and must not change meanwhile: ``states`` are their sizes and times at the start.
    """

    files: tuple[Path, ...]
    types: Mapping[str, pa.DataType]
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[Path, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[Path], orders: Mapping[str, tuple[str, ...]] | None = None) -> Relation:
        """Return the relation of these files; raise unless all have the same columns."""
        states = {file: translated(partial(_state, file), ERRORS, partial(_broken, file)) for file in files}
        schemas = [_schema(file) for file in files]
        for file, schema in zip(files, schemas, strict=True):
            if not schema.equals(schemas[0]):
                different = sorted({one.name for one in set(schema) ^ set(schemas[0])})
                raise TableError(
                    "Files that are read together must have the same columns with the same types, in the same order.",
                    found=f"differences between {file.name} and {files[0].name} in "
                    f"{', '.join(map(repr, different)) or 'the order of columns'}",
                    fix="read them one by one",
                )
        repeated = sorted({name for name in schemas[0].names if schemas[0].names.count(name) > 1})
        if repeated:
            raise TableError("Column names must be unique.", found=f"{', '.join(map(repr, repeated))} more than once")
        return cls(tuple(files), {one.name: one.type for one in schemas[0]}, orders or {}, states)

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(rows_in(file) for file in self.files)

    def sql(self, names: Sequence[str]) -> str:
        """Return the relation with these columns, each under its :meth:`column` name; NaN is missing."""
        files = ", ".join(quoted_text(_without_wildcards(str(file))) for file in self.files)
        columns = ", ".join(self._shown(name) for name in names) or "1 AS one"
        numbered = ", ".join(self._columns.values())
        return f"(SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false) AS file({numbered}))"

    def column(self, name: str) -> str:
        """Return the name of a column in SQL, by its position: SQL cannot tell ``Age`` from ``age``, or name ``""``."""
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {name: f"column{position}" for position, name in enumerate(self.types)}

    def _shown(self, name: str) -> str:
        column = self.column(name)
        if pt.is_floating(self.types[name]):  # isnan() alone is always false if the statistics of the file omit NaN
            return f"CASE WHEN isfinite({column}) OR isinf({column}) THEN {column} END AS {column}"
        return column

    def batches(self, names: Sequence[str], rows: int) -> Iterator[tuple[NDArray[np.uint64], pa.Table]]:
        """Yield batches of these columns in the order of the files, with the number of each row in the whole table."""
        import pyarrow.parquet as pq

        start = 0
        for path in self.files:
            named = partial(_broken, path)
            with translated(partial(pq.ParquetFile, path), ERRORS, named) as file:
                read = file.iter_batches(batch_size=rows, columns=list(names))
                for batch in translated_items(read, ERRORS, named):
                    keys = np.arange(start, start + batch.num_rows, dtype=np.uint64)
                    start += batch.num_rows
                    yield keys, pa.Table.from_batches([batch]).select(list(names))
            self._require_unchanged(path)

    def _require_unchanged(self, file: Path) -> None:
        known = self.states.get(file)
        if known is not None and translated(partial(_state, file), ERRORS, partial(_broken, file)) != known:
            raise ReadError(
                f"{file.name} must not change while it is read.",
                found="a file that was changed or replaced meanwhile",
                fix="release again when nobody writes it",
            )


@dataclass(frozen=True, repr=False)
class StoredRows:
    """A relation whose columns have kinds."""

    relation: Relation
    kinds: Mapping[str, Kind]
    rows: int

    def select(self, names: Sequence[str]) -> StoredRows:
        """Return these columns."""
        return StoredRows(self.relation, {name: self.kinds[name] for name in names}, self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def sql(self, names: Sequence[str] | None = None) -> str:
        """Return these columns as a relation."""
        return self.relation.sql(self.names if names is None else names)

    def tables(self, batch_rows: int, names: Sequence[str] | None = None) -> Iterator[tuple[NDArray[np.uint64], Table]]:
        """Yield batches as tables, with the number of each row."""
        for keys, arrow in self.relation.batches(self.names if names is None else names, batch_rows):
            yield keys, self.typed(arrow)

    def typed(self, arrow: pa.Table) -> Table:
        """Return stored columns as a table: with their kinds, and ordered ones with their order."""
        kinds = {name: self.kinds[name] for name in arrow.column_names}
        table = Table.from_arrow(arrow, kinds)
        columns = [
            ordered(column, self.relation.orders[name]) if name in self.relation.orders else column
            for name, column in zip(table.names, table.arrow.columns, strict=True)
        ]
        return Table(pa.table(columns, names=list(table.names)), kinds)


def quoted_text(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def _without_wildcards(path: str) -> str:
    """Return a path as a pattern that only this path matches."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def ordered(column: pa.ChunkedArray, order: Sequence[str]) -> pa.ChunkedArray:
    """Return a column of text as categories in this order."""
    import pyarrow.compute as pc

    words = pa.array(order, pa.string())
    codes = pc.index_in(column, value_set=words)
    parts = [pa.DictionaryArray.from_arrays(chunk, words, ordered=True) for chunk in codes.chunks]
    return pa.chunked_array(parts, pa.dictionary(pa.int32(), pa.string(), ordered=True))


def _schema(file: Path) -> pa.Schema:
    import pyarrow.parquet as pq

    return translated(partial(pq.read_schema, file), ERRORS, partial(_broken, file)).remove_metadata()


def _state(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def _broken(file: Path, error: Exception) -> ReadError:
    if isinstance(error, PermissionError):
        return ReadError(f"{file.name} cannot be read: permission denied.", fix="a file that you may read")
    return ReadError(f"{file.name} is a broken Parquet file.", fix="write the file again")
