"""How the memory of a run is divided: between DuckDB, the sample, the blocks in work, and what Python itself needs."""

from __future__ import annotations

from dataclasses import dataclass

OWN = 350 * 10**6  # bytes that the libraries take before a row is read
LEAST = 100 * 10**6  # bytes left for rows, however small the limit is
CELL = 8  # bytes of a cell in a matrix
COPIES = 40  # cells that a method holds for one cell of a block: matrices, weights, sorted copies, released columns
LEAST_BLOCK, MOST_BLOCK = 20_000, 2_000_000  # rows of a block
LEAST_SAMPLE, MOST_SAMPLE = 20_000, 400_000  # rows of the sample
BATCH_CELLS = 1 << 21  # cells that are read together


@dataclass(frozen=True)
class MemoryBudget:
    """Amounts of memory, in bytes and rows, for a table with this many columns."""

    total: int  # bytes that the whole process may use
    columns: int
    workers: int  # blocks that are in work at the same time
    most_rows: int = MOST_BLOCK  # of a block

    @property
    def rows_bytes(self) -> int:
        """Bytes for rows, apart from those of the libraries."""
        return max(self.total - OWN, LEAST)

    @property
    def database(self) -> int:
        """Bytes for DuckDB."""
        return max(self.rows_bytes // 3, LEAST)

    @property
    def block_rows(self) -> int:
        """Rows of a block."""
        rows = self.rows_bytes * 2 // 3 // (self.workers * CELL * COPIES * max(self.columns, 1))
        return min(max(rows, LEAST_BLOCK), self.most_rows)

    @property
    def sample_rows(self) -> int:
        """Rows of the sample."""
        rows = self.rows_bytes // 8 // (CELL * 6 * max(self.columns, 1))
        return min(max(rows, LEAST_SAMPLE), MOST_SAMPLE)

    @property
    def batch_rows(self) -> int:
        """Rows that are read together."""
        return max(BATCH_CELLS // max(self.columns, 1), 1024)
