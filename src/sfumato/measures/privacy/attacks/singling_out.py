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

    from sfumato.measures.comparison import Comparison
    from sfumato.measures.scores import Score

ATTACKS = 2000
CELLS = 4 * 10**9  # comparisons that all attacks together may cost


def singling_out(comparison: Comparison) -> Risk | None:
    """Try descriptions on the original and on a reference; both are cut to the same number of people."""
    if comparison.reference_matrix is None:
        return None
    draw = comparison.draw("singling out")
    people = min(len(comparison.original_matrix), len(comparison.reference_matrix))
    inside = comparison.original_matrix[draw.permutation(len(comparison.original_matrix))[:people]]
    outside = comparison.reference_matrix[draw.permutation(len(comparison.reference_matrix))[:people]]
    attacks = max(100, min(ATTACKS, CELLS // (2 * people * len(comparison.names))))
    rows = comparison.released_matrix[draw.integers(len(comparison.released_matrix), size=attacks)]
    medians = np.median(comparison.released_matrix, axis=0)
    singled = [0, 0]
    for row in rows:
        columns = draw.permutation(len(comparison.names))[: int(draw.integers(1, len(comparison.names) + 1))]
        for side, matrix in enumerate((inside, outside)):
            singled[side] += _fitting(comparison, matrix, row, medians, columns) == 1
    return Risk.of(singled[0], attacks, singled[1], attacks)


def singling_out_scores(comparison: Comparison) -> Iterator[Score]:
    """The risk of being singled out; nothing without a reference."""
    risk = singling_out(comparison)
    if risk is not None:
        yield risk.score("singling out", "descriptions drawn from the release that fit exactly one person")


def _fitting(
    comparison: Comparison,
    matrix: NDArray[np.float64],
    row: NDArray[np.float64],
    medians: NDArray[np.float64],
    columns: NDArray[np.int64],
) -> int:
    """How many rows of the matrix the description fits."""
    fits = np.ones(len(matrix), dtype=bool)
    chosen = {comparison.names[column] for column in columns}
    for number in comparison.code.numbers:
        if number.name in chosen:
            value, place = row[number.position], number.position
            # a rounding error must not take a person out of the description of their own copy
            fits &= matrix[:, place] >= value - 1e-9 if value > medians[place] else matrix[:, place] <= value + 1e-9
    for category in comparison.code.categories:
        if category.name in chosen:
            fits &= matrix[:, category.start + int(row[category.columns].argmax())] > 0.0
    return int(fits.sum())
