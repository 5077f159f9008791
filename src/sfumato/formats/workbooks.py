"""Workbooks: read a sheet (Excel, OpenDocument) as text cells, and write a table as an Excel workbook.

Cells are read as a text file would write them: numbers with all their digits, dates as 2020-01-31. The header and the
types are then detected as in text files, so that the usual marks of missing values count here, too. What is written as
text stays text: nothing in a cell is taken for a formula or a link.
"""

from __future__ import annotations

import datetime
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import ReadError
from sfumato.formats.isolated import read_isolated, say_notes, with_notes
from sfumato.formats.raw_files import BROKEN_ARCHIVE, EXCEL, zip_size
from sfumato.formats.type_inference import NUMBER

MOST_BYTES = 1 << 31  # of an unpacked workbook
SUSPICIOUS_BYTES, SUSPICIOUS_RATIO = 10**8, 200  # an archive that unpacks to more than this, and so many times its size
CHUNK = 1 << 20
FIRST_ROWS = 200  # that are looked at before a sheet is read
SHEETS = b"sfumato sheets"  # metadata of these rows: all sheets
OTHER_SHEET = b"sfumato other sheet"  # metadata of a sheet that was not asked for: the largest one besides it
# of memory that reading may take: two cells in opposite corners of a sheet make its reader store all that are between
MEMORY, MEMORY_PER_BYTE = 1 << 29, 200
MOST_NAMED = 8  # sheets that a message names
DIGITS = 15  # decimal digits that Excel shows of a number
ROWS_AT_ONCE = 10_000
WRITE_OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "default_date_format": "yyyy-mm-dd",
}


def read_sheet(raw: bytes, file: str, *, sheet: str | None) -> pa.Table:
    """Return all cells of a sheet as text, read in a process of its own, and warn of what may be misunderstood.

    The metadata names another sheet that may have been meant.
    """
    EXCEL.require_package()
    unpacked = zip_size(io.BytesIO(raw)) if raw.startswith(b"PK") else len(raw)
    memory = MEMORY + MEMORY_PER_BYTE * unpacked
    lines = read_isolated(raw, read_workbook, file=file, what=EXCEL.what, memory=memory, sheet=sheet)
    say_notes(lines, file)
    other = (lines.schema.metadata or {}).get(OTHER_SHEET)
    return lines.replace_schema_metadata({OTHER_SHEET: other} if other else None)


def other_sheet(lines: pa.Table) -> str:
    """Return the name of the sheet that may have been meant instead; empty if there is none."""
    name: bytes = (lines.schema.metadata or {}).get(OTHER_SHEET, b"")
    return name.decode()


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


def read_workbook(raw: bytes, *, sheet: str | None = None) -> pa.Table:
    """Return all cells of a sheet as text, with the first line; the first visible sheet with cells by default."""
    book = _open_book(raw)
    chosen, others = _choose_sheet(book, sheet)
    notes = _note_other_sheets(chosen.name, [one.name for one in others])
    other = max(others, key=lambda one: one.height * one.width).name if others else None
    rows = [row for row in chosen.iter_rows() if any(cell != "" for cell in row)]
    if not rows:
        raise ReadError("A sheet must have cells.", found=f"none in sheet {chosen.name!r}", fix="choose a sheet")
    columns = [_texts(column) for column in zip(*rows, strict=True)]
    notes += _note_merged_cells(chosen) + _note_numbers_as_text(chosen, rows)
    table = with_notes(pa.table(columns, names=[f"f{number}" for number in range(len(columns))]), notes)
    return table if other is None else table.replace_schema_metadata({**table.schema.metadata, OTHER_SHEET: other})


def read_first_rows(raw: bytes, *, sheet: str | None = None) -> pa.Table:
    """Return the first rows of a sheet as text; the metadata names all sheets, and which is the largest."""
    book = _open_book(raw)
    chosen, _ = _choose_sheet(book, sheet)
    rows = [row for row in chosen.iter_rows() if any(cell != "" for cell in row)][:FIRST_ROWS]
    sizes = {name: (one := book.get_sheet_by_name(name)).height * one.width for name in book.sheet_names}
    about = {"names": list(sizes), "read": chosen.name, "largest": max(sizes, key=lambda name: sizes[name])}
    columns = [_texts(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, names=[f"f{number}" for number in range(len(columns))])
    return table.replace_schema_metadata({SHEETS: json.dumps(about)})


def _open_book(raw: bytes) -> Any:
    """Return the workbook; raise if it unpacks to too much, or if it is locked."""
    import python_calamine as calamine

    if raw.startswith(b"PK"):
        _require_bounded(raw)
    locked = False
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(raw))
    except calamine.PasswordError:
        locked = True
    if locked:
        raise ReadError("A workbook must not be locked with a password.", fix="save it without a password")
    return book


def _require_bounded(raw: bytes) -> None:
    """Raise if the archive unpacks to more than a workbook can be; what it says of its sizes must be true."""
    unpacked, is_broken = 0, False
    most = max(SUSPICIOUS_BYTES, SUSPICIOUS_RATIO * len(raw))
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            for member in archive.infolist() if unpacked <= min(most, MOST_BYTES) else ():
                with archive.open(member) as content:
                    while content.read(CHUNK):  # checks size and checksum
                        pass
    except BROKEN_ARCHIVE:
        is_broken = True
    if is_broken:
        raise ReadError("A workbook must be a complete archive.", found="a broken one", fix="save it again")
    if unpacked > min(most, MOST_BYTES):
        raise ReadError(
            "A workbook must not unpack to much more than its size.",
            found=f"{len(raw):,} bytes that unpack to {unpacked:,}",
            fix="save the sheet as CSV",
        )


