"""Fuzzy sets over the numbers of a column: words, each with the corners of a trapezoid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import SchemaError
from sfumato.params import is_finite

Corners = tuple[float, float, float, float]


def corners_of(given: Sequence[Any]) -> Corners | None:
    """Return the four corners of a trapezoid from three (a triangle) or four ascending numbers; None if invalid."""
    if len(given) not in (3, 4) or not all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in given
    ):
        return None
    if not all(is_finite(number) for number in given if isinstance(number, int)):  # too large for a float
        return None
    foot, top, end, toe = (float(number) for number in (*given[:2], *given[-2:]))
    return (foot, top, end, toe) if foot <= top <= end <= toe else None  # false for NaN


def has_whole_sides(corners: Corners) -> bool:
    """Return whether both corners of each side are infinite, or neither: no line descends from infinity."""
    foot, top, end, toe = map(math.isfinite, corners)
    return foot == top and end == toe


def checked_words(words: Any, column: str) -> dict[str, Corners]:
    """Return the words of a column with four corners each, or raise if they are invalid."""
    if not isinstance(words, Mapping):
        raise SchemaError(f"The words of column {column!r} must be a table that maps each word to its corners.")
    checked = {}
    for word, given in words.items():
        name = f"The word {word!r} of column {column!r}"
        corners = corners_of(given) if isinstance(given, list | tuple) else None
        if corners is None:
            raise SchemaError(f"{name} must be three or four numbers in ascending order.")
        if not has_whole_sides(corners):
            raise SchemaError(f"{name} must have either both corners of a side at infinity or neither.")
        checked[str(word)] = corners
    return checked
