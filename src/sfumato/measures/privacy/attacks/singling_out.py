"""Singling out (Cohen and Nissim): descriptions taken from the release that fit exactly one person.

A description uses a few columns of one released row: equal to its category, or at least (at most) its number if that is
above (below) the median. It singles out somebody if exactly one person fits. People outside are singled out by chance,
too: a description that fits one person in N fits exactly one of N people with probability 37 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.permutation import adjusted, exchanges_among
from sfumato.measures.privacy.attacks.risk import AttackRisk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.release.assessment import Score

ATTACKS = 2000
FITTING = 100  # a description that fits more people of the original and the reference singles out nobody
CELLS = 4 * 10**9  # largest number of comparisons for all attacks together


def singling_out_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """Yield the risk of being singled out; nothing without a reference.

    Descriptions are tried on the original and on the reference, both reduced to the same number of people. All of them
    are tried on the same people, so they depend on each other; the test exchanges people inside and outside.
    """
    if subject.reference_matrix is None:
        return
    generator = subject.generator("singling out")
    people = min(len(subject.original_matrix), len(subject.reference_matrix))
    inside = subject.original_matrix[generator.permutation(len(subject.original_matrix))[:people]]
    outside = subject.reference_matrix[generator.permutation(len(subject.reference_matrix))[:people]]
    everyone = np.asfortranarray(np.concatenate([inside, outside]))  # conditions read whole columns
    attacks = max(100, min(ATTACKS, CELLS // (2 * people * len(subject.names))))
    rows = subject.released_matrix[generator.integers(len(subject.released_matrix), size=attacks)]
    medians = np.median(subject.released_matrix, axis=0)
    described = []
    for row in rows:
        columns = generator.permutation(len(subject.names))[: int(generator.integers(1, len(subject.names) + 1))]
        described.append(_fitting(subject, everyone, row, medians, columns))
    singled = _singled_out(described, people, generator)
    risk = AttackRisk.of(int(singled[0, 0]), attacks, int(singled[0, 1]), attacks)
    p_value = float(adjusted((singled[:, 0] - singled[:, 1])[:, None])[0])
    yield risk.score("singling out", "descriptions taken from the release that fit exactly one person", p_value)


def _singled_out(
    described: list[NDArray[np.int64]], people: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Count the descriptions that fit exactly one person inside, and outside (columns), for each exchange (row).

    ``people`` is the number of people inside, and outside as well.
    """
    few = [fitting for fitting in described if 0 < len(fitting) <= FITTING]
    if not few:
        return np.zeros((1, 2))
    size = np.array([len(fitting) for fitting in few])
    start = np.cumsum(size) - size
    fitting, place = np.unique(np.concatenate(few), return_inverse=True)
    labels = exchanges_among(fitting, people, people, generator)
    inside = np.array([np.add.reduceat(label[place].astype(np.int64), start) for label in labels])
    return np.column_stack([(inside == 1).sum(axis=1), (size - inside == 1).sum(axis=1)]).astype(np.float64)


def _fitting(
    subject: MeasuredRelease,
    matrix: NDArray[np.float64],
    row: NDArray[np.float64],
    medians: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the rows of the matrix that fit the description."""
    fits = np.ones(len(matrix), dtype=bool)
    chosen = {subject.names[column] for column in columns}
    for number in subject.code.numbers:
        if number.name in chosen:
            value, place = row[number.position], number.position
            # a person must fit the description of their own copy in spite of rounding errors
            fits &= matrix[:, place] >= value - 1e-9 if value > medians[place] else matrix[:, place] <= value + 1e-9
    for category in subject.code.categories:
        if category.name in chosen:
            fits &= matrix[:, category.start + int(row[category.columns].argmax())] > 0.0
    return np.flatnonzero(fits)
