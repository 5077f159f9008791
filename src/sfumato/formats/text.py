"""Text files: split them into cells, detect a header and infer the type of each column; and write them.

How a file is written is decided once, by :meth:`Text.of`, and Arrow's reader splits it: all at once, or as a stream if
the file is larger than memory. (DuckDB's reader refuses the encoding cp1252 and line ends of several kinds.)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import OptionError, ReadError, TableError, warn
from sfumato.formats.dialect import (
    SAMPLE_BYTES,
    Dialect,
    Header,
    decode,
    detect_dialect,
    detect_header,
    encoding_of,
    widths,
    without_padding,
)
from sfumato.formats.table_start import LOOKED_AT, TableStart, find_table_start, suggest_start
from sfumato.formats.type_inference import Spelling, are_values, infer_type, may_be_values
from sfumato.table.intervals import FORMULA
from sfumato.table.kinds import is_text

BLOCK_BYTES = 1 << 23  # longest possible line
HEAD_BYTES = 1 << 20  # from which it is detected how a file that is larger than memory is written
HALF_CHARACTER = re.compile("[\ud800-\udfff]")  # which comes from bytes that were not decoded
MOST_CATEGORIES = 50  # different texts of a column whose spellings are compared
CODES_OF_MISSING = frozenset(sign * (10**digits - 1) for sign in (-1, 1) for digits in range(1, 8))  # 9, -99, 999 …
FEWEST_CODES = 2  # a number that occurs once may be a value
FAR_FROM_OTHERS = 3.0  # distance to all other numbers, in multiples of their range; amounts of money have tails
NAMES_FIX = "--no-header or --header; in Python header=False or header=True; or give the names of the columns"
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
    skip: int = 0  # lines before the table, such as titles
    header_rows: int | None = None  # lines of names, which are joined; None: one, if there is a header
    marks_are_text: bool = False  # whether NA and other usual marks stay in columns of text

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise OptionError("decimal must be '.' or ','.")
        if self.header not in (None, True, False):
            raise OptionError("header must be True, False or None.", found=type(self.header).__name__)
        for option, number, least in (("skip", self.skip, 0), ("header_rows", self.header_rows, 1)):
            if number is not None and (type(number) is not int or number < least):
                raise OptionError(f"{option} must be a whole number of lines, at least {least}.", found=repr(number))
        if self.header_rows is not None and self.header is False:
            raise OptionError("header_rows needs a header.", found="header=False (--no-header)", fix="leave one out")
        for option, texts in (("missing", self.missing), ("names", self.names or ())):
            if not all(isinstance(text, str) and not HALF_CHARACTER.search(text) for text in texts):
                raise OptionError(f"{option} must be texts of valid characters.")

    def require_no_header(self, file: str) -> None:
        """Raise if a header, names or lines to skip are given, for a file that contains the names of its columns."""
        if self.header is not None or self.names is not None or self.skip or self.header_rows is not None:
            raise OptionError(
                f"{file} contains the names of its columns, so header, names, skip and header_rows cannot be given.",
                fix="leave them out, or rename the columns afterwards",
            )


@dataclass(frozen=True, repr=False)
class Text:
    """A text file, or the head of one, split into cells; every cell is a string, and the first line is included."""

    lines: pa.Table
    dialect: Dialect
    file: str
    head: bytes = b""  # the first lines as they are; empty for the rows of a workbook

    @classmethod
    def of(cls, raw: bytes, file: str, options: TextOptions) -> Text:
        """Detect how the bytes are written, and split them into cells."""
        encoding = encoding_of(raw, options.encoding, file=file)
        text = _without_first_lines(
            decode(raw, encoding, file=file, is_valid=options.encoding is None), options.skip, file
        )
        if not text or text.isspace():
            raise ReadError(f"{file} is empty.", found=f"{options.skip} lines skipped" if options.skip else None)
        head = text[:SAMPLE_BYTES]
        try:
            dialect = replace(detect_dialect(text, options.separator, file=file), encoding=encoding)
            return cls(_split(without_padding(text, dialect), dialect, file), dialect, file, head)
        except ReadError as error:
            failed = error
        fix = find_table_start(head).advice(failed.fix, options.skip)
        raise ReadError(failed.message, found=failed.found, fix=fix)

    @classmethod
    def of_head(cls, path: Path, options: TextOptions) -> Text:
        """Detect how a file is written from its first lines, and split these into cells."""
        with pa.input_stream(str(path), compression="detect") as stream:
            raw = stream.read(HEAD_BYTES)
        if not raw:
            raise ReadError(f"{path.name} is empty.")
        end = raw.rfind(b"\n") + 1
        return cls.of(raw[:end] if len(raw) == HEAD_BYTES and end else raw, path.name, options)

    def header(self, options: TextOptions) -> list[str] | None:
        """Return the column names in the first line, or None if it is a row of data."""
        first = self._names(options.header_rows or 1)
        has_names = True if options.header_rows is not None else options.header
        if has_names is None and options.names is not None:
            has_names = first == list(options.names)
        if has_names is None:
            has_names = self._has_header(first, options)
        return [name or f"column_{number}" for number, name in enumerate(first, 1)] if has_names else None

    def _names(self, rows: int) -> list[str]:
        """Return the names in the first lines; one in an upper line counts for the empty cells to its right, too."""
        if self.lines.num_rows < rows:
            raise ReadError(
                f"{self.file} must have {rows} lines of names.", found=f"{self.lines.num_rows} lines", fix="fewer"
            )
        lines = [[str(cell).strip() for cell in row.values()] for row in self.lines.slice(0, rows).to_pylist()]
        for line in lines[:-1]:
            for place in range(1, len(line)):
                line[place] = line[place] or line[place - 1]
        return ["_".join(dict.fromkeys(part for part in parts if part)) for parts in zip(*lines, strict=True)]

    def _has_header(self, first: list[str], options: TextOptions) -> bool:
        """Return whether the first line contains names; warn if that is a guess, and raise if it looks like data."""
        spelling = spelling_of(self.dialect, options)
        body = [column.slice(1) for column in self.lines.columns]
        verdict = detect_header(first, body, lambda column: infer_type(column, spelling).type == pa.string())
        start = TableStart() if verdict is Header.NAMES and all(first) else self._start
        if verdict is Header.UNCLEAR or start.has_titles:
            raise ReadError(
                f"The first line of {self.file} must contain column names, or you must say that it does not.",
                found="a title or a heading" if start.has_titles else "a first line that looks like a row of data",
                fix=start.advice(NAMES_FIX, options.skip),
            )
        guesses = {
            Header.PROBABLY_NAMES: "was read as column names; if it is a row of data, pass header=False (--no-header)",
            Header.DATA: "was read as a row of data, and the columns have numbers; if it contains their names, pass "
            "header=True (--header); to name them, names=[…] (--names)",
        }
        if verdict in guesses:
            warn(f"The first line of {self.file} {guesses[verdict]}.")
        return verdict in (Header.NAMES, Header.PROBABLY_NAMES)

    @property
    def _start(self) -> TableStart:
        """Where the table seems to begin."""
        rows = self.lines.slice(0, LOOKED_AT).to_pylist()
        return find_table_start(self.head) if self.head else suggest_start([[*row.values()] for row in rows])


@dataclass(frozen=True, kw_only=True)
class TextColumns:
    """What the columns of text files that are read together are called, and how their values are written."""

    names: tuple[str, ...]
    header_lines: int  # 0 without a header
    skip: int  # lines before them
    spelling: Spelling

    @classmethod
    def of(cls, texts: Iterator[Text], options: TextOptions) -> TextColumns:
        """Detect the columns in the first file; the others must have the same ones."""
        first = next(texts)
        header, width = first.header(options), first.lines.num_columns
        for text in texts:
            if text.lines.num_columns != width or (header is not None and text.header(options) != header):
                raise TableError(
                    "Files that are read together must have the same columns.",
                    found=f"different columns in {text.file} and {first.file}",
                    fix="read them one by one",
                )
        if options.names is not None and len(options.names) != width:
            counts = f"{len(options.names)} names for {width} columns"
            raise OptionError("names must have one name for each column.", found=counts, fix="the same number of names")
        names = options.names or header or [f"column_{number}" for number in range(1, width + 1)]
        return cls(
            names=tuple(names),
            header_lines=0 if header is None else options.header_rows or 1,
            skip=options.skip,
            spelling=spelling_of(first.dialect, options),
        )


def concatenate_texts(texts: Sequence[Text], options: TextOptions) -> pa.Table:
    """Concatenate text files that have the same columns, and infer the type of each column from all of them."""
    columns = TextColumns.of(iter(texts), options)
    rows = pa.concat_tables([text.lines.slice(columns.header_lines) for text in texts])
    return infer_types(pa.table(rows.columns, names=list(columns.names)), columns.spelling)


def infer_types(table: pa.Table, spelling: Spelling) -> pa.Table:
    """Infer the types of the text columns, and warn of cells that look like mistakes."""
    columns = [infer_type(cells, spelling) if pt.is_string(cells.type) else cells for cells in table.columns]
    warn_of_cells({name: CountedCells(cells) for name, cells in zip(table.column_names, columns, strict=True)})
    return pa.table(columns, names=table.column_names)


@dataclass(frozen=True, repr=False)
class CountedCells:
    """The cells of a column, or its different cells and the number of rows that have each."""

    values: pa.ChunkedArray
    counts: pa.ChunkedArray | None = None  # None: each cell is that of one row

    @property
    def present(self) -> int:
        """Number of rows with a value."""
        return self.rows_where(self.values.is_valid())

    def rows_where(self, chosen: pa.ChunkedArray) -> int:
        """Return the number of rows whose cells are chosen."""
        return int(pc.sum(chosen if self.counts is None else pc.filter(self.counts, chosen)).as_py() or 0)


def warn_of_cells(columns: Mapping[str, CountedCells]) -> None:
    """Warn of cells that keep a column from being numbers, of several spellings, and of codes of missing values."""
    unparsed, spellings, codes = [], [], []
    for name, cells in columns.items():
        kind = cells.values.type
        if is_text(kind):
            count = _unparsed_rows(cells)
            unparsed += [f"{name!r} ({count:,} of {cells.present:,})"] if count else []
            spellings += _spellings(name, cells.values)
        elif (pt.is_integer(kind) or pt.is_floating(kind)) and (count := _code_rows(cells)):
            codes.append(f"{name!r} ({count:,} cells)")
    if unparsed:
        text = "are text because a few cells are not numbers or dates"
        fix = "if such a cell means a missing value, name it when the table is read (missing=, --missing)"
        warn(f"Columns that {text}: {', '.join(unparsed)}; {fix}.")
    if spellings:
        text = "that differ only in upper and lower case or in spaces count as different"
        warn(f"Values {text}, in {', '.join(spellings)}; correct the file if they mean the same.")
    if codes:
        text = "Numbers of nines (such as -9, -99, 999) apart from all other numbers often stand for a missing value"
        fix = "if they do, name them when the table is read (missing=, --missing), else they count as numbers"
        warn(f"{text}, in {', '.join(codes)}; {fix}.")


def _unparsed_rows(cells: CountedCells) -> int:
    """Count the rows that keep a text column from being numbers or dates; 0 if most of its rows are neither."""
    if cells.counts is None and not may_be_values(cells.values):
        return 0
    present, values = cells.present, cells.rows_where(are_values(cells.values))
    return present - values if 2 * values > present else 0


def _code_rows(cells: CountedCells) -> int:
    """Return how often the smallest or the largest number occurs, if it looks like a code; 0 if neither does.

    It does if it is the only negative number, or far from all others.
    """
    ends = pc.min_max(cells.values).as_py()
    for end in (ends["min"], ends["max"]):
        if end not in CODES_OF_MISSING:
            continue
        is_code = pc.equal(cells.values, pa.scalar(end, cells.values.type))
        rest = pc.min_max(pc.filter(cells.values, pc.invert(is_code))).as_py()
        count = cells.rows_where(is_code)
        if rest["min"] is None or count < FEWEST_CODES:
            continue
        gap = rest["min"] - end if end < rest["min"] else end - rest["max"]
        if end < 0 <= rest["min"] or gap > (rest["max"] - rest["min"]) * FAR_FROM_OTHERS:
            return count
    return 0


def _spellings(name: str, cells: pa.ChunkedArray) -> list[str]:
    """Describe the categories that are written in several ways: F, f and "F "."""
    if len(pc.unique(cells.slice(0, FIRST_CELLS))) > MOST_CATEGORIES:
        return []
    values = pc.unique(cells).drop_null()
    merged = len(pc.unique(pc.utf8_lower(pc.utf8_trim_whitespace(values))))
    is_written_differently = merged < len(values) <= MOST_CATEGORIES
    return [f"{name!r} ({len(values)} values, {merged} if they are merged)"] if is_written_differently else []


def spelling_of(dialect: Dialect, options: TextOptions) -> Spelling:
    """Return how values are written in a file of this dialect."""
    return Spelling(
        marks=options.missing,
        decimal=options.decimal,
        commas_separate=dialect.separator == ",",
        marks_are_text=options.marks_are_text,
    )


def stream_cells(path: Path, dialect: Dialect, columns: TextColumns) -> Iterator[pa.Table]:
    """Yield all cells of a file that is written like this, as text, without its header."""
    from pyarrow import csv

    splitter = _Splitter(dialect, len(columns.names))
    start, failed = columns.header_lines, False
    try:
        stream = pa.input_stream(str(path), compression="detect")
        for batch in csv.open_csv(stream, **splitter.options(dialect.encoding, columns.skip)):
            lines = splitter.trim(pa.Table.from_batches([batch]).slice(start))
            start = 0
            yield lines.rename_columns(list(columns.names))
    except (pa.ArrowException, UnicodeError, ValueError):  # the error quotes cells, so it is dropped here
        failed = True
    if failed:
        raise ReadError(f"{path.name} cannot be split into cells.", fix="pass the separator or the encoding")
    splitter.require_equal_widths(path.name)


LINE_END = re.compile(rb"\r\n|\n|\r")


def _without_first_lines(text: bytes, lines: int, file: str) -> bytes:
    """Return the text without its first lines, which are no part of the table."""
    end = 0
    for number in range(lines):
        found = LINE_END.search(text, end)
        if found is None:
            raise ReadError(
                f"{file} must have more lines than are skipped, {lines}.", found=f"{number + 1} lines", fix="skip fewer"
            )
        end = found.end()
    return text[end:]


def without_first_rows(lines: pa.Table, skip: int, file: str) -> pa.Table:
    """Return the lines of a sheet without the first ones; columns that only these used are left out."""
    if not skip:
        return lines
    if skip >= lines.num_rows:
        raise ReadError(
            f"{file} must have more lines than are skipped, {skip}.", found=f"{lines.num_rows} lines", fix="skip fewer"
        )
    rest = lines.slice(skip)
    is_used = [bool(pc.any(pc.not_equal(pc.utf8_trim_whitespace(cells), "")).as_py()) for cells in rest.columns]
    last = max((place for place, used in enumerate(is_used) if used), default=0)
    return rest.select(list(range(last + 1)))


def _split(text: bytes, dialect: Dialect, file: str) -> pa.Table:
    from pyarrow import csv

    splitter = _Splitter(dialect, next((cells for cells, _ in widths(text, dialect)), 0))
    try:
        lines = csv.read_csv(pa.BufferReader(text), **splitter.options())
    except (pa.ArrowException, ValueError):  # the error quotes cells, so it is dropped here
        lines = None
    if lines is None or any(column.type != pa.string() for column in lines.columns):
        raise ReadError(f"{file} cannot be split into cells.", fix="pass the separator, or check for very long lines")
    splitter.require_equal_widths(file, text)
    return splitter.trim(lines)


class _Splitter:
    """How Arrow splits text into cells: each of them a string, and lines of another width counted."""

    def __init__(self, dialect: Dialect, width: int) -> None:
        self.dialect, self.width = dialect, width
        self.ragged: list[int] = []  # numbers of cells of lines that have another number

    def options(self, encoding: str = "utf-8", skip: int = 0) -> dict[str, Any]:
        """Return the options of Arrow's reader."""
        from pyarrow import csv

        texts = {f"f{number}": pa.string() for number in range(self.width)}
        return {
            "read_options": csv.ReadOptions(
                autogenerate_column_names=True, block_size=BLOCK_BYTES, encoding=encoding, skip_rows=skip
            ),
            "parse_options": csv.ParseOptions(
                delimiter=self.dialect.separator,
                quote_char=self.dialect.quote or False,
                newlines_in_values=self.dialect.quote is not None,
                invalid_row_handler=self._on_ragged_row,
            ),
            "convert_options": csv.ConvertOptions(column_types=texts, strings_can_be_null=False),
        }

    def _on_ragged_row(self, row: Any) -> str:
        self.ragged.append(row.actual_columns)
        return "skip"

    def trim(self, lines: pa.Table) -> pa.Table:
        """Return the cells without the padding between them."""
        if not self.dialect.padded:
            return lines
        return pa.table([pc.utf8_trim_whitespace(cells) for cells in lines.columns], names=lines.column_names)

    def require_equal_widths(self, file: str, text: bytes = b"") -> None:
        """Raise if lines had another number of cells; the first of them is looked for in ``text``."""
        if self.ragged:
            line = next((line for cells, line in widths(text, self.dialect) if cells != self.width), None)
            where = f", the first at line {line:,}" if line else ""
            counted = "1 line" if len(self.ragged) == 1 else f"{len(self.ragged):,} lines"
            raise ReadError(
                f"Every line of {file} must have the same number of cells, {self.width}.",
                found=f"{counted} with {' or '.join(map(str, sorted(set(self.ragged))[:5]))}{where}",
                fix="correct these lines, or pass the separator",
            )


