"""Bring any source into Parquet files that DuckDB and Arrow read alike; text files are typed as a stream.

Parquet files with ordinary types are used where they are. Everything else is written once into the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.engines.duckdb.scan import Connection
from sfumato.engines.out_of_core.source import Relation, StoredRows, plain_batches, quote_text, spool_tables
from sfumato.errors import ReadError
from sfumato.formats.dialect import Dialect
from sfumato.formats.raw_files import file_format
from sfumato.formats.text import CountedCells, Text, TextColumns, TextOptions, stream_cells, warn_of_cells
from sfumato.formats.type_inference import Spelling, infer_type, without_marks
from sfumato.schema.columns import Column
from sfumato.schema.schema import convert
from sfumato.sources.base import TableSource
from sfumato.sources.files import FileSource, Partitions, matching_files
from sfumato.sources.frames import as_table
from sfumato.table.kinds import MARKS
from sfumato.table.table import Table

# Text files larger than memory: split into cells as a stream, and typed by all of their cells.
#
# A type must fit every cell, as in :mod:`sfumato.formats.type_inference`. It is inferred from the different texts of a
# column, which are usually few; a column with very many of them is tried as plain numbers or ISO dates by SQL.


MOST_TEXTS = 2_000_000  # different texts of a column that are held in memory
BATCH_ROWS = 1 << 17
PLAIN = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}
Convert = Callable[[pa.ChunkedArray], pa.ChunkedArray]


@dataclass(frozen=True, repr=False)
class TextFiles:
    """Text files with the same columns, each of which may be written differently."""

    dialects: dict[Path, Dialect]
    columns: TextColumns
    partitions: Partitions

    @classmethod
    def of(cls, files: Sequence[Path], options: TextOptions, partitions: Partitions) -> TextFiles:
        """Detect how the files are written, from the head of each."""
        dialects = {}

        def heads() -> Iterator[Text]:  # one after the other, because all of them may be large
            for file in files:
                text = Text.of_head(file, options)
                dialects[file] = text.dialect
                yield text

        return cls(dialects, TextColumns.of(heads(), options), partitions)

    def batches(self) -> Iterator[pa.Table]:
        """Yield all cells as text."""
        for number, (file, dialect) in enumerate(self.dialects.items()):
            for cells in stream_cells(file, dialect, self.columns):
                yield self.partitions.add_to(cells, [number] * cells.num_rows, as_text=True)

    def infer_types(self, texts: Relation, folder: Path, connection: Connection) -> Relation:
        """Return the rows with the types that fit all cells, and warn of cells that look like mistakes."""
        columns = {name: TypedTexts.of(texts, name, self.columns.spelling, connection) for name in texts.types}
        warn_of_cells({name: column.cells for name, column in columns.items() if column.cells is not None})
        converts = {name: column.convert for name, column in columns.items()}
        relation = spool_tables(_convert_batches(texts, converts), folder, "source")
        for file in texts.files:
            file.unlink(missing_ok=True)
        return relation

    @staticmethod
    def dates(relation: Relation, names: Sequence[str], folder: Path, connection: Connection) -> Relation:
        """Return a relation in which these text columns are dates, if all their cells are."""
        converts = {name: TypedTexts.of(relation, name, Spelling(), connection).convert for name in names}
        return replace(spool_tables(_convert_batches(relation, converts), folder, "dates"), orders=relation.orders)


@dataclass(frozen=True, repr=False)
class TypedTexts:
    """The conversion of a text column to the type that fits all its cells."""

    convert: Convert
    cells: CountedCells | None  # the different values; None if they are too many

    @classmethod
    def of(cls, texts: Relation, name: str, spelling: Spelling, connection: Connection) -> TypedTexts:
        """Find the type by the different texts, or by trying it on all cells if there are too many of them."""
        column, source = texts.column(name), texts.sql([name])
        query = f"SELECT {column}, count(*) FROM {source} WHERE {column} IS NOT NULL GROUP BY 1 LIMIT {MOST_TEXTS + 1}"
        counted = connection.table(query)
        different = counted.column(0).cast(pa.string())
        values = infer_type(different, spelling)
        if len(different) <= MOST_TEXTS:
            known = different.combine_chunks()
            cells = CountedCells(values, counted.column(1).cast(pa.int64()))
            return cls(lambda texts: values.take(pc.index_in(texts, value_set=known)), cells)
        marks = sorted(MARKS.union(spelling.marks))
        candidates = (one for one in _candidates(values.type) if _fits(texts, name, one, marks, connection))
        kind = next(candidates, pa.string())
        return cls(lambda cells: without_marks(cells, marks).cast(kind), None)


def _candidates(kind: pa.DataType) -> list[pa.DataType]:
    candidates = [kind] if kind in PLAIN else []
    return candidates + ([pa.float64()] if kind == pa.int64() else [])


def _fits(texts: Relation, name: str, kind: pa.DataType, marks: Sequence[str], connection: Connection) -> bool:
    """Whether every cell is a missing mark, or a value of this type and not a code with leading zeros."""
    column, listed = texts.column(name), ", ".join(map(quote_text, marks))
    wrong = f"TRY_CAST({column} AS {PLAIN[kind]}) IS NULL OR regexp_matches({column}, '^0[0-9]')"
    query = f"SELECT count(*) AS wrong FROM {texts.sql([name])} WHERE {column} NOT IN ({listed}) AND ({wrong})"
    return not connection.row(query)["wrong"]


def _convert_batches(texts: Relation, converts: dict[str, Convert]) -> Iterator[pa.Table]:
    for _, batch in texts.batches(list(texts.types), BATCH_ROWS):
        columns = [
            converts[name](cells) if name in converts else cells
            for name, cells in zip(batch.column_names, batch.columns, strict=True)
        ]
        yield pa.table(columns, names=batch.column_names)


EXPANSION = 6  # memory that reading a text file takes, as a multiple of its size


def relation_of(source: Any, folder: Path, connection: Connection, memory: int) -> Relation:
    """Return the rows of a source as a relation; what must be copied goes into ``folder``."""
    if isinstance(source, str | Path):
        source = FileSource(source)
    if isinstance(source, TableSource) and not isinstance(source, FileSource):
        return spool_tables(plain_batches(source.batches()), folder, "source")
    if not isinstance(source, FileSource):
        return spool_tables(_batches(as_table(source)), folder, "source")
    local = source.local
    files = matching_files(local)
    partitions = Partitions.of(local, files)
    formats = {file_format(file) for file in files}
    if formats == {"parquet"}:
        source.require_no_header(files[0])
        relation = Relation.of(files)
        if _is_plain(relation) and not partitions and not relation.is_reordered:
            return relation
        return spool_tables(plain_batches(_stored_batches(relation, partitions)), folder, "source")
    if sum(file.stat().st_size for file in files) * EXPANSION <= memory:
        return spool_tables(_batches(as_table(source)), folder, "source")
    if formats != {"text"}:
        raise ReadError(
            "Only Parquet and text files may be larger than the memory.",
            found=f"files in the formats {', '.join(sorted(formats))}",
            fix="write the table as Parquet, or a larger --memory",
        )
    text = TextFiles.of(files, source.options, partitions)
    return text.infer_types(spool_tables(text.batches(), folder, "text"), folder, connection)


def with_declared_kinds(
    rows: StoredRows, declared: Sequence[Column], folder: Path, connection: Connection
) -> StoredRows:
    """Return the rows with the kinds and orders that the schema declares; stored types change only where needed."""
    texts = [
        column.name
        for column in declared
        if str(column.kind) == "date" and pt.is_string(rows.relation.types[column.name])
    ]
    relation = TextFiles.dates(rows.relation, texts, folder, connection) if texts else rows.relation
    typed = StoredRows(relation, rows.kinds, rows.rows)
    probe = convert(declared, next(table for _, table in typed.tables(BATCH_ROWS)))
    if all(probe.arrow.schema.field(name).type == kind for name, kind in relation.types.items()):
        for _, table in typed.tables(BATCH_ROWS, [column.name for column in declared]):
            convert(declared, table)  # raises where a cell does not fit
        return StoredRows(relation, dict(probe.kinds), rows.rows)
    stored = spool_tables((convert(declared, table).arrow for _, table in typed.tables(BATCH_ROWS)), folder, "declared")
    return StoredRows(stored, dict(probe.kinds), rows.rows)


def _batches(table: Table) -> Iterator[pa.Table]:
    for start in range(0, max(table.rows, 1), BATCH_ROWS):
        yield table.arrow.slice(start, BATCH_ROWS)


def _stored_batches(relation: Relation, partitions: Partitions) -> Iterator[pa.Table]:
    for number, file in enumerate(relation.files):
        one = replace(relation, files=(file,))
        for _, rows in one.batches(list(relation.types), BATCH_ROWS):
            yield partitions.add_to(rows, [number] * rows.num_rows)


def _is_plain(relation: Relation) -> bool:
    """Whether DuckDB and Arrow read all columns alike."""
    tests = (pt.is_boolean, pt.is_integer, pt.is_float32, pt.is_float64, pt.is_decimal, pt.is_date32, pt.is_string)
    return all(
        any(test(kind) for test in tests) or (pt.is_timestamp(kind) and kind.tz is None)
        for kind in relation.types.values()
    )
