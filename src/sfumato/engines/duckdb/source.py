"""Bring any source into Parquet files that DuckDB and Arrow read alike.

Parquet files with ordinary types are used where they are. Everything else is written once into the workspace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from sfumato.engines.duckdb.text_files import TextFiles
from sfumato.engines.stored.relation import Relation, StoredRows
from sfumato.engines.stored.spool import spooled
from sfumato.errors import ReadError
from sfumato.schema.conversion import converted
from sfumato.table.frames import as_table
from sfumato.table.read import FileSource, file_format, matching_files
from sfumato.table.sources import TableSource
from sfumato.table.table import Table

if TYPE_CHECKING:
    from sfumato.engines.duckdb.connection import Connection
    from sfumato.schema.columns import Column

BATCH_ROWS = 1 << 17
EXPANSION = 6  # memory that reading a text file takes, as a multiple of its size


def relation_of(source: Any, folder: Path, connection: Connection, memory: int) -> Relation:
    """Return the rows of a source as a relation; what must be copied goes into ``folder``."""
    if isinstance(source, str | Path):
        source = FileSource(source)
    if isinstance(source, TableSource) and not isinstance(source, FileSource):
        return spooled(_plain(source.batches()), folder, "source")
    if not isinstance(source, FileSource):
        return spooled(_batches(as_table(source)), folder, "source")
    files = matching_files(source.path)
    formats = {file_format(file) for file in files}
    if formats == {"parquet"}:
        source.require_no_header(files[0])
        relation = Relation.of(files)
        return relation if _is_plain(relation) else spooled(_read_plain(relation), folder, "source")
    if sum(file.stat().st_size for file in files) * EXPANSION <= memory:
        return spooled(_batches(as_table(source)), folder, "source")
    if formats != {"text"}:
        raise ReadError(
            "Only Parquet and text files may be larger than the memory.",
            found=f"files in the formats {', '.join(sorted(formats))}",
            fix="write the table as Parquet, or a larger --memory",
        )
    text = TextFiles.of(files, source.options)
    return text.typed(spooled(text.batches(), folder, "text"), folder, connection)


def with_declared_kinds(
    rows: StoredRows, columns: Iterable[Column], folder: Path, connection: Connection
) -> StoredRows:
    """Return the rows with the kinds and orders that the schema declares; stored types change only where needed."""
    declared = [column for column in columns if column.kind is not None or column.domain is not None or column.words]
    if not declared:
        return rows
    texts = [
        column.name
        for column in declared
        if str(column.kind) == "date" and pt.is_string(rows.relation.types[column.name])
    ]
    relation = TextFiles.dates(rows.relation, texts, folder, connection) if texts else rows.relation
    typed = StoredRows(relation, rows.kinds, rows.rows)
    probe = converted(declared, next(table for _, table in typed.tables(BATCH_ROWS)))
    if all(probe.arrow.schema.field(name).type == kind for name, kind in relation.types.items()):
        for _, table in typed.tables(BATCH_ROWS, [column.name for column in declared]):
            converted(declared, table)  # raises where a cell does not fit
        return StoredRows(relation, dict(probe.kinds), rows.rows)
    stored = spooled((converted(declared, table).arrow for _, table in typed.tables(BATCH_ROWS)), folder, "declared")
    return StoredRows(stored, dict(probe.kinds), rows.rows)


def _batches(table: Table) -> Iterator[pa.Table]:
    for start in range(0, max(table.rows, 1), BATCH_ROWS):
        yield table.arrow.slice(start, BATCH_ROWS)


def _read_plain(relation: Relation) -> Iterator[pa.Table]:
    yield from _plain(arrow for _, arrow in relation.batches(list(relation.types), BATCH_ROWS))


def _plain(batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield batches with the few types that tables have."""
    kinds: Mapping[str, Any] = {}
    for arrow in batches:
        table = Table.from_arrow(arrow, kinds)
        kinds = table.kinds  # the kinds do not matter here; they are not inferred again
        yield table.arrow


def _is_plain(relation: Relation) -> bool:
    """Whether DuckDB and Arrow read all columns alike."""
    tests = (pt.is_boolean, pt.is_integer, pt.is_float32, pt.is_float64, pt.is_decimal, pt.is_date32, pt.is_string)
    return all(
        any(test(kind) for test in tests) or (pt.is_timestamp(kind) and kind.tz is None)
        for kind in relation.types.values()
    )
