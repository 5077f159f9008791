"""Record linkage: matching people with released rows, and recognising correct matches (TL §4.2.1).

The rate of correct matches alone says little: in groups of five equal rows one guess in five is correct, and nobody
knows which. What matters is whether an intruder can recognise correct matches. This is measured by the area under the
ROC curve of each measure, which is 0.5 if correct and wrong matches look the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

FOLDS = 5  # parts of the people, each judged by a model of the others
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
    by_all: Interval  # by a model of the three measures, fitted to other people


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

    likely = recognise_jointly(prediction, correct, released)  # the model knows the direction
    return Linkage(
        present=released,
        correct=correct[released],
        rate=share(int(correct[released].sum()), int(released.sum())),
        by_distance=recognised(prediction.distance),
        by_ambiguity=recognised(prediction.ambiguity),
        by_uncertainty=recognised(prediction.uncertainty),
        by_all=area_under_curve(likely[correct & released], likely[~correct & released]),
    )


def recognise_jointly(
    prediction: Prediction, correct: NDArray[np.bool_], released: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return how likely each match is to be correct, by a logistic model of all three measures (TL §4.2.3).

    People are divided into ``FOLDS`` parts, and those of a part are judged by a model of the others, so that it cannot
    learn who is matched correctly. A measure counts by its rank among all people, and the ranks by their products, so
    that neither a unit nor a bent relation matters. Without correct and wrong matches in a part, all are alike.
    """
    from sklearn.linear_model import LogisticRegression

    terms = _ranked_terms((prediction.distance, prediction.ambiguity, prediction.uncertainty))
    likely = np.zeros(len(correct))
    fold = np.arange(len(correct)) % FOLDS  # the order of the original tells nothing about the release
    for part in range(FOLDS):
        known, judged = np.flatnonzero(released & (fold != part)), fold == part
        if correct[known].any() and not correct[known].all():
            model = LogisticRegression(C=1.0, max_iter=1000).fit(terms[known], correct[known])
            likely[judged] = model.predict_proba(terms[judged])[:, 1]
    return likely


def _ranked_terms(measures: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the ranks of the measures, from −1 to 1, their squares and their products."""
    from scipy.stats import rankdata

    ranks = [2.0 * rankdata(measure) / (len(measure) + 1.0) - 1.0 for measure in measures]
    products = [ranks[one] * ranks[other] for one in range(len(ranks)) for other in range(one, len(ranks))]
    return np.column_stack([*ranks, *products])


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
    areas = {
        "distance": linkage.by_distance,
        "ambiguity": linkage.by_ambiguity,
        "uncertainty": linkage.by_uncertainty,
        "all three": linkage.by_all,
    }
    both = linkage.correct.any() and not linkage.correct.all()  # else there is nothing to distinguish
    for name, area in areas.items() if both else ():
        note = "area under the ROC curve; 0.5 is guessing"
        yield area.score(f"correct matches recognised by {name}", rows=rows, note=note)
    yield _assigned_score(subject, origin, intruder)


def _worst_rate(
    subject: MeasuredRelease, first: Interval, people: NDArray[np.int64], origin: NDArray[np.int64]
) -> tuple[Interval, Intruder]:
    """Return the largest share of correct matches of all intruders; ``first`` is that of the first one."""
    everybody, *others = intruders(subject)
    worst, by = first, everybody
    for intruder in others:
        known, rows = intruder.sides(subject)
        asked = known[people]
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
    people, released = intruder.sides(subject)
    row = assign_rows(people[chosen], released[rows])
    correct = (row >= 0) & (origin[rows][row] == chosen)
    rate, note = share(int(correct.sum()), len(row)), f"{note}; by {intruder}"
    return rate.score("correct one-to-one matches", rows=len(row), note=note)
