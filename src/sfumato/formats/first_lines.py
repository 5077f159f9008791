"""The first lines of a file as they are, its sheets, and where the table in it probably begins.

Exports begin with titles, comments and lines of headings. Nothing is left out without being asked: what is found here
is a suggestion for ``skip``, ``header_rows`` and ``sheet``, which the owner of the file looks at.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sfumato.errors import ReadError
from sfumato.formats.dialect import decode, encoding_of
from sfumato.formats.isolated import read_isolated
from sfumato.formats.raw_files import EXCEL, binary_format, file_format, read_bytes
from sfumato.formats.table_start import TableStart, find_table_start, suggest_start
from sfumato.formats.workbooks import SHEETS, read_first_rows

HEAD_BYTES = 1 << 16
SHOWN = 25  # lines
LONGEST = 300  # characters of a line


@dataclass(frozen=True, kw_only=True, repr=False)
class FirstLines:
    """How a file begins; the lines hold cells, so they are for the eyes of the owner only."""

    lines: tuple[str, ...] = ()  # empty for formats that contain the names of their columns
    sheets: tuple[str, ...] = ()  # of a workbook
    sheet: str | None = None  # the one that the lines are from
    largest_sheet: str | None = None  # the one with the most cells, if it is another one
    start: TableStart = field(default_factory=TableStart)  # where the table probably begins


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
    return FirstLines(lines=tuple(line[:LONGEST] for line in lines[:SHOWN]), start=find_table_start(text))


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
    return FirstLines(
        lines=tuple(" │ ".join(row)[:LONGEST] for row in rows[:SHOWN]),
        sheets=tuple(about["names"]),
        sheet=about["read"],
        largest_sheet=about["largest"] if about["largest"] != about["read"] else None,
        start=suggest_start(rows),
    )
