"""Membership inference: was this person in the table? Three attacks with the release and a sample of the population.

The first attack takes people who are close to a released row for members. The second compares the density of the
release at a person with the density of the population there (after DOMIAS, van Breugel et al., 2023): released rows are
dense where members are, and an unusual member is revealed by a row that no one else explains. The third does the same
with a wide kernel, in which a row counts more where people are rare. It sees members whose rows were moved so far that
no row is near anybody.

The population is everybody who is attacked but the person, members and outsiders alike. So nobody is left out as in a
split of the reference, and the exchange of members and outsiders leaves the population as it is.
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
KERNEL_ROWS = 3000  # largest number of members, of outsiders and of rows that the kernel compares
WIDE = 20  # the width of the kernel depends on the distance of this neighbour
WIDTH = 0.7  # of that distance
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
    """Return area, area among the hardest to hide, and share detected (columns) for each exchange of members (row).

    The share is returned as the arcsine of its root, which is nearly normal. The skewed share itself would often be the
    largest of several standardised statistics by chance.
    """
    hard = _hardest(unusual, int((~labels[0]).sum()))
    detected = _detected(labels, score)
    return np.column_stack([areas(labels, score), areas(labels[:, hard], score[hard]), np.arcsin(np.sqrt(detected))])


def _detected(labels: NDArray[np.bool_], score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of members who score above all outsiders but 1 %, for each exchange.

    Only the highest scores matter, unless many of them are those of members, as may be before any exchange.
    """
    outsiders = int((~labels[0]).sum())
    allowed = outsiders - 1 - int(np.ceil((1.0 - FALSE_POSITIVES) * (outsiders - 1)))
    order = np.argsort(-score, kind="stable")
    ties = np.searchsorted(-score[order], -score[order], side="left")  # place of the first of equal scores
    members, shares = labels.shape[1] - outsiders, np.empty(len(labels))
    waiting, few = np.arange(len(labels)), 4 * (allowed + 1) * labels.shape[1] // outsiders
    while waiting.size:
        outside = np.cumsum(~labels[np.ix_(waiting, order[:few])], axis=1, dtype=np.int32)
        done = outside[:, -1] > allowed
        first = ties[(outside[done] > allowed).argmax(axis=1)]  # where the scores of the threshold begin
        above = first - np.where(first > 0, outside[done, np.maximum(first, 1) - 1], 0)
        shares[waiting[done]] = above / members
        waiting, few = waiting[~done], 4 * few
    return shares


def _hardest(unusual: NDArray[np.float64], outsiders: int) -> NDArray[np.bool_]:
    """Return who is hardest to hide: the most unusual 1 %, and about twenty outsiders or more."""
    few = min(len(unusual), round(max(20, WORST * outsiders) * len(unusual) / outsiders))
    bound = np.partition(unusual, len(unusual) - few)[len(unusual) - few]
    return np.asarray(unusual >= bound)


def membership_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the scores of both attacks; nothing without a reference."""
    if subject.others is None or len(subject.others) < 2:
        return
    generator = subject.generator("membership")
    members, outsiders = (side[generator.permutation(len(side))[:TARGETS]] for side in (subject.people, subject.others))
    everyone = np.concatenate([members, outsiders])
    in_release = find(everyone, subject.rows, min(NEIGHBOURS, len(subject.rows)), generator).neighbours.distance
    others = find(everyone, everyone, min(WIDE + 1, len(everyone)), generator).neighbours
    around = others.without(np.arange(len(everyone))).distance
    unusual = around[:, :NEIGHBOURS].mean(axis=1)
    scores = {
        "nearest row": -in_release[:, 0],
        "density ratio": _emptiness(around[:, :NEIGHBOURS]) - _emptiness(in_release),
    }
    labels = exchanges(len(members), len(outsiders), generator)
    chosen = np.concatenate([np.arange(len(side))[:KERNEL_ROWS] for side in (members, outsiders)])
    chosen[min(KERNEL_ROWS, len(members)) :] += len(members)
    rows = subject.rows[generator.permutation(len(subject.rows))[:KERNEL_ROWS]]
    wide = kernel_excess(everyone[chosen], rows, WIDTH * float(np.median(around[:, -1])))
    statistics = [exchange_members(labels, score, unusual) for score in scores.values()]
    p_values = adjust_p_values(np.column_stack([*statistics, areas(labels[:, chosen], wide)]))
    for (name, score), p_value in zip(scores.items(), p_values[:-1].reshape(len(scores), -1), strict=True):
        inside, outside = score[: len(members)], score[len(members) :]
        attack = membership(inside, outside, unusual[: len(members)], unusual[len(members) :])
        yield from _as_scores(name, attack, p_value)
    area = area_under_curve(wide[labels[0, chosen]], wide[~labels[0, chosen]])
    yield _area_score("membership by wide kernel", area, len(chosen), float(p_values[-1]))


def kernel_excess(people: NDArray[np.float64], rows: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return how much more released rows than other people there are around each person, in standard errors.

    Each row and each person counts by the inverse density of the people there: with the right width the sum over rows
    is then the likelihood ratio of a release with noise.
    """
    around_rows, around = (_similarity(people, side, width) for side in (rows, people))
    np.fill_diagonal(around, 0.0)
    tiny = np.finfo(float).tiny
    found = (around_rows / np.maximum(around_rows.mean(axis=0), tiny)).mean(axis=1)
    expected = (around / np.maximum(around.mean(axis=0), tiny)).mean(axis=1)
    return np.asarray((found - expected) / np.sqrt(np.maximum(expected, tiny)))


def _similarity(people: NDArray[np.float64], others: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return the Gaussian kernel of all pairs; without a width, equal rows have 1 and others 0."""
    squared = (people**2).sum(axis=1)[:, None] + (others**2).sum(axis=1) - 2.0 * people @ others.T
    return np.asarray(np.exp(np.maximum(squared, 0.0) / (-2.0 * max(width, NO_DISTANCE) ** 2)))


def _emptiness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return minus the logarithm of the density at each person, up to a constant, from the distances of neighbours."""
    logarithms = np.log(np.clip(distances[:, [0, -1]], NO_DISTANCE, 1.0 / NO_DISTANCE))
    return np.asarray(logarithms.sum(axis=1))


def _area_score(name: str, area: Interval, rows: int, p_value: float) -> Score:
    gain = max(0.0, 2.0 * area.low - 1.0)
    note = "area under the ROC curve; 0.5 is guessing"
    return area.score(name, rows=rows, note=note, p_value=p_value, gain=gain, chance=0.5)


def _as_scores(name: str, attack: Membership, p_values: NDArray[np.float64]) -> Iterator[Score]:
    rows = attack.members + attack.outsiders
    yield _area_score(f"membership by {name}", attack.area, rows, float(p_values[0]))
    yield _area_score(f"membership by {name}, hardest to hide", attack.worst_area, rows, float(p_values[1]))
    yield attack.detected.score(
        f"members detected by {name}",
        rows=rows,
        note=f"share of members detected at a false-positive rate of {FALSE_POSITIVES:.0%}",
        p_value=float(p_values[2]),
        gain=max(0.0, (attack.detected.low - FALSE_POSITIVES) / (1.0 - FALSE_POSITIVES)),
        chance=FALSE_POSITIVES,
    )
