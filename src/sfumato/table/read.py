"""Files in: CSV and its kin, Parquet, Arrow. What a file is, its first bytes tell; its name only helps to refuse.

Nothing of a cell gets out of here: libraries quote cells in their errors, so those end in this file, and a ReadError
that names the file and counts is raised after them.
"""

from __future__ import annotations

import glob
import gzip
import re
import zlib
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from sfumato.errors import ReadError, TableError
from sfumato.table.table import Table
from sfumato.table.text import Text, Wishes, typed_together

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # a frame's index that slipped into the file: rows have no identity
# first bytes of what is no table, and what to do about it
FOREIGN = {
    b"PK\x03\x04": ("a ZIP archive or a spreadsheet", "save the sheet as CSV, or unpack the archive"),
    b"\xd0\xcf\x11\xe0": ("an old spreadsheet", "save the sheet as CSV"),
    b"%PDF": ("a PDF document", "a CSV, TSV, Parquet or Arrow file"),
    b"\x28\xb5\x2f\xfd": ("Zstandard-compressed", "unpack it, or compress with gzip"),
    b"BZh": ("bzip2-compressed", "unpack it, or compress with gzip"),
    b"\xfd7zXZ": ("xz-compressed", "unpack it, or compress with gzip"),
}


def read(
    path: str | Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    missing: str | Sequence[str] | None = None,
    header: bool | None = None,
) -> Table:
    """A table from a file: CSV or TSV (also gzipped), Parquet, Arrow or Feather.

    A pattern such as ``part-*.csv`` reads all files that fit it, in the order of their names, into one table. The rest
    is for text files, and found out where it is None: ``separator`` between cells, ``encoding``, ``decimal`` mark ("."
    or ","), the marks of ``missing`` values (an empty cell always is one), and whether the first line is a ``header``;
    without one, columns are called column_1, column_2, …
    """
    marks = None if missing is None else (missing,) if isinstance(missing, str) else tuple(missing)
    wishes = Wishes(separator=separator, encoding=encoding, decimal=decimal, missing=marks, header=header)
    parts = [_part(file, wishes) for file in _files(path)]
    texts = [part for part in parts if isinstance(part, Text)]
    tables = [part for part in parts if not isinstance(part, Text)]
    # text is typed after it was put together: a column of whole numbers in one file may have fractions in the next
    arrow = _concatenated([*tables, typed_together(texts, wishes)] if texts else tables)
    if arrow.num_columns == 0 or arrow.num_rows == 0:
        raise TableError(f"A table must have rows. {Path(path).name} has none.", found=f"{arrow.num_columns} columns")
    unnamed = [name for name in arrow.column_names if UNNAMED_INDEX.fullmatch(name)]
    return Table.from_arrow(arrow.drop_columns(unnamed))


def _files(path: str | Path) -> list[Path]:
    place = Path(path).expanduser()
    if place.is_dir():
        raise ReadError(f"{place.name} is a folder.", fix="name a file, or a pattern such as 'folder/*.parquet'")
    if place.exists():
        return [place]
    found = _matching(place) if glob.has_magic(str(place)) else []
    if not found:
        raise ReadError(f"There is no file {str(path)!r}.", fix="check the path")
    return found


def _matching(pattern: Path) -> list[Path]:
    start = Path(*takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    return sorted(file for file in start.glob(str(pattern.relative_to(start))) if file.is_file())


def _part(file: Path, wishes: Wishes) -> pa.Table | Text:
    raw = content(file)
    if raw.startswith(b"\x1f\x8b"):
        raw = _unzipped(raw, file)
    if not raw:
        raise ReadError(f"{file.name} is empty.")
    for magic, (what, fix) in FOREIGN.items():
        if raw.startswith(magic):
            raise ReadError(f"{file.name} is {what}.", fix=fix)
    if raw.startswith(b"PAR1"):
        return _parquet(raw, file)
    if raw.startswith((b"ARROW1", b"FEA1", b"\xff\xff\xff\xff")):
        return _arrow(raw, file)
    if file.suffix.lower() in (".parquet", ".pq", ".arrow", ".feather", ".ipc"):
        raise ReadError(f"{file.name} is not the {file.suffix.lower()} file that its name says.", fix="write it anew")
    return Text.of(raw, file.name, wishes)


def content(file: Path) -> bytes:
    """All bytes of a file."""
    reason = "it cannot be opened"
    try:
        return file.read_bytes()
    except OSError as error:
        reason = error.strerror or reason
    raise ReadError(f"{file.name} cannot be read: {reason}.", fix="check its permissions")


def _unzipped(raw: bytes, file: Path) -> bytes:
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        pass
    raise ReadError(f"{file.name} is not a whole gzip file.", fix="copy or compress it again")


def _parquet(raw: bytes, file: Path) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ReadError(f"{file.name} is a broken Parquet file.", fix="write it anew")


def _arrow(raw: bytes, file: Path) -> pa.Table:
    from pyarrow import feather

    try:
        if raw.startswith(b"\xff\xff\xff\xff"):
            return pa.ipc.open_stream(raw).read_all()
        return feather.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ReadError(f"{file.name} is a broken Arrow file.", fix="write it anew")


def _concatenated(parts: list[pa.Table]) -> pa.Table:
    """The rows of all parts, which must have the same columns of the same types in the same order."""
    first = parts[0].schema.remove_metadata()
    for part in parts[1:]:
        if not part.schema.remove_metadata().equals(first):
            unlike = sorted({field.name for field in set(first) ^ set(part.schema.remove_metadata())})
            raise TableError(
                "Files that are read together must have the same columns, with the same types and in the same order.",
                found=f"differences in {', '.join(map(repr, unlike)) or 'the order of columns'}",
                fix="read them one by one",
            )
    return pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
