"""A table that is somewhere else and not read yet, and a place that a release can be written to."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.table.table import Table

COPIES = 12  # memory for a text file, as a multiple of its size
CELL_BYTES = 150  # memory for a cell: its number, weights, sorted copies and released columns
STORES = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "hdfs")  # schemes of stores of files
SCHEMES = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "mysql": "MySQL",
    "mariadb": "MySQL",
    "duckdb": "DuckDB",
    "sqlite": "SQLite",
}  # of databases


def scheme_of(path: Any) -> str:
    """Return what kind of URL this is, such as ``postgresql`` or ``s3``; "" if it is none.

    A ``Path`` holds one slash of the two, and a single letter is a drive of Windows.

    >>> scheme_of("s3://bucket/out"), scheme_of("jdbc:mysql://host"), scheme_of("C:/out"), scheme_of("out")
    ('s3', 'jdbc:mysql', '', '')
    """
    scheme = re.match(r"\s*((?:[A-Za-z][A-Za-z0-9+.-]+:)+)/", str(path))
    return scheme[1].rstrip(":").lower() if scheme else ""


def may_name_table(path: str, folder: Path | None = None) -> bool:
    """Return whether this may be a temporary view or a table of a catalog: no file in the folder is called so.

    >>> may_name_table("clinic.people"), may_name_table("`my clinic`.people"), may_name_table("rows/*.parquet")
    (True, True, False)
    """
    name = r"(?:`[^`]+`|\w+)"
    return bool(re.fullmatch(rf"{name}(?:\.{name}){{0,2}}", path)) and not ((folder or Path()) / path).exists()


class TableSource(ABC):
    """A table that can be read as a whole or in batches."""

    @abstractmethod
    def read(self) -> Table:
        """Read all rows."""

    @abstractmethod
    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows in batches, all of one state of the table."""

    @abstractmethod
    def memory_needed(self) -> int:
        """Estimate the bytes of memory that working on all rows at once takes; 0 if that is not known."""

    def read_declared(self) -> tuple[Table, bool]:
        """Read all rows so that no cell decides how others are read; return also whether types are declared."""
        return self.read(), True

    def manifest_text(self) -> str | None:
        """Return the text that is stored with the rows, which is a manifest if they are a release; None without it."""
        return None


class Destination(ABC):
    """A place that a release can be written to: all of it goes there, or nothing."""

    @abstractmethod
    def require_free(self) -> None:
        """Raise before any work if the release could not be written there."""

    def following(self, source: Any) -> Destination:
        """Return the destination with what it takes over from the source, such as the types of columns."""
        return self

    @abstractmethod
    def write(self, release: Any) -> None:
        """Write the :class:`~sfumato.release.release.Release`, all or nothing."""
