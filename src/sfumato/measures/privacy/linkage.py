"""Matching people with released rows, and telling right matches from wrong ones (TL §4.2.1).

A rate of right matches alone says little: in groups of five equal rows one guess in five is right and nobody knows
which. What counts is whether the intruder can recognise right matches: the area under the curve by each measure, 0.5
where right and wrong ones look alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import Interval, area_under_curve, share
from sfumato.measures.privacy.prediction import people_of
from sfumato.measures.scores import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.prediction import Prediction
    from sfumato.measures.measured_release import MeasuredRelease

ASSIGNED_AT_MOST = 3000  # people up to which matches are also made one to one


@dataclass(frozen=True, kw_only=True, repr=False)
class Linkage:
    """How many matches are right, and how well the right ones can be recognised."""

    present: NDArray[np.bool_]  # whether a person has a released row at all
    right: NDArray[np.bool_]  # whether the match is right, for each person that has one
    rate: Interval  # share of right matches
    by_distance: Interval  # area under the curve; 0.5: cannot be recognised
    by_ambiguity: Interval
    by_uncertainty: Interval


def matched(prediction: Prediction, people: NDArray[np.int64], origin: NDArray[np.int64]) -> Linkage:
    """Match each person with the nearest released row.

    ``people`` are rows of the original, ``origin`` the row of the original that each released row stands for. Right
    matches may lie at the low or the high end of a measure: an intruder takes the end that serves, so areas are 0.5 and
    above. Rows stand in random order, so a tie is broken at random.
    """
    released = np.isin(people, origin)
    right = origin[prediction.nearest] == people

    def recognised(numbers: NDArray[np.float64]) -> Interval:
        area = area_under_curve(-numbers[right & released], -numbers[~right & released])
        return area if area.value >= 0.5 else Interval(1.0 - area.value, 1.0 - area.high, 1.0 - area.low)

    return Linkage(
        present=released,
        right=right[released],
        rate=share(int(right[released].sum()), int(released.sum())),
        by_distance=recognised(prediction.distance),
        by_ambiguity=recognised(prediction.ambiguity),
        by_uncertainty=recognised(prediction.uncertainty),
    )


def assigned(people: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.int64]:
    """Match people with released rows one to one, with the least sum of squared distances (the Hungarian method)."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    matched_people, matched_rows = linear_sum_assignment(cdist(people, rows, "sqeuclidean"))
    row = np.full(len(people), -1, dtype=np.int64)
    row[matched_people] = matched_rows
    return row


def linkage_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Rate of right matches, nearest and one to one, and how well they can be recognised."""
    if subject.origin is None:
        return
    origin, people = subject.origin, people_of(subject).chosen
    linkage = matched(people_of(subject).released, people, origin)
    chance = f"chance is {1.0 / subject.released.rows:.2g}"
    rate = _score("right nearest matches", linkage.rate, len(linkage.right), f"share of people; {chance}")
    yield replace(rate, gain=rate.low)
    areas = {"distance": linkage.by_distance, "ambiguity": linkage.by_ambiguity, "uncertainty": linkage.by_uncertainty}
    both = linkage.right.any() and not linkage.right.all()  # else there is nothing to distinguish
    for name, area in areas.items() if both else ():
        yield _score(
            f"right matches recognised by {name}", area, len(linkage.right), "area under the curve; 0.5 is blind"
        )
    if max(subject.original.rows, subject.released.rows) <= ASSIGNED_AT_MOST:
        row = assigned(subject.people, subject.rows)
        right = (row >= 0) & (origin[row] == np.arange(len(row)))
        yield _score(
            "right one-to-one matches", share(int(right.sum()), len(row)), len(row), f"share of people; {chance}"
        )


def _score(name: str, found: Interval, rows: int, note: str) -> Score:
    return Score(
        name=name,
        family="privacy",
        value=found.value,
        low=found.low,
        high=found.high,
        better="lower",
        rows=rows,
        note=note,
    )
