"""How the format of a file is recognised, and which packages read and write spreadsheets and statistics files."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sfumato.errors import MissingExtra, ReadError
from sfumato.table.files import shown

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
    what="Excel",
    package="python_calamine",
    extra="excel",
    suffixes=(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
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
        raise ReadError(f"{shown(file)} cannot be read: {reason}.", fix="check its permissions")
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
