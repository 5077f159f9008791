"""What several releases of the same people tell together: the intersection attack."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import RequestError, wrap_memory_errors
from sfumato.plan.claims.sequence import encode, value_hashes
from sfumato.plan.earlier_releases import ABSENT, by_pattern, count_different, label_histories
from sfumato.plan.plan import format_count
from sfumato.release.assessment import Score
from sfumato.release.release import Release
from sfumato.schema.columns import Role
from sfumato.table.groups import KeyedGroups, group_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST_CANDIDATES = "people who fit all releases, fewest"  # name of the score


@dataclass(frozen=True, kw_only=True)
class Composition:
    """What an intruder is left with who has several releases, as :func:`sfumato.compose` returns it.

    Attributes
    ----------
    releases : int
        Number of releases.
    people : int
        Number of people in all of them together, as far as their rows can be linked.
    linked : int
        Number of people whose rows can be linked over at least two releases.
    linked_by : tuple of str
        Columns that link rows: released as they are in every release.
    fewest_candidates : int
        Least number of people who fit a person in all releases that she is in.
    smallest_group : int
        Least number of people in a group of one release: what an intruder is left with who cannot link rows.
    promised : int
        Smallest k that one of the releases promises.
    below : int
        Number of people with fewer candidates than that.
    alone : int
        Number of people with no other candidate than themselves.
    revealed : int
        Number of people whose value of a sensitive column is certain in one of the releases that they are in: it is
        the same for all rows of that release that may be theirs. A row may be theirs if a person can have it who is in
        their group in every release that they are in. Rows with a unique value in ``linked_by`` belong to one person;
        of others any that are equal in it may belong together, or not.
    subtracted : int
        Number of people who are certainly new in the last release, and whose group has one value of a sensitive column
        among all rows that may be those of new people: an intruder who knows who is new subtracts what the releases
        before showed.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42], "number": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]}
    >>> one = sf.Boxes(k=3).release(people, schema={"age": "quasi", "number": "other"})
    >>> found = sf.compose([one, one])
    >>> found.held, found.linked_by
    (True, ('number',))
    """

    releases: int
    people: int
    linked: int
    linked_by: tuple[str, ...]
    fewest_candidates: int
    smallest_group: int
    promised: int
    below: int
    alone: int
    revealed: int
    subtracted: int

    @property
    def held(self) -> bool:
        """Whether everybody has as many candidates as the weakest of the releases promises."""
        return not self.below

    @property
    def scores(self) -> tuple[Score, ...]:
        """The same as scores of an assessment; the test is whether everybody has as many candidates as promised."""
        by = f"linked by {', '.join(self.linked_by)}" if self.linked else "no column links rows of the releases"
        note = f"{self.releases} releases, {self.promised} promised; {by}; {self.smallest_group} without a link"
        rows = self.people
        return (
            Score(
                name=FEWEST_CANDIDATES,
                family="privacy",
                value=float(self.fewest_candidates),
                better="higher",
                rows=rows,
                counted="people",
                passed=self.held,
                note=note,
            ),
            *(
                Score(
                    name=name,
                    family="privacy",
                    value=count / rows,
                    better="lower",
                    rows=rows,
                    counted="people",
                    note=note,
                )
                for name, count in (
                    ("people alone in all releases", self.alone),
                    ("people with a certain value in all releases", self.revealed),
                    ("new people whose value follows by subtraction", self.subtracted),
                )
            ),
        )

    def __str__(self) -> str:
        by = f"by {', '.join(self.linked_by)}" if self.linked else "because no column tells them apart"
        return (
            f"{self.releases} releases, {format_count(self.people, 'person')}: {self.linked:,} can be linked {by}. "
            f"Fewest candidates {self.fewest_candidates:,} where {self.promised:,} are promised and the smallest group "
            f"has {self.smallest_group:,}: "
            f"{format_count(self.below, 'person')} with fewer, {self.alone:,} alone; a sensitive value of "
            f"{format_count(self.revealed, 'person')} is certain, and of {self.subtracted:,} who are new if one knows "
            "that they are."
        )


def read_releases(releases: Sequence[Release | str | Path]) -> list[Release]:
    """Return releases, of which those in folders are read; a folder that was changed is refused."""
    from sfumato.release.read import read_one_table

    return [one if isinstance(one, Release) else read_one_table(one) for one in releases]


@wrap_memory_errors
def compose(releases: Sequence[Release | str | Path]) -> Composition:
    """Measure what several releases of the same people tell together.

    Two releases that are k-anonymous each may leave a person alone: those who share her group in one of them need not
    share it in the other. Here the intruder links rows by the columns that all releases show as they are, and counts
    who is in a person's group in every release that she is in. Rows without a unique value in these columns are not
    linked with each other for certain: of those that are equal in these columns, as many as each of her groups has may
    be those of candidates. Such a row itself counts as a person who is in one release only. A ledger
    (``release(…, ledger="FILE")``) prevents the attack.

    Parameters
    ----------
    releases : sequence of Release or path
        Releases with a promise of groups of k, in the order in which they were given away; or their folders.

    Returns
    -------
    Composition
        Counts only; no cell.

    Examples
    --------
    >>> import numpy as np, sfumato as sf
    >>> draw = np.random.default_rng(0)
    >>> people = {"age": draw.integers(18, 90, 300), "number": draw.permutation(300) + 0.5}
    >>> roles = {"age": "quasi", "number": "other"}
    >>> two = [sf.Boxes(k=k).release(people, schema=roles, seed=1) for k in (5, 7)]
    >>> sf.compose(two).fewest_candidates < 5
    True
    >>> sf.compose([two[0], two[0]]).fewest_candidates >= 5
    True
    """
    made = read_releases(releases)
    if len(made) < 2:
        raise RequestError("A composition needs at least two releases.", found=str(len(made)))
    promises = [_promise(one) for one in made]
    by = _linking_columns(made, [set(promise["columns"]) for promise in promises])
    rows = _link(made, by, [promise["columns"] for promise in promises])
    groups = np.full((max(int(one.person.max()) for one in rows) + 1, len(made)), ABSENT, dtype=np.int64)
    for place, one in enumerate(rows):
        groups[one.person, place] = one.group
    found = count_candidates(rows, groups)
    promised = min(promise["k"] for promise in promises)
    sizes = [np.bincount(column[column != ABSENT]) for column in groups.T]
    return Composition(
        releases=len(made),
        people=len(groups),
        linked=int(((groups != ABSENT).sum(axis=1) > 1).sum()),
        linked_by=by,
        fewest_candidates=int(found.people.min()),
        smallest_group=min(int(counts[counts > 0].min()) for counts in sizes),
        promised=promised,
        below=int((found.people < promised).sum()),
        alone=int((found.people == 1).sum()),
        revealed=int(found.are_certain.sum()),
        subtracted=_count_subtracted(rows[-1], groups),
    )


@dataclass(frozen=True, eq=False, repr=False)
class LinkedRows:
    """The rows of one release: whose they are, and what they show."""

    person: NDArray[np.int64]  # a person of her own for each row that is not unique in the columns that link rows
    link: NDArray[np.int64]  # equal for rows, of all releases, that are equal in these columns
    is_ambiguous: NDArray[np.bool_]  # whether a release has several rows with this link
    group: NDArray[np.int64]
    values: NDArray[np.int64]  # (rows, sensitive columns), as numbers from 0 that are the same in all releases

    def ambiguous_keys(self, links: int) -> NDArray[np.int64]:
        """Return group and link of each ambiguous row as one number."""
        return self.group[self.is_ambiguous] * links + self.link[self.is_ambiguous]


@dataclass(frozen=True, eq=False, repr=False)
class PossiblePeople:
    """What an intruder is left with who knows the groups of a person in all releases that she is in."""

    people: NDArray[np.int64]  # number of people who may be in all of them at the same time
    are_certain: NDArray[np.bool_]  # whether a sensitive value is the same for all rows of a release that may be hers


@dataclass(frozen=True, eq=False, repr=False)
class SharedLinks:
    """Links that ambiguous rows in all groups of a history have: people with these rows may have that history."""

    history: NDArray[np.int64]
    link: NDArray[np.int64]
    most: NDArray[np.int64]  # people who may have it at the same time: the fewest such rows in one of the groups

    @classmethod
    def of(cls, rows: Sequence[LinkedRows], histories: NDArray[np.int64], links: int) -> SharedLinks:
        """Find them; ``histories`` has a row for each history and a column for each of these releases."""
        keys, counts = np.unique(rows[0].ambiguous_keys(links), return_counts=True)
        starts, ends = (np.searchsorted(keys, (histories[:, 0] + more) * links) for more in (0, 1))
        history, places = _expand(starts, ends)
        link, most = keys[places] % links, counts[places]
        for place, one in enumerate(rows[1:], 1):
            keys, counts = np.unique(one.ambiguous_keys(links), return_counts=True)
            wanted = histories[history, place] * links + link
            places = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
            kept = keys[places] == wanted if len(keys) else np.zeros(len(wanted), dtype=bool)
            history, link, most = history[kept], link[kept], np.minimum(most[kept], counts[places[kept]])
        return cls(history, link, most)

    def values_in(self, rows: LinkedRows, group_of: NDArray[np.int64], column: int, links: int) -> list[Any]:
        """Return history and value of each ambiguous row of a release that may be that of such a person."""
        keys = rows.ambiguous_keys(links)
        order = np.argsort(keys, kind="stable")
        wanted = group_of[self.history] * links + self.link
        starts, ends = (np.searchsorted(keys[order], wanted, side=side) for side in ("left", "right"))
        pair, places = _expand(starts, ends)
        return [self.history[pair], rows.values[rows.is_ambiguous, column][order[places]]]


def _expand(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of its range and the place of each place in ranges."""
    sizes = ends - starts
    number = np.repeat(np.arange(len(sizes)), sizes)
    return number, np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[number]


