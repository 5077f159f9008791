"""Spreadsheets and files of statistics packages: how they are recognised, and which package reads and writes them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from sfumato.errors import MissingExtra

HEAD_BYTES = 1024  # enough to recognise every format
SAS7BDAT = bytes(12) + bytes.fromhex("c2ea8160b31411cfbd92080009c7318c181f1011")
ZIP, OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, kw_only=True)
class BinaryFormat:
    """A format that a package of an extra reads."""

    reader: str  # name of the reader in the child process
    what: str  # for messages
    package: str  # module that reads it
    extra: str  # that installs it
    suffixes: tuple[str, ...]

    def require_package(self) -> None:
        """Raise unless the package that reads the format is installed."""
        require_packages(self.extra, [self.package], doing=f"Reading {self.what} files")


EXCEL = BinaryFormat(
    reader="excel",
    what="Excel",
    package="python_calamine",
    extra="excel",
    suffixes=(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
)
SPSS = BinaryFormat(reader="sav", what="SPSS", package="pyreadstat", extra="stats", suffixes=(".sav", ".zsav"))
SPSS_PORTABLE = BinaryFormat(reader="por", what="SPSS", package="pyreadstat", extra="stats", suffixes=(".por",))
STATA = BinaryFormat(reader="dta", what="Stata", package="pyreadstat", extra="stats", suffixes=(".dta",))
SAS = BinaryFormat(reader="sas7bdat", what="SAS", package="pyreadstat", extra="stats", suffixes=(".sas7bdat",))
SAS_TRANSPORT = BinaryFormat(reader="xpt", what="SAS", package="pyreadstat", extra="stats", suffixes=(".xpt", ".xport"))
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
