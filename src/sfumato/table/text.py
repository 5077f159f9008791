"""A text file as a table: split into cells, headed or not, each column typed by all of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import OptionError, ReadError, TableError
from sfumato.table.dialect import Dialect, decoded, dialect_of, widths
from sfumato.table.type_inference import Spelling, is_value, typed

BLOCK_BYTES = 1 << 23  # no line may be longer


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the caller said of a text file; None is found out."""

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
    """A text file split into cells: every cell a string, the first line among them."""

    lines: pa.Table
    dialect: Dialect
    file: str

    @classmethod
    def of(cls, raw: bytes, file: str, wishes: Wishes) -> Text:
        """Decode and split."""
        text = decoded(raw, wishes.encoding, file=file)
        if not text or text.isspace():
            raise ReadError(f"{file} is empty.")
        dialect = dialect_of(text, wishes.separator, file=file)
        if dialect.padded and dialect.quote:  # the parser knows a quote only right after the separator
            between, mark = dialect.separator.encode(), dialect.quote.encode()
            text = text.replace(between + b" " + mark, between + mark)
        return cls(_split(text, dialect, file), dialect, file)

    def header(self, wishes: Wishes) -> list[str] | None:
        """The names in the first line; None where it is a row."""
        first = [str(column[0].as_py()).strip() for column in self.lines.columns]
        headed = self._looks_headed(first, wishes) if wishes.header is None else wishes.header
        return [name or f"column_{number}" for number, name in enumerate(first, 1)] if headed else None

    def _looks_headed(self, first: list[str], wishes: Wishes) -> bool:
        """Whether the first line is names: no value among them, and words above numbers or words that never recur.

        A value in it makes it a row, for values taken for names would be shown.
        """
        if any(is_value(cell) for cell in first):
            return False
        body = [column.slice(1) for column in self.lines.columns]
        spelling = _spelling(self.dialect, wishes)
        if any(cell and not _are_words(column, spelling) for cell, column in zip(first, body, strict=True)):
            return True
        return not any(cell and column.index(cell).as_py() >= 0 for cell, column in zip(first, body, strict=True))


def typed_together(texts: Sequence[Text], wishes: Wishes) -> pa.Table:
    """The rows of text files that have the same columns, each column typed by its cells in all of them."""
    names = texts[0].header(wishes)
    width = texts[0].lines.num_columns
    for text in texts[1:]:
        if text.lines.num_columns != width or (names is not None and text.header(wishes) != names):
            raise TableError(
                "Files that are read together must have the same columns.",
                found=f"other columns in {text.file} than in {texts[0].file}",
                fix="read them one by one",
            )
    rows = pa.concat_tables([text.lines.slice(0 if names is None else 1) for text in texts])
    spelling = _spelling(texts[0].dialect, wishes)
    columns = [typed(column, spelling) for column in rows.columns]
    return pa.table(columns, names=names or [f"column_{number}" for number in range(1, width + 1)])


def _spelling(dialect: Dialect, wishes: Wishes) -> Spelling:
    return Spelling(marks=wishes.missing, decimal=wishes.decimal, commas_separate=dialect.separator == ",")


def _are_words(column: pa.ChunkedArray, spelling: Spelling) -> bool:
    return bool(typed(column, spelling).type == pa.string())


def _split(text: bytes, dialect: Dialect, file: str) -> pa.Table:
    width = next((cells for cells, _ in widths(text, dialect)), 0)
    ragged: list[int] = []

    def left_out(row: Any) -> str:
        ragged.append(row.actual_columns)
        return "skip"

    lines = _parsed(text, dialect, width, left_out)
    if lines is None or any(column.type != pa.string() for column in lines.columns):
        raise ReadError(f"{file} cannot be split into cells.", fix="name the separator, or look for overlong lines")
    if ragged:
        line = next((line for cells, line in widths(text, dialect) if cells != width), None)
        where = f", the first at line {line:,}" if line else ""
        raise ReadError(
            f"Every line of {file} must have the same number of cells, {lines.num_columns}.",
            found=f"{len(ragged):,} with {' or '.join(map(str, sorted(set(ragged))[:5]))}{where}",
            fix="correct these lines, or name the separator",
        )
    if dialect.padded:
        return pa.table([pc.utf8_trim_whitespace(cells) for cells in lines.columns], names=lines.column_names)
    return lines


def _parsed(text: bytes, dialect: Dialect, width: int, left_out: Any) -> pa.Table | None:
    """Every cell as a string; None where the parser gives up."""
    from pyarrow import csv

    try:
        return csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(autogenerate_column_names=True, block_size=BLOCK_BYTES),
            parse_options=csv.ParseOptions(
                delimiter=dialect.separator,
                quote_char=dialect.quote or False,
                newlines_in_values=dialect.quote is not None,
                invalid_row_handler=left_out,
            ),
            convert_options=csv.ConvertOptions(
                column_types={f"f{number}": pa.string() for number in range(width)}, strings_can_be_null=False
            ),
        )
    except (pa.ArrowException, ValueError):  # it quotes cells, and ends here
        return None