def count_candidates(rows: Sequence[LinkedRows], groups: NDArray[np.int64]) -> PossiblePeople:
    """Count the candidates of each person, and find whose value they all share."""
    links = max(int(one.link.max()) for one in rows) + 1
    row_of = np.zeros(groups.shape, dtype=np.int64)
    for place, one in enumerate(rows):
        row_of[one.person, place] = np.arange(len(one.person))
    people, are_certain = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=bool)
    for found in by_pattern(groups):
        asked, hers = found.people[found.asked], found.labels[found.asked]
        there = np.flatnonzero(groups[asked[0]] != ABSENT)
        inside = [rows[release] for release in there.tolist()]
        histories = groups[np.ix_(found.people[np.unique(found.labels, return_index=True)[1]], there)]
        if len(there) > 1:
            shared = SharedLinks.of(inside, histories, links)
        else:  # everybody in the group, linked or not, is a candidate anyway
            shared = SharedLinks(*np.zeros((3, 0), dtype=np.int64))
        sizes = np.bincount(found.labels) + np.bincount(shared.history, shared.most, len(histories)).astype(np.int64)
        people[asked] = sizes[hers]
        for place, one in enumerate(inside):
            own = row_of[found.people, there[place]]
            for column in range(one.values.shape[1]):
                others = shared.values_in(one, histories[:, place], column, links)
                labels = np.concatenate([found.labels, others[0]])
                values = np.concatenate([one.values[own, column], others[1]])
                are_certain[asked] |= count_different(labels, values)[hers] == 1
    return PossiblePeople(people, are_certain)


