"""Text files larger than memory: split into cells as a stream, and typed by all of their cells.

A type must fit every cell, as in :mod:`sfumato.table.type_inference`. It is inferred from the different texts of a
column, which are usually few; a column with very many of them is tried as plain numbers or ISO dates by SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.stored.relation import Relation, quoted_text
from sfumato.engines.stored.spool import spooled
from sfumato.errors import ReadError, TableError
from sfumato.table.dialect import Dialect
from sfumato.table.text import BLOCK_BYTES, Text, TextOptions, column_names, spelling_of
from sfumato.table.type_inference import MARKS, Spelling, typed, without

if TYPE_CHECKING:
    from sfumato.engines.duckdb.connection import Connection

HEAD_BYTES = 1 << 20  # from which separator, quotes and header are detected
MOST_TEXTS = 2_000_000  # different texts of a column that are held in memory
BATCH_ROWS = 1 << 17
PLAIN = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.date32(): "DATE", pa.timestamp("us"): "TIMESTAMP"}
Convert = Callable[[pa.ChunkedArray], pa.ChunkedArray]


@dataclass(frozen=True, repr=False)
class TextFiles:
    """Text files with the same columns."""

    files: tuple[Path, ...]
    dialect: Dialect
    encoding: str
    names: tuple[str, ...]
    has_header: bool
    spelling: Spelling

    @classmethod
    def of(cls, files: Sequence[Path], options: TextOptions) -> TextFiles:
        """Detect how the files are written, from the head of the first."""
        head, encoding = _head(files[0], options)
        text = Text.of(head, files[0].name, options)
        header = text.header(options)
        names = column_names([text], header, options)
        found = cls(tuple(files), text.dialect, encoding, names, header is not None, spelling_of(text.dialect, options))
        for file in files[1:]:
            found._require_same(file, options, header)
        return found

    def _require_same(self, file: Path, options: TextOptions, header: Sequence[str] | None) -> None:
        text = Text.of(_head(file, options)[0], file.name, options)
        if text.lines.num_columns != len(self.names) or (header is not None and text.header(options) != header):
            raise TableError(
                "Files that are read together must have the same columns.",
                found=f"different columns in {file.name} and {self.files[0].name}",
                fix="read them one by one",
            )

    def batches(self) -> Iterator[pa.Table]:
        """Yield all cells as text."""
        for file in self.files:
            yield from self._cells(file)

    def _cells(self, file: Path) -> Iterator[pa.Table]:
        from pyarrow import csv

        ragged: list[int] = []

        def on_ragged_row(row: Any) -> str:
            ragged.append(row.actual_columns)
            return "skip"

        width, first, failed = len(self.names), self.has_header, False
        try:
            reader = csv.open_csv(
                pa.input_stream(str(file), compression="detect"),
                read_options=csv.ReadOptions(
                    autogenerate_column_names=True, block_size=BLOCK_BYTES, encoding=self.encoding
                ),
                parse_options=csv.ParseOptions(
                    delimiter=self.dialect.separator,
                    quote_char=self.dialect.quote or False,
                    newlines_in_values=self.dialect.quote is not None,
                    invalid_row_handler=on_ragged_row,
                ),
                convert_options=csv.ConvertOptions(
                    column_types={f"f{number}": pa.string() for number in range(width)}, strings_can_be_null=False
                ),
            )
            for batch in reader:
                lines = pa.Table.from_batches([batch]).slice(1 if first else 0)
                first = False
                columns = [pc.utf8_trim_whitespace(one) if self.dialect.padded else one for one in lines.columns]
                yield pa.table(columns, names=list(self.names))
        except (pa.ArrowException, UnicodeError, ValueError):  # the error quotes cells, so it is dropped here
            failed = True
        if failed:
            raise ReadError(f"{file.name} cannot be split into cells.", fix="pass the separator or the encoding")
        if ragged:
            raise ReadError(
                f"Every line of {file.name} must have the same number of cells, {width}.",
                found=f"{len(ragged):,} lines with {' or '.join(map(str, sorted(set(ragged))[:5]))}",
                fix="correct these lines, or pass the separator",
            )

    def typed(self, texts: Relation, folder: Path, connection: Connection) -> Relation:
        """Return the rows with the types that fit all cells."""
        converts = {name: converter(texts, name, self.spelling, connection) for name in texts.types}
        found = spooled(_converted(texts, converts), folder, "source")
        for file in texts.files:
            file.unlink(missing_ok=True)
        return found

    @staticmethod
    def dates(relation: Relation, names: Sequence[str], folder: Path, connection: Connection) -> Relation:
        """Return a relation in which these text columns are dates, if all their cells are."""
        converts = {name: converter(relation, name, Spelling(), connection) for name in names}
        return spooled(_converted(relation, converts), folder, "dates")


def converter(texts: Relation, name: str, spelling: Spelling, connection: Connection) -> Convert:
    """Return the conversion of a text column to the type that fits all its cells."""
    column, source = texts.column(name), texts.sql([name])
    query = f"SELECT DISTINCT {column} FROM {source} WHERE {column} IS NOT NULL LIMIT {MOST_TEXTS + 1}"
    different = connection.table(query).column(0).cast(pa.string())
    values = typed(different, spelling)
    if len(different) <= MOST_TEXTS:
        known, answers = different.combine_chunks(), values
        return lambda cells: answers.take(pc.index_in(cells, value_set=known))
    marks = sorted(MARKS.union(spelling.marks))
    kind = next((one for one in _candidates(values.type) if _fits(texts, name, one, marks, connection)), pa.string())
    return lambda cells: without(cells, marks).cast(kind)


def _candidates(kind: pa.DataType) -> list[pa.DataType]:
    candidates = [kind] if kind in PLAIN else []
    return candidates + ([pa.float64()] if kind == pa.int64() else [])


def _fits(texts: Relation, name: str, kind: pa.DataType, marks: Sequence[str], connection: Connection) -> bool:
    """Whether every cell is a missing mark, or a value of this type and not a code with leading zeros."""
    column, listed = texts.column(name), ", ".join(map(quoted_text, marks))
    wrong = f"TRY_CAST({column} AS {PLAIN[kind]}) IS NULL OR regexp_matches({column}, '^0[0-9]')"
    query = f"SELECT count(*) AS wrong FROM {texts.sql([name])} WHERE {column} NOT IN ({listed}) AND ({wrong})"
    return not connection.row(query)["wrong"]


def _converted(texts: Relation, converts: dict[str, Convert]) -> Iterator[pa.Table]:
    for _, batch in texts.batches(list(texts.types), BATCH_ROWS):
        columns = [
            converts[name](cells) if name in converts else cells
            for name, cells in zip(batch.column_names, batch.columns, strict=True)
        ]
        yield pa.table(columns, names=batch.column_names)


def _head(file: Path, options: TextOptions) -> tuple[bytes, str]:
    """Return whole lines from the start of a file, and the encoding of the file."""
    from sfumato.table.dialect import encoding_of

    with pa.input_stream(str(file), compression="detect") as stream:
        raw = stream.read(HEAD_BYTES)
    if not raw:
        raise ReadError(f"{file.name} is empty.")
    end = raw.rfind(b"\n") + 1
    head = raw[:end] if len(raw) == HEAD_BYTES and end else raw
    return head, encoding_of(head, options.encoding, file=file.name)
