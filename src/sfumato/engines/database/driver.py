"""What each database driver does, and errors that show neither cells nor passwords."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class ColumnTypes:
    """Types of columns as the database names them, and comments on columns, by the name of the column."""

    types: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)


class Driver(ABC):
    """Access to one database."""

    @abstractmethod
    def batches(self, query: str) -> Iterator[pa.Table]:
        """Yield the rows of a query, all of one state of the database."""

    @abstractmethod
    def count(self, query: str) -> tuple[int, int]:
        """Return the numbers of rows and columns of a query."""

    @abstractmethod
    def column_types(self, table: str) -> ColumnTypes:
        """Return what is declared about the columns of a table; nothing if there is no such table."""

    @abstractmethod
    def exists(self, table: str) -> bool:
        """Return whether there is such a table."""

    @abstractmethod
    def write(
        self,
        table: str,
        schema: pa.Schema,
        batches: Iterator[pa.Table],
        declared: ColumnTypes,
        *,
        comment: str,
        replace: bool,
    ) -> None:
        """Write rows into a new table in one transaction, with a comment on it."""

    @abstractmethod
    def comment(self, table: str) -> str | None:
        """Return the comment on a table."""


def quoted(name: str) -> str:
    """Return a name as SQL; ``schema.table`` names a table in a schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def quoted_column(name: str) -> str:
    """Return the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"
