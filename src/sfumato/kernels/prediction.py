"""How well an intruder who holds the released rows can predict a person: distance, ambiguity, uncertainty (TL §3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.kernels.neighbours import nearest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.kernels.neighbours import Neighbours

BLOCK = 8192  # people whose nearest rows are held at a time


@dataclass(frozen=True, repr=False)
class Prediction:
    """One number a person for each measure; for all three, more is safer."""

    distance: NDArray[np.float64]  # to the nearest released row
    ambiguity: NDArray[np.float64]  # distance to the nearest over distance to the k-th nearest, from 0 to 1
    uncertainty: NDArray[np.float64]  # variance of the k nearest rows, summed over the axes
    nearest: NDArray[np.int64]  # the released row that an intruder would take


def prediction(people: NDArray[np.float64], rows: NDArray[np.float64], k: int) -> Prediction:
    """Measure every person against the rows, both as points of Euclidean space."""
    return measured(nearest(people, rows, min(k, len(rows))), rows)


def prediction_from_others(people: NDArray[np.float64], k: int) -> Prediction:
    """Measure every person against the rest of the people: what a sample without that person would tell."""
    return measured(nearest(people, people, min(k + 1, len(people))).without(np.arange(len(people))), people)


def measured(found: Neighbours, rows: NDArray[np.float64]) -> Prediction:
    """The three measures from neighbours that are already known.

    Equally near rows are a tie, of ambiguity 1, exact matches among them. Without neighbours all is safe: infinity.
    """
    if not found.index.shape[1]:
        none = np.full(len(found.index), np.inf)
        return Prediction(none, np.ones(len(none)), none, np.full(len(none), -1, dtype=np.int64))
    first, last = found.distance[:, 0], found.distance[:, -1]
    ambiguity = np.divide(first, last, where=last > 0.0, out=np.ones_like(first))
    uncertainty = np.zeros(len(first))
    if found.index.shape[1] > 1:
        for start in range(0, len(first), BLOCK):
            part = slice(start, start + BLOCK)
            uncertainty[part] = rows[found.index[part]].var(axis=1, ddof=1).sum(axis=1)
    uncertainty[uncertainty < 1e-24 * float(rows.var(axis=0).sum())] = 0.0  # rounding among equal rows is no spread
    return Prediction(first, ambiguity, uncertainty, found.index[:, 0])


def downward_shift(numbers: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    """Largest excess of the cumulative distribution of ``numbers`` over the reference's: sup(F − F₀), from 0 to 1.

    The statistic of the one-sided Kolmogorov–Smirnov test that the numbers are not below the reference.
    """
    places = np.sort(numbers)  # the excess is largest where the first distribution has a step
    below = np.searchsorted(places, places, side="right") / len(numbers)
    expected = np.searchsorted(np.sort(reference), places, side="right") / len(reference)
    return max(0.0, float((below - expected).max()))
