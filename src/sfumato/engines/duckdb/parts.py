"""The released rows, part by part: each block becomes a Parquet file, in random order, and is read back to be verified.

The origin of each row stays in the workspace until the release is verified, and is removed with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.engines.memory import cells_only, in_random_order
from sfumato.errors import CannotRelease, GuaranteeNotMet
from sfumato.methods.claims import Evidence
from sfumato.randomness import Randomness
from sfumato.release.stored import StoredTable
from sfumato.release.target import part_name
from sfumato.table.write import write_whole

if TYPE_CHECKING:
    from typing import BinaryIO

    from numpy.typing import NDArray

    from sfumato.engines.duckdb.blocks import Blocks
    from sfumato.engines.duckdb.numbering import RandomNumbering
    from sfumato.methods.base import Plan
    from sfumato.methods.diagnostics import Trace
    from sfumato.table.kinds import Kind
    from sfumato.table.table import Table


@dataclass(frozen=True, repr=False)
class Part:
    """A block that was transformed and written."""

    block: int
    number: int  # of the file, at random
    rows: int
    trace: Trace
    kinds: Mapping[str, Kind]


@dataclass(frozen=True, repr=False)
class Parts:
    """All parts of a release, and the blocks that they come from."""

    blocks: Blocks
    folder: Path  # of the files that will leave
    origins: Path  # of the origins, which will not
    parts: Sequence[Part]

    @property
    def rows(self) -> int:
        """Number of released rows."""
        return sum(part.rows for part in self.parts)

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """Kinds of the released columns."""
        return self.parts[0].kinds

    def table(self) -> StoredTable:
        """Return the released rows as they are in their files."""
        return StoredTable.of(self.folder, self.kinds)

    def evidence(self, part: Part) -> Evidence:
        """Return the rows of a part as they were written, with the original rows of its block."""
        released = next(StoredTable([self.folder / part_name(part.number)], part.kinds, part.rows).parts())
        if released.rows != part.rows:
            raise GuaranteeNotMet(
                "A part of the release must be as it was written.",
                found=f"{released.rows:,} rows of {part.rows:,}",
                fix="release again",
            )
        return Evidence(released, self.blocks.read(part.block), np.load(self.origins / f"{part.number}.npy"))

    def evidences(self) -> Iterator[Evidence]:
        """Yield the evidence of one part after the other."""
        for part in self.parts:
            yield self.evidence(part)


@dataclass(frozen=True, repr=False)
class PartWriter:
    """Transforms blocks and writes them as parts."""

    plan: Plan
    blocks: Blocks
    folder: Path
    origins: Path
    file_numbers: NDArray[np.int64]  # of each block, at random
    first_rows: NDArray[np.int64]  # number of rows in the blocks before each block
    numbering: RandomNumbering

    def write(self, block: int) -> Part | None:
        """Transform one block and write its rows; None if all of them are suppressed."""
        original = self.blocks.read(block)
        outcome = self.plan.transform(original, block)
        if not outcome.rows:
            return None
        evidence = in_random_order(Evidence(outcome.released, original, outcome.origin), Randomness())
        released = cells_only(self._numbered(evidence.released, block))
        number = int(self.file_numbers[block])
        write_whole(self.folder / part_name(number), partial(_write_parquet, released.arrow))
        np.save(self.origins / f"{number}.npy", evidence.origin)
        return Part(block, number, released.rows, outcome.trace, released.kinds)

    def _numbered(self, released: Table, block: int) -> Table:
        """Give the groups in numbered columns random numbers that no other block has."""
        from sfumato.table.table import Table

        arrow = released.arrow
        for name in self.plan.numbered:
            labels = pa.array(arrow.column(name).to_numpy()).dictionary_encode().indices.to_numpy()
            numbers = self.numbering.of(self.first_rows[block] + labels.astype(np.int64))
            arrow = arrow.set_column(arrow.column_names.index(name), name, pa.array(numbers))
        return Table(arrow, released.kinds)


def require_rows(parts: Sequence[Part]) -> None:
    """Raise if no row is released."""
    if not parts:
        raise CannotRelease(
            "At least one row must be released.",
            found="all rows suppressed",
            fix="a smaller k, or fewer protected columns",
        )


def _write_parquet(arrow: pa.Table, file: BinaryIO) -> None:
    import pyarrow.parquet as pq

    pq.write_table(arrow, file)
