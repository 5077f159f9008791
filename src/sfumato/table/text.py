"""Convert a text file to a table: split it into cells, detect a header, and infer the type of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, ReadError, TableError
from sfumato.table.dialect import Dialect, decoded, dialect_of, widths
from sfumato.table.type_inference import Spelling, is_value, typed

BLOCK_BYTES = 1 << 23  # longest possible line


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of the caller for reading a text file; None means that the option is detected."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] | None = None
    header: bool | None = None

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise OptionError("decimal must be '.' or ','.")


@dataclass(frozen=True, repr=False)
class Text:
    """A text file split into cells; every cell is a string, and the first line is included."""

    lines: pa.Table
    dialect: Dialect
    file: str

    @classmethod
    def of(cls, raw: bytes, file: str, options: TextOptions) -> Text:
        """Decode the bytes and split the text into cells."""
        text = decoded(raw, options.encoding, file=file)
        if not text or text.isspace():
            raise ReadError(f"{file} is empty.")
        dialect = dialect_of(text, options.separator, file=file)
        if dialect.padded and dialect.quote:  # the parser recognises a quote only directly after the separator
            between, mark = dialect.separator.encode(), dialect.quote.encode()
            text = text.replace(between + b" " + mark, between + mark)
        return cls(_split(text, dialect, file), dialect, file)

    def header(self, options: TextOptions) -> list[str] | None:
        """Return the column names in the first line, or None if it is a row of data."""
        first = [str(column[0].as_py()).strip() for column in self.lines.columns]
        is_header = self._looks_like_header(first, options) if options.header is None else options.header
        return [name or f"column_{number}" for number, name in enumerate(first, 1)] if is_header else None

    def _looks_like_header(self, first: list[str], options: TextOptions) -> bool:
        """Return whether the first line contains names and not values.

        It does if none of its cells is a value, and if either some column below a name is not text, or no name occurs
        again in its column. A line with a value is data, because a value that is mistaken for a name would be shown.
        """
        if any(is_value(cell) for cell in first):
            return False
        body = [column.slice(1) for column in self.lines.columns]
        spelling = _spelling(self.dialect, options)
        if any(cell and not _is_text(column, spelling) for cell, column in zip(first, body, strict=True)):
            return True
        return not any(cell and column.index(cell).as_py() >= 0 for cell, column in zip(first, body, strict=True))


def typed_together(texts: Sequence[Text], options: TextOptions) -> pa.Table:
    """Concatenate text files that have the same columns, and infer the type of each column from all of them."""
    names = texts[0].header(options)
    width = texts[0].lines.num_columns
    for text in texts[1:]:
        if text.lines.num_columns != width or (names is not None and text.header(options) != names):
            raise TableError(
                "Files that are read together must have the same columns.",
                found=f"different columns in {text.file} and {texts[0].file}",
                fix="read them one by one",
            )
    rows = pa.concat_tables([text.lines.slice(0 if names is None else 1) for text in texts])
    spelling = _spelling(texts[0].dialect, options)
    columns = [typed(column, spelling) for column in rows.columns]
    return pa.table(columns, names=names or [f"column_{number}" for number in range(1, width + 1)])


def _spelling(dialect: Dialect, options: TextOptions) -> Spelling:
    return Spelling(marks=options.missing, decimal=options.decimal, commas_separate=dialect.separator == ",")


def _is_text(column: pa.ChunkedArray, spelling: Spelling) -> bool:
    return bool(typed(column, spelling).type == pa.string())


def _split(text: bytes, dialect: Dialect, file: str) -> pa.Table:
    width = next((cells for cells, _ in widths(text, dialect)), 0)
    ragged: list[int] = []

    def on_ragged_row(row: Any) -> str:
        ragged.append(row.actual_columns)
        return "skip"

    lines = _parsed(text, dialect, width, on_ragged_row)
    if lines is None or any(column.type != pa.string() for column in lines.columns):
        raise ReadError(f"{file} cannot be split into cells.", fix="pass the separator, or check for very long lines")
    if ragged:
        line = next((line for cells, line in widths(text, dialect) if cells != width), None)
        where = f", the first at line {line:,}" if line else ""
        counted = "1 line" if len(ragged) == 1 else f"{len(ragged):,} lines"
        raise ReadError(
            f"Every line of {file} must have the same number of cells, {lines.num_columns}.",
            found=f"{counted} with {' or '.join(map(str, sorted(set(ragged))[:5]))}{where}",
            fix="correct these lines, or pass the separator",
        )
    if dialect.padded:
        return pa.table([pc.utf8_trim_whitespace(cells) for cells in lines.columns], names=lines.column_names)
    return lines


def _parsed(text: bytes, dialect: Dialect, width: int, on_ragged_row: Any) -> pa.Table | None:
    """Parse every cell as a string; None if the parser fails."""
    from pyarrow import csv

    try:
        return csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                newlines_in_values=dialect.quote is not None,
                invalid_row_handler=on_ragged_row,
            ),
            convert_options=csv.ConvertOptions(
                column_types={f"f{number}": pa.string() for number in range(width)}, strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, ValueError):  # the error quotes cells, so it is dropped here
        return None
