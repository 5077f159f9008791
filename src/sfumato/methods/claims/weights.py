"""The claim that boxes keep the total of the sampling weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.claims.base import FAULT, Claim, Evidence, Finding, counted
from sfumato.table.group_counts import GroupKeys, KeyedGroups

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOLERANCE = 1e-9  # relative error of a total that counts as rounding


@dataclass(frozen=True, eq=False, repr=False)
class WeightTotals:
    """Total weight of the rows of each box, in the original and in the release."""

    keys: GroupKeys
    original: NDArray[np.float64]  # (boxes,)
    released: NDArray[np.float64]  # (boxes,)

    @classmethod
    def of(cls, groups: KeyedGroups, original: NDArray[np.float64], released: NDArray[np.float64]) -> WeightTotals:
        """Add up the weights of each group."""
        before, after = (
            np.bincount(groups.labels, weights=one, minlength=groups.size).astype(np.float64)
            for one in (original, released)
        )
        return cls(groups.keys, before, after)

    def merge(self, other: WeightTotals) -> WeightTotals:
        """Add up the weights of boxes that have the same key."""
        return WeightTotals.of(
            KeyedGroups.of_keys(self.keys.followed_by(other.keys)),
            np.concatenate([self.original, other.original]),
            np.concatenate([self.released, other.released]),
        )

    @property
    def changed(self) -> int:
        """Number of boxes with another total than in the original."""
        return int((~(np.abs(self.released - self.original) <= TOLERANCE * self.original)).sum())

    @property
    def is_kept(self) -> bool:
        """Whether the total of the table is that of the original."""
        original, released = float(self.original.sum()), float(self.released.sum())
        return abs(released - original) <= TOLERANCE * original


@dataclass(frozen=True, kw_only=True)
class WeightTotalsKept(Claim[WeightTotals]):
    """The weights of the rows that share a box have the same total as in the original, up to rounding."""

    weight: str
    box: str  # released column that numbers the boxes

    def tally(self, evidence: Evidence) -> WeightTotals:
        original = evidence.original.numbers(self.weight)[evidence.origin]
        return WeightTotals.of(evidence.groups((self.box,)), original, evidence.released.numbers(self.weight))

    def finding(self, tally: WeightTotals) -> Finding:
        changed = tally.changed
        return Finding(
            claim=f"the total of {self.weight} in each box, and in all released rows, is that of the original rows",
            held=not changed and tally.is_kept,
            found=f"{counted(changed, 'total')} changed"
            if changed
            else f"{counted(len(tally.original), 'total')} kept",
            fix=FAULT,
            kind=self.kind,
        )