def write_text(arrow: pa.Table, file: BinaryIO, separator: str, formulas: str, decimal: str = ".") -> None:
    """Write a table as text; ``formulas`` is "escape" or "keep", and ``decimal`` the mark of numbers."""
    from pyarrow import csv

    names = arrow.column_names
    uncommon = (pt.is_dictionary, pt.is_decimal, pt.is_null)  # types that Arrow does not write
    columns = [as_text(cells) if any(test(cells.type) for test in uncommon) else cells for cells in arrow.columns]
    if len(columns) == 1 and columns[0].null_count:  # an empty line would not be read as a row
        columns = [pc.fill_null(columns[0].cast(pa.string()), "NA")]
    if formulas == "escape":
        names = [f"'{name}" if FORMULA.match(name) else name for name in names]
        begins = f"^({FORMULA.pattern})"
        columns = [
            pc.replace_substring_regex(cells, begins, r"'\1") if is_text(cells.type) else cells for cells in columns
        ]
    if decimal != ".":
        columns = [_with_mark(cells, decimal) if pt.is_floating(cells.type) else cells for cells in columns]
    text = pa.table(columns, names=names)
    batches = [batch for batch in text.to_batches() if batch.num_rows]  # Arrow 17 repeats the header for an empty one
    csv.write_csv(pa.Table.from_batches(batches, text.schema), file, csv.WriteOptions(delimiter=separator))


def _with_mark(numbers: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    return pc.replace_substring(numbers.cast(pa.string()), ".", decimal)


def as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the cells of any column as text."""
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string())
