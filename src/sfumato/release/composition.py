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
from sfumato.plan.earlier_releases import ABSENT, count_different, find_candidates, label_histories
from sfumato.plan.plan import format_count
from sfumato.release.assessment import Score
from sfumato.release.release import Release
from sfumato.schema.columns import Role
from sfumato.table.groups import KeyedGroups, group_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        Number of people whose candidates all have the same value of a sensitive column.
    subtracted : int
        Number of people who are new in the last release, and all new people of whose group have the same value of a
        sensitive column: an intruder who knows who is new subtracts what the releases before showed.

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
                name="people who fit all releases, fewest",
                family="privacy",
                value=float(self.fewest_candidates),
                better="higher",
                rows=rows,
                passed=self.held,
                note=note,
            ),
            *(
                Score(name=name, family="privacy", value=count / rows, better="lower", rows=rows, note=note)
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
    linked; as many of them as her groups have in every release may be candidates. A ledger
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
    person_of, are_ambiguous = _link(made, by)
    groups = np.full((int(max(one.max() for one in person_of)) + 1, len(made)), ABSENT, dtype=np.int64)
    for place, (one, promise) in enumerate(zip(made, promises, strict=True)):
        groups[person_of[place], place] = group_labels(one.table, promise["columns"])
    values = _latest_values(made, person_of, len(groups))
    found = find_candidates(groups, values)
    candidates = found.people + _count_ambiguous(groups, are_ambiguous)
    promised = min(promise["k"] for promise in promises)
    sizes = [np.bincount(column[column != ABSENT]) for column in groups.T]
    return Composition(
        releases=len(made),
        people=len(groups),
        linked=int(((groups != ABSENT).sum(axis=1) > 1).sum()),
        linked_by=by,
        fewest_candidates=int(candidates.min()),
        smallest_group=min(int(counts[counts > 0].min()) for counts in sizes),
        promised=promised,
        below=int((candidates < promised).sum()),
        alone=int((candidates == 1).sum()),
        revealed=int((found.values == 1).any(axis=1).sum()),
        subtracted=_count_subtracted(groups, values),
    )


def _count_subtracted(groups: NDArray[np.int64], values: NDArray[np.int64]) -> int:
    """Return how many people are new in the last release and share a value with all new people of their group."""
    is_in = groups != ABSENT
    new = np.flatnonzero(is_in[:, -1] & ~is_in[:, :-1].any(axis=1))
    if not len(new) or len(new) == is_in[:, -1].sum():  # nobody is new, or nobody can be linked
        return 0
    labels = label_histories(groups[new, -1:])
    same = [count_different(labels, column)[labels] == 1 for column in values[new].T]
    return int(np.any(same, axis=0).sum()) if same else 0


def _promise(release: Release) -> dict[str, Any]:
    """Return k and the columns of the promise of groups that a release makes."""
    records = release.manifest.claims if release.manifest else ()
    for record in records:
        if record.parameters and isinstance(record.parameters.get("k"), int) and "columns" in record.parameters:
            columns = record.parameters["columns"]
            return {"k": record.parameters["k"], "columns": tuple(columns)}  # type: ignore[arg-type]
    raise RequestError(
        "A composition is measured for releases that promise groups of k.",
        found="a release without such a promise",
        fix="releases of boxes, recode, suppress, mdav or generalize, with their manifests",
    )


def _linking_columns(made: Sequence[Release], grouped: Sequence[set[str]]) -> tuple[str, ...]:
    """Return the columns that every release shows as they are."""
    common = [name for name in made[0].table.names if all(name in one.table.kinds for one in made)]
    exact = [set(one.manifest.unaltered) if one.manifest else set() for one in made]
    return tuple(
        name
        for name in common
        if all(name not in columns for columns in grouped) and all(name in columns for columns in exact)
    )


def _link(made: Sequence[Release], by: tuple[str, ...]) -> tuple[list[NDArray[np.int64]], NDArray[np.bool_]]:
    """Return the person of each row of each release, the same where a unique value links them, and who is ambiguous.

    Those are people whose value others share, so that it cannot be said which of their rows belong together.
    """
    ends = np.cumsum([0, *(one.table.rows for one in made)])
    if not by:
        return [np.arange(start, end) for start, end in itertools.pairwise(ends)], np.zeros(ends[-1], dtype=bool)
    keys = [KeyedGroups.of(one.table, by) for one in made]
    labels = KeyedGroups.of_keys(np.concatenate([one.keys.values[one.labels] for one in keys])).labels
    count = int(labels.max()) + 1
    parts = [labels[start:end] for start, end in itertools.pairwise(ends)]
    repeats = np.any([np.bincount(part, minlength=count) > 1 for part in parts], axis=0)
    people = np.where(repeats[labels], count + np.arange(len(labels)), labels)
    known, dense = np.unique(people, return_inverse=True)
    return [dense.ravel()[start:end] for start, end in itertools.pairwise(ends)], known >= count


def _count_ambiguous(groups: NDArray[np.int64], are_ambiguous: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many people may fit each linked person in all of her releases although their rows cannot be linked."""
    here = np.full(groups.shape, len(groups), dtype=np.int64)
    for release, column in enumerate(groups.T):
        is_in = column != ABSENT
        rows = np.bincount(column[is_in & are_ambiguous], minlength=int(column.max(initial=0)) + 1)
        here[is_in, release] = rows[column[is_in]]
    return np.where((groups != ABSENT).sum(axis=1) > 1, here.min(axis=1), 0)


def _latest_values(made: Sequence[Release], person_of: Sequence[NDArray[np.int64]], people: int) -> NDArray[np.int64]:
    """Return the sensitive values of each person in the latest release that she is in, as numbers from 0."""
    sensitive = [
        name
        for name in (made[-1].manifest.names(Role.SENSITIVE) if made[-1].manifest else ())
        if all(name in one.table.kinds for one in made)
    ]
    hashes = np.zeros((people, len(sensitive)), dtype=np.uint64)
    for one, places in zip(made, person_of, strict=True):
        hashes[places] = value_hashes(one.table, sensitive)
    return encode(hashes)