def _choose_sheet(book: Any, sheet: str | None) -> tuple[Any, list[Any]]:
    """Return the sheet, and the others that might have been meant if none was asked for."""
    known = book.sheet_names
    if sheet is not None:
        if sheet in known:
            return book.get_sheet_by_name(sheet), []
        if sheet.isdecimal() and 1 <= int(sheet) <= len(known):
            return book.get_sheet_by_index(int(sheet) - 1), []
        raise ReadError(
            f"There is no sheet {sheet!r}.", found=f"sheets {_list_names(known)}", fix="the name of a sheet"
        )
    kinds = {one.name: one for one in book.sheets_metadata}
    visible = [name for name in known if "Visible" in repr(kinds[name].visible) and "Work" in repr(kinds[name].typ)]
    sheets = [one for one in map(book.get_sheet_by_name, visible or known) if one.height]
    if not sheets:
        raise ReadError("A workbook must have a sheet with cells.", found=f"{len(known)} sheets without cells")
    return sheets[0], sheets[1:]


def _note_other_sheets(read: str, others: Sequence[str]) -> list[str]:
    note = f"Sheet {read!r} was read; there are also {_list_names(others)}. Choose one with sheet= (--sheet)."
    return [note] if others else []


def _list_names(names: Sequence[str]) -> str:
    more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
    return ", ".join([*map(repr, names[:MOST_NAMED]), *more])


def _texts(column: tuple[Any, ...]) -> pa.Array:
    moments = [cell for cell in column if isinstance(cell, datetime.datetime)]
    days_only = all(cell.time() == datetime.time() for cell in moments)
    return pa.array([_text(cell, days_only) for cell in column], pa.string())


def _text(cell: Any, days_only: bool) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        # 0.1 + 0.2 is shown as 0.3, but a number that needs more digits keeps them
        return str(int(cell)) if cell.is_integer() and abs(cell) < 10**DIGITS else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if days_only else cell.isoformat(sep=" ")
    if isinstance(cell, datetime.date):
        return cell.isoformat() if days_only else f"{cell.isoformat()} 00:00:00"
    return str(cell)


def _note_merged_cells(sheet: Any) -> list[str]:
    """Return a note if cells of the first line are merged, so that columns have no name of their own."""
    first = (sheet.start or (0, 0))[0]
    merged = [ends for ends in sheet.merged_cell_ranges or () if ends[0][0] <= first <= ends[1][0]]
    if not merged:
        return []
    return [
        f"{len(merged)} merged ranges in the first line: a merged cell names only its first column, and others are "
        "called column_1, column_2, …. Give each column one name in one line."
    ]


def _note_numbers_as_text(sheet: Any, rows: list[list[Any]]) -> list[str]:
    """Return a note if columns mix numbers with numbers that are stored as text."""
    mixed, left = [], (sheet.start or (0, 0))[1]
    for number, column in enumerate(zip(*rows[1:], strict=True)):
        texts = sum(isinstance(cell, str) and NUMBER.fullmatch(cell.strip()) is not None for cell in column)
        if texts and any(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in column):
            mixed.append(f"{_letters(left + number)} ({texts:,})")
    return [f"Numbers that are stored as text, by column of the sheet: {', '.join(mixed)}."] if mixed else []


def _letters(position: int) -> str:
    """Return how a sheet names a column: 0 is A, 26 is AA."""
    letters = ""
    while position >= 0:
        position, letter = divmod(position, 26)
        letters = chr(ord("A") + letter) + letters
        position -= 1
    return letters


def write_workbook(arrow: pa.Table, path: Path, labels: Mapping[str, str]) -> None:
    """Write the rows to the first sheet and, if there are labels, what the columns mean to a second one."""
    import xlsxwriter

    with xlsxwriter.Workbook(path, WRITE_OPTIONS) as book:
        moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        sheet = book.add_worksheet("released")
        for column, name in enumerate(arrow.column_names):
            sheet.write_string(0, column, name)
        row = 1
        for batch in arrow.to_batches(max_chunksize=ROWS_AT_ONCE):
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for column, cell in enumerate(cells):
                    _write_cell(sheet, row, column, cell, moment)
                row += 1
        if labels:
            about = book.add_worksheet("labels")
            for row, pair in enumerate([("column", "label"), *labels.items()]):
                for column, text in enumerate(pair):
                    about.write_string(row, column, text)


def _write_cell(sheet: Any, row: int, column: int, cell: Any, moment: Any) -> None:
    if isinstance(cell, bool):
        sheet.write_boolean(row, column, cell)
    elif isinstance(cell, int | float):
        sheet.write_number(row, column, cell)
    elif isinstance(cell, datetime.datetime):
        sheet.write_datetime(row, column, cell, moment)
    elif isinstance(cell, datetime.date):
        sheet.write_datetime(row, column, cell)
    elif cell is not None:
        sheet.write_string(row, column, cell)
