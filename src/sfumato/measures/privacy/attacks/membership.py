"""Membership inference: was this person in the table? Two attacks with the release and a sample of the population.

The first attack takes people who are close to a released row for members. The second compares the density of the
release at a person with the density of the population there (after DOMIAS, van Breugel et al., 2023): released rows are
dense where members are, and an unusual member is revealed by a row that no one else explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import Interval, adjust_p_values, area_under_curve, areas, exchanges, share
from sfumato.measures.privacy.prediction import find
from sfumato.release.assessment import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

TARGETS = 5000  # largest number of members, and of outsiders, who are attacked
NEIGHBOURS = 5  # nearest rows from which a density is estimated
NO_DISTANCE = 1e-9  # smallest distance, in standard deviations, so that the density of equal points is finite
FALSE_POSITIVES = 0.01  # share of outsiders whom the intruder accepts to classify as members
WORST = 0.01  # share of the people who are hardest to hide, because they are far from everybody else


@dataclass(frozen=True, kw_only=True)
class Membership:
    """How well one score distinguishes members from outsiders."""

    area: Interval  # area under the ROC curve; 0.5 is guessing
    detected: Interval  # share of members detected at a false-positive rate of 1 %
    worst_area: Interval  # area under the ROC curve among the people who are hardest to hide
    members: int
    outsiders: int


def membership(
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    unusual_inside: NDArray[np.float64],
    unusual_outside: NDArray[np.float64],
) -> Membership:
    """Evaluate the scores of members and outsiders (higher: more likely a member), given how unusual each person is."""
    threshold = np.quantile(outside, 1.0 - FALSE_POSITIVES, method="higher")
    hard = _hardest(np.concatenate([unusual_inside, unusual_outside]), len(outside))
    return Membership(
        area=area_under_curve(inside, outside),
        detected=share(int((inside > threshold).sum()), len(inside)),
        worst_area=area_under_curve(inside[hard[: len(inside)]], outside[hard[len(inside) :]]),
        members=len(inside),
        outsiders=len(outside),
    )


def exchange_members(
    labels: NDArray[np.bool_], score: NDArray[np.float64], unusual: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return area, area among the hardest to hide, and share detected (columns) for each exchange of members (row)."""
    outsiders = int((~labels[0]).sum())
    hard = _hardest(unusual, outsiders)
    place = int(np.ceil((1.0 - FALSE_POSITIVES) * (outsiders - 1)))
    detected = [(score[inside] > np.partition(score[~inside], place)[place]).mean() for inside in labels]
    return np.column_stack([areas(labels, score), areas(labels[:, hard], score[hard]), detected])


def _hardest(unusual: NDArray[np.float64], outsiders: int) -> NDArray[np.bool_]:
    """Return who is hardest to hide: the most unusual 1 %, and about twenty outsiders or more."""
    few = min(len(unusual), round(max(20, WORST * outsiders) * len(unusual) / outsiders))
    bound = np.partition(unusual, len(unusual) - few)[len(unusual) - few]
    return np.asarray(unusual >= bound)


def membership_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the scores of both attacks; nothing without a reference.

    One half of the reference are the outsiders, the other half is the sample of the population.
    """
    if subject.others is None or len(subject.others) < 2:
        return
    generator = subject.generator("membership")
    order = generator.permutation(len(subject.others))
    half = len(order) // 2
    outsiders, population = subject.others[order[:half]][:TARGETS], subject.others[order[half:]]
    members = subject.people[generator.permutation(len(subject.people))[:TARGETS]]
    everyone = np.concatenate([members, outsiders])
    in_release = find(everyone, subject.rows, min(NEIGHBOURS, len(subject.rows)), generator).neighbours.distance
    around = find(everyone, population, min(NEIGHBOURS, len(population)), generator).neighbours.distance
    unusual = around.mean(axis=1)
    scores = {"nearest row": -in_release[:, 0], "density ratio": _emptiness(around) - _emptiness(in_release)}
    labels = exchanges(len(members), len(outsiders), generator)
    p_values = adjust_p_values(np.column_stack([exchange_members(labels, score, unusual) for score in scores.values()]))
    for (name, score), p_value in zip(scores.items(), p_values.reshape(len(scores), -1), strict=True):
        inside, outside = score[: len(members)], score[len(members) :]
        attack = membership(inside, outside, unusual[: len(members)], unusual[len(members) :])
        yield from _as_scores(name, attack, p_value)


def _emptiness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return minus the logarithm of the density at each person, up to a constant, from the distances of neighbours."""
    logarithms = np.log(np.maximum(distances[:, [0, -1]], NO_DISTANCE))
    return np.asarray(logarithms.sum(axis=1))


def _as_scores(name: str, attack: Membership, p_values: NDArray[np.float64]) -> Iterator[Score]:
    rows = attack.members + attack.outsiders
    area = "area under the ROC curve; 0.5 is guessing"
    rate = f"share of members detected at a false-positive rate of {FALSE_POSITIVES:.0%}"
    parts = (
        (f"membership by {name}", attack.area, area, 0.5),
        (f"membership by {name}, hardest to hide", attack.worst_area, area, 0.5),
        (f"members detected by {name}", attack.detected, rate, FALSE_POSITIVES),
    )
    for (label, value, note, by_guessing), p_value in zip(parts, p_values, strict=True):
        gain = max(0.0, (value.low - by_guessing) / (1.0 - by_guessing))
        yield value.score(label, rows=rows, note=note, p_value=float(p_value), gain=gain)
