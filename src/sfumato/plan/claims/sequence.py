"""The promise over several releases: everybody keeps k people who fit all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from sfumato.plan.claims.groups import GroupClaim
from sfumato.plan.earlier_releases import EarlierReleases, find_candidates
from sfumato.plan.plan import Evidence, Finding, format_count, format_names_without_box
from sfumato.table.groups import GroupKeys, KeyedGroups, column_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.table.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class GroupsOfPeople:
    """The group of each released person, and her sensitive values."""

    people: NDArray[np.uint64]
    groups: KeyedGroups
    values: NDArray[np.uint64]  # (people, columns)

    def merge(self, other: GroupsOfPeople) -> GroupsOfPeople:
        """Put two sets of people together."""
        return GroupsOfPeople(
            np.concatenate([self.people, other.people]),
            KeyedGroups.of_keys(np.concatenate([_keys_of(self.groups), _keys_of(other.groups)])),
            np.concatenate([self.values, other.values]),
        )

    @property
    def codes(self) -> NDArray[np.int64]:
        """The values as numbers from 0, equal where the values of a column are."""
        return encode(self.values)


def _keys_of(groups: KeyedGroups) -> NDArray[np.uint64]:
    return np.asarray(GroupKeys(groups.keys.values).values[groups.labels])


def encode(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the values of each column as numbers from 0."""
    codes = [np.unique(column, return_inverse=True)[1].ravel() for column in values.T]
    return np.column_stack(codes) if codes else np.zeros(values.shape, dtype=np.int64)


def value_hashes(rows: Table, columns: Sequence[str]) -> NDArray[np.uint64]:
    """Return hashes of the values of some columns, as an array with a column for each."""
    hashes = [column_hashes(rows, name) for name in columns]
    return np.column_stack(hashes) if hashes else np.zeros((rows.rows, 0), dtype=np.uint64)


@dataclass(frozen=True, kw_only=True)
class SharedReleases(GroupClaim[GroupsOfPeople]):
    """Everybody shares her groups in all releases that she is in with at least k − 1 others, who have l values.

    k is the least of the releases that she is in: no later release can give her more candidates than an earlier one.
    """

    k: int
    l: int
    sensitive: tuple[str, ...]
    earlier: EarlierReleases = field(repr=False)

    recountable = False

    def tally(self, evidence: Evidence) -> GroupsOfPeople:
        people = evidence.original.select([self.earlier.person, *self.sensitive]).take(evidence.origin)
        return GroupsOfPeople(
            column_hashes(people, self.earlier.person),
            evidence.groups(self.columns),
            value_hashes(people, self.sensitive),
        )

    def finding(self, tally: GroupsOfPeople) -> Finding:
        places = self.earlier.places(tally.people)
        found = find_candidates(np.column_stack([self.earlier.groups[places], tally.groups.labels]), tally.codes)
        needed = self.earlier.needed[places]
        needed = np.where(needed > 0, np.minimum(needed, self.k), self.k)
        short = found.people < needed
        least = found.values.min(axis=1, initial=self.l) if self.sensitive else np.full(len(places), self.l)
        releases, smallest = self.earlier.groups.shape[1] + 1, int(needed.min(initial=self.k))
        values = f" and {self.l} values of {', '.join(self.sensitive)}" if self.sensitive and self.l > 1 else ""
        known = "the release" if releases == 1 else f"all of the {releases} releases in the ledger that she is in"
        return self.report(
            claim=f"at least {smallest} people{values} fit each person in {known}, by "
            f"{format_names_without_box(self.columns)}, for an intruder who cannot link rows by other columns",
            held=not (short | (least < self.l)).any(),
            found=f"fewest people {int(found.people.min(initial=len(places))):,}, "
            f"{format_count(int(short.sum()), 'person')} with fewer than promised",
            fix="the method boxes, which keeps those together who were together before; or a smaller k",
        )
