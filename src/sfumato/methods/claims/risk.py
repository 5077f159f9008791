"""Claims about the risk of rows to be recognised, from the sizes of their groups in the release or in a population."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.methods.claims.base import Claim, ClaimKind, Evidence, Finding, counted, listed_without_box
from sfumato.table.group_counts import GroupCounts, KeyedGroups, sums

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-12  # by which a computed number may miss its limit


@dataclass(frozen=True, kw_only=True)
class RiskAtMost(Claim[GroupCounts]):
    """The risk of a row is 1 ÷ the number of released rows that are equal to it in ``columns``.

    ``highest`` limits the risk of every row, ``average`` the mean risk of all rows, which is groups ÷ rows. A risk
    equal to its limit is allowed. So a limit of 1/11 is met by groups of 11, but 0.09 < 1/11 needs groups of 12.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True

    columns: tuple[str, ...]
    highest: float | None = None
    average: float | None = None

    def tally(self, evidence: Evidence) -> GroupCounts:
        return GroupCounts.of(evidence.groups(self.columns))

    def finding(self, tally: GroupCounts) -> Finding:
        highest = 1.0 / int(tally.counts.min(initial=tally.rows)) if tally.rows else 0.0
        average = len(tally.counts) / tally.rows if tally.rows else 0.0
        limits = [("highest", highest, self.highest), ("average", average, self.average)]
        asked = [(name, found, limit) for name, found, limit in limits if limit is not None]
        promised = " and ".join(f"{name} risk at most {limit:g}" for name, _, limit in asked)
        return Finding(
            claim=f"{promised} in {listed_without_box(self.columns)}",
            held=all(found <= limit * (1.0 + ROUNDING) for _, found, limit in asked),
            found=", ".join(f"{name} risk {found:.4g}" for name, found, _ in asked),
            fix="a larger k, or more suppression",
            kind=self.kind,
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if min(self.highest or 1.0, self.average or 1.0) < 1.0 else ()


def rows_for_risk(highest: float) -> int:
    """Return the smallest group in which the risk of a row, 1 ÷ rows, is at most ``highest``.

    >>> rows_for_risk(0.2), rows_for_risk(1 / 11), rows_for_risk(0.09)
    (5, 11, 12)
    """
    return max(1, math.ceil(1.0 / highest * (1.0 - ROUNDING)))


@dataclass(frozen=True, eq=False, repr=False)
class PopulationGroups:
    """Number of people of a population in each group, after the same recoding as the release."""

    groups: GroupCounts

    def people(self, released: GroupCounts) -> NDArray[np.int64]:
        """Return the number of people in each released group."""
        both = KeyedGroups.of_keys(released.keys.followed_by(self.groups.keys))
        none = np.zeros(len(released.keys), dtype=np.int64)
        return sums(both, np.concatenate([none, self.groups.counts]))[both.labels[: len(released.keys)]]


@dataclass(frozen=True, kw_only=True)
class KMap(Claim[GroupCounts]):
    """Every released row is equal to at least k people of a population table, recoded in the same way.

    Rows of the population that hold a value that the table does not have are not counted.
    """

    kind: ClassVar[ClaimKind] = "privacy"

    k: int
    columns: tuple[str, ...]
    population: PopulationGroups = field(repr=False)

    def tally(self, evidence: Evidence) -> GroupCounts:
        return GroupCounts.of(evidence.groups(self.columns))

    def finding(self, tally: GroupCounts) -> Finding:
        people = self.population.people(tally)
        few = int((people < self.k).sum())
        return Finding(
            claim=f"every row matches at least {counted(self.k, 'row')} of the population table in "
            f"{listed_without_box(self.columns)}",
            held=few == 0,
            found=f"fewest {int(people.min(initial=self.population.groups.rows)):,}, {counted(len(people), 'group')}",
            fix="allow more suppression, or protect fewer columns",
            kind=self.kind,
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if self.k > 1 else ()
