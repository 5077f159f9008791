"""The distinct combinations of values of the quasi-identifiers, which the searches of recodings count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.recodings.value_groupings import Groupings
from sfumato.table.groups import first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class JointCounts:
    """The distinct combinations of values, and how many rows have each."""

    columns: tuple[Groupings, ...]  # one row per combination
    counts: NDArray[np.int64]
    of_row: NDArray[np.int64]  # the combination of each row

    @classmethod
    def of(cls, columns: Sequence[Groupings]) -> JointCounts:
        """Count the combinations of values of the rows."""
        labels = np.zeros(len(columns[0].value_of_row), dtype=np.int64)
        for column in columns:
            labels = refine(labels, column.value_of_row, column.size)
        first = first_rows(labels)
        return cls(tuple(column.of_rows(first) for column in columns), np.bincount(labels), labels)

    def share_alike(self, recodings: Sequence[NDArray[np.int32]], k: int) -> float:
        """Return the share of rows in groups of at least k rows, if the values are recoded to these groups."""
        labels = np.zeros(len(self.counts), dtype=np.int64)
        for column, groups in zip(self.columns, recodings, strict=True):
            labels = refine(labels, groups[column.value_of_row], int(groups.max()) + 1)
        sizes = np.bincount(labels, weights=self.counts)
        return float(sizes[sizes >= k].sum() / sizes.sum())
