"""The claim that every column has the values of the original, each as often: cells only moved between rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.claims.base import FAULT, Claim, Evidence, Finding, counted, listed
from sfumato.table.hashing import column_hashes

if TYPE_CHECKING:
    from sfumato.table.table import Table

LANES = (b"marginal", b"second marginal")  # salts of two independent sums
MODULUS = 2**64


@dataclass(frozen=True, repr=False)
class ValueSums:
    """For each column the difference of the sums of the hashes of all cells, released minus original, and the rows.

    Sums do not depend on the order of rows, and those of blocks can be added up. Two different collections of values
    have the same two sums with a probability of about 2⁻¹²⁸.
    """

    differences: Mapping[str, tuple[int, ...]]
    rows: int  # released minus original
    released: int


@dataclass(frozen=True, kw_only=True)
class MarginalsKept(Claim[ValueSums]):
    """Each of ``columns`` has exactly the values of the original, missing ones too, each in as many rows."""

    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> ValueSums:
        differences = {
            name: tuple(
                (_sum(evidence.released, name, lane) - _sum(evidence.original, name, lane)) % MODULUS for lane in LANES
            )
            for name in self.columns
        }
        released = evidence.released.rows
        return ValueSums(differences, released - evidence.original.rows, released)

    def merge(self, one: ValueSums, other: ValueSums) -> ValueSums:
        differences = {
            name: tuple((a + b) % MODULUS for a, b in zip(one.differences[name], other.differences[name], strict=True))
            for name in self.columns
        }
        return ValueSums(differences, one.rows + other.rows, one.released + other.released)

    def finding(self, tally: ValueSums) -> Finding:
        changed = [name for name in self.columns if any(tally.differences[name])]
        return Finding(
            claim=f"every value is in as many rows as in the original, in {listed(self.columns)}",
            held=not changed and tally.rows == 0,
            found=f"{f'other values of {listed(changed)}' if changed else 'the values of the original'} in "
            f"{counted(tally.released, 'row')}",
            fix=FAULT,
            kind=self.kind,
        )


def _sum(table: Table, name: str, lane: bytes) -> int:
    return int(column_hashes(table, name, lane).sum(dtype=np.uint64))
