"""Claims about the risk of rows: group sizes in the release or in a population, and privacy by sampling."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.plan.claims.groups import CountedGroups, GroupClaim, count_group_members
from sfumato.plan.claims.sampling_privacy import sampling_delta
from sfumato.plan.plan import Claim, ClaimKind, Evidence, Finding, format_count, format_names_without_box
from sfumato.plan.recount_sql import SqlRecount, counted, literal
from sfumato.table.group_counts import GroupCounts, GroupExtremes, PeopleCounts, sum_by_group
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes, first_rows, mix_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.plan.recount_sql import ReleasedRows

ROUNDING = 1e-12  # by which a computed number may miss its limit


@dataclass(frozen=True, kw_only=True)
class RiskAtMost(GroupClaim[Any]):
    """The risk of a row is 1 ÷ the number of released rows that are equal to it in ``columns``.

    ``highest`` limits the risk of every row, ``average`` the mean risk of all rows, which is groups ÷ rows. A risk
    equal to its limit is allowed. So a limit of 1/11 is met by groups of 11, but 0.09 < 1/11 needs groups of 12. With
    ``person``, people are counted in place of rows, each once in every group.
    """

    highest: float | None = None
    average: float | None = None

    def tally(self, evidence: Evidence) -> GroupCounts | PeopleCounts:
        return count_group_members(evidence, self.columns, self.person, enough=1)  # fewer people: a higher risk

    def finding(self, tally: CountedGroups) -> Finding:
        highest = 1.0 / tally.fewest if tally.rows else 0.0
        average = tally.groups / tally.rows if tally.rows else 0.0
        limits = [("highest", highest, self.highest), ("average", average, self.average)]
        asked = [(name, found, limit) for name, found, limit in limits if limit is not None]
        promised = " and ".join(f"{name} risk at most {limit:g}" for name, _, limit in asked)
        return self.report(
            claim=f"{promised} in {format_names_without_box(self.columns)}{self.by_people}",
            held=all(found <= limit * (1.0 + ROUNDING) for _, found, limit in asked),
            found=", ".join(f"{name} risk {found:.4g}" for name, found, _ in asked),
            fix="a larger k, or more suppression",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        limits = [("highest", "1.0 / min(members)", self.highest), ("average", "count(*) / sum(members)", self.average)]
        asked = [(name, risk, limit) for name, risk, limit in limits if limit is not None]
        return SqlRecount(
            required=" and ".join(f"{name} risk at most {limit:g}" for name, _, limit in asked),
            counted=" || ', ' || ".join(f"format('{name} risk {{:.4g}}', ({risk})::DOUBLE)" for name, risk, _ in asked),
            holds=" AND ".join(f"{risk} <= {limit * (1.0 + ROUNDING)!r}" for _, risk, limit in asked),
            queries=rows.groups(self.columns),
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if min(self.highest or 1.0, self.average or 1.0) < 1.0 else ()


MOST_MEMBERS = 200_000  # rows of households whose risk is told; of more, those of a random sample of households


@dataclass(frozen=True, eq=False, repr=False)
class SampledHomes:
    """Households with hashes below ``limit``, which are all of them if there are few rows; never shown.

    A household that is below the limit of all rows is below that of each block, too, so that all its rows are kept.
    """

    homes: NDArray[np.uint64]  # of each row that is kept, a hash
    people: NDArray[np.uint64]  # a number of its own for each row where rows are counted
    limit: int = 2**64

    def _kept(self) -> tuple[NDArray[np.int64], int]:
        """Return the rows below the limit, and a lower limit if they are too many; one household is always kept."""
        below = np.flatnonzero(self.homes < np.uint64(self.limit)) if self.limit < 2**64 else np.arange(len(self.homes))
        homes, counts = np.unique(self.homes[below], return_counts=True)
        fit = max(int(np.searchsorted(np.cumsum(counts), MOST_MEMBERS, side="right")), 1)
        if fit >= len(homes):
            return below, self.limit
        return below[self.homes[below] < homes[fit]], int(homes[fit])


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HouseholdRows(SampledHomes):
    """The members of all groups, and the group of each row of some households."""

    members: GroupCounts | PeopleCounts
    groups: GroupKeys  # of each row that is kept

    def trimmed(self) -> HouseholdRows:
        """Return the rows of as many households as are told."""
        kept, limit = self._kept()
        return replace(
            self, homes=self.homes[kept], people=self.people[kept], groups=self.groups.take(kept), limit=limit
        )

    def merge(self, other: HouseholdRows) -> HouseholdRows:
        """Put the rows of two sets of blocks together."""
        members: Any = self.members
        return HouseholdRows(
            homes=np.concatenate([self.homes, other.homes]),
            people=np.concatenate([self.people, other.people]),
            limit=min(self.limit, other.limit),
            members=members.merge(other.members),
            groups=GroupKeys(self.groups.followed_by(other.groups)),
        ).trimmed()

    def split(self, shares: int) -> list[HouseholdRows]:
        """Return the groups of each share, with the rows in them."""
        members: list[Any] = [*self.members.split(shares)]
        pairs = zip(members, self.groups.shares(shares), strict=True)
        return [
            replace(self, members=one, homes=self.homes[own], people=self.people[own], groups=self.groups.take(own))
            for one, own in pairs
        ]

    def settled(self) -> HouseholdRisks:
        """Return the risk of each person by herself, if no other part has these groups."""
        both = KeyedGroups.of_keys(self.members.keys.followed_by(self.groups))
        of_all, of_rows = np.split(both.labels, [self.members.groups])
        sizes = np.zeros(both.size, dtype=np.int64)
        sizes[of_all] = self.members.counts
        return HouseholdRisks(self.homes, self.people, self.limit, alone=1.0 / sizes[of_rows]).by_person()


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HouseholdRisks(SampledHomes):
    """Household and risk of people: each person has the risk of her smallest group."""

    alone: NDArray[np.float64]

    def by_person(self) -> HouseholdRisks:
        """Return each person of the households that are told once; where she has two households, one of them."""
        kept, limit = self._kept()
        person = KeyedGroups.of_keys(self.people[kept, None]).labels
        first = first_rows(person)
        alone, homes = np.zeros(len(first)), self.homes[kept][first]
        np.maximum.at(alone, person, self.alone[kept])
        np.minimum.at(homes, person, self.homes[kept])
        return HouseholdRisks(homes, self.people[kept][first], limit, alone=alone)

    def merge(self, other: HouseholdRisks) -> HouseholdRisks:
        """Put the people of two sets of groups together."""
        homes, people, alone = (
            np.concatenate([getattr(one, name) for one in (self, other)]) for name in ("homes", "people", "alone")
        )
        return HouseholdRisks(homes, people, min(self.limit, other.limit), alone=alone).by_person()

    def settled(self) -> HouseholdRisks:
        """Return this record: it is what is left."""
        return self

    @property
    def together(self) -> NDArray[np.float64]:
        """The risk of each person with her household."""
        return share_risks(KeyedGroups.of_keys(self.homes[:, None]).labels, self.alone)


@dataclass(frozen=True, kw_only=True)
class HouseholdRisk(GroupClaim[Any]):
    """What a household adds to the risk of its members: as soon as one of them is linked, all are.

    It promises nothing: the finding tells the mean risk of people. That of a person by herself is 1 ÷ the people in her
    smallest group, that with her household 1 − Π (1 − risk) over its members. A person without a household is alone.
    Of more than 200,000 rows those of a random sample of households are told, whose groups are counted in full.
    """

    kind: ClassVar[ClaimKind] = "integrity"
    recountable: ClassVar[bool] = False

    household: str

    def tally(self, evidence: Evidence) -> HouseholdRows:
        found, rows = evidence.groups(self.columns), evidence.released.rows
        home = evidence.original.select([self.household]).take(evidence.origin)
        people = evidence.people(self.person) if self.person else _row_numbers(rows)
        has_home = home.arrow.column(self.household).is_valid().to_numpy()
        homes = np.where(has_home, column_hashes(home, self.household), mix_bits(people))
        everybody = np.iinfo(np.int64).max  # a group of several parts has the people of all of them
        return HouseholdRows(
            homes=homes,
            people=people,
            members=count_group_members(evidence, self.columns, self.person, enough=everybody),
            groups=found.keys.take(found.labels),
        ).trimmed()

    def finding(self, tally: HouseholdRows | HouseholdRisks) -> Finding:
        told = tally.settled()
        sampled = f", in a sample of {format_count(len(told.alone), 'person')}" if told.limit < 2**64 else ""
        return self.report(
            claim=f"risk by household, in column {self.household!r}: whoever is linked is linked with all members; "
            "told, not promised",
            held=True,
            found=f"mean risk of a person {told.alone.mean():.2%} by herself and {told.together.mean():.2%} with her "
            f"household, the largest {told.together.max():.2%}{sampled}"
            if len(told.alone)
            else "nobody",
        )


def share_risks(homes: NDArray[np.int64], risks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 − Π (1 − risk) over the members of each one's household."""
    with np.errstate(divide="ignore"):
        logs = np.log1p(-risks)
    together: NDArray[np.float64] = -np.expm1(np.bincount(homes, weights=logs)[homes])
    return together


