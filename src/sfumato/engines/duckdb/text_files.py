"""Text files larger than memory: split into cells as a stream, and typed by all of their cells.

A type must fit every cell, as in :mod:`sfumato.table.type_inference`. It is inferred from the different texts of a
column, which are usually few; a column with very many of them is tried as plain numbers or ISO dates by SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.stored.relation import Relation, quoted_text
from sfumato.engines.stored.spool import spooled
from sfumato.table.text import CountedCells, Text, TextColumns, TextOptions, stream_cells, warn_of_cells
from sfumato.table.type_inference import MARKS, Spelling, typed, without

if TYPE_CHECKING:
    from sfumato.engines.duckdb.connection import Connection
    from sfumato.table.dialect import Dialect

MOST_TEXTS = 2_000_000  # different texts of a column that are held in memory
BATCH_ROWS = 1 << 17
PLAIN = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}
Convert = Callable[[pa.ChunkedArray], pa.ChunkedArray]


@dataclass(frozen=True, repr=False)
class TextFiles:
    """Text files with the same columns, each of which may be written differently."""

    dialects: dict[Path, Dialect]
    columns: TextColumns

    @classmethod
    def of(cls, files: Sequence[Path], options: TextOptions) -> TextFiles:
        """Detect how the files are written, from the head of each."""
        dialects = {}

        def heads() -> Iterator[Text]:  # one after the other, because all of them may be large
            for file in files:
                text = Text.of_head(file, options)
                dialects[file] = text.dialect
                yield text

        return cls(dialects, TextColumns.of(heads(), options))

    def batches(self) -> Iterator[pa.Table]:
        """Yield all cells as text."""
        for file, dialect in self.dialects.items():
            yield from stream_cells(file, dialect, self.columns)

    def typed(self, texts: Relation, folder: Path, connection: Connection) -> Relation:
        """Return the rows with the types that fit all cells, and warn of cells that look like mistakes."""
        columns = {name: TypedTexts.of(texts, name, self.columns.spelling, connection) for name in texts.types}
        warn_of_cells({name: column.cells for name, column in columns.items() if column.cells is not None})
        converts = {name: column.convert for name, column in columns.items()}
        relation = spooled(_convert_batches(texts, converts), folder, "source")
        for file in texts.files:
            file.unlink(missing_ok=True)
        return relation

    @staticmethod
    def dates(relation: Relation, names: Sequence[str], folder: Path, connection: Connection) -> Relation:
        """Return a relation in which these text columns are dates, if all their cells are."""
        converts = {name: TypedTexts.of(relation, name, Spelling(), connection).convert for name in names}
        return spooled(_convert_batches(relation, converts), folder, "dates")


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
        values = typed(different, spelling)
        if len(different) <= MOST_TEXTS:
            known = different.combine_chunks()
            cells = CountedCells(values, counted.column(1).cast(pa.int64()))
            return cls(lambda texts: values.take(pc.index_in(texts, value_set=known)), cells)
        marks = sorted(MARKS.union(spelling.marks))
        candidates = (one for one in _candidates(values.type) if _fits(texts, name, one, marks, connection))
        kind = next(candidates, pa.string())
        return cls(lambda cells: without(cells, marks).cast(kind), None)


def _candidates(kind: pa.DataType) -> list[pa.DataType]:
    candidates = [kind] if kind in PLAIN else []
    return candidates + ([pa.float64()] if kind == pa.int64() else [])


def _fits(texts: Relation, name: str, kind: pa.DataType, marks: Sequence[str], connection: Connection) -> bool:
    """Whether every cell is a missing mark, or a value of this type and not a code with leading zeros."""
    column, listed = texts.column(name), ", ".join(map(quoted_text, marks))
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
