"""The questions a method may ask of a table it never holds as a whole.

Every answer is mergeable (moments, counts, extremes, a sample), so any engine can give it: memory by looking, a
database by a query, a cluster by aggregation. In memory the sample is the whole table and every answer is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.statistics.moments import Moments
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Distinct:
    """The distinct values of a column with their counts."""

    values: pa.Array
    counts: NDArray[np.int64]


class Survey(Protocol):
    """What an engine can tell about a table."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def block_rows(self) -> int | None:
        """Rows that the engine wants in a block, or None when one block may hold them all."""
        ...

    def sample(self, columns: Sequence[str]) -> Table:
        """Rows drawn at random (in memory: all of them, in order)."""
        ...

    def moments(self, columns: Sequence[str], weight: str | None = None) -> Moments:
        """Weighted mean and covariance of numeric columns over the rows where none of them is missing."""
        ...

    def extremes(self, column: str) -> tuple[float, float]:
        """Smallest and largest number of a numeric column; (nan, nan) when all are missing."""
        ...

    def missing(self, column: str) -> int:
        """Number of rows without a value."""
        ...

    def quantiles(self, column: str, shares: Sequence[float]) -> NDArray[np.float64]:
        """Quantiles of a numeric column."""
        ...

    def distinct(self, column: str) -> Distinct:
        """The distinct values of a column, sorted, the missing one last, and how often each stands."""
        ...

    def counts(self, columns: Sequence[str]) -> NDArray[np.int64]:
        """Sizes of the groups of rows that are equal in these columns."""
        ...
