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
from sfumato.plan.recount_sql import SqlRecount, counted
from sfumato.table.groups import KeyedGroups, first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.recount_sql import ReleasedRows
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

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        """Return the recount: p is the share of a value in its group, and q its share in the table."""
        fails = f"count(*) FILTER (WHERE NOT ({self._sql_limit}))"
        worst = f"{self._sql_worst} || ' in the worst of ' || {counted('count(*)', 'group')}"
        return SqlRecount(
            required=f"{self._sentence}, in each group",
            counted=f"{worst} || CASE WHEN {fails} = 0 THEN '' ELSE format(chr(59) || ' {{:,}} fail', {fails}) END",
            holds=f"{fails} = 0",
            queries=rows.numbered(self.columns, v=self.column)
            | {
                "counts": "SELECT g, v, count(*) AS n FROM numbered GROUP BY g, v",
                "shares": "SELECT *, n / sum(n) OVER (PARTITION BY g) AS p, "
                "sum(n) OVER (PARTITION BY v) / sum(n) OVER () AS q FROM counts",
            }
            | self._sql_measures,
        )

    @property
    @abstractmethod
    def _sql_measures(self) -> dict[str, str]:
        """Queries over ``shares``; the last one has the measure of each group, called ``measured``."""

    @property
    @abstractmethod
    def _sql_limit(self) -> str:
        """The condition for ``measured`` that holds in each group."""

    @property
    @abstractmethod
    def _sql_worst(self) -> str:
        """SQL that describes the worst group."""

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

    @property
    def _sql_measures(self) -> dict[str, str]:
        return {"groups": "SELECT exp(-sum(p * ln(p))) AS measured FROM shares GROUP BY g"}

    @property
    def _sql_limit(self) -> str:
        return f"measured >= {self.l * (1.0 - ROUNDING)!r}"

    @property
    def _sql_worst(self) -> str:
        return "format('{:.4g} effective values', min(measured))"


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

    @property
    def _sql_measures(self) -> dict[str, str]:
        return {
            "ranked": "SELECT g, n, row_number() OVER (PARTITION BY g ORDER BY n DESC) AS place FROM shares",
            "groups": f"SELECT coalesce(max(n) / sum(n) FILTER (WHERE place >= {self.l}), 'inf'::DOUBLE) AS measured "
            "FROM ranked GROUP BY g",
        }

    @property
    def _sql_limit(self) -> str:
        return f"measured < {self.c!r}"

    @property
    def _sql_worst(self) -> str:
        return "format('ratio {:.4g}', max(measured))"


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

    @property
    def _sql_measures(self) -> dict[str, str]:
        if not self.ordered:
            return {"groups": "SELECT sum(greatest(p - q, 0)) AS measured FROM shares GROUP BY g"}
        return {
            "places": "SELECT v, q, row_number() OVER (ORDER BY v NULLS LAST) AS place "
            "FROM (SELECT v, max(q) AS q FROM shares GROUP BY v)",
            "steps": "SELECT g, place, p, 0::DOUBLE AS q FROM shares JOIN places "
            "ON shares.v IS NOT DISTINCT FROM places.v\n    UNION ALL "
            "SELECT g, place, 0::DOUBLE, q FROM (SELECT DISTINCT g FROM shares), places",
            "sums": "SELECT g, sum(sum(p - q)) OVER (PARTITION BY g ORDER BY place) AS gap FROM steps "
            "GROUP BY g, place",
            "groups": "SELECT sum(abs(gap)) / greatest(count(*) - 1, 1) AS measured FROM sums GROUP BY g",
        }

    @property
    def _sql_limit(self) -> str:
        return f"measured <= {self.t + ROUNDING!r}"

    @property
    def _sql_worst(self) -> str:
        return "format('distance {:.4g}', max(measured))"


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
