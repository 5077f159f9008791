"""Read the bytes of regular files, recognise their format, and write files completely or not at all.

Pipes, devices and folders are refused before anything is read from them. A file is first written under a temporary name
and then moved, so that a partial file is never left.
"""

from __future__ import annotations

import contextlib
import io
import lzma
import os
import re
import secrets
import stat
import struct
import zipfile
import zlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.util import find_spec
from itertools import accumulate, islice
from pathlib import Path
from typing import BinaryIO

from sfumato.errors import MissingExtra, OptionError, ReadError

LONGEST_SHOWN = 80  # characters of a path in a message
MOST_LISTED = 10_000  # files of a folder whose names are compared
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".arrow", ".feather", ".jsonl", ".gz")  # endings of tables
UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}")  # a temporary name
BROKEN_ARCHIVE = (  # what `zipfile` raises for archives that are damaged, encrypted or compressed in another way
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(NotImplementedError, RuntimeError, EOFError, OSError, ValueError),
)
FOLDER_FIX = "pass a file, or a pattern such as 'folder/*.parquet'"
NOT_REGULAR = {  # what the file is → what to try
    stat.S_IFDIR: ("a folder", FOLDER_FIX),
    stat.S_IFIFO: ("a pipe", "write its content to a file first"),
    stat.S_IFSOCK: ("a socket", "write its content to a file first"),
    stat.S_IFCHR: ("a device", "pass a file"),
    stat.S_IFBLK: ("a device", "pass a file"),
}


def is_there(path: Path) -> bool:
    """Return whether a path exists; raise a ReadError if the system cannot even look it up, or if it is no file."""
    reason = ""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except ValueError:  # a zero byte, or half of a character
        reason = "its name is not valid"
    if reason:
        raise ReadError(f"{shorten_name(path)} cannot be read: {reason}.", fix="check the path")
    what, fix = NOT_REGULAR.get(stat.S_IFMT(mode), ("", ""))
    if what:
        fix = _table_in(path) or fix
        raise ReadError(f"{shorten_name(path)} is {what}, not a file.", fix=fix)
    return True


def near_name(path: Path) -> str:
    """Return what to try instead of a path that does not exist: the file with the most similar name."""
    with contextlib.suppress(OSError, ValueError):
        if not path.parent.is_dir():
            return f"check the folder: there is no {str(path.parent)[:LONGEST_SHOWN]!r}"
        names = {one.name.lower(): one.name for one in islice(path.parent.iterdir(), MOST_LISTED)}
        near = get_close_matches(path.name.lower(), names, n=1)
        if near:
            return repr(str(path.parent / names[near[0]]))
    return "check the path"


def _table_in(folder: Path) -> str:
    """Return what to try instead of a folder: a table in it; empty if there is none, or if it is not a folder."""
    with contextlib.suppress(OSError, ValueError):
        first = next((one for one in sorted(folder.iterdir()) if one.suffix.lower() in TABLES and one.is_file()), None)
        return "" if first is None else f"{str(folder / first.name)!r}, or a pattern such as {str(folder / '*')!r}"
    return ""


def read_bytes(file: Path) -> bytes:
    """Return all bytes of a regular file."""
    reason, fix = "", "check the path"
    try:
        if is_there(file):
            return file.read_bytes()
        reason = os.strerror(2)
    except OSError as error:
        reason, fix = error.strerror or "it cannot be opened", "check its permissions"
    except MemoryError:
        reason, fix = "there is not enough memory", "a smaller file, or a machine with more memory"
    raise ReadError(f"{shorten_name(file)} cannot be read: {reason}.", fix=fix)


def shorten_name(path: Path | str) -> str:
    """Return the name of a file for a message, shortened if it is very long."""
    name = Path(path).name or str(path)
    return name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}…"


def is_unfinished(path: Path, endings: tuple[str, ...]) -> bool:
    """Whether a file with such an ending was left behind by :func:`write_whole` whose process was killed.

    >>> is_unfinished(Path(".comparison.json.0123456789abcdef"), (".json",)), is_unfinished(Path(".bashrc"), (".json",))
    (True, False)
    """
    name = UNFINISHED.fullmatch(path.name)
    return name is not None and name[1].endswith(endings)


BINARY = getattr(os, "O_BINARY", 0)  # without it Windows changes the ends of lines


