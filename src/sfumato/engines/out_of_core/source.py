"""Rows in Parquet files: as a relation of DuckDB, as batches, as they are written, and the kinds of their columns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sfumato.engines.base import others_of, without_identifiers
from sfumato.errors import OptionError, ReadError, TableError, items_without_cause, without_cause
from sfumato.schema.columns import Role
from sfumato.schema.schema import Schema
from sfumato.table.facts import ColumnFacts
from sfumato.table.kinds import TEXT_ROWS, TEXT_SHARE, Kind, is_text, order_categories
from sfumato.table.table import Table

ERRORS = (pa.ArrowException, OSError)


@dataclass(frozen=True, repr=False)
class Relation:
    """Parquet files with the same columns, in any order. ``orders`` are the values of ordered columns, stored as text.

    The files are read several times and must not change meanwhile: ``states`` are their sizes and times at the start.
    """

    files: tuple[Path, ...]
    types: Mapping[str, pa.DataType]
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    counts: tuple[int, ...] = ()  # rows of each file
    is_reordered: bool = False  # whether some file has the columns in another order than the first

    @classmethod
    def of(
        cls,
        files: Sequence[Path],
        orders: Mapping[str, tuple[str, ...]] | None = None,
        look: Callable[[Sequence[Path]], list[Footer]] | None = None,
    ) -> Relation:
        """Return the relation of these files; raise unless all have the same columns.

        ``look`` reads the footers of many files, for example on a cluster; by default they are read one by one.
        """
        footers = (look or footers_of)(files)
        schemas = [footer.schema for footer in footers]
        fields = sorted(schemas[0], key=lambda one: one.name)
        for file, schema in zip(files, schemas, strict=True):
            if schema.equals(schemas[0]):
                continue
            different = sorted({one.name for one in set(schema) ^ set(schemas[0])})
            if different or sorted(schema, key=lambda one: one.name) != fields:
                raise TableError(
                    "Files that are read together must have the same columns with the same types.",
                    found=f"differences between {file.name} and {files[0].name} in {', '.join(map(repr, different))}",
                    fix="read them one by one",
                )
        repeated = sorted({name for name in schemas[0].names if schemas[0].names.count(name) > 1})
        if repeated:
            raise TableError("Column names must be unique.", found=f"{', '.join(map(repr, repeated))} more than once")
        return cls(
            tuple(files),
            {one.name: one.type for one in schemas[0]},
            orders or {},
            {file: footer.state for file, footer in zip(files, footers, strict=True)},
            tuple(footer.rows for footer in footers),
            any(schema.names != schemas[0].names for schema in schemas),
        )

    @property
    def rows(self) -> int:
        """Number of rows of all files."""
        return sum(self.counts)

    def sql(self, names: Sequence[str]) -> str:
        """Return the relation with these columns, each under its :meth:`column` name; NaN is missing."""
        escaped = (re.sub(r"[*?\[]", r"[\g<0>]", str(file)) for file in self.files)  # patterns that match only one path
        files = ", ".join(map(quote_text, escaped))
        columns = ", ".join(self._select_column(name) for name in names) or "1 AS one"
        numbered = ", ".join(self._columns.values())
        return f"(SELECT {columns} FROM read_parquet([{files}], hive_partitioning = false) AS file({numbered}))"

    def column(self, name: str) -> str:
        """Return the name of a column in SQL, by its position: SQL cannot tell ``Age`` from ``age``, or name ``""``."""
        return self._columns[name]

    @cached_property
    def _columns(self) -> dict[str, str]:
        return {name: f"column{position}" for position, name in enumerate(self.types)}

    def _select_column(self, name: str) -> str:
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
            with without_cause(partial(pq.ParquetFile, path), ERRORS, named) as file:
                read = file.iter_batches(batch_size=rows, columns=list(names))
                for batch in items_without_cause(read, ERRORS, named):
                    keys = np.arange(start, start + batch.num_rows, dtype=np.uint64)
                    start += batch.num_rows
                    yield keys, pa.Table.from_batches([batch]).select(list(names))
            self._require_unchanged(path)

    def _require_unchanged(self, file: Path) -> None:
        known = self.states.get(file)
        if known is not None and without_cause(partial(_state, file), ERRORS, partial(_broken, file)) != known:
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
            yield keys, self.to_table(arrow)

    def to_table(self, arrow: pa.Table) -> Table:
        """Return stored columns as a table: with their kinds, and ordered ones with their order."""
        kinds = {name: self.kinds[name] for name in arrow.column_names}
        stored = [_as_stored(arrow.column(name), self.relation.types.get(name)) for name in arrow.column_names]
        table = Table.from_arrow(pa.table(stored, names=arrow.column_names), kinds)
        columns = [
            order_categories(column, self.relation.orders[name]) if name in self.relation.orders else column
            for name, column in zip(table.names, table.arrow.columns, strict=True)
        ]
        return Table(pa.table(columns, names=list(table.names)), kinds)


def _as_stored(column: pa.ChunkedArray, kind: pa.DataType | None) -> pa.ChunkedArray:
    """Return moments, whose unit and zone an engine may have changed, as they were stored."""
    is_changed = kind is not None and pt.is_timestamp(kind) and pt.is_timestamp(column.type) and column.type != kind
    return column.cast(kind) if is_changed else column


def quote_text(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


@dataclass(frozen=True)
class Footer:
    """What the footer of a Parquet file says, and the size and time of the file before it was read."""

    schema: pa.Schema
    rows: int
    state: tuple[int, int]


def footers_of(files: Sequence[Path]) -> list[Footer]:
    """Read the footers of files; raise if one of them is broken."""
    return [without_cause(partial(_footer, file), ERRORS, partial(_broken, file)) for file in files]


def _footer(file: Path) -> Footer:
    import pyarrow.parquet as pq

    state = _state(file)
    metadata = pq.read_metadata(file)
    return Footer(metadata.schema.to_arrow_schema().remove_metadata(), metadata.num_rows, state)


def _state(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns


def _broken(file: Path, error: Exception) -> ReadError:
    if isinstance(error, PermissionError):
        return ReadError(f"{file.name} cannot be read: permission denied.", fix="a file that you may read")
    return ReadError(f"{file.name} is a broken Parquet file.", fix="write the file again")


def spool_tables(tables: Iterable[pa.Table], folder: Path, name: str) -> Relation:
    """Write tables with the same columns into one Parquet file; ordered columns are stored as text."""
    import pyarrow.parquet as pq

    path, orders = folder / f"{name}.parquet", dict[str, dict[str, None]]()
    writer = None
    try:
        for table in tables:  # an error of the source is not one of the disk
            _note_orders(table, orders)
            stored = pa.table([_as_plain(column) for column in table.columns], names=table.column_names)
            if writer is None:
                writer = without_cause(
                    partial(pq.ParquetWriter, path, stored.schema, compression="lz4"), OSError, _no_space
                )
            without_cause(partial(writer.write_table, stored.cast(writer.schema)), OSError, _no_space)
    finally:
        if writer is not None:
            without_cause(writer.close, OSError, _no_space)
    if writer is None:
        raise ReadError("A table must have rows.", found="no rows")
    return Relation.of([path], {name: tuple(values) for name, values in orders.items()})


def plain_batches(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield batches with the few types that tables have."""
    kinds: Mapping[str, Any] = {}
    for arrow in batches:
        table = Table.from_arrow(arrow, kinds)
        kinds = table.kinds  # the kinds do not matter here; they are not inferred again
        yield table.arrow