def _row_numbers(rows: int) -> NDArray[np.uint64]:
    """Return a number for each row that no row of another block has, but by chance."""
    first = np.uint64(secrets.randbits(63))
    return first + np.arange(rows, dtype=np.uint64)


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
        return sum_by_group(both, np.concatenate([none, self.groups.counts]))[both.labels[: len(released.keys)]]


@dataclass(frozen=True, kw_only=True)
class KMap(Claim[Any]):
    """Every released row is equal to at least k people of a population table, recoded in the same way.

    Rows of the population that hold a value that the table does not have are not counted.
    """

    kind: ClassVar[ClaimKind] = "privacy"

    k: int
    columns: tuple[str, ...]
    population: PopulationGroups = field(repr=False)

    def count_people(self, person: str) -> KMap:
        """Return the claim itself: it counts people of the population, whoever has several rows in the table."""
        return self

    def tally(self, evidence: Evidence) -> GroupCounts:
        return GroupCounts.of(evidence.groups(self.columns))

    def settle(self, share: GroupCounts, gist: Any) -> GroupExtremes:
        """Return the extremes of the people, not of the rows, of groups that no other part has."""
        return replace(share, counts=self.population.people(share)).settled()

    def finding(self, tally: GroupCounts | GroupExtremes) -> Finding:
        told = tally if isinstance(tally, GroupExtremes) else self.settle(tally, None)
        fewest = told.fewest if told.groups else self.population.groups.rows
        return self.report(
            claim=f"every row matches at least {format_count(self.k, 'row')} of the population table in "
            f"{format_names_without_box(self.columns)}",
            held=not told.groups or fewest >= self.k,
            found=f"fewest {fewest:,}, {format_count(told.groups, 'group')}",
            fix="allow more suppression, or protect fewer columns",
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns if self.k > 1 else ()


@dataclass(frozen=True, eq=False, repr=False)
class SampledGroups:
    """The sizes of the released groups, and the released columns."""

    groups: GroupCounts | GroupExtremes
    names: frozenset[str]

    def split(self, shares: int) -> list[SampledGroups]:
        """Return the groups of each share; each of them knows all columns."""
        assert isinstance(self.groups, GroupCounts)
        return [SampledGroups(groups, self.names) for groups in self.groups.split(shares)]

    def settled(self) -> SampledGroups:
        """Return what is left of groups that no other part has."""
        assert isinstance(self.groups, GroupCounts)
        return SampledGroups(self.groups.settled(), self.names)


@dataclass(frozen=True, kw_only=True)
class SampledPrivacy(Claim[SampledGroups]):
    """(ε, δ)-differential privacy: each row was kept with probability ``beta`` and generalized by fixed levels.

    What the rows can show is recounted: all released columns form the groups, every group has at least ``k`` rows, and
    k and β give at most δ. That rows were drawn at random, and that the levels were chosen without looking at the
    table, cannot be seen in a release: the first is the method's, the second the user's part.
    """

    kind: ClassVar[ClaimKind] = "privacy"
    recountable: ClassVar[bool] = True
    covers_every_output: ClassVar[bool] = True

    epsilon: float
    delta: float
    beta: float
    k: int
    columns: tuple[str, ...]

    def tally(self, evidence: Evidence) -> SampledGroups:
        return SampledGroups(GroupCounts.of(evidence.groups(self.columns)), frozenset(evidence.released.names))

    def merge(self, one: SampledGroups, other: SampledGroups) -> SampledGroups:
        groups: Any = one.groups
        return SampledGroups(groups.merge(other.groups), one.names | other.names)

    def finding(self, tally: SampledGroups) -> Finding:
        smallest = tally.groups.fewest
        delta = sampling_delta(self.k, self.beta, self.epsilon)
        others = len(tally.names.difference(self.columns))
        return self.report(
            claim=f"({self.epsilon:g}, {self.delta:g})-differentially private by sampling, if the levels were chosen "
            "without looking at the table",
            held=smallest >= self.k and delta <= self.delta * (1.0 + 1e-9) and not others,
            found=f"smallest group {smallest:,}, delta {delta:.3g}"
            + (f"; {format_count(others, 'column')} outside the groups" if others else ""),
            fix="a larger epsilon or delta, or coarser levels",
        )

    def recount_in_sql(self, rows: ReleasedRows) -> SqlRecount:
        """Return the recount of what the rows show; δ follows from epsilon, beta and k alone, and is stated."""
        delta = sampling_delta(self.k, self.beta, self.epsilon)
        is_known = f"name IN ({', '.join(map(literal, self.columns))})"
        others = f"(SELECT count(*) FROM (SELECT DISTINCT name FROM names) WHERE NOT {is_known})"
        return SqlRecount(
            required=f"at least {format_count(self.k, 'row')} in each group of all columns; epsilon {self.epsilon:g}, "
            f"sampling probability {self.beta:.4g} and this size give delta {delta:.3g} of at most {self.delta:g}",
            counted=f"format('smallest group {{:,}}, delta {delta:.3g}', min(members)) || CASE WHEN {others} = 0 "
            f"THEN '' ELSE {literal('; ')} || {counted(others, 'column')} || ' outside the groups' END",
            holds=f"min(members) >= {self.k} AND {others} = 0 AND {delta!r} <= {self.delta * (1.0 + 1e-9)!r}",
            queries={"names": rows.schema_names(), **rows.groups(self.columns)},
        )

    @property
    def protects(self) -> tuple[str, ...]:
        return self.columns
