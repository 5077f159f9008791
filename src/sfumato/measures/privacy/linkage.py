"""Record linkage: matching people with released rows, and recognising correct matches (TL §4.2.1).

The rate of correct matches alone says little: in groups of five equal rows one guess in five is correct, and nobody
knows which. What matters is whether an intruder can recognise correct matches. This is measured by the area under the
ROC curve of each measure, which is 0.5 if correct and wrong matches look the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import Interval, area_under_curve, share
from sfumato.measures.privacy.intruders import Intruder, intruders
from sfumato.measures.privacy.prediction import find, people_of
from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.prediction import Prediction
    from sfumato.measures.measured_release import MeasuredRelease

ASSIGNED = 2000  # largest number of people, with their rows, who are matched one to one


@dataclass(frozen=True, kw_only=True, repr=False)
class Linkage:
    """The share of correct matches, and how well they can be recognised."""

    present: NDArray[np.bool_]  # whether a person has a released row
    correct: NDArray[np.bool_]  # whether the match is correct, for each person that has a released row
    rate: Interval  # share of correct matches
    by_distance: Interval  # area under the ROC curve; 0.5: cannot be recognised
    by_ambiguity: Interval
    by_uncertainty: Interval


def match_rows(prediction: Prediction, people: NDArray[np.int64], origin: NDArray[np.int64]) -> Linkage:
    """Match each person with the nearest released row.

    ``people`` are rows of the original, ``origin`` is the original row of each released row. Correct matches may have
    low or high values of a measure. An intruder uses the better direction, so areas are at least 0.5. Rows are in
    random order, so ties are broken at random.
    """
    released = np.isin(people, origin)
    correct = origin[prediction.nearest] == people

    def recognised(numbers: NDArray[np.float64]) -> Interval:
        area = area_under_curve(-numbers[correct & released], -numbers[~correct & released])
        return area if area.value >= 0.5 else Interval(1.0 - area.value, 1.0 - area.high, 1.0 - area.low)

    return Linkage(
        present=released,
        correct=correct[released],
        rate=share(int(correct[released].sum()), int(released.sum())),
        by_distance=recognised(prediction.distance),
        by_ambiguity=recognised(prediction.ambiguity),
        by_uncertainty=recognised(prediction.uncertainty),
    )


def assign_rows(people: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Match people with released rows one to one, minimising the sum of squared distances (the Hungarian method)."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    matched_people, matched_rows = linear_sum_assignment(cdist(people, rows, "sqeuclidean"))
    row = np.full(len(people), -1, dtype=np.int64)
    row[matched_people] = matched_rows
    return row


def linkage_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the rates of correct matches, nearest and one to one, and how well they can be recognised."""
    if subject.origin is None:
        return
    origin, people = subject.origin, people_of(subject).chosen
    linkage = match_rows(people_of(subject).released, people, origin)
    rows = len(linkage.correct)
    rate, intruder = _worst_rate(subject, linkage.rate, people[linkage.present], origin)
    note = f"share of people, by {intruder}; {1.0 / subject.released.rows:.2g} by chance"
    yield rate.score("correct nearest matches", rows=rows, note=note, gain=rate.low)
    areas = {"distance": linkage.by_distance, "ambiguity": linkage.by_ambiguity, "uncertainty": linkage.by_uncertainty}
    both = linkage.correct.any() and not linkage.correct.all()  # else there is nothing to distinguish
    for name, area in areas.items() if both else ():
        note = "area under the ROC curve; 0.5 is guessing"
        yield area.score(f"correct matches recognised by {name}", rows=rows, note=note)
    yield _assigned_score(subject, origin, intruder)


def _worst_rate(
    subject: MeasuredRelease, first: Interval, people: NDArray[np.int64], origin: NDArray[np.int64]
) -> tuple[Interval, Intruder]:
    """Return the largest share of correct matches of all intruders; ``first`` is that of the first one."""
    known, *others = intruders(subject)
    worst, by = first, known
    for intruder in others:
        asked = intruder.points(subject, subject.original_matrix[people])
        rows = intruder.points(subject, subject.released_matrix)
        order = subject.generator("matches").permutation(len(rows))  # among equally near rows the first is found
        row = order[find(asked, rows[order], 1, subject.generator("matches")).neighbours.index[:, 0]]
        rate = share(int((origin[row] == people).sum()), len(people))
        worst, by = (rate, intruder) if rate.value > worst.value else (worst, by)
    return worst, by


def _assigned_score(subject: MeasuredRelease, origin: NDArray[np.int64], intruder: Intruder) -> Score:
    """Match one to one: everybody in a small table, in a large one a random part of the people and their own rows.

    In a part of the table there are fewer rows to confuse somebody with, so the rate is higher than in the whole. Only
    the intruder with the most correct nearest matches tries it, because it is costly.
    """
    chosen, note = np.arange(subject.original.rows), f"share of people; {1.0 / subject.released.rows:.2g} by chance"
    rows = np.arange(subject.released.rows)
    if max(len(chosen), len(rows)) > ASSIGNED:
        rows = subject.generator("one-to-one matches").permutation(len(rows))[:ASSIGNED]
        chosen = np.unique(origin[rows][origin[rows] >= 0])
        note = f"share of {len(chosen):,} random people, matched with their own rows; {1.0 / len(rows):.2g} by chance"
    people = intruder.points(subject, subject.original_matrix[chosen])
    row = assign_rows(people, intruder.points(subject, subject.released_matrix)[rows])
    correct = (row >= 0) & (origin[rows][row] == chosen)
    rate, note = share(int(correct.sum()), len(row)), f"{note}; by {intruder}"
    return rate.score("correct one-to-one matches", rows=len(row), note=note)
