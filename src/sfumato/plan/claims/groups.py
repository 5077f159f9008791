"""Claims about groups of rows that look alike: k-anonymity and ℓ-diversity.

A group may be spread over several blocks: it is known in each by a 128-bit key of its released cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.plan.plan import (
    Claim,
    ClaimKind,
    Evidence,
    Finding,
    T,
    format_count,
    format_names_without_box,
)
from sfumato.plan.recount_sql import ReleasedRows, SqlRecount, counted, values_apart_in_sql
from sfumato.table.group_counts import GroupCounts, GroupExtremes, PeopleCounts, members_of
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes, first_rows, refine

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.coding import Coded
    from sfumato.table.table import Table

    Values = NDArray[np.uint64] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GroupClaim(Claim[T]):
    """A promise about groups of rows that are equal in the released ``columns``.

    It counts rows or, where ``person`` names the column of the original that tells people apart, people.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True

    columns: tuple[str, ...]
    person: str | None = None

    def count_people(self, person: str) -> Claim[Any]:
        return replace(self, person=person)

    @property
    def by_people(self) -> str:
        """What the sentence of the promise says about who is counted."""
        return "" if self.person is None else ", counted in people"


CountedGroups = GroupCounts | PeopleCounts | GroupExtremes


@dataclass(frozen=True, kw_only=True)
class KAnonymity(GroupClaim[Any]):
    """Every row is equal to rows of at least k − 1 others in the released ``columns``."""

    k: int

    def tally(self, evidence: Evidence) -> GroupCounts | PeopleCounts:
        return count_group_members(evidence, self.columns, self.person, self.k)

    def finding(self, tally: CountedGroups) -> Finding:
        fewest = tally.fewest
        smallest = "smallest group" if self.person is None else "fewest people in a group"
        return self.report(
            claim=f"{self.k}-anonymous in {format_names_without_box(self.columns)}{self.by_people}",
            held=not tally.rows or fewest >= self.k,
            found=f"{smallest} {fewest:,}, {format_count(tally.groups, 'group')}",
            fix="allow some suppression, or protect fewer columns",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        return SqlRecount(
            required=f"at least {format_count(self.k, 'row')} in each group",
            counted=f"format('smallest group {{:,}}, ', min(members)) || {counted('count(*)', 'group')}",
            holds=f"min(members) >= {self.k}",
            queries=rows.groups(self.columns),
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if self.k > 1 else ()


def count_group_members(
    evidence: Evidence, columns: tuple[str, ...], person: str | None, enough: int
) -> GroupCounts | PeopleCounts:
    """Count the rows of each group or, if a column tells people apart, the people, exactly up to ``enough``."""
    groups = evidence.groups(columns)
    return GroupCounts.of(groups) if person is None else PeopleCounts.of(groups, evidence.people(person), enough)


@dataclass(frozen=True, eq=False, repr=False)
class GroupValues:
    """The groups seen so far, and the different values of those that do not have enough of them yet."""

    keys: GroupKeys
    is_diverse: NDArray[np.bool_]  # (groups,): has enough values, so none of them is kept
    group: NDArray[np.int64]  # place in ``keys`` of each value that is kept
    values: Values  # hashes or, where distances count, the numbers themselves
    people: NDArray[np.uint64]  # hash of the person of each value; all 0 where rows are counted

    def split(self, shares: int) -> list[GroupValues]:
        """Return the groups of each share, with the values that are kept of them."""
        return [
            GroupValues(self.keys.take(own), self.is_diverse[own], place, self.values[kept], self.people[kept])
            for own in self.keys.shares(shares)
            for kept, place in [members_of(own, self.group, len(self.keys))]
        ]

    def settled(self) -> DiverseGroups:
        """Return what is left of groups that no other part has."""
        return DiverseGroups(len(self.keys), len(self.keys) - int(self.is_diverse.sum()))


@dataclass(frozen=True)
class DiverseGroups:
    """Groups that are complete, and those of them that have too few values."""

    groups: int
    poor: int

    def settled(self) -> DiverseGroups:
        """Return this record: nothing is left to forget."""
        return self


@dataclass(frozen=True, kw_only=True)
class Diversity(GroupClaim[Any]):
    """Every group of rows that are equal in the released ``columns`` holds at least l different values of ``column``.

    Two numbers are different where they are at least ``epsilon`` apart, other values where they are not equal; a
    missing value is one value. ``hidden`` says that the column is released as a box only, so that its original values
    are counted. With ``person``, the l values are those of l different people: all values of one person are hers.
    """

    l: int
    column: str
    epsilon: float | None = None
    hidden: bool = False

    def tally(self, evidence: Evidence) -> GroupValues:
        groups = evidence.groups(self.columns)
        source = (evidence.original if self.hidden else evidence.released).select([self.column])
        source = source.take(evidence.origin) if self.hidden else source
        if self.person is not None:
            return self._tally_people(groups, source, evidence.people(self.person))
        if self.epsilon:
            numbers = source.numbers(self.column)
            counts = values_apart(groups.labels, numbers, epsilon=self.epsilon, at_most=self.l)
        else:
            counts = values_distinct(groups.labels, source.coded(self.column))
        few = np.flatnonzero(counts[groups.labels] < self.l)
        group, rest = groups.labels[few], source.take(few)
        values = rest.numbers(self.column) if self.epsilon else column_hashes(rest, self.column)
        people = np.zeros(len(group), dtype=np.uint64)
        kept = _once(group, values, people)
        return GroupValues(groups.keys, counts >= self.l, group[kept], values[kept], people[kept])

    def _tally_people(self, groups: KeyedGroups, source: Table, people: NDArray[np.uint64]) -> GroupValues:
        values = source.numbers(self.column) if self.epsilon else column_hashes(source, self.column)
        kept = _once(groups.labels, values, people)
        every = GroupValues(
            groups.keys, np.zeros(groups.size, dtype=bool), groups.labels[kept], values[kept], people[kept]
        )
        return self._without_diverse(every)

    def merge(self, one: Any, other: Any) -> Any:
        if isinstance(one, DiverseGroups):
            return DiverseGroups(one.groups + other.groups, one.poor + other.poor)
        groups = KeyedGroups.of_keys(one.keys.followed_by(other.keys))
        is_diverse = np.zeros(groups.size, dtype=bool)
        is_diverse[groups.labels[np.concatenate([one.is_diverse, other.is_diverse])]] = True
        group = groups.labels[np.concatenate([one.group, other.group + len(one.keys)])]
        values = np.concatenate([one.values, other.values])
        people = np.concatenate([one.people, other.people])
        kept = _once(group, values, people)
        kept = kept[~is_diverse[group[kept]]]
        return self._without_diverse(GroupValues(groups.keys, is_diverse, group[kept], values[kept], people[kept]))

    def _without_diverse(self, some: GroupValues) -> GroupValues:
        """Mark the groups whose values are enough, and forget these values."""
        is_diverse = some.is_diverse | (self._count(some) >= self.l)
        kept = ~is_diverse[some.group]
        return GroupValues(some.keys, is_diverse, some.group[kept], some.values[kept], some.people[kept])

    def finding(self, tally: GroupValues | DiverseGroups) -> Finding:
        told = tally.settled()
        groups, poor = told.groups, told.poor
        apart = f" at least {self.epsilon:g} apart" if self.epsilon else ""
        return self.report(
            claim=f"at least {self.l} different values of {self.column!r}{apart}{self._of_whom} in each group",
            held=poor == 0,
            found=f"fewer in {poor:,} of {format_count(groups, 'group')}"
            if poor
            else f"all of {format_count(groups, 'group')}",
            fix=("a smaller epsilon, " if self.epsilon else "")
            + "a smaller l (1: no requirement), or a method that groups whole rows, such as boxes, mdav or recode",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        different = "SELECT count(DISTINCT v) + max((v IS NULL)::INTEGER) AS different FROM numbered GROUP BY g"
        queries = rows.numbered(self.columns, v=self.column) | {"groups": different}
        if self.epsilon:
            queries |= values_apart_in_sql(rows.kinds[self.column], self.epsilon, self.l, ROUNDING)
        poor = f"count_if(different < {self.l})"
        words = f"CASE WHEN {poor} = 0 THEN 'all' ELSE format('fewer in {{:,}}', {poor}::BIGINT) END"
        return SqlRecount(
            required=f"at least {format_count(self.l, 'value')} in each group",
            counted=f"{words} || ' of ' || {counted('count(*)', 'group')}",
            holds=f"{poor} = 0",
            queries=queries,
        )

    @property
    def _of_whom(self) -> str:
        return "" if self.person is None else ", of as many people,"

    @property
    def needs_original(self) -> bool:
        return self.hidden or self.person is not None

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if self.l > 1 else ()

    def _count(self, listed: GroupValues) -> NDArray[np.int64]:
        """Number of different values in each group, of values that are listed once in their group."""
        if self.person is not None:
            return values_of_people(listed, self._count_rows, at_most=self.l, exact=not self.epsilon)
        return self._count_rows(listed)

    def _count_rows(self, listed: GroupValues) -> NDArray[np.int64]:
        groups = len(listed.keys)
        if not self.epsilon:
            return np.bincount(listed.group, minlength=groups)
        counts = np.zeros(groups, dtype=np.int64)
        some, labels = np.unique(listed.group, return_inverse=True)
        counts[some] = values_apart(labels, listed.values.astype(np.float64), epsilon=self.epsilon, at_most=self.l)
        return counts


def values_distinct(labels: NDArray[np.int64], coded: Coded) -> NDArray[np.int64]:
    """Number of different values in each group, a missing one counted as a value."""
    if not labels.size:
        return np.zeros(0, dtype=np.int64)
    pairs = refine(labels, coded.codes, coded.size)
    group_of_pair = np.empty(int(pairs.max()) + 1, dtype=np.int64)
    group_of_pair[pairs] = labels
    return np.bincount(group_of_pair, minlength=int(labels.max()) + 1)


ROUNDING = 2.0**-50  # of a value: more than what two numbers and their difference are rounded by


def values_apart(
    labels: NDArray[np.int64], numbers: NDArray[np.float64], *, epsilon: float, at_most: int
) -> NDArray[np.int64]:
    """How many values of each group are pairwise at least ``epsilon`` apart, counted up to ``at_most``.

    Decimal numbers are rounded to binary ones, so 0.3 − 0.2 is a little less than 0.1: that much is allowed.

    Greedy from the smallest upward, which is the largest such choice on a line. Each round takes one more value in all
    groups at once, so the cost is that of a sort and ``at_most`` passes.
    """
    if not labels.size:
        return np.zeros(0, dtype=np.int64)
    order = np.lexsort((numbers, labels))  # NaN sorts last in its group
    group, value = labels[order], numbers[order]
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    is_missing = np.isnan(value)
    chosen = np.full(starts.size, -np.inf)
    values = np.logical_or.reduceat(is_missing, starts).astype(np.int64)
    for _ in range(at_most):
        last = chosen[group]
        rounding = ROUNDING * np.maximum(np.abs(value), np.where(np.isfinite(last), np.abs(last), 0.0))
        apart = (value > last) & (value - last >= epsilon - rounding)
        far_enough = np.where(apart & ~is_missing, value, np.inf)
        nearest = np.minimum.reduceat(far_enough, starts)
        values += nearest < np.inf
        chosen = nearest  # inf ends the count of a group: nothing is far enough from it
    return np.minimum(values, at_most)


def _once(group: NDArray[np.int64], values: Values, people: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Positions at which each value of a person in a group stands for the first time."""
    cells = np.where(np.isnan(values), np.nan, values) if values.dtype == np.float64 else values
    triples = np.stack([group.astype(np.uint64), cells.view(np.uint64), people], axis=1)
    return first_rows(KeyedGroups.of_keys(triples).labels)


def values_of_people(
    listed: GroupValues, count: Callable[[GroupValues], NDArray[np.int64]], *, at_most: int, exact: bool
) -> NDArray[np.int64]:
    """How many different values of different people each group has, up to ``at_most``.

    One value is taken of each person: the smallest, or the largest, whichever ``count`` finds more different ones of.
    If ``exact``, groups where that is not enough are decided by the largest matching of people and values.
    """
    counts = np.zeros(len(listed.keys), dtype=np.int64)
    order = np.lexsort((listed.values, listed.people, listed.group))
    for side in (order, order[::-1]):
        group, person, is_first = listed.group[side], listed.people[side], np.ones(len(side), dtype=bool)
        is_first[1:] = (group[1:] != group[:-1]) | (person[1:] != person[:-1])
        group, values = group[is_first], listed.values[side][is_first]
        once = _once(group, values, np.zeros(len(group), dtype=np.uint64))
        counts = np.maximum(counts, count(replace(listed, group=group[once], values=values[once])))
    few = order[counts[listed.group[order]] < at_most] if exact else order[:0]
    starts = np.flatnonzero(np.diff(listed.group[few], prepend=-1))
    for own in np.split(few, starts[1:]) if len(few) else ():
        counts[listed.group[own[0]]] = _matched(listed.values[own].tolist(), listed.people[own].tolist(), at_most)
    return np.minimum(counts, at_most)


def _matched(values: list[int], people: list[int], at_most: int) -> int:
    """Size of the largest choice of different values of different people, by augmenting paths, up to ``at_most``."""
    of_value: dict[int, list[int]] = {}
    for value, person in zip(values, people, strict=True):
        of_value.setdefault(value, []).append(person)
    taken: dict[int, int] = {}

    def take(value: int, seen: set[int]) -> bool:
        for person in of_value[value]:
            if person not in seen:
                seen.add(person)
                if person not in taken or take(taken[person], seen):
                    taken[person] = value
                    return True
        return False

    found = 0
    for value in of_value:
        found += take(value, set())
        if found >= at_most:
            break
    return found
