"""Words as fuzzy sets of numbers (Zadeh): how *young*, *high* or *late* a value is, from 0 to 1.

By default low, middle and high are placed between the quantiles of the column and overlap so that the memberships of
every number sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import OptionError
from sfumato.schema.fuzzy_sets import corners_of, has_whole_sides

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOW, MIDDLE, HIGH = "low", "middle", "high"
MEANINGS = {
    LOW: (LOW, "small", "young", "early", "few"),
    MIDDLE: (MIDDLE, "medium", "average"),
    HIGH: (HIGH, "large", "old", "late", "many"),
}
MEANING = {word: meaning for meaning, words in MEANINGS.items() for word in words}
SHARES = (0.2, 0.5, 0.8)  # quantiles up to which "low" is 1, at which "middle" is 1, and from which "high" is 1

Words = Mapping[str, Mapping[str, Sequence[float]]]  # column → word → corners


@dataclass(frozen=True)
class Trapezoid:
    """A fuzzy set of numbers: 0 up to ``foot``, 1 from ``top`` to ``end``, 0 from ``toe`` on, linear in between."""

    foot: float
    top: float
    end: float
    toe: float

    @classmethod
    def of(cls, corners: Sequence[float], *, name: str) -> Trapezoid:
        """Make the set from three corners (triangle) or four corners (trapezoid); an outer side may be at infinity."""
        found = corners_of(corners)
        if found is None:
            raise OptionError(f"{name} must be three or four numbers, each at least as large as the one before.")
        if not has_whole_sides(found):
            raise OptionError(f"{name} must have both corners of a side at infinity, or neither.")
        return cls(*found)

    @classmethod
    def between(cls, quantiles: NDArray[np.float64], meaning: str) -> Trapezoid:
        """Make the set for low, middle or high from the quantiles at SHARES."""
        low, median, high = map(float, quantiles)
        if meaning == LOW:
            return cls(-math.inf, -math.inf, low, median)
        if meaning == MIDDLE and low == median:  # a value that many records share is low, not low and middle at once
            centre = (median + high) / 2.0 if high > median else math.inf
            return cls(centre if math.isinf(centre) else median, centre, centre, max(centre, high))
        if meaning == MIDDLE:
            return cls(low, median, median, high)
        return cls(median, max(high, np.nextafter(median, math.inf)), math.inf, math.inf)  # the median is never high

    def membership(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the membership of each number, from 0 to 1; 0 for a missing number."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            rise = np.where(numbers >= self.top, 1.0, (numbers - self.foot) / (self.top - self.foot))
            fall = np.where(numbers <= self.end, 1.0, (self.toe - numbers) / (self.toe - self.end))
        degree: NDArray[np.float64] = np.nan_to_num(np.clip(np.minimum(rise, fall), 0.0, 1.0))
        return degree


def require_words(words: object) -> None:
    """Raise unless ``words`` maps columns to words, and words to the corners of triangles or trapezoids."""
    if not isinstance(words, Mapping) or not all(isinstance(sets, Mapping) for sets in words.values()):
        raise OptionError(
            "words must map columns to words, and words to corners.", fix="words={'age': {'young': (18, 18, 25, 35)}}"
        )
    for column, sets in words.items():
        for word, corners in sets.items():
            if isinstance(corners, str) or not isinstance(corners, Sequence):
                raise OptionError(f"The word {word!r} of {column!r} must be three or four numbers.")
            Trapezoid.of(corners, name=f"The word {word!r} of {column!r}")
