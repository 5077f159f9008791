"""Was this person in the table? Two intruders who hold the release and a sample of the population.

The first takes people near a released row for members. The second compares how dense the release is at a person with
how dense the population is there (after DOMIAS, van Breugel et al., 2023): rows gather where members are, and an
unusual member is given away by a row that nobody else explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.confidence import Interval, area_under_curve, share
from sfumato.measures.privacy.neighbours import find
from sfumato.measures.scores import Score

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease

TARGETS = 5000  # members and outsiders who are attacked, at most so many of each
NEIGHBOURS = 5  # nearest rows that a density is estimated from
NO_DISTANCE = 1e-9  # standard deviations: nearer points are the same point, and have a density all the same
FALSE_POSITIVES = 0.01  # outsiders that an intruder is ready to accuse
WORST = 0.01  # share of the people who are hardest to hide: those far from everybody else


@dataclass(frozen=True, kw_only=True)
class Membership:
    """How well one score distinguishes members from outsiders."""

    area: Interval  # area under the curve; 0.5 is blind
    caught: Interval  # share of members accused when one outsider in a hundred is
    worst_area: Interval  # area under the curve among the people who are hardest to hide
    members: int
    outsiders: int


def membership(
    inside: NDArray[np.float64],
    outside: NDArray[np.float64],
    unusual_inside: NDArray[np.float64],
    unusual_outside: NDArray[np.float64],
) -> Membership:
    """From the scores of members and outsiders (higher: more likely a member) and how unusual each of them is."""
    accused = np.quantile(outside, 1.0 - FALSE_POSITIVES, method="higher")
    # one bound for both sides: as unusual as the most unusual hundredth of the outsiders, and at least twenty of them
    few = min(len(outside), max(20, round(WORST * len(outside))))
    bound = np.partition(unusual_outside, len(outside) - few)[len(outside) - few]
    return Membership(
        area=area_under_curve(inside, outside),
        caught=share(int((inside > accused).sum()), len(inside)),
        worst_area=area_under_curve(inside[unusual_inside >= bound], outside[unusual_outside >= bound]),
        members=len(inside),
        outsiders=len(outside),
    )


def membership_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Both attacks; nothing without a reference, one half of which plays the outsiders and the other the population."""
    if subject.others is None or len(subject.others) < 2:
        return
    draw = subject.draw("membership")
    order = draw.permutation(len(subject.others))
    half = len(order) // 2
    outsiders, population = subject.others[order[:half]][:TARGETS], subject.others[order[half:]]
    members = subject.people[draw.permutation(len(subject.people))[:TARGETS]]
    everyone = np.concatenate([members, outsiders])
    in_release = find(everyone, subject.rows, min(NEIGHBOURS, len(subject.rows)), draw).neighbours.distance
    around = find(everyone, population, min(NEIGHBOURS, len(population)), draw).neighbours.distance
    unusual = around.mean(axis=1)
    scores = {"nearest row": -in_release[:, 0], "density ratio": _emptiness(around) - _emptiness(in_release)}
    for name, score in scores.items():
        inside, outside = score[: len(members)], score[len(members) :]
        found = membership(inside, outside, unusual[: len(members)], unusual[len(members) :])
        yield from _as_scores(name, found)


def _emptiness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """How thinly points lie around each person, from the distances to the nearest few: minus a logarithm of density."""
    logarithms = np.log(np.maximum(distances[:, [0, -1]], NO_DISTANCE))
    return np.asarray(logarithms.sum(axis=1))


def _as_scores(name: str, found: Membership) -> Iterator[Score]:
    rows = found.members + found.outsiders
    blind = "area under the curve; 0.5 is blind"
    chance = f"when {FALSE_POSITIVES:.0%} of outsiders are accused too"
    for label, value, note, blindly in (
        (f"membership by {name}", found.area, blind, 0.5),
        (f"membership by {name}, hardest to hide", found.worst_area, blind, 0.5),
        (f"members caught by {name}", found.caught, chance, 2.0 * FALSE_POSITIVES),
    ):
        yield Score(
            name=label,
            family="privacy",
            value=value.value,
            low=value.low,
            high=value.high,
            better="lower",
            rows=rows,
            passed=value.low <= blindly,
            gain=max(0.0, (value.low - blindly) / (1.0 - blindly)),
            note=note,
        )