def write_whole(path: Path, fill: Callable[[BinaryIO], object], *, mode: int = 0o666) -> None:
    """Write a file completely or not at all: ``fill`` writes to a temporary file, which then replaces ``path``.

    The file has this mode, without what the user's mask takes away.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    reason = ""
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode), "wb") as file:
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


def write_frames(path: Path, frames: Sequence[bytes]) -> None:
    """Write several contents into one file, completely or not at all; :func:`read_frame` reads one of them."""
    ends = array("q", accumulate([8 * (len(frames) + 1), *map(len, frames)]))
    write_whole(path, lambda file: file.writelines([ends.tobytes(), *frames]))


def read_frame(path: Path, number: int) -> bytes:
    """Return one of the contents of a file, without reading the others."""
    with path.open("rb") as file:
        file.seek(8 * number)
        start, end = array("q", file.read(16))
        file.seek(start)
        return file.read(end - start)


# How the format of a file is recognised, and which packages read and write spreadsheets and statistics files.


HEAD_BYTES = 1024  # enough to recognise every format
SAS7BDAT = bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011")
# first bytes of unsupported formats → what the file is, and how to convert it
FOREIGN = {
    b"PK\x03\x04": ("a ZIP archive", "unpack the archive"),
    b"FEA1": ("a Feather file of version 1", "write it again as Feather version 2 or Parquet"),
    b"%PDF": ("a PDF document", "read a CSV, TSV, Parquet or Arrow file"),
    b"\x28\xb5\x2f\xfd": ("Zstandard-compressed", "unpack it, or compress with gzip"),
    b"BZh": ("bzip2-compressed", "unpack it, or compress with gzip"),
    b"\xfd7zXZ": ("xz-compressed", "unpack it, or compress with gzip"),
}
ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, kw_only=True)
class BinaryFormat:
    """A format that a package of an extra reads."""

    what: str  # for messages
    package: str  # module that reads it
    extra: str  # that installs it
    suffixes: tuple[str, ...]  # the first one names the format

    def require_package(self) -> None:
        """Raise unless the package that reads the format is installed."""
        require_packages(self.extra, [self.package], doing=f"Reading {self.what} files")


EXCEL = BinaryFormat(
    what="Excel", package="python_calamine", extra="excel", suffixes=(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
)
SPSS = BinaryFormat(what="SPSS", package="pyreadstat", extra="stats", suffixes=(".sav", ".zsav"))
SPSS_PORTABLE = BinaryFormat(what="SPSS", package="pyreadstat", extra="stats", suffixes=(".por",))
STATA = BinaryFormat(what="Stata", package="pyreadstat", extra="stats", suffixes=(".dta",))
SAS = BinaryFormat(what="SAS", package="pyreadstat", extra="stats", suffixes=(".sas7bdat",))
SAS_TRANSPORT = BinaryFormat(what="SAS", package="pyreadstat", extra="stats", suffixes=(".xpt", ".xport"))
FORMATS = (EXCEL, SPSS, SPSS_PORTABLE, STATA, SAS, SAS_TRANSPORT)
MODULES = {"python_calamine": "python-calamine"}  # module → package, if they differ


def binary_format(raw: bytes) -> BinaryFormat | None:
    """Return the format of a file by its content; None if it is none of these."""
    start = raw[:HEAD_BYTES]
    if start.startswith(OLE) or (start.startswith(ZIP) and _is_workbook(raw)):
        return EXCEL
    if start.startswith((b"$FL2", b"$FL3")):
        return SPSS
    if b"SPSSPORT" in start:
        return SPSS_PORTABLE
    if start.startswith(b"<stata_dta>") or (102 <= start[0] <= 115 and start[1:2] in (b"\x01", b"\x02")):
        return STATA
    if start.startswith(SAS7BDAT):
        return SAS
    return SAS_TRANSPORT if start.startswith(b"HEADER RECORD*******LIB") else None


def claimed_format(suffix: str) -> BinaryFormat | None:
    """Return the format that the name of a file claims."""
    return next((one for one in FORMATS if suffix.lower() in one.suffixes), None)


def require_packages(extra: str, modules: list[str], *, doing: str) -> None:
    """Raise unless these modules of an extra can be imported."""
    absent = [MODULES.get(name, name) for name in modules if find_spec(name) is None]
    if absent:
        raise MissingExtra(
            f"{doing} needs {' and '.join(absent)}.", found="not installed", fix=f"pip install 'sfumato[{extra}]'"
        )


def _is_workbook(raw: bytes) -> bool:
    """Whether a ZIP archive is a workbook: the names of its files stand in it as they are."""
    return b"xl/workbook." in raw or b"opendocument.spreadsheet" in raw[:HEAD_BYTES]


def file_format(file: Path) -> str:
    """Return the format of a file by its first bytes: "parquet", "arrow", "text" or "other"."""
    reason = ""
    try:
        with file.open("rb") as opened:
            start = opened.read(HEAD_BYTES)
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
    if reason:
        raise ReadError(f"{shorten_name(file)} cannot be read: {reason}.", fix="check its permissions")
    if not start:
        raise ReadError(f"{file.name} is empty.")
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    is_foreign = (
        any(start.startswith(magic) for magic in FOREIGN) or binary_format(start) or claimed_format(file.suffix)
    )
    return "other" if is_foreign or file.suffix.lower() in (".jsonl", ".ndjson", ".json", ".parquet") else "text"


CHUNK = 1 << 20


def unpacked_size(file: Path, most: int) -> int:
    """Return the size of a file after unpacking (gzip, or the ZIP archive of a workbook), or a number above ``most``.

    Nothing of it is kept while it is counted. Broken files are reported by their readers later.
    """
    with file.open("rb") as opened:
        start = opened.read(4)
    if start.startswith(b"\x1f\x8b"):
        return _gzip_size(file, most)
    return zip_size(file) if start.startswith(b"PK\x03\x04") else file.stat().st_size


def _gzip_size(file: Path, most: int) -> int:
    size = 0
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    with file.open("rb") as opened:
        try:
            while size <= most and (chunk := unpacking.unconsumed_tail or unpacking.unused_data or opened.read(CHUNK)):
                if unpacking.eof:  # several files, one after the other
                    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
                size += len(unpacking.decompress(chunk, CHUNK))
        except zlib.error:
            return size
    return size


def zip_size(archive: Path | io.BytesIO) -> int:
    """Return what a ZIP archive says that it unpacks to: 0 for a broken one, which its reader refuses.

    The reader of workbooks unpacks no more than the archive says, and refuses one that says too little.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            return sum(member.file_size for member in opened.infolist())
    except BROKEN_ARCHIVE:
        return 0