def _no_space(error: Exception) -> OptionError:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return OptionError(f"Temporary rows cannot be written: {reason}.", fix="free space on the disk of the target")


def orders_in(files: Iterable[Path]) -> dict[str, tuple[str, ...]]:
    """Return the categories of ordered columns of Parquet files, which only Arrow reads: a row per group tells."""
    import pyarrow.parquet as pq

    orders: dict[str, dict[str, None]] = {}
    for path in files:
        with without_cause(partial(pq.ParquetFile, path), ERRORS, partial(_broken, path)) as file:
            names = [one.name for one in file.schema_arrow if pt.is_dictionary(one.type) and one.type.ordered]
            for group in range(file.num_row_groups if names else 0):
                rows = file.iter_batches(batch_size=1, row_groups=[group], columns=names)
                for batch in islice(items_without_cause(rows, ERRORS, partial(_broken, path)), 1):
                    _note_orders(pa.Table.from_batches([batch]), orders)
    return {name: tuple(values) for name, values in orders.items()}


def _note_orders(table: pa.Table, orders: dict[str, dict[str, None]]) -> None:
    for one in table.schema:
        if pt.is_dictionary(one.type) and one.type.ordered:
            words = orders.setdefault(one.name, {})
            for chunk in table.column(one.name).chunks:
                words.update(dict.fromkeys(chunk.dictionary.to_pylist()))


