"""Words for the numbers of a column: the corners of fuzzy sets, as a user writes them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.errors import SchemaError

Corners = tuple[float, float, float, float]


def corners_of(given: Sequence[Any]) -> Corners | None:
    """The four corners of a trapezoid, from three (a triangle) or four ascending numbers; None where they are not."""
    if len(given) not in (3, 4) or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in given):
        return None
    foot, top, end, toe = (float(one) for one in (*given[:2], *given[-2:]))
    return (foot, top, end, toe) if foot <= top <= end <= toe else None  # not so for NaN


def has_whole_sides(corners: Corners) -> bool:
    """Whether each side has both its corners at infinity, or none: from infinity no line comes down."""
    foot, top, end, toe = map(math.isfinite, corners)
    return foot == top and end == toe


def checked_words(words: Any, column: str) -> dict[str, Corners]:
    """The words of a column in a schema, each with four corners."""
    if not isinstance(words, Mapping):
        raise SchemaError(f"The words of column {column!r} must be a table of words and corners.")
    found = {}
    for word, given in words.items():
        name = f"The word {word!r} of column {column!r}"
        corners = corners_of(given) if isinstance(given, list | tuple) else None
        if corners is None:
            raise SchemaError(f"{name} must be three or four numbers, none smaller than the one before.")
        if not has_whole_sides(corners):
            raise SchemaError(f"{name} must have both corners of a side at infinity, or none.")
        found[str(word)] = corners
    return found
