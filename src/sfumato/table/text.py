"""Convert a text file to a table: split it into cells, detect a header, and infer the type of each column."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError, ReadError, SfumatoWarning, TableError
from sfumato.table.dialect import Dialect, decoded, dialect_of, widths
from sfumato.table.header import Header, judge
from sfumato.table.type_inference import Spelling, typed, unparsed_cells

BLOCK_BYTES = 1 << 23  # longest possible line
MOST_CATEGORIES = 50  # different texts of a column whose spellings are compared
CODES_OF_MISSING = frozenset(sign * (10**digits - 1) for sign in (-1, 1) for digits in range(1, 8))  # 9, -99, 999 …
FEWEST_CODES = 2  # a number that occurs once may be a value
FAR_FROM_OTHERS = 3.0  # distance to all other numbers, in multiples of their range; amounts of money have tails
FIRST_CELLS = 10_000  # a column with more of them in its first cells is not looked at further


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Options of the caller for reading a text file; None means that the option is detected."""

    separator: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = ()  # in addition to the usual marks
    header: bool | None = None
    names: tuple[str, ...] | None = None  # names of the columns; the file then has no header unless header is True
    sheet: str | None = None  # of a workbook: its name, or its number from 1
    marks_are_text: bool = False  # whether NA and other usual marks stay in columns of text

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise OptionError("decimal must be '.' or ','.")
        if self.header not in (None, True, False):
            raise OptionError("header must be True, False or None.", found=type(self.header).__name__)
        for option, texts in (("missing", self.missing), ("names", self.names or ())):
            if not all(isinstance(text, str) and _is_unicode(text) for text in texts):
                raise OptionError(f"{option} must be texts of valid characters.")

    @property
    def describe_columns(self) -> bool:
        """Whether they say something about the columns, which only text files without a format of their own need."""
        return self.header is not None or self.names is not None


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
        has_names = options.header
        if has_names is None and options.names is not None:
            has_names = first == list(options.names)
        if has_names is None:
            has_names = self._has_header(first, options)
        return [name or f"column_{number}" for number, name in enumerate(first, 1)] if has_names else None

    def _has_header(self, first: list[str], options: TextOptions) -> bool:
        """Return whether the first line contains names; warn if that is a guess, and raise if it looks like data."""
        spelling = spelling_of(self.dialect, options)
        body = [column.slice(1) for column in self.lines.columns]
        found = judge(first, body, lambda column: typed(column, spelling).type == pa.string())
        if found is Header.UNCLEAR:
            raise ReadError(
                f"The first line of {self.file} must contain column names, or you must say that it does not.",
                found="a first line that looks like a row of data",
                fix="--no-header or --header; in Python header=False or header=True; or give the names of the columns",
            )
        guesses = {
            Header.PROBABLY_NAMES: "was read as column names; if it is a row of data, pass header=False (--no-header)",
            Header.DATA: "was read as a row of data, and the columns have numbers; if it contains their names, pass "
            "header=True (--header); to name them, names=[…] (--names)",
        }
        if found in guesses:
            warnings.warn(SfumatoWarning(f"The first line of {self.file} {guesses[found]}."), stacklevel=2)
        return found in (Header.NAMES, Header.PROBABLY_NAMES)


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
    named = column_names(texts, names, options)
    return inferred(pa.table(rows.columns, names=list(named)), spelling_of(texts[0].dialect, options))


def column_names(texts: Sequence[Text], header: Sequence[str] | None, options: TextOptions) -> tuple[str, ...]:
    """Return the names of the columns: those given, those of the header, or numbered ones."""
    width = texts[0].lines.num_columns
    if options.names is not None and len(options.names) != width:
        counts = f"{len(options.names)} names for {width} columns"
        raise OptionError("names must have one name for each column.", found=counts, fix="the same number of names")
    return tuple(options.names or header or [f"column_{number}" for number in range(1, width + 1)])


