"""Read CSV, TSV, Parquet and Arrow files. The first bytes of a file determine its format, not its name.

Libraries quote cells in their errors. Their exceptions are therefore dropped here, and a ReadError that contains only
the name of the file and counts is raised instead.
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
from sfumato.table.text import Text, TextOptions, typed_together

UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # the index of a pandas frame, which is not data
# first bytes of unsupported formats → what the file is, and how to convert it
FOREIGN = {
    b"PK\x03\x04": ("a ZIP archive or a spreadsheet", "save the sheet as CSV, or unpack the archive"),
    b"\xd0\xcf\x11\xe0": ("an old spreadsheet", "save the sheet as CSV"),
    b"%PDF": ("a PDF document", "read a CSV, TSV, Parquet or Arrow file"),
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
    r"""Read a table from a CSV, TSV, Parquet, Arrow or Feather file.

    Text files may be compressed with gzip. The format is detected from the content of the file. Options other than
    ``path`` apply to text files only, and each is detected automatically by default.

    Parameters
    ----------
    path : str or Path
        Path of a file, or a pattern such as ``"part-*.csv"``. All files that match the pattern are read in order of
        name into one table; they must have the same columns.
    separator : str, optional
        Character between cells, such as ``","``, ``";"`` or ``"\t"``. Detected by default.
    encoding : str, optional
        Name of the text encoding, such as ``"utf-8"`` or ``"cp1252"``. Detected by default.
    decimal : {".", ","}, optional
        Decimal mark of numbers. By default each column may use a point or, if commas do not separate cells, a comma.
    missing : str or sequence of str, optional
        Texts of cells that count as missing. Empty cells are always missing. The default is a list of usual marks, such
        as ``NA``, ``NaN``, ``null`` and ``?``.
    header : bool, optional
        Whether the first line contains column names. Detected by default. Without a header, columns are named
        ``column_1``, ``column_2``, …

    Returns
    -------
    Table
        The rows of all files. The kind of each column is inferred from all of its cells.

    Raises
    ------
    ReadError
        If a file does not exist, is broken or has an unknown format.
    TableError
        If there are no rows, or if the files have different columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sfumato as sf
    >>> _ = Path("people.csv").write_text("age;income\n34;1200,5\n51;NA\n47;1850,0\n")
    >>> sf.read("people.csv")
    Table(3 rows × 2 columns; age: whole, income: continuous)
    """
    marks = None if missing is None else (missing,) if isinstance(missing, str) else tuple(missing)
    options = TextOptions(separator=separator, encoding=encoding, decimal=decimal, missing=marks, header=header)
    parts = [_part(file, options) for file in _files(path)]
    texts = [part for part in parts if isinstance(part, Text)]
    tables = [part for part in parts if not isinstance(part, Text)]
    # infer types after concatenation: a column of whole numbers in one file may have fractions in the next
    arrow = _concatenated([*tables, typed_together(texts, options)] if texts else tables)
    if arrow.num_columns == 0 or arrow.num_rows == 0:
        found = f"{arrow.num_columns} columns without rows"
        raise TableError(f"A table must have rows; {Path(path).name} has none.", found=found)
    unnamed = [name for name in arrow.column_names if UNNAMED_INDEX.fullmatch(name)]
    return Table.from_arrow(arrow.drop_columns(unnamed))


def _files(path: str | Path) -> list[Path]:
    location = Path(path).expanduser()
    if location.is_dir():
        raise ReadError(f"{location.name} is a folder.", fix="pass a file, or a pattern such as 'folder/*.parquet'")
    if location.exists():
        return [location]
    found = _matching(location) if glob.has_magic(str(location)) else []
    if not found:
        raise ReadError(f"There is no file {str(path)!r}.", fix="check the path")
    return found


def _matching(pattern: Path) -> list[Path]:
    start = Path(*takewhile(lambda part: not glob.has_magic(part), pattern.parts))
    return sorted(file for file in start.glob(str(pattern.relative_to(start))) if file.is_file())


def _part(file: Path, options: TextOptions) -> pa.Table | Text:
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
        raise ReadError(f"{file.name} is not a valid {file.suffix.lower()} file.", fix="write the file again")
    return Text.of(raw, file.name, options)


def content(file: Path) -> bytes:
    """Return all bytes of a file."""
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
    raise ReadError(f"{file.name} is not a complete gzip file.", fix="copy or compress it again")


def _parquet(raw: bytes, file: Path) -> pa.Table:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ReadError(f"{file.name} is a broken Parquet file.", fix="write the file again")


def _arrow(raw: bytes, file: Path) -> pa.Table:
    from pyarrow import feather

    try:
        if raw.startswith(b"\xff\xff\xff\xff"):
            return pa.ipc.open_stream(raw).read_all()
        return feather.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError, ValueError):
        pass
    raise ReadError(f"{file.name} is a broken Arrow file.", fix="write the file again")


def _concatenated(parts: list[pa.Table]) -> pa.Table:
    """Concatenate the parts, which must have the same columns of the same types in the same order."""
    first = parts[0].schema.remove_metadata()
    for part in parts[1:]:
        if not part.schema.remove_metadata().equals(first):
            different = sorted({field.name for field in set(first) ^ set(part.schema.remove_metadata())})
            raise TableError(
                "Files that are read together must have the same columns with the same types, in the same order.",
                found=f"differences in {', '.join(map(repr, different)) or 'the order of columns'}",
                fix="read them one by one",
            )
    return pa.concat_tables([part.replace_schema_metadata(None) for part in parts])
