"""Read text files, Parquet, Arrow, workbooks and files of statistics packages. The content determines the format.

Libraries quote cells in their errors. Their exceptions are therefore dropped here, and a ReadError that contains only
the name of the file and counts is raised instead.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from sfumato.errors import OptionError, ReadError, TableError
from sfumato.formats.arrow_files import is_json_lines, read_arrow, read_json_lines, read_parquet
from sfumato.formats.dialect import Dialect
from sfumato.formats.raw_files import (
    EXCEL,
    FOREIGN,
    binary_format,
    claimed_format,
    file_format,
    is_there,
    near_name,
    read_bytes,
    shorten_name,
    unpacked_size,
)
from sfumato.formats.statistics_files import read_statistics_file
from sfumato.formats.text import Text, TextOptions, concatenate_texts, infer_types, without_first_rows
from sfumato.formats.type_inference import Spelling, infer_type
from sfumato.formats.workbooks import read_sheet
from sfumato.machine import available_memory
from sfumato.sources.base import CELL_BYTES, COPIES, STORES, TableSource, scheme_of
from sfumato.table.table import Table

TYPED = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".sav", ".dta", ".sas7bdat", ".xpt")  # have types
MOST_COUNTED = 1 << 35  # bytes of an unpacked file, above which it is not counted any further
GZIP = b"\x1f\x8b"
UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # the index of a pandas frame, which is not data


def read(
    path: str | Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    missing: str | Sequence[str] | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    sheet: str | int | None = None,
    skip: int = 0,
    header_rows: int | None = None,
    derive: str | Sequence[str] | None = None,
) -> Table:
    r"""Read a table from a text file, or from a Parquet, Arrow, Excel, SPSS, Stata or SAS file.

    Text files (CSV, TSV, JSON Lines) may be compressed with gzip. The format is detected from the content of the file.
    Options other than ``path`` and ``sheet`` apply to text files, and some to workbooks; each is detected by default.

    Workbooks (.xlsx, .xls, .ods) need ``pip install 'sfumato[excel]'``, and files of SPSS (.sav, .zsav, .por), Stata
    (.dta) and SAS (.sas7bdat, .xpt) need ``pip install 'sfumato[stats]'``. Value labels become categories, which are
    ordered if SPSS calls the column ordinal; codes of missing values become missing; labels of columns are kept.

    Parameters
    ----------
    path : str or Path
        Path of a file, a pattern such as ``"part-*.csv"``, or either of them in a store (``s3://``, ``gs://``,
        ``abfs://``, ``hdfs://``), with credentials from the environment. All files that match the pattern are read in
        order of name into one table; they must have the same columns, in any order. Folders such as ``year=2020`` are
        columns, of a pattern and of a folder that has such folders.
    separator : str, optional
        Character between cells, such as ``","``, ``";"`` or ``"\t"``. Detected by default.
    encoding : str, optional
        Name of the text encoding, such as ``"utf-8"`` or ``"cp1252"``. Detected by default.
    decimal : {".", ","}, optional
        Decimal mark of numbers. By default each column may use a point or, if commas do not separate cells, a comma.
    missing : str or sequence of str, optional
        Texts of cells that count as missing, in addition to empty cells and the usual marks, such as ``NA``, ``NaN``,
        ``null`` and ``?``. In files of statistics packages also codes, such as ``"99"``.
    header : bool, optional
        Whether the first line contains column names. Detected by default: a guess gives a :class:`SfumatoWarning`, and
        a first line that looks like a row of data is refused. Without a header, columns are named ``column_1``,
        ``column_2``, …
    names : sequence of str, optional
        Names of all columns, in order. The file then has no header unless ``header`` is True, and a header is ignored.
    sheet : str or int, optional
        Sheet of a workbook, by name or by number from 1. Default: the first visible sheet with cells.
    skip : int, default 0
        Lines before the table, such as titles, that are left out.
    header_rows : int, optional
        Lines of column names, which are joined by ``_``; a name in an upper line counts also for the empty cells to
        its right. Default: one line, if there is a header.
    derive : str or sequence of str, optional
        Rules of columns that are computed from another one: ``"age = years(birth_date, 2026-01-01)"`` gives whole years
        at that day, ``"visit = year(visit)"`` the year of a date, ``"weight = steps(weight, 5)"`` the lower end of a
        step of 5, ``"zip = prefix(zip, 3)"`` the first characters. A column of the same name is replaced; backticks
        enclose names with spaces. Default: none.

    Returns
    -------
    Table
        The rows of all files. The kind of each column is inferred from all of its cells.

    Raises
    ------
    ReadError
        If a file does not exist, is broken, has an unknown format, or has a first line that looks like data.
    TableError
        If there are no rows, or if the files have different columns.

    Warns
    -----
    SfumatoWarning
        If the header was guessed, or if a few cells keep a column from being numbers or dates.

    Examples
    --------
    >>> from pathlib import Path
    >>> import sfumato as sf
    >>> _ = Path("people.csv").write_text("age;income\n34;1200,5\n51;NA\n47;1850,0\n")
    >>> sf.read("people.csv")
    Table(3 rows × 2 columns; age: whole, income: continuous)
    """
    if not isinstance(path, str | os.PathLike):
        raise OptionError(
            "The path must be text or a Path.",
            found=type(path).__name__,
            fix="pass a data frame, an Arrow table or a mapping of columns to the method itself: it needs no reading",
        )
    marks = () if missing is None else (missing,) if isinstance(missing, str) else tuple(missing)
    named = None if names is None else (names,) if isinstance(names, str) else tuple(names)
    options = TextOptions(
        separator=separator,
        encoding=encoding,
        decimal=decimal,
        missing=marks,
        header=header,
        names=named,
        sheet=None if sheet is None else str(sheet),
        skip=skip,
        header_rows=header_rows,
    )
    table = FileSource(path, options).read()
    if derive is None:
        return table
    from sfumato.sources.derived_columns import DerivedColumn, derive_columns

    rules = (derive,) if isinstance(derive, str) else tuple(derive)
    return derive_columns(table, [DerivedColumn.of(rule) for rule in rules])


@dataclass(frozen=True)
class FileSource(TableSource):
    """The path of a file, or a pattern, with how to read it: what :func:`read` would read, not read yet."""

    path: str | Path
    options: TextOptions = field(default_factory=TextOptions)

    @property
    def local(self) -> str | Path:
        """The path; of files in a store, that of their copy on this machine, which is made when it is needed."""
        if scheme_of(self.path) not in STORES:
            return self.path
        from sfumato.sources.stores import local_copy

        return local_copy(self.path)

    def read(self) -> Table:
        """Read the table."""
        return _read_table(self.local, self.options)

    def read_declared(self) -> tuple[Table, bool]:
        """Read the table so that no cell decides how others are read; return also whether its types are declared.

        The cells of a text file are all text, and so are the names of folders. Formats whose columns have no type, but
        whose cells have one, are refused.
        """
        files = matching_files(self.path)
        formats = {file_format(file) if not is_gzip(file) else "text" for file in files}
        if formats == {"text"}:
            from sfumato.formats.declared_text import read_lines

            parts = [read_lines(_unpacked(file), file.name, self.options) for file in files]
            arrow = _concatenate(parts)
            rows = [number for number, part in enumerate(parts) for _ in range(part.num_rows)]
            return Table.from_arrow(Partitions.of(self.path, files).add_to(arrow, rows, as_text=True)), False
        if any(Path(file).suffix.lower() not in TYPED for file in files):
            raise ReadError(
                "A differentially private release reads text files, or files whose columns have types.",
                found="a format in which each cell has a type of its own",
                fix="save it as CSV or Parquet",
            )
        return self.read(), True

    def batches(self) -> Iterator[pa.Table]:
        """Yield all rows, as one batch."""
        yield self.read().arrow

    def memory_needed(self) -> int:
        """Estimate the bytes of memory that working on all rows at once takes."""
        if scheme_of(self.path) in STORES:
            from sfumato.sources.stores import size_at

            return COPIES * size_at(self.path)
        return sum(map(_memory_needed, matching_files(self.path)))

    def require_no_header(self, file: Path) -> None:
        """Raise if a header or names are given for a file that contains its names."""
        self.options.require_no_header(file.name)


def _read_table(path: str | Path, options: TextOptions) -> Table:
    try:
        files = matching_files(path)
        arrow = _read(files, Partitions.of(path, files), options)
    except MemoryError:
        arrow = None
    if arrow is None:
        raise ReadError(
            f"There is not enough memory to read {shorten_name(path)}.", fix="--engine duckdb, or more memory"
        )
    if arrow.num_columns == 0 or arrow.num_rows == 0:
        raise TableError(
            f"A table must have rows; {shorten_name(path)} has none.", found=f"{arrow.num_columns} columns without rows"
        )
    unnamed = [name for name in arrow.column_names if UNNAMED_INDEX.fullmatch(name)]
    return Table.from_arrow(arrow.drop_columns(unnamed))


@dataclass(frozen=True, repr=False)
class Partitions:
    """Columns that are not in files but in the names of their folders, such as ``year=2020``, as Hive stores them."""

    texts: pa.Table  # one row per file
    values: pa.Table  # the same, typed

    @classmethod
    def of(cls, path: str | Path, files: Sequence[Path]) -> Partitions:
        """Return the columns of files in a folder or of a pattern; a file that is given by its path has none."""
        given = Path(path).expanduser()
        below = given if given.is_dir() else Path()  # the folder itself may be one of another table
        named = [
            dict(part.split("=", 1) for part in folder.parts if part.partition("=")[0] and "=" in part)
            for folder in (file.parent.relative_to(below) if given.is_dir() else file.parent for file in files)
            if list(files) != [given]
        ]
        names = list(dict.fromkeys(name for one in named for name in one))
        cells = [[_partition_value(one.get(name)) for one in named] for name in names]
        texts = pa.table([pa.chunked_array([pa.array(column, pa.string())]) for column in cells], names=names)
        typed = [infer_type(column, Spelling()) for column in texts.columns]
        return cls(texts, pa.table(typed, names=names))

    def add_to(self, rows: pa.Table, files: Sequence[int], *, as_text: bool = False) -> pa.Table:
        """Return the rows with the columns; ``files`` has the number of the file of each row."""
        columns = self.texts if as_text else self.values
        for name in columns.column_names:
            if name not in rows.column_names:  # some programs write them into the files as well
                rows = rows.append_column(name, columns.column(name).take(pa.array(files, pa.int64())))
        return rows

    def __bool__(self) -> bool:
        return bool(self.texts.column_names)


def _partition_value(text: str | None) -> str | None:
    return None if text in (None, "", "__HIVE_DEFAULT_PARTITION__") else unquote(str(text))


def _read(files: list[Path], partitions: Partitions, options: TextOptions) -> pa.Table:
    parts = [_read_part(file, options) for file in files]
    texts = {number: part for number, part in enumerate(parts) if isinstance(part, Text)}
    tables = {number: part for number, part in enumerate(parts) if not isinstance(part, Text)}
    lines = {number: text.lines.num_rows for number, text in texts.items()}
    # infer types after concatenation: a column of whole numbers in one file may have fractions in the next
    typed = concatenate_texts(list(texts.values()), options) if texts else None
    arrow = _concatenate([*tables.values(), *([] if typed is None else [typed])])
    if not partitions:
        return arrow
    heads = 0 if typed is None else (sum(lines.values()) - typed.num_rows) // len(lines)
    rows = {number: table.num_rows for number, table in tables.items()}
    rows |= {number: count - heads for number, count in lines.items()}
    return partitions.add_to(arrow, [number for number, count in rows.items() for _ in range(count)])


def matching_files(path: str | Path) -> list[Path]:
    """Return the file at this path, or all files that match the pattern, in order of name."""
    if scheme_of(path):
        raise ReadError(f"{str(path)!r} is a URL, not a file.", fix="copy the table to a file and pass its path")
    location = Path(path)
    with contextlib.suppress(RuntimeError):  # ~nobody
        location = location.expanduser()
    parts = _partitioned_files(location)
    if parts:
        return parts
    if is_there(location):
        return [location]
    name = shorten_name(str(path))
    if not glob.has_magic(str(location)):
        raise ReadError(f"There is no file {name!r}.", fix=near_name(location))
    start = Path(*takewhile(lambda part: not glob.has_magic(part), location.parts))
    files = sorted(file for file in start.glob(str(location.relative_to(start))) if file.is_file())
    if not files:
        raise ReadError(f"No file matches the pattern {name!r}.", fix="check the folder and the pattern")
    return files


def _partitioned_files(folder: Path) -> list[Path]:
    """Return the files below a folder that has folders such as ``year=2020``; none of any other path."""
    try:
        is_partitioned = any("=" in child.name and child.is_dir() for child in folder.iterdir())
    except (OSError, ValueError):  # a file, or a path that :func:`is_there` judges
        return []
    if not is_partitioned:
        return []
    inside = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return [file for file in inside if not is_hidden(file.relative_to(folder))]


def is_hidden(file: Path) -> bool:
    """Return whether the name begins as those of files that are no data; ``_year=2020`` is the folder of a column."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in file.parts)


def _memory_needed(file: Path) -> int:
    if file_format(file) != "parquet":
        return COPIES * unpacked_size(file, MOST_COUNTED)
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        return 0  # broken: said when it is read
    return CELL_BYTES * int(metadata.num_rows) * int(metadata.num_columns)


def _unpacked(file: Path) -> bytes:
    raw = read_bytes(file)
    return _unzip(raw, file) if raw.startswith(GZIP) else raw


def is_gzip(file: Path) -> bool:
    """Return whether a file is compressed with gzip."""
    with file.open("rb") as opened:
        return opened.read(2) == GZIP


def _read_part(file: Path, options: TextOptions) -> pa.Table | Text:
    raw = _unpacked(file)
    if not raw:
        raise ReadError(f"{file.name} is empty.")
    binary = binary_format(raw)
    if binary is EXCEL:
        lines = read_sheet(raw, file.name, sheet=options.sheet)
        return Text(
            without_first_rows(lines, options.skip, file.name),
            Dialect(separator="\t", quote=None, padded=False),
            file.name,
        )
    if binary is not None:
        options.require_no_header(file.name)
        return read_statistics_file(raw, file.name, binary, missing=options.missing)
    if claimed_format(file.suffix):
        raise ReadError(f"{file.name} is not a valid {file.suffix.lower()} file.", fix="write the file again")
    for magic, (what, fix) in FOREIGN.items():
        if raw.startswith(magic):
            raise ReadError(f"{file.name} is {what}.", fix=fix)
    if raw.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        options.require_no_header(file.name)
        return read_parquet(raw, file.name) if raw.startswith(b"PAR1") else read_arrow(raw, file.name)
    if is_json_lines(raw, file):
        options.require_no_header(file.name)
        spelling = Spelling(marks=options.missing, decimal=options.decimal)
        return infer_types(read_json_lines(raw, file.name), spelling)
    if file.suffix.lower() in (".parquet", ".pq", ".arrow", ".feather", ".ipc"):
        raise ReadError(f"{file.name} is not a valid {file.suffix.lower()} file.", fix="write the file again")
    return Text.of(raw, file.name, options)


def _unzip(raw: bytes, file: Path) -> bytes:
    free = available_memory()
    if unpacked_size(file, free) > free:
        raise MemoryError
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error):
        pass
    raise ReadError(f"{file.name} is not a complete gzip file.", fix="copy or compress it again")


def _concatenate(parts: list[pa.Table]) -> pa.Table:
    """Concatenate the parts, which must have the same columns of the same types, in the order of the first."""
    first = parts[0].schema.remove_metadata()
    for part in parts[1:]:
        different = sorted({field.name for field in set(first) ^ set(part.schema.remove_metadata())})
        if different or len(part.schema) != len(first):
            raise TableError(
                "Files that are read together must have the same columns with the same types.",
                found=f"differences in {', '.join(map(repr, different)) or 'the number of columns'}",
                fix="read them one by one",
            )
    alike = [part.replace_schema_metadata(None) for part in parts]
    is_ordered = len(set(first.names)) < len(first) or all(part.column_names == first.names for part in alike)
    return pa.concat_tables(alike if is_ordered else [part.select(first.names) for part in alike])
