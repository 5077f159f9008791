"""The claim of probabilistic anonymity: enough people of the population look like each released row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from sfumato.methods.claims import Claim, ClaimKind, Evidence, Finding
from sfumato.methods.probabilistic.population_matches import Combinations, Matches, expected_matches
from sfumato.table.group_counts import KeyedGroups, sums
from sfumato.table.groups import first_rows, group_labels, refine
from sfumato.table.hashing import column_hashes, combination_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class CombinationCounts:
    """The different combinations of released values: a hash of the value in each column, and the number of rows."""

    hashes: NDArray[np.uint64]  # (combinations, columns)
    counts: NDArray[np.int64]  # (combinations,)

    def merge(self, other: CombinationCounts) -> CombinationCounts:
        """Add up the rows of equal combinations."""
        groups = KeyedGroups.of_keys(np.concatenate([self.hashes, other.hashes]))
        return CombinationCounts(groups.keys.values, sums(groups, np.concatenate([self.counts, other.counts])))

    @property
    def combinations(self) -> Combinations:
        """The same with values numbered, in an order that does not depend on how the blocks were merged."""
        order = np.lexsort(self.hashes.T)
        codes = tuple(np.unique(column, return_inverse=True)[1] for column in self.hashes[order].T)
        return Combinations(self.counts[order], codes)


@dataclass(frozen=True, kw_only=True)
class ProbabilisticAnonymity(Claim[CombinationCounts]):
    """Every row matches at least k people of the population with probability 1 − β (LT Definition 4).

    Measured on the released rows themselves: the share of rows that match k people, estimated from them, is at least
    1 − β, and the product of the numbers of different values is within the budget ``most``, if there is one (LT Theorem
    4). A budget for ``any_distribution`` needs no estimate: the share is then expected, over all rows, whatever the
    distribution is.
    """

    kind: ClassVar[ClaimKind] = "privacy"

    k: int
    population: int
    beta: float
    most: int | None  # largest number of combinations; None: whatever the estimate allows
    any_distribution: bool
    columns: Mapping[str, tuple[str, ...]]  # original column → the columns released for it

    def tally(self, evidence: Evidence) -> CombinationCounts:
        released = evidence.released
        labels = np.zeros(released.rows, dtype=np.int64)
        for names in self.columns.values():
            values = group_labels(released, names)
            labels = refine(labels, values.astype(np.int32), int(values.max(initial=-1)) + 1)
        one_each = released.take(first_rows(labels))
        hashes = np.empty((one_each.rows, len(self.columns)), dtype=np.uint64)
        for position, names in enumerate(self.columns.values()):
            hashes[:, position] = combination_hashes([column_hashes(one_each, name) for name in names])
        return CombinationCounts(hashes, np.bincount(labels, minlength=one_each.rows))

    def merge(self, one: CombinationCounts, other: CombinationCounts) -> CombinationCounts:
        return one.merge(other)

    def finding(self, tally: CombinationCounts) -> Finding:
        shown = tally.combinations
        combinations = math.prod(int(codes.max(initial=-1)) + 1 for codes in shown.codes)
        found = expected_matches(shown, self.population, self.k)
        counted = self.population == shown.rows
        return Finding(
            claim=f"at least {1.0 - self.beta:.1%} of the rows match at least {self.k:,} of {self.population:,} people "
            f"in {', '.join(self.columns)}" + ("" if counted else ", with 95 % confidence"),
            held=(self.most is None or combinations <= self.most)
            and (self.any_distribution or found.share_at_least >= 1.0 - self.beta),
            found=f"{combinations:,} combinations{'' if self.most is None else f' of at most {self.most:,}'}; "
            + (f"{found.share:.1%} of the rows, counted" if counted else _estimated(found))
            + f"; smallest group in the table itself {found.smallest_group:,}",
            fix="a larger beta, a smaller k, or fewer quasi-identifiers",
            kind=self.kind,
        )

    @property
    def needs_original(self) -> bool:
        return False

    @property
    def protects(self) -> tuple[str, ...]:
        return tuple(name for names in self.columns.values() for name in names) if self.k > 1 else ()


def _estimated(found: Matches) -> str:
    return (
        f"an estimated {found.share:.1%} of the rows, at least {found.share_at_least:.1%} with 95 % confidence, "
        "if the table is a random sample of the population"
    )
