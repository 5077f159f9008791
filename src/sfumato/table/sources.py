"""Tables that are somewhere else and not read yet: in files, in a database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.table.table import Table


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

    def manifest_text(self) -> str | None:
        """Return the manifest of a release that is stored with the rows; None if they are no release."""
        return None


COPIES = 12  # memory for a text file, as a multiple of its size
CELL_BYTES = 150  # memory for a cell: its number, weights, sorted copies and released columns