def _count_subtracted(last: LinkedRows, groups: NDArray[np.int64]) -> int:
    """Return how many people are certainly new in the last release and share a value with all who may be."""
    is_old = (groups[last.person, :-1] != ABSENT).any(axis=1)
    new = np.flatnonzero(~is_old)
    if not len(new) or len(new) == len(last.person):  # nobody is new, or nobody can be linked
        return 0
    labels = label_histories(last.group[new, None])
    same = [count_different(labels, column)[labels] == 1 for column in last.values[new].T]
    return int((np.any(same, axis=0) & ~last.is_ambiguous[new]).sum()) if same else 0


def promised_groups(release: Release) -> dict[str, Any] | None:
    """Return k and the columns of the promise of groups that a release makes; None if it makes no such promise."""
    records = release.manifest.claims if release.manifest else ()
    for record in records:
        if record.parameters and isinstance(record.parameters.get("k"), int) and "columns" in record.parameters:
            columns = record.parameters["columns"]
            return {"k": record.parameters["k"], "columns": tuple(columns)}  # type: ignore[arg-type]
    return None


def _promise(release: Release) -> dict[str, Any]:
    promised = promised_groups(release)
    if promised is None:
        raise RequestError(
            "A composition is measured for releases that promise groups of k.",
            found="a release without such a promise",
            fix="releases of boxes, recode, suppress, mdav or generalize, with their manifests",
        )
    return promised


def _linking_columns(made: Sequence[Release], grouped: Sequence[set[str]]) -> tuple[str, ...]:
    """Return the columns that every release shows as they are."""
    common = [name for name in made[0].table.names if all(name in one.table.kinds for one in made)]
    exact = [set(one.manifest.unaltered) if one.manifest else set() for one in made]
    return tuple(
        name
        for name in common
        if all(name not in columns for columns in grouped) and all(name in columns for columns in exact)
    )


def _link(made: Sequence[Release], by: tuple[str, ...], columns: Sequence[Sequence[str]]) -> list[LinkedRows]:
    """Return the rows of each release with their people; ``columns`` are those of its groups."""
    ends = np.cumsum([0, *(one.table.rows for one in made)])
    keys = [KeyedGroups.of(one.table, by) for one in made] if by else []
    together = np.concatenate([one.keys.values[one.labels] for one in keys]) if keys else np.arange(ends[-1])[:, None]
    links = KeyedGroups.of_keys(together.astype(np.uint64)).labels
    count, parts = int(links.max()) + 1, list(itertools.pairwise(ends))
    repeats = np.any([np.bincount(links[start:end], minlength=count) > 1 for start, end in parts], axis=0)
    people = np.where(repeats[links], count + np.arange(len(links)), links)
    dense = np.unique(people, return_inverse=True)[1].ravel()
    values = _values_of(made)
    return [
        LinkedRows(
            person=dense[start:end],
            link=links[start:end],
            is_ambiguous=repeats[links[start:end]],
            group=group_labels(one.table, own),
            values=values[start:end],
        )
        for one, own, (start, end) in zip(made, columns, parts, strict=True)
    ]


def _values_of(made: Sequence[Release]) -> NDArray[np.int64]:
    """Return the sensitive values of the rows of all releases, one below the other, as numbers from 0."""
    sensitive = [
        name
        for name in (made[-1].manifest.names(Role.SENSITIVE) if made[-1].manifest else ())
        if all(name in one.table.kinds for one in made)
    ]
    return encode(np.concatenate([value_hashes(one.table, sensitive) for one in made]))
