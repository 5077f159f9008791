"""Sets of categories as text, the form in which a categorical column of a box leaves.

One value is written as itself, several are joined by ``|`` ("Divorced|Separated"), a missing member among others is
written ``(missing)``, and a box of missing values only is missing. A backslash goes before a ``|`` or a backslash of a
value, and before a value that reads ``(missing)`` itself, so that every set can be read back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

SEPARATOR = "|"
MISSING = "(missing)"
_PIECE = re.compile(r"(?:[^\\|]|\\.)*", re.DOTALL)


def format_member(value: str | None) -> str:
    """One value as a set writes it."""
    if value is None:
        return MISSING
    escaped = value.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)
    return "\\" + escaped if escaped == MISSING else escaped


def format_set(values: Iterable[str | None]) -> str | None:
    """The set as text, its values in the given order; None for a set of the missing value alone."""
    members = list(values)
    return None if members == [None] else SEPARATOR.join(format_member(value) for value in members)


def parse_set(text: str | None) -> tuple[str | None, ...]:
    """The values of a set, None for a missing one."""
    if text is None:
        return (None,)
    pieces, place = [], 0
    while True:
        found = _PIECE.match(text, place)
        assert found is not None
        pieces.append(found.group())
        place = found.end() + 1
        if place > len(text):
            break
    return tuple(None if piece == MISSING else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL) for piece in pieces)
