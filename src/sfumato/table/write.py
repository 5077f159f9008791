"""Convert tables to data frames, and write files.

A file is first written under a temporary name and then moved, so that a partial file is never left.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sfumato.errors import MissingExtra, OptionError
from sfumato.params import require_choice

UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # a temporary name
FORMULAS = ("keep", "escape")
FORMULA = re.compile(r"[=+\-@\t\r]")  # first characters of text that a spreadsheet may run
NULLABLE = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.bool_(): "boolean",
}


def write(arrow: pa.Table, path: str | Path, *, formulas: str = "escape") -> None:
    """Write an Arrow table in the format of the file extension: .csv, .tsv, .parquet, .arrow or .feather.

    In text files a missing cell is empty, so it is read back as missing. An empty string is read back as missing too.
    Spreadsheets take text that begins with = + - @ for a formula: "escape" puts an apostrophe before such text and such
    column names in text files, "keep" writes them unchanged. Numbers and other formats are always exact.
    """
    require_choice(formulas, name="formulas", choices=FORMULAS)
    target = Path(path).expanduser()
    writers: dict[str, Callable[[pa.Table, BinaryIO], None]] = {
        ".csv": lambda arrow, file: _write_text(arrow, file, ",", formulas),
        ".tsv": lambda arrow, file: _write_text(arrow, file, "\t", formulas),
        ".parquet": _write_parquet,
        ".arrow": _write_arrow,
        ".feather": _write_arrow,
    }
    writer = writers.get(target.suffix.lower())
    if writer is None:
        known = ", ".join(writers)
        raise OptionError(f"The file must have one of the extensions {known}.", found=repr(target.suffix))
    write_whole(target, lambda file: writer(arrow, file))


def is_unfinished(path: Path, endings: tuple[str, ...]) -> bool:
    """Whether a file with such an ending was left behind by :func:`write_whole` whose process was killed.

    >>> is_unfinished(Path(".comparison.json.0123456789abcdef"), (".json",)), is_unfinished(Path(".bashrc"), (".json",))
    (True, False)
    """
    found = UNFINISHED.fullmatch(path.name)
    return found is not None and found[1].endswith(endings)


def write_whole(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Write a file completely or not at all: ``fill`` writes to a temporary file, which then replaces ``path``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    reason = ""
    try:
        with temporary.open("xb") as file:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
    finally:
        temporary.unlink(missing_ok=True)  # it does not exist after a successful replace
    if reason:
        raise OptionError(f"{path.name} cannot be written: {reason}.", fix="choose another folder, or free disk space")


def _write_text(arrow: pa.Table, file: BinaryIO, separator: str, formulas: str) -> None:
    from pyarrow import csv

    names = arrow.column_names
    columns = [_as_text(column) if _needs_text_cast(column.type) else column for column in arrow.columns]
    if len(columns) == 1 and columns[0].null_count:  # an empty line would not be read as a row
        columns = [pc.fill_null(columns[0].cast(pa.string()), "NA")]
    if formulas == "escape":
        names = [f"'{name}" if FORMULA.match(name) else name for name in names]
        columns = [_without_formulas(cells) if _is_text(cells.type) else cells for cells in columns]
    text = pa.table(columns, names=names)
    batches = [batch for batch in text.to_batches() if batch.num_rows]  # Arrow 17 repeats the header for an empty one
    csv.write_csv(pa.Table.from_batches(batches, text.schema), file, csv.WriteOptions(delimiter=separator))


def _without_formulas(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(cells, f"^({FORMULA.pattern})", r"'\1")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _needs_text_cast(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pt.is_dictionary, pt.is_decimal, pt.is_null))


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.string())


def _write_parquet(arrow: pa.Table, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    pq.write_table(arrow, file)


def _write_arrow(arrow: pa.Table, file: BinaryIO) -> None:
    with pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow)


def pandas_frame(arrow: pa.Table) -> Any:
    """Return a pandas data frame; whole numbers and booleans with missing cells get nullable types."""
    pandas = _library("pandas")

    def series(column: pa.ChunkedArray) -> Any:
        dtype = NULLABLE.get(column.type) if column.null_count else None
        return column.to_pandas(types_mapper=lambda _: pandas.api.types.pandas_dtype(dtype) if dtype else None)

    columns = {position: series(column) for position, column in enumerate(arrow.columns)}
    frame = pandas.DataFrame(columns, index=pandas.RangeIndex(arrow.num_rows))
    frame.columns = arrow.column_names
    return frame


def polars_frame(arrow: pa.Table) -> Any:
    """Return a polars data frame; ordered categories become an Enum."""
    polars = _library("polars")
    frame = polars.from_arrow(arrow)
    enums = {
        name: polars.Enum(column.chunk(0).dictionary.cast(pa.string()).to_pylist())
        for name, column in zip(arrow.column_names, arrow.columns, strict=True)
        if pt.is_dictionary(column.type) and column.type.ordered and column.num_chunks
    }
    return frame.with_columns([polars.col(name).cast(enum) for name, enum in enums.items()])


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        pass
    raise MissingExtra(f"{name} is not installed.", fix=f"pip install {name}")
