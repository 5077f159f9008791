"""Claims about the values of each column by itself: how often the rarest occurs, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.plan.claims.groups import CountedGroups, count_group_members
from sfumato.plan.plan import FAULT, Claim, ClaimKind, Evidence, Finding, format_count, format_counts
from sfumato.plan.recount_sql import ReleasedRows, SqlRecount, counted, listed
from sfumato.table.group_counts import GroupCounts, PeopleCounts
from sfumato.table.groups import KeyedGroups

if TYPE_CHECKING:
    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class ValueCounts:
    """Number of rows of each released value, by original column."""

    counts: Mapping[str, CountedGroups]
    missing: frozenset[str]  # the columns in which a missing value is among them

    def split(self, shares: int) -> list[ValueCounts]:
        """Return the values of each share; each of them knows which columns have missing ones."""
        parts: dict[str, Any] = {name: counts.split(shares) for name, counts in self.counts.items()}  # type: ignore[union-attr]
        return [
            ValueCounts({name: counts[share] for name, counts in parts.items()}, self.missing)
            for share in range(shares)
        ]

    def settled(self) -> ValueCounts:
        """Return what is left of values that no other part has."""
        counts: dict[str, Any] = dict(self.counts)
        return ValueCounts({name: one.settled() for name, one in counts.items()}, self.missing)


@dataclass(frozen=True, kw_only=True)
class EachColumnClaim(Claim[ValueCounts]):
    """A claim about the values of each column by itself."""

    recountable: ClassVar[bool] = True

    columns: Mapping[str, tuple[str, ...]]  # original column → the columns released for it

    def tally(self, evidence: Evidence) -> ValueCounts:
        released = evidence.released
        return ValueCounts(
            {name: self._count(evidence, shown) for name, shown in self.columns.items()},
            frozenset(name for name, shown in self.columns.items() if _some_missing(released, shown)),
        )

    def _count(self, evidence: Evidence, shown: tuple[str, ...]) -> GroupCounts | PeopleCounts:
        return GroupCounts.of(KeyedGroups.of(evidence.released, shown))

    def merge(self, one: ValueCounts, other: ValueCounts) -> ValueCounts:
        counts: dict[str, Any] = {}
        for name in self.columns:
            mine: Any = one.counts[name]
            counts[name] = mine.merge(other.counts[name])
        return ValueCounts(counts, one.missing | other.missing)


@dataclass(frozen=True, kw_only=True)
class EachColumnAnonymous(EachColumnClaim):
    """Every released value of a column, a missing one too, occurs in at least k rows (LT Definition 6).

    It says nothing about columns together: a row may still be the only one with its combination. With ``person``, it
    occurs in rows of at least k people.
    """

    kind: ClassVar[ClaimKind] = "privacy"

    k: int
    person: str | None = None

    def count_people(self, person: str) -> Claim[Any]:
        return replace(self, person=person)

    def _count(self, evidence: Evidence, shown: tuple[str, ...]) -> GroupCounts | PeopleCounts:
        return count_group_members(evidence, shown, self.person, self.k)

    def finding(self, tally: ValueCounts) -> Finding:
        smallest = {name: counts.fewest for name, counts in tally.counts.items()}
        rare = {name: size for name, size in smallest.items() if tally.counts[name].rows and size < self.k}
        unit, of_people = ("row", "") if self.person is None else ("person", f" of {self.k:,} people")
        return self.report(
            claim=f"every released value of {', '.join(self.columns)} occurs in at least {self.k:,} rows{of_people}, "
            "each column by itself",
            held=not rare,
            found=f"rarer values in {format_counts(rare, unit)}"
            if rare
            else f"the rarest value occurs in {format_count(min(smallest.values(), default=0), unit)}",
            fix="a smaller k, or all rows in one block",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        rare = listed("name", "figure", "row", f"figure < {self.k}")
        return SqlRecount(
            required=f"at least {format_count(self.k, 'row')} with each value",
            counted=f"coalesce('rarer values in ' || {rare}, "
            f"'the rarest value occurs in ' || {counted('min(figure)', 'row')})",
            holds=f"min(figure) >= {self.k}",
            queries=rows.each_column(self.columns, "min(members)"),
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return tuple(name for shown in self.columns.values() for name in shown) if self.k > 1 else ()


@dataclass(frozen=True, kw_only=True)
class AtMostValues(EachColumnClaim):
    """No column shows more than this many different values, a missing one not counted."""

    most: int

    def finding(self, tally: ValueCounts) -> Finding:
        shown = {name: counts.groups - (name in tally.missing) for name, counts in tally.counts.items()}
        over = {name: values for name, values in shown.items() if values > self.most}
        return self.report(
            claim=f"at most {self.most:,} different values in each of {', '.join(self.columns)}",
            held=not over,
            found=f"more in {format_counts(over, 'value')}" if over else f"at most {max(shown.values(), default=0):,}",
            fix=FAULT,
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        over = listed("name", "figure", "value", f"figure > {self.most}")
        return SqlRecount(
            required=f"at most {format_count(self.most, 'value')} in each column",
            counted=f"coalesce('more in ' || {over}, format('at most {{:,}}', max(figure)))",
            holds=f"max(figure) <= {self.most}",
            queries=rows.each_column(self.columns, "count(*) FILTER (WHERE NOT missing)"),
        )


def _some_missing(released: Table, names: tuple[str, ...]) -> bool:
    """Whether all of these columns are missing in some row."""
    is_missing = np.ones(released.rows, dtype=bool)
    for name in names:
        is_missing &= released.arrow.column(name).is_null(nan_is_null=True).to_numpy()
    return bool(is_missing.any())
