"""Write a table as an Excel workbook. Text stays text: nothing in a cell is taken for a formula or a link."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS_AT_ONCE = 10_000
OPTIONS = {
    "constant_memory": True,
    "strings_to_formulas": False,
    "strings_to_urls": False,
    "strings_to_numbers": False,
    "default_date_format": "yyyy-mm-dd",
}


def write_workbook(arrow: pa.Table, path: Path, labels: Mapping[str, str]) -> None:
    """Write the rows to the first sheet and, if there are labels, what the columns mean to a second one."""
    import xlsxwriter

    with xlsxwriter.Workbook(path, OPTIONS) as book:
        moment = book.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
        sheet = book.add_worksheet("released")
        for column, name in enumerate(arrow.column_names):
            sheet.write_string(0, column, name)
        row = 1
        for batch in arrow.to_batches(max_chunksize=ROWS_AT_ONCE):
            for cells in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for column, cell in enumerate(cells):
                    _write(sheet, row, column, cell, moment)
                row += 1
        if labels:
            about = book.add_worksheet("labels")
            for row, pair in enumerate([("column", "label"), *labels.items()]):
                for column, text in enumerate(pair):
                    about.write_string(row, column, text)


def _write(sheet: Any, row: int, column: int, cell: Any, moment: Any) -> None:
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