def _as_plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column.cast(pa.string()) if pt.is_null(column.type) or pt.is_large_string(column.type) else column


EXACTLY_COUNTED = 5_000_000  # rows up to which distinct values are counted exactly; more are estimated within about 3 %


@dataclass(frozen=True, repr=False)
class OutOfCoreTable:
    """Rows in files with their schema."""

    stored: StoredRows
    schema: Schema

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self.stored.kinds

    @property
    def rows(self) -> int:
        return self.stored.rows

    @property
    def with_all_columns(self) -> OutOfCoreTable:
        return replace(self, schema=without_identifiers(self.schema))

    def only(self, names: Sequence[str]) -> OutOfCoreTable:
        return OutOfCoreTable(self.stored.select(names), others_of(self.schema, names))

    @property
    def releasable(self) -> StoredRows:
        """All columns except identifiers."""
        return self.stored.select([column.name for column in self.schema.without(Role.IDENTIFIER).columns])


def rows_of(
    relation: Relation, facts_of: Callable[..., Mapping[str, ColumnFacts]], given: Mapping[str, Kind] | None = None
) -> StoredRows:
    """Return the rows of a relation with the kinds of all columns: ``given``, or as ``kinds.kind_of`` finds them."""
    rows = relation.rows
    if not rows:
        raise TableError("A table must have rows to be released.", found="no rows")
    if given is not None:
        return StoredRows(relation, dict(given), rows)
    integers = [name for name, kind in relation.types.items() if pt.is_integer(kind)]
    texts = [name for name, kind in relation.types.items() if is_text(kind) and name not in relation.orders]
    facts = {**facts_of(integers), **facts_of(texts, count_distinct=True)}
    return StoredRows(relation, {name: _kind(name, relation, facts.get(name)) for name in relation.types}, rows)


def _kind(name: str, relation: Relation, facts: ColumnFacts | None) -> Kind:
    kind = relation.types[name]
    if name in relation.orders or pt.is_dictionary(kind):
        return Kind.ORDERED if name in relation.orders else Kind.NOMINAL
    if facts is None:
        if pt.is_boolean(kind):
            return Kind.BOOLEAN
        if pt.is_date(kind) or pt.is_timestamp(kind):
            return Kind.DATE
        return Kind.NOMINAL if pt.is_null(kind) else Kind.CONTINUOUS
    if pt.is_integer(kind):
        return Kind.BOOLEAN if (facts.low, facts.high) == (0.0, 1.0) else Kind.WHOLE
    free = facts.present >= TEXT_ROWS and facts.distinct_values >= TEXT_SHARE * facts.present
    return Kind.TEXT if free else Kind.NOMINAL


def column_facts(counts: Mapping[str, Any], position: int, kind: Kind, stored: pa.DataType) -> ColumnFacts:
    """Return the facts of a column from the row of a query, in which the names of counts end with its position."""
    low, high = (counts.get(f"{end}{position}") for end in ("low", "high"))
    present = counts[f"present{position}"]
    distinct = counts.get(f"distinct{position}")
    return ColumnFacts(
        kind=kind,
        rows=counts["rows"],
        missing=counts["rows"] - present,
        is_floating=bool(pt.is_floating(stored)),
        low=math.nan if low is None else low,
        high=math.nan if high is None else high,
        infinite=counts.get(f"infinite{position}") or 0,
        distinct=None if distinct is None else min(distinct, present),
        blanks=int(counts.get(f"blanks{position}") or 0),
    )


def require_finite(facts: Mapping[str, ColumnFacts]) -> None:
    """Raise if a column has infinite numbers."""
    infinite = [f"{one.infinite:,} in {name!r}" for name, one in facts.items() if one.infinite]
    if infinite:
        raise TableError(
            "Numbers must be finite.",
            found=f"infinite numbers, {', '.join(infinite)}",
            fix="make them missing, or remove these rows",
        )
