"""The first lines of a file as they are, its sheets, and where the table in it probably begins.

Exports begin with titles, comments and lines of headings. Nothing is left out without being asked: what is found here
is a suggestion for ``skip``, ``header_rows`` and ``sheet``, which the owner of the file looks at.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sfumato.errors import ReadError, SfumatoError
from sfumato.formats.dialect import decode, detect_dialect, encoding_of
from sfumato.formats.isolated import read_isolated
from sfumato.formats.raw_files import EXCEL, binary_format, file_format, read_bytes
from sfumato.formats.type_inference import is_value
from sfumato.formats.workbooks import SHEETS, read_first_rows

HEAD_BYTES = 1 << 16
SHOWN = 25  # lines
LOOKED_AT = 200  # lines
LONGEST = 300  # characters of a line
MOST_TITLES = 30  # lines before a table
COMMENTS = ("#", "//", "%", "--")


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstLines:
    """How a file begins; the lines hold cells, so they are for the eyes of the owner only."""

    lines: tuple[str, ...] = ()  # empty for formats that contain the names of their columns
    sheets: tuple[str, ...] = ()  # of a workbook
    sheet: str | None = None  # the one that the lines are from
    largest_sheet: str | None = None  # the one with the most cells, if it is another one
    skip: int = 0  # lines before the table, probably
    header_rows: int | None = None  # lines of names, if there are probably several


def read_first_lines(path: Path, *, sheet: str | None = None, encoding: str | None = None) -> FirstLines:
    """Return how a file begins; of a format that needs no such look, nothing."""
    with path.open("rb") as opened:
        start = opened.read(4)
    if start.startswith((b"PK", b"\xd0\xcf\x11\xe0")) and binary_format(read_bytes(path)) is EXCEL:
        return _of_workbook(path, sheet)
    if not start.startswith(b"\x1f\x8b") and file_format(path) != "text":
        return FirstLines()
    with pa.input_stream(str(path), compression="detect") as stream:
        raw = stream.read(HEAD_BYTES)
    text = decode(raw, encoding_of(raw, encoding, file=path.name), file=path.name, is_valid=encoding is None)
    lines = text.decode("utf-8", "replace").splitlines()
    lines = lines[:-1] if len(raw) == HEAD_BYTES and len(lines) > 1 else lines
    skip, header_rows = suggest_start(_split(lines[:LOOKED_AT]))
    return FirstLines(lines=tuple(line[:LONGEST] for line in lines[:SHOWN]), skip=skip, header_rows=header_rows)


def _of_workbook(path: Path, sheet: str | None) -> FirstLines:
    EXCEL.require_package()
    try:
        found = read_isolated(read_bytes(path), read_first_rows, file=path.name, what=EXCEL.what, sheet=sheet)
    except ReadError:
        if sheet is None:
            raise
        return _of_workbook(path, None)  # there is no such sheet: its reader says so
    about = json.loads(found.schema.metadata[SHEETS])
    rows = [[str(cell or "") for cell in row.values()] for row in found.to_pylist()]
    skip, header_rows = suggest_start(rows)
    return FirstLines(
        lines=tuple(" │ ".join(row)[:LONGEST] for row in rows[:SHOWN]),
        sheets=tuple(about["names"]),
        sheet=about["read"],
        largest_sheet=about["largest"] if about["largest"] != about["read"] else None,
        skip=skip,
        header_rows=header_rows,
    )


def _split(lines: Sequence[str]) -> list[list[str]]:
    """Split lines into cells as the second half of them is written: titles may have any signs."""
    body = "\n".join(lines[len(lines) // 2 :]).encode()
    try:
        dialect = detect_dialect(body or b"\n", None, file="the file")
    except SfumatoError:  # a quote that is not closed there
        return []
    quote = {"quoting": csv.QUOTE_NONE} if dialect.quote is None else {"quotechar": dialect.quote}
    records = []
    for line in lines:
        try:
            records.append(next(csv.reader([line], delimiter=dialect.separator, **quote), []))
        except csv.Error:
            return []
    return [[cell.strip() for cell in record] for record in records]


def suggest_start(records: Sequence[Sequence[str]]) -> tuple[int, int | None]:
    """Return how many lines stand before the table, and how many lines of names it has if these are several.

    >>> suggest_start([["Ward 3"], ["Person", "", "Lab"], ["age", "sex", "alt"], ["3", "f", "1"], ["4", "m", "2"]])
    (1, 2)
    >>> suggest_start([["# made", "by"], ["age", "sex"], ["3", "f"], ["4", "m"]])
    (1, None)
    """
    widths = Counter(len(record) for record in records[len(records) // 2 :] if any(record))
    width = widths.most_common(1)[0][0] if widths else 0
    if width < 2:
        return 0, None
    skip = 0
    while skip < min(MOST_TITLES, len(records) - 2) and _is_before_table(records[skip], width):
        skip += 1
    if skip == min(MOST_TITLES, len(records) - 2):  # everything looks like a title
        return 0, None
    has_headings = _filled(records[skip]) < width and _are_names(records[skip + 1], records[skip + 2 :])
    has_headings = has_headings and not any(is_value(cell) for cell in records[skip] if cell)
    return skip, 2 if has_headings else None


def _is_before_table(record: Sequence[str], width: int) -> bool:
    """Whether a line is empty, a comment, or a title: another number of cells, or one cell only."""
    if not any(record) or record[0].startswith(COMMENTS):
        return True
    return len(record) != width or _filled(record) <= 1


def _are_names(record: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a line has a name for each column: no values, none that recurs below, and values in some column below."""
    if len(set(record)) < len(record) or not all(record) or any(is_value(cell) for cell in record):
        return False
    body = [line for line in below if len(line) == len(record)]
    columns = list(zip(*body, strict=True)) if body else []
    recurs = any(name in column for name, column in zip(record, columns, strict=False))
    return not recurs and any(is_value(cell) for column in columns for cell in column)


def _filled(record: Sequence[str]) -> int:
    return sum(bool(cell) for cell in record)
