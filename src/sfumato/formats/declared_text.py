"""Read a text file line by line, so that no line decides how another one is read.

Types, encoding, separator, quotes and missing values are usually read off all cells: one odd cell makes a column text,
and one odd byte changes the encoding of the file. In a differentially private release one person must not change the
rows of others. So only what is declared counts here, and the line of names, which is public:

* a row is a line; what is quoted ends with it, cells that a line has too few are missing, those too many are left out;
* a line is decoded by itself; bytes that are not of the encoding (UTF-8 unless it is given) are replaced;
* every cell is text, or missing; nothing is refused, and nothing is warned of.
"""

from __future__ import annotations

import contextlib
import csv
import re
import sys
from codecs import BOM_UTF8
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.errors import OptionError, ReadError
from sfumato.table.kinds import MARKS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.formats.text import TextOptions

LINE_END = re.compile(rb"\r\n|\n|\r")
SEPARATORS = (",", ";", "\t", "|")


def read_lines(raw: bytes, file: str, options: TextOptions) -> pa.Table:
    """Return the cells of a file as text, one row for each line that is not empty."""
    if options.header_rows is not None and options.header_rows > 1:
        raise OptionError("For a differentially private release one line has the names.", found="header_rows")
    lines = [_decode(line, options.encoding) for line in LINE_END.split(raw.removeprefix(BOM_UTF8))][options.skip :]
    has_names = options.names is None or options.header is True
    if options.names is None and options.header is False:
        raise OptionError("Columns without names must be named.", found="header=False", fix="names=[…] (--names)")
    if has_names and not (lines and lines[0].strip()):
        raise ReadError(f"{file} must have a line of names.", fix="names=[…] (--names), if it has none")
    head = lines[0] if has_names else ""
    separator = options.separator or max(SEPARATORS, key=head.count)
    names = options.names or tuple(name.strip() for name in _split(head, separator))
    body = lines[1:] if has_names else lines
    marks = MARKS.union(options.missing)
    rows = [_cells(line, separator, len(names), marks) for line in body if line.strip()]
    columns = zip(*rows, strict=True) if rows else [()] * len(names)
    return pa.table([pa.array(column, pa.string()) for column in columns], names=list(names))


def _decode(line: bytes, encoding: str | None) -> str:
    text = None
    with contextlib.suppress(LookupError):
        if "\n".encode(encoding or "utf-8") == b"\n":  # else lines were split inside of letters
            text = line.decode(encoding or "utf-8", errors="replace")
    if text is None:
        raise OptionError(
            "The encoding must be one that Python knows, in which a line ends with one byte.",
            found=repr(encoding),
            fix="utf-8 or cp1252",
        )
    return text


def _split(line: str, separator: str) -> list[str]:
    """Split one line; a quote that is open at its end is closed there."""
    csv.field_size_limit(sys.maxsize)  # a long cell is not refused
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _cells(line: str, separator: str, width: int, marks: Sequence[str] | frozenset[str]) -> list[str | None]:
    cells = [None if cell.strip() in marks else cell.strip() for cell in _split(line, separator)[:width]]
    return [*cells, *[None] * (width - len(cells))]
