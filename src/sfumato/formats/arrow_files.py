"""Parquet, Arrow and JSON Lines: read and written by Arrow.

Arrow's readers of IPC files and of JSON crash on damaged files, so they run in a process of their own.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ReadError
from sfumato.formats.isolated import invalid_cells, read_isolated
from sfumato.table.kinds import invalid_columns

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
FIRST_LINE_BYTES = 1 << 20  # longest first line of JSON Lines that is recognised by its content
SAMPLED = 10_000  # cells from which it is told whether a column repeats its values
UTF8_MARK = b"\xef\xbb\xbf"


def read_parquet(raw: bytes, file: str) -> pa.Table:
    """Read the bytes of a Parquet file."""
    import pyarrow.parquet as pq

    table, names = None, []
    try:
        table = pq.read_table(pa.BufferReader(_copy_buffers(raw)))
        names = invalid_columns(table)
    except (pa.ArrowException, OSError, ValueError):
        table = None
    if table is None:
        raise ReadError(f"{file} is a broken Parquet file.", fix="write the file again")
    if names:
        raise invalid_cells(names, file=file)
    return table


def _copy_buffers(raw: bytes) -> pa.Buffer:
    """Copy bytes into memory of Arrow: its threads may free a buffer of Python's after Python has ended, and abort."""
    buffer = pa.allocate_buffer(len(raw))
    memoryview(buffer).cast("B")[:] = raw
    return buffer


def write_parquet(arrow: pa.Table, file: BinaryIO) -> None:
    """Write a table as a Parquet file; mostly different numbers without a dictionary, in half of the time."""
    import pyarrow.parquet as pq

    repeated = [name for name, column in zip(arrow.column_names, arrow.columns, strict=True) if _repeats(column)]
    pq.write_table(arrow, file, use_dictionary=repeated)


def _repeats(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary is worth its time: for texts, and for numbers of which a sample has few."""
    if not (pt.is_integer(column.type) or pt.is_floating(column.type)) or len(column) <= SAMPLED:
        return True
    sample = column.take(pa.array(range(0, len(column), len(column) // SAMPLED)))
    return len(sample.unique()) < SAMPLED // 2


def read_arrow(raw: bytes, file: str) -> pa.Table:
    """Read the bytes of an Arrow file or stream."""
    return read_isolated(raw, _arrow_file if raw.startswith(b"ARROW1") else _arrow_stream, file=file, what="Arrow")


def _arrow_file(raw: bytes) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(raw)).read_all()


def _arrow_stream(raw: bytes) -> pa.Table:
    return pa.ipc.open_stream(raw).read_all()


def write_arrow(arrow: pa.Table, file: BinaryIO) -> None:
    """Write a table as an Arrow file."""
    with pa.ipc.new_file(file, arrow.schema) as writer:
        writer.write_table(arrow)


def is_json_lines(raw: bytes, file: Path) -> bool:
    """Return whether the content is JSON Lines; raise a ReadError if it is another JSON document."""
    start = raw[:FIRST_LINE_BYTES].removeprefix(UTF8_MARK).lstrip()
    claimed = any(suffix in JSON_SUFFIXES for suffix in map(str.lower, file.suffixes[-2:]))
    if start[:1] == b"{" and (claimed or _is_object(start.partition(b"\n")[0])):
        return True
    if claimed:
        raise ReadError(
            f"{file.name} must be JSON Lines: one object per line.",
            found="a list of objects, or other JSON" if start[:1] == b"[" else "other text",
            fix="write each record as an object on a line of its own",
        )
    return False


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def read_json_lines(raw: bytes, file: str) -> pa.Table:
    """Read JSON Lines; dates and other texts stay text, because their types are inferred as those of text files."""
    raw, what = raw.removeprefix(UTF8_MARK), "JSON Lines"
    table = read_isolated(raw, _json_objects, file=file, what=what)
    moments = [field.name for field in table.schema if pt.is_timestamp(field.type)]
    return read_isolated(raw, _json_objects, file=file, what=what, text=moments) if moments else table


def _json_objects(raw: bytes, text: Sequence[str] = ()) -> pa.Table:
    """Read objects; the fields in ``text`` are strings."""
    from pyarrow import json as arrow_json

    explicit = pa.schema([(name, pa.string()) for name in text]) if text else None
    return arrow_json.read_json(
        io.BytesIO(raw),
        read_options=arrow_json.ReadOptions(block_size=max(1 << 20, min(len(raw) + 1, (1 << 31) - 1))),
        parse_options=arrow_json.ParseOptions(explicit_schema=explicit),
    )
