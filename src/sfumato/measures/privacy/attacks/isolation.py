"""(c, t)-isolation: guesses that come much closer to one person than to all others (Chawla et al. 2005; TL §2.1).

A point q is a guess, and δ is its distance to the nearest person. It *isolates* this person if fewer than t people are
within c·δ of it: whoever walks from the guess in any direction meets her long before she meets t people. The paper
bounds the probability that an intruder finds such a point for a method. Here it is counted for one release: every
released row is a guess, and what counts is how much more often it isolates people of the original than as many people
of the reference, who did not take part. A guess isolates outsiders by chance, above all those who are far from
everybody.

No c and no t suits every table, so several are tried by several intruders, and the worst is reported. People inside and
outside are exchanged for the test, which allows for the number of attempts.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest
from sfumato.measures.confidence import COSTLY_EXCHANGES, AttackRisk, adjust_p_values, exchanges
from sfumato.measures.privacy.intruders import intruders, worst_attempt
from sfumato.measures.privacy.reference import POOLED, nearest_in_random_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score

WIDER = (1.5, 3.0, 10.0)  # c: the ball is so many times wider than the distance to the nearest person
FEWER = (2, 5)  # t: a person with fewer than so many people in the ball is isolated
ATTEMPTS = tuple(product(WIDER, FEWER))
GUESSES = 300  # released rows that are tried by each intruder


def isolated_share(guesses: NDArray[np.float64], people: NDArray[np.float64], *, c: float, t: int) -> float:
    """Return the share of guesses that (c, t)-isolate one of the people; both are points, one in each row.

    Examples
    --------
    >>> people = np.array([[0.0], [0.1], [9.0]])
    >>> isolated_share(np.array([[0.04], [8.0]]), people, c=2.0, t=2)
    0.5
    """
    near = nearest(guesses, people, t).distance
    return float((near[:, t - 1] > c * near[:, 0]).mean())


def isolation_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield how much more often released rows isolate people of the original than people outside."""
    if subject.reference_matrix is None:
        return
    generator = subject.generator("isolation")
    sides = (subject.original_matrix, subject.reference_matrix)
    people = min(map(len, sides))
    if people < max(FEWER):
        return
    everyone = np.concatenate([side[generator.permutation(len(side))[:people]] for side in sides])
    guesses = subject.released_matrix[generator.permutation(len(subject.released_matrix))[:GUESSES]]
    labels = exchanges(people, people, generator, COSTLY_EXCHANGES)
    tried = tuple(intruders(subject))
    counts = []
    for intruder in tried:
        asked, known = (intruder.points(subject, side) for side in (guesses, everyone))
        near = nearest_in_random_order(asked, known, POOLED, generator)
        counts.append(_isolated(near.distance, near.index, labels))
    counted = np.concatenate(counts, axis=1)
    p_values = adjust_p_values(counted[:, :, 0] - counted[:, :, 1])
    risks = [AttackRisk.of(int(inside), len(guesses), int(outside), len(guesses)) for inside, outside in counted[0]]
    worst = worst_attempt(risks, p_values)
    (c, t), intruder = ATTEMPTS[worst % len(ATTEMPTS)], tried[worst // len(ATTEMPTS)]
    note = f"released rows with fewer than {t} people within {c:g} times the distance to the nearest, by {intruder}"
    yield risks[worst].score("isolation", note, float(p_values[worst]))


def _isolated(
    distance: NDArray[np.float64], index: NDArray[np.int64], labels: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Count the guesses that isolate somebody: exchanges × attempts × (inside, outside).

    ``distance`` and ``index`` are those of the nearest people of both sides to each guess, in order.
    """
    counts = np.zeros((len(labels), len(ATTEMPTS), 2))
    nth = np.arange(1, distance.shape[1] + 1, dtype=np.int8)
    for place, inside in enumerate(labels):
        rank = np.cumsum(inside[index], axis=1, dtype=np.int8)
        for side, ranks in enumerate((rank, nth - rank)):
            near = {t: _nth(distance, ranks, t) for t in (1, *FEWER)}
            counts[place, :, side] = [(near[t] > c * near[1]).sum() for c, t in ATTEMPTS]
    return counts


def _nth(distance: NDArray[np.float64], ranks: NDArray[np.int8], t: int) -> NDArray[np.float64]:
    """Return the distance of the t-th person of one side to each guess, infinite if there are fewer."""
    found = (ranks >= t).argmax(axis=1)
    return np.where(ranks[:, -1] >= t, distance[np.arange(len(distance)), found], np.inf)
