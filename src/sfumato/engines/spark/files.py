"""The files of a relation with the numbers of their rows: what one task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sfumato.engines.stored.relation import Relation, StoredRows
from sfumato.release.stored import rows_in

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class NumberedFile:
    """A file, and the number of its first row in the whole table."""

    path: Path
    first: int

    def batches(
        self, rows: StoredRows, names: Sequence[str], size: int
    ) -> Iterator[tuple[NDArray[np.uint64], pa.Table]]:
        """Yield batches of these columns as they are stored, with the numbers of their rows."""
        alone = Relation((self.path,), rows.relation.types, rows.relation.orders)
        for keys, arrow in alone.batches(names, size):
            yield keys + np.uint64(self.first), arrow


def numbered_files(relation: Relation) -> list[NumberedFile]:
    """Return the files of a relation that have rows."""
    numbered, first = [], 0
    for file in relation.files:
        rows = rows_in(file)
        if rows:
            numbered.append(NumberedFile(file, first))
        first += rows
    return numbered