def inferred(table: pa.Table, spelling: Spelling) -> pa.Table:
    """Infer the types of the text columns, and warn about those that a few cells keep from being numbers or dates."""
    columns = [typed(cells, spelling) if pt.is_string(cells.type) else cells for cells in table.columns]
    unparsed = {
        name: f"{name!r} ({count:,} of {len(cells) - cells.null_count:,})"
        for name, cells in zip(table.column_names, columns, strict=True)
        if pt.is_string(cells.type) and (count := unparsed_cells(cells))
    }
    if unparsed:
        text = "are text because a few cells are not numbers or dates"
        fix = "if such a cell means a missing value, name it with missing= (--missing)"
        warnings.warn(SfumatoWarning(f"Columns that {text}: {', '.join(unparsed.values())}; {fix}."), stacklevel=2)
    named = dict(zip(table.column_names, columns, strict=True))
    _warn_of_spellings(named)
    _warn_of_codes(named)
    return pa.table(columns, names=table.column_names)


def _warn_of_codes(columns: Mapping[str, pa.ChunkedArray]) -> None:
    """Warn of numbers such as -99 or 999 that recur apart from all others: they often stand for a missing value."""
    found = [
        f"{name!r} ({count:,} cells)"
        for name, cells in columns.items()
        if (pt.is_integer(cells.type) or pt.is_floating(cells.type)) and (count := _cells_of_a_code(cells))
    ]
    if found:
        text = "Numbers of nines (such as -9, -99, 999) apart from all other numbers often stand for a missing value"
        fix = "if they do, name them with missing= (--missing), else they count as numbers"
        warnings.warn(SfumatoWarning(f"{text}, in {', '.join(found)}; {fix}."), stacklevel=2)


def _cells_of_a_code(cells: pa.ChunkedArray) -> int:
    """Return how often the smallest or the largest number occurs, if it looks like a code; 0 if neither does.

    It does if it is the only negative number, or far from all others.
    """
    ends = pc.min_max(cells).as_py()
    for end in (ends["min"], ends["max"]):
        if end not in CODES_OF_MISSING:
            continue
        is_code = pc.equal(cells, pa.scalar(end, cells.type))
        rest = pc.min_max(pc.filter(cells, pc.invert(is_code))).as_py()
        count = int(pc.sum(is_code).as_py())
        if rest["min"] is None or count < FEWEST_CODES:
            continue
        gap = rest["min"] - end if end < rest["min"] else end - rest["max"]
        if end < 0 <= rest["min"] or gap > (rest["max"] - rest["min"]) * FAR_FROM_OTHERS:
            return count
    return 0


def _warn_of_spellings(columns: Mapping[str, pa.ChunkedArray]) -> None:
    """Warn about categories that are written in several ways: F, f and "F "."""
    found = []
    for name, cells in columns.items():
        if pt.is_string(cells.type) and len(pc.unique(cells.slice(0, FIRST_CELLS))) <= MOST_CATEGORIES:
            values = pc.unique(cells).drop_null()
            merged = len(pc.unique(pc.utf8_lower(pc.utf8_trim_whitespace(values))))
            if merged < len(values) <= MOST_CATEGORIES:
                found.append(f"{name!r} ({len(values)} values, {merged} if they are merged)")
    if found:
        text = "that differ only in upper and lower case or in spaces count as different"
        fix = "correct the file if they mean the same"
        warnings.warn(SfumatoWarning(f"Values {text}, in {', '.join(found)}; {fix}."), stacklevel=2)


def _is_unicode(text: str) -> bool:
    """Return whether a text has no halves of characters, which come from bytes that were not decoded."""
    return re.search("[\ud800-\udfff]", text) is None


def spelling_of(dialect: Dialect, options: TextOptions) -> Spelling:
    """Return how values are written in a file of this dialect."""
    return Spelling(
        marks=options.missing,
        decimal=options.decimal,
        commas_separate=dialect.separator == ",",
        marks_are_text=options.marks_are_text,
    )


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
