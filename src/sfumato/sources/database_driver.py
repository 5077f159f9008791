"""What each database driver does, and errors that show neither cells nor passwords."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.errors import RequestError, SfumatoError, items_without_cause, without_cause

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 16
T = TypeVar("T")


@dataclass(frozen=True)
class ColumnTypes:
    """Types of columns as the database names them, and comments on columns, by the name of the column."""

    types: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NewTable:
    """A table to be written."""

    name: str
    schema: pa.Schema
    declared: ColumnTypes  # of columns that take their type or comment over from the source
    comment: str
    replace: bool  # whether an existing table of that name is replaced

    @property
    def declared_types(self) -> dict[str, str]:
        """Declared types of the columns that are written."""
        return {column: kind for column, kind in self.declared.types.items() if column in self.schema.names}

    @property
    def comments(self) -> dict[str, str]:
        """Comments on the columns that are written."""
        return {column: text for column, text in self.declared.comments.items() if column in self.schema.names}


class Driver(ABC):
    """Access to one database. Errors of its library, which may quote cells, are exchanged for others."""

    def batches(self, query: str) -> Iterator[pa.Table]:
        """Yield the rows of a query, all of one state of the database."""
        import pyarrow as pa

        streaming = (*self._errors, pa.ArrowException, OSError)  # Arrow passes errors on under names of its own
        yield from items_without_cause(self._batches(query), streaming, self._replace_error)

    @abstractmethod
    def count(self, query: str) -> tuple[int, int]:
        """Return the numbers of rows and columns of a query."""

    @abstractmethod
    def column_types(self, table: str) -> ColumnTypes:
        """Return what is declared about the columns of a table; nothing if there is no such table."""

    @abstractmethod
    def exists(self, table: str) -> bool:
        """Return whether there is such a table."""

    def require_replaceable(self, table: str) -> None:
        """Raise if an existing table has something that a new one in its place would not have."""
        return

    @abstractmethod
    def write(self, new: NewTable, batches: Iterator[pa.Table]) -> None:
        """Write rows into a new table in one transaction."""

    @abstractmethod
    def comment(self, table: str) -> str | None:
        """Return the comment on a table."""

    def _do(self, work: Callable[[Any], T], *, writing: bool = False) -> T:
        """Do work with a connection; what is not committed is rolled back when it closes."""

        def whole() -> T:
            with self._open(writing=writing) as connection:
                return work(connection)

        return without_cause(whole, self._errors, self._replace_error)

    @property
    @abstractmethod
    def _errors(self) -> tuple[type[Exception], ...]:
        """Errors of the library."""

    @abstractmethod
    def _replace_error(self, error: Exception) -> SfumatoError:
        """Return an error that says the same without the text of the library."""

    @abstractmethod
    def _batches(self, query: str) -> Iterator[pa.Table]:
        """Yield the rows of a query, with errors of the library."""

    @abstractmethod
    def _open(self, *, writing: bool = False) -> AbstractContextManager[Any]:
        """Yield a connection, or what commands are given to; ``writing`` if it may make and change tables."""


def quote_name(name: str) -> str:
    """Return a name as SQL; ``schema.table`` names a table in a schema."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in name.split("."))


def quote_column(name: str) -> str:
    """Return the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a text as SQL."""
    return "'" + text.replace("'", "''") + "'"


def require_nothing_lost(table: str, lost: Sequence[str]) -> None:
    """Raise if a table that would be replaced has what a new one would not have, such as indexes."""
    if lost:
        raise RequestError(
            f"The table {table!r} is replaced by a new one, which would not have all that the old one has.",
            found=", ".join(lost),
            fix="another name, or drop the table first and set this up again afterwards",
        )
