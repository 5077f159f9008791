"""Risk in a form that people understand: groups by size, and attacks as gauges with the reference beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.schema.columns import Role
from sfumato.table.groups import group_sizes
from sfumato.table.intervals import BOX, original_name
from sfumato.table.table import CountedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.release.assessment import Assessment, Score
    from sfumato.release.release import Release


MOST_ROWS = 5_000_000  # rows up to which groups are counted by all their cells; groups with a number are always counted


@dataclass(frozen=True, kw_only=True)
class SizeClass:
    """Groups of about equal size."""

    smallest: int
    largest: int
    groups: int
    people: int


@dataclass(frozen=True, kw_only=True)
class ReleasedGroups:
    """Groups of rows that look alike in the columns that others may know."""

    columns: tuple[str, ...]
    rows: int
    groups: int
    smallest: int
    alone: int  # rows that look like no other row
    classes: tuple[SizeClass, ...]


@dataclass(frozen=True, kw_only=True)
class Gauge:
    """A score from 0 to 1 with its reference: what is seen for people who never took part, or by guessing."""

    name: str
    question: str
    value: float
    low: float | None
    high: float | None
    reference: float
    reference_is: str
    passed: bool | None
    detail: str


STARTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 30, 50, 100, 200, 500, 1000, 10_000, 100_000)  # of classes of sizes
OUTSIDE, GUESS, CHANCE = "people who never took part", "guessing", "chance"

# score: question, reference (None: one of all rows), what the reference is
QUESTIONS: dict[str, tuple[str, float | None, str]] = {
    "copies, all columns": ("How many people have their row in the release, cell by cell?", 0.0, OUTSIDE),
    "copies, quasi-identifiers": (
        "How many people have their quasi-identifiers in the release as they are?",
        0.0,
        OUTSIDE,
    ),
    "distance below the reference": ("How many people are nearer to the release than other people are?", 0.0, OUTSIDE),
    "ambiguity below the reference": (
        "For how many people is the nearest row a clearer match than for other people?",
        0.0,
        OUTSIDE,
    ),
    "uncertainty below the reference": (
        "For how many people do the nearest rows agree more than for other people?",
        0.0,
        OUTSIDE,
    ),
    "membership by nearest row": ("Can someone tell from near rows who is in the table?", 0.5, GUESS),
    "membership by density ratio": ("Can someone tell from the density of rows who is in the table?", 0.5, GUESS),
    "members detected by nearest row": ("How many people are certain to be in the table, by near rows?", 0.01, GUESS),
    "members detected by density ratio": ("How many people are certain to be in the table, by density?", 0.01, GUESS),
    "inference of a column": ("How much better are values inferred than those of other people?", 0.0, OUTSIDE),
    "inference of a column, largest": (
        "How much better are values inferred, in the column where it is most?",
        0.0,
        OUTSIDE,
    ),
    "linkability": ("How much better are two halves of a person joined than those of other people?", 0.0, OUTSIDE),
    "singling out": ("How much better do descriptions fit exactly one person than for other people?", 0.0, OUTSIDE),
    "correct nearest matches": (
        "How many people does an intruder who knows all their values match to their row?",
        None,
        CHANCE,
    ),
    "correct Fellegi–Sunter links": ("How many people does record linkage match to their row?", None, CHANCE),
    "generalized cells undone": ("How many generalized cells can be narrowed down again?", 0.0, CHANCE),
    "suppressed cells guessed": ("How many suppressed cells can be guessed?", 0.0, CHANCE),
    "noise stripped by SVD": ("How much of the noise can be removed again?", 0.0, CHANCE),
}


def gauges(assessment: Assessment) -> tuple[Gauge, ...]:
    """Return the gauges of an assessment, failed tests first, then tests, then attacks without a test."""
    found = [_gauge(score) for score in assessment.scores if score.name in QUESTIONS]
    order = {False: 0, True: 1, None: 2}
    return tuple(sorted(found, key=lambda gauge: order[gauge.passed]))


def _gauge(score: Score) -> Gauge:
    question, reference, reference_is = QUESTIONS[score.name]
    return Gauge(
        name=score.name,
        question=question,
        value=score.value,
        low=score.low,
        high=score.high,
        reference=1.0 / max(score.rows, 1) if reference is None else reference,
        reference_is=reference_is,
        passed=score.passed,
        detail=score.note,
    )


def groups(release: Release) -> ReleasedGroups | None:
    """Count groups of released rows that are equal in the protected columns; None without protected columns."""
    manifest = release.manifest
    if manifest is None:
        return None
    released, quasi = release.table.kinds, manifest.names(Role.QUASI)
    known = [column.name for column in manifest.columns]
    columns = [name for name in release.table.names if original_name(name, released, known) in quasi]
    numbered = BOX in released and BOX not in known  # rows of one box are equal in all protected columns
    if not columns or not release.table.rows or (release.table.rows > MOST_ROWS and not numbered):
        return None
    sizes = CountedRows.merged([release.table.counted([BOX])], [BOX]).count if numbered else _sizes(release, columns)
    shown = tuple(dict.fromkeys(original_name(name, released, known) for name in columns if name != BOX))
    return ReleasedGroups(
        columns=shown,
        rows=release.table.rows,
        groups=int(sizes.size),
        smallest=int(sizes.min()),
        alone=int((sizes == 1).sum()),
        classes=size_classes(sizes),
    )


def _sizes(release: Release, columns: list[str]) -> NDArray[np.int64]:
    return group_sizes(release.table.select(columns), columns)


def size_classes(sizes: NDArray[np.int64]) -> tuple[SizeClass, ...]:
    """Return how many groups of about each size there are, and how many people are in them."""
    starts = np.array(STARTS)
    place = np.searchsorted(starts, sizes, side="right") - 1
    return tuple(
        SizeClass(
            smallest=int(starts[number]),
            largest=int(starts[number + 1]) - 1 if number + 1 < len(starts) else int(sizes.max()),
            groups=int((place == number).sum()),
            people=int(sizes[place == number].sum()),
        )
        for number in np.unique(place).tolist()
    )
