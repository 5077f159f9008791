"""Read JSON Lines: one JSON object per line, whose fields are the columns."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt

from sfumato.errors import ReadError
from sfumato.table.isolated import read_isolated

EXTENSIONS = (".jsonl", ".ndjson", ".json")
HEAD_BYTES = 1 << 20  # longest first line that is recognised by its content


def is_json_lines(raw: bytes, file: Path) -> bool:
    """Return whether the content is JSON Lines; raise a ReadError if it is another JSON document."""
    start = raw[:HEAD_BYTES].removeprefix(b"\xef\xbb\xbf").lstrip()
    claimed = any(extension in EXTENSIONS for extension in map(str.lower, file.suffixes[-2:]))
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


def json_lines(raw: bytes, file: Path) -> pa.Table:
    """Read JSON Lines; dates and other texts stay text, because their types are inferred as those of text files."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    what = "JSON Lines"
    table = read_isolated(raw, "json", file=file.name, what=what)
    moments = tuple(field.name for field in table.schema if pt.is_timestamp(field.type))
    return read_isolated(raw, "json", file=file.name, what=what, text=moments) if moments else table
