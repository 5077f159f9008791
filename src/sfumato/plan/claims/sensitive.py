"""Claims about the sensitive values of groups: entropy and recursive ℓ-diversity, and t-closeness.

The tally of a block counts every pair of group and released value; merged tallies are the counts of the whole table, so
the finding does not depend on the blocks. A missing value is a value of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.plan.claims.groups import GroupClaim
from sfumato.plan.claims.sensitive_groups import (
    KeyedCounts,
    SensitiveCounts,
    ValueTotals,
    effective_values,
    equal_distances,
    ordered_distances,
    recursive_c,
    tree_distances,
)
from sfumato.plan.plan import Evidence, Finding, format_count
from sfumato.table.groups import KeyedGroups, first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.schema.hierarchies import Tree

ROUNDING = 1e-12  # by which a computed number may miss its limit


@dataclass(frozen=True)
class MeasuredGroups:
    """Groups that are complete, those that break the claim, and what was measured in the worst of them."""

    groups: int
    broken: int
    worst: float  # NaN without groups


@dataclass(frozen=True, kw_only=True)
class SensitiveClaim(GroupClaim[Any]):
    """A claim about the values of ``column`` in groups of rows that are equal in the released ``columns``.

    With ``person``, a value counts once for each of its people in a group, however many rows she has there.
    """

    column: str

    def tally(self, evidence: Evidence) -> KeyedCounts:
        groups, coded = evidence.groups(self.columns), evidence.released.coded(self.column)
        if self.person is None:
            return KeyedCounts.of(groups, coded)
        pairs = refine(groups.labels, coded.codes, coded.size).astype(np.uint64)
        once = first_rows(KeyedGroups.of_keys(np.stack([pairs, evidence.people(self.person)], axis=1)).labels)
        counts = SensitiveCounts.of(groups.labels[once], coded.codes[once], coded.size)
        return KeyedCounts(groups.keys, coded.values, counts)

    def merge(self, one: Any, other: Any) -> Any:
        if not isinstance(one, MeasuredGroups):
            return super().merge(one, other)
        worst = self._worst(np.array([one.worst, other.worst]))
        return MeasuredGroups(one.groups + other.groups, one.broken + other.broken, worst)

    def settle(self, share: KeyedCounts, gist: Any) -> MeasuredGroups:
        """Return what is left of groups that no other part has."""
        measured = self._measure_groups(share) if len(share.keys) else np.zeros(0)
        return MeasuredGroups(len(measured), int((~self._holds(measured)).sum()), self._worst(measured))

    def finding(self, tally: KeyedCounts | MeasuredGroups) -> Finding:
        told = tally if isinstance(tally, MeasuredGroups) else self.settle(tally, self.gist(tally))
        broken = told.broken
        found = f"{self._describe(told.worst)} in the worst of {format_count(told.groups, 'group')}"
        return self.report(
            claim=f"{self._sentence}{self.by_people}",
            held=broken == 0,
            found=f"{found}; {broken:,} fail" if broken else found,
            fix="a weaker limit, more suppression, or fewer quasi-identifiers",
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns

    @property
    @abstractmethod
    def _sentence(self) -> str:
        """The claim in words."""

    @abstractmethod
    def _measure_groups(self, tally: KeyedCounts) -> NDArray[np.float64]:
        """Return what is measured in each group."""

    @abstractmethod
    def _holds(self, measured: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Mark the groups for which the claim holds."""

    @abstractmethod
    def _describe(self, worst: float) -> str:
        """Describe the worst group; NaN if there is none."""

    def _worst(self, measured: NDArray[np.float64]) -> float:
        """Return the largest number that is measured; NaN is none."""
        return float(np.fmax.reduce(measured, initial=np.nan))


@dataclass(frozen=True, kw_only=True)
class EntropyDiversity(SensitiveClaim):
    """In every group, exp(entropy) of ``column`` is at least l: as uncertain as among l equally frequent values."""

    l: float

    @property
    def _sentence(self) -> str:
        return f"entropy {self.l:g}-diverse in {self.column!r}"

    def _measure_groups(self, tally: KeyedCounts) -> NDArray[np.float64]:
        return effective_values(tally.counts)

    def _holds(self, measured: NDArray[np.float64]) -> NDArray[np.bool_]:
        return measured >= self.l * (1.0 - ROUNDING)

    def _worst(self, measured: NDArray[np.float64]) -> float:
        return float(np.fmin.reduce(measured, initial=np.nan))

    def _describe(self, worst: float) -> str:
        return f"{np.fmin(worst, np.inf):.4g} effective values"


@dataclass(frozen=True, kw_only=True)
class RecursiveDiversity(SensitiveClaim):
    """In every group, the most frequent value is rarer than c times all values from the l-th most frequent one on."""

    l: int
    c: float

    @property
    def _sentence(self) -> str:
        return f"recursive ({self.c:g}, {self.l})-diverse in {self.column!r}"

    def _measure_groups(self, tally: KeyedCounts) -> NDArray[np.float64]:
        return recursive_c(tally.counts, self.l)

    def _holds(self, measured: NDArray[np.float64]) -> NDArray[np.bool_]:
        return measured < self.c

    def _describe(self, worst: float) -> str:
        return f"ratio {np.fmax(worst, 0.0):.4g}"


@dataclass(frozen=True, kw_only=True)
class TCloseness(SensitiveClaim):
    """The distribution of ``column`` in every group is at most t away from that of all released rows (0 to 1).

    All values are equally far apart, or are ``ordered`` as they sort.
    """

    t: float
    ordered: bool = False

    @property
    def _sentence(self) -> str:
        return f"{self.t:g}-close in {self.column!r} ({'ordered' if self.ordered else 'equal'} distance)"

    def _measure_groups(self, tally: KeyedCounts) -> NDArray[np.float64]:
        return ordered_distances(tally.in_order()) if self.ordered else equal_distances(tally.counts)

    def gist(self, tally: KeyedCounts) -> ValueTotals:
        """Return the distribution of the column, with which that of each group is compared."""
        return tally.totals

    def settle(self, share: KeyedCounts, gist: ValueTotals) -> MeasuredGroups:
        return super().settle(share.within(gist), gist)

    def _holds(self, measured: NDArray[np.float64]) -> NDArray[np.bool_]:
        return measured <= self.t + ROUNDING

    def _describe(self, worst: float) -> str:
        return f"distance {np.fmax(worst, 0.0):.4g}"


@dataclass(frozen=True, kw_only=True)
class DeclaredCloseness(TCloseness):
    """t-closeness by the order of categories, or by the tree, that the schema declares.

    Both list values, so they are not in the manifest.
    """

    order: tuple[str, ...] = field(default=(), repr=False)
    tree: Tree | None = field(default=None, repr=False)

    @property
    def _sentence(self) -> str:
        return f"{self.t:g}-close in {self.column!r} ({'tree' if self.tree is not None else 'ordered'} distance)"

    def _measure_groups(self, tally: KeyedCounts) -> NDArray[np.float64]:
        if self.tree is None:
            return ordered_distances(tally.in_order(self.order))
        leaves = self.tree.positions(tally.values, column=self.column)
        return tree_distances(tally.counts, leaves, self.tree)
