"""Membership by equal rows: do the rows of people who took part occur more often, or less often, than those of others?

A released row that equals somebody's says little if the rows of people who did not take part occur as often. A method
that releases rows of its people is seen by the excess. A method that removes them is seen by what is missing: a row
that is absent although a neighbouring row occurs points to a person of the table (arXiv 2312.05114). Both are counted
for people who are unique among members and outsiders together, so that members and outsiders can be exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import AttackRisk, Interval, Z
from sfumato.measures.measured_release import cells_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import ColumnCodes, MeasuredRelease
    from sfumato.release.assessment import Score

PEOPLE = 20_000  # largest number of unique people, on each side, whose rows are looked for


def equal_row_scores(subject: MeasuredRelease, tests: int) -> Iterator[Score]:
    """Yield how well equal rows, and missing rows, tell members from outsiders; nothing without a reference."""
    if subject.reference is None:
        return
    generator, cells = subject.generator("equal rows"), subject.once(cells_of)
    people, released = subject.original.rows, subject.released.rows
    hashes = [generator.integers(2**63, size=column.size, dtype=np.uint64) for column in cells]
    keys = np.zeros(people + released + subject.reference.rows, dtype=np.uint64)
    for table, column in zip(hashes, cells, strict=True):
        keys += table[column.codes]
    rows = np.arange(people, people + released)
    inside, outside = _unique_people(keys, people, released, generator)
    both = np.concatenate([inside, outside])
    present = np.isin(keys[both], keys[rows])
    missing = ~present & _neighbour_occurs(keys, hashes, cells, both, rows, subject)
    yield _presence_score(present[: inside.size], present[inside.size :], tests)
    yield _missing_score(missing[: inside.size], missing[inside.size :], tests)


def _unique_people(
    keys: NDArray[np.uint64], people: int, released: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of members and of outsiders whom nobody else of them equals, some of them if there are many."""
    everyone = np.concatenate([np.arange(people), np.arange(people + released, len(keys))])
    _, inverse, counts = np.unique(keys[everyone], return_inverse=True, return_counts=True)
    single = everyone[counts[inverse] == 1]
    inside, outside = single[single < people], single[single >= people]
    return generator.permutation(inside)[:PEOPLE], generator.permutation(outside)[:PEOPLE]


def _neighbour_occurs(
    keys: NDArray[np.uint64],
    hashes: Sequence[NDArray[np.uint64]],
    cells: Sequence[ColumnCodes],
    people: NDArray[np.int64],
    rows: NDArray[np.int64],
    subject: MeasuredRelease,
) -> NDArray[np.bool_]:
    """Return whether a released row differs in one column only: in a number by one step, or in any category."""
    found = np.zeros(len(people), dtype=bool)
    for table, column in zip(hashes, cells, strict=True):
        code = column.codes[people]
        rest = keys[people] - table[code]
        if subject.original.kinds[column.name].is_numeric:
            for step in (-1, 1):
                near = np.clip(code + step, 0, column.size - 1)
                found |= (near != code) & np.isin(rest + table[near], keys[rows])
        else:
            found |= np.isin(rest, keys[rows] - table[column.codes[rows]])
    return found


def _presence_score(inside: NDArray[np.bool_], outside: NDArray[np.bool_], tests: int) -> Score:
    """Return the difference between the shares of members and of outsiders whose row occurs, in either direction."""
    shares = [float(side.mean()) if side.size else 0.0 for side in (inside, outside)]
    error = sum(
        share * (1.0 - share) / max(1, side.size) for share, side in zip(shares, (inside, outside), strict=True)
    )
    gap, margin = abs(shares[0] - shares[1]), Z * float(np.sqrt(error))
    interval = Interval(gap, max(0.0, gap - margin), min(1.0, gap + margin))
    return interval.score(
        "membership by equal rows",
        rows=len(inside) + len(outside),
        note=f"difference between the shares of unique members ({shares[0]:.1%}) and of unique outsiders "
        f"({shares[1]:.1%}) whose row is released, in either direction",
        p_value=min(1.0, tests * _exact_p_value(inside, outside, "two-sided")),
        gain=interval.low,
        chance=0.0,
    )


def _missing_score(inside: NDArray[np.bool_], outside: NDArray[np.bool_], tests: int) -> Score:
    risk = AttackRisk.of(int(inside.sum()), len(inside), int(outside.sum()), len(outside))
    note = "unique people whose row is absent although a row occurs that differs in one column only"
    return risk.score("membership by missing rows", note, min(1.0, tests * _exact_p_value(inside, outside, "greater")))


def _exact_p_value(inside: NDArray[np.bool_], outside: NDArray[np.bool_], alternative: str) -> float:
    """Return Fisher's exact p-value: of all exchanges of members and outsiders, those with such a large difference."""
    from scipy.stats import fisher_exact

    if not inside.size or not outside.size:
        return 1.0
    table = [[int(side.sum()), int((~side).sum())] for side in (inside, outside)]
    return float(fisher_exact(table, alternative=alternative).pvalue)
