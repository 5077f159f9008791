"""Can a description drawn from the release fit exactly one person? Cohen and Nissim's singling out, as an attack.

A description takes a few columns of one released row: equal to its category, or at least (at most) its number where
that lies above (below) the median. It singles somebody out when exactly one of the people fits. People outside are
singled out by chance as well: a description that fits one in N fits exactly one of N with probability 37 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sfumato.measures.privacy.attacks.risk import Risk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.measures.measured_release import MeasuredRelease
    from sfumato.measures.scores import Score

ATTACKS = 2000
CELLS = 4 * 10**9  # comparisons that all attacks together may cost


def singling_out(subject: MeasuredRelease) -> Risk | None:
    """Try descriptions on the original and on a reference; both are cut to the same number of people."""
    if subject.reference_matrix is None:
        return None
    draw = subject.draw("singling out")
    people = min(len(subject.original_matrix), len(subject.reference_matrix))
    inside = subject.original_matrix[draw.permutation(len(subject.original_matrix))[:people]]
    outside = subject.reference_matrix[draw.permutation(len(subject.reference_matrix))[:people]]
    attacks = max(100, min(ATTACKS, CELLS // (2 * people * len(subject.names))))
    rows = subject.released_matrix[draw.integers(len(subject.released_matrix), size=attacks)]
    medians = np.median(subject.released_matrix, axis=0)
    singled = [0, 0]
    for row in rows:
        columns = draw.permutation(len(subject.names))[: int(draw.integers(1, len(subject.names) + 1))]
        for side, matrix in enumerate((inside, outside)):
            singled[side] += _fitting(subject, matrix, row, medians, columns) == 1
    return Risk.of(singled[0], attacks, singled[1], attacks)


def singling_out_scores(subject: MeasuredRelease) -> Iterator[Score]:
    """The risk of being singled out; nothing without a reference."""
    risk = singling_out(subject)
    if risk is not None:
        yield risk.score("singling out", "descriptions drawn from the release that fit exactly one person")


def _fitting(
    subject: MeasuredRelease,
    matrix: NDArray[np.float64],
    row: NDArray[np.float64],
    medians: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> int:
    """How many rows of the matrix the description fits."""
    fits = np.ones(len(matrix), dtype=bool)
    chosen = {subject.names[column] for column in columns}
    for number in subject.code.numbers:
        if number.name in chosen:
            value, place = row[number.position], number.position
            # a rounding error must not take a person out of the description of their own copy
            fits &= matrix[:, place] >= value - 1e-9 if value > medians[place] else matrix[:, place] <= value + 1e-9
    for category in subject.code.categories:
        if category.name in chosen:
            fits &= matrix[:, category.start + int(row[category.columns].argmax())] > 0.0
    return int(fits.sum())
