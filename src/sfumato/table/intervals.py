"""The format of released columns: ``x_low``, ``x_high``, ``x_missing``, sets and ``box``. No other file knows it.

A numeric column ``x`` of a box is released as ``x_low`` and ``x_high``. If some of its values are missing,
``x_missing`` counts the rows of the box without a value. ``box`` numbers the boxes.

A categorical column is released as the set of the values in the box, as text. A single value is written as itself.
Several values are joined by ``|`` ("Divorced|Separated"), and a missing member among others is written ``(missing)``. A
box of missing values only is missing. A set of too many values to be read is written ``(any)``, which stands for any
value of the column but not for the missing one: ``(any)|(missing)`` stands for that too. A backslash escapes a ``|`` or
a backslash in a value, and a value that is itself ``(missing)`` or ``(any)``, so that every set can be parsed.

Which columns are sets is stated by the manifest, and only those are parsed as sets: a column that is released as it is
may contain any text, such as ``asthma|COPD``. Rows without a manifest do not show which columns are sets. A cell that
is not the same as a set and as plain text (because it contains ``|``, a backslash, ``(missing)`` or ``(any)``) is then
read in both ways, and only what holds in both is certain; no cell can be written so that it is misunderstood. In a text
file a category such as NA cannot be told from a missing cell, nor an apostrophe that protects from formulas from one
that is part of a value: such cells are read in both ways too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError
from sfumato.table.groups import group_labels
from sfumato.table.kinds import MARKS
from sfumato.table.table import Table

BOX = "box"
LOW, HIGH, MISSING_COUNT = "_low", "_high", "_missing"  # suffixes of the columns that a numeric column is released as
SEPARATOR = "|"  # between the members of a set
MISSING = "(missing)"  # a missing member of a set
FORMULA = re.compile(r"[=+\-@\t\r]")  # first characters of text that a spreadsheet may run


class AnyValue(Enum):
    """The member of a set that stands for any value of its column except the missing one."""

    ANY = "(any)"


ANY = AnyValue.ANY
Member = str | AnyValue | None  # a value of a set; None for the missing one
_SPECIAL: Mapping[str, AnyValue | None] = {MISSING: None, ANY.value: ANY}
_PIECE = re.compile(r"(?:[^\\|]|\\.)*", re.DOTALL)


def low_name(name: str) -> str:
    """Return the name of the column with the lower ends of ``name``."""
    return name + LOW


def high_name(name: str) -> str:
    """Return the name of the column with the upper ends of ``name``."""
    return name + HIGH


def missing_name(name: str) -> str:
    """Return the name of the column that counts the rows of a box without a value of ``name``."""
    return name + MISSING_COUNT


def interval_names(name: str, *, counts_missing: bool = False) -> tuple[str, ...]:
    """Return the names of the columns that a numeric column is released as."""
    return (low_name(name), high_name(name), *([missing_name(name)] if counts_missing else []))


def require_free_names(intervals: Collection[str], names: Collection[str]) -> None:
    """Raise if a column of the table has a name that is needed to release these columns as intervals of boxes."""
    needed = {part for name in intervals for part in interval_names(name, counts_missing=True)} | {BOX}
    clash = sorted(needed & set(names))
    if clash:
        raise OptionError(
            "The names of the columns that are released for boxes must not be in use.",
            found=f"{', '.join(map(repr, clash))} already in the table",
            fix="rename the column; if the table is itself a release, give the table that it was made from",
        )


def is_interval(name: str, released: Collection[str]) -> bool:
    """Return whether the column is released as an interval, given the names of the released columns.

    A column that is released under its own name is none: the original may have columns called ``x``, ``x_low`` and
    ``x_high``, and the mean of the sampling weights of a box has their range beside it.
    """
    return name not in released and has_ends(name, released)


def has_ends(name: str, released: Collection[str]) -> bool:
    """Return whether there are columns called like the ends of this one."""
    return low_name(name) in released and high_name(name) in released


def original_name(name: str, released: Collection[str], known: Collection[str] | None = None) -> str:
    """Return the original column that a released column belongs to: ``x`` for ``x_low``, else the column itself.

    ``known`` are the columns of the original, if they are known: an original may have columns called ``x_low`` and
    ``x_high`` of its own.
    """
    if known is not None and name in known:
        return name
    for ending in (LOW, HIGH, MISSING_COUNT):
        base = name.removesuffix(ending)
        if base != name and has_ends(base, released) and (known is None or base in known):
            return base
    return name


def original_names(released: Sequence[str], known: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the original columns that these released columns show, each once; ``known`` as above."""
    present, columns = frozenset(released), None if known is None else frozenset(known)
    return tuple(dict.fromkeys(original_name(name, present, columns) for name in released))


def box_columns(
    released: Sequence[str], sets: Collection[str] = (), known: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return the columns, apart from ``box``, that are the same in all rows of a box; different boxes may look alike.

    These are all ends of intervals, the counts of missing values, and the columns that are known to be ``sets``.
    ``known`` are the columns of the original, as above.
    """
    present = frozenset(released)
    bases = [name for name in original_names(released, known) if is_interval(name, present)]
    ends = [key for base in bases for key in interval_names(base, counts_missing=True) if key in present]
    return (*ends, *(name for name in released if name in sets))


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """A numeric column of a release: the ends in every row, NaN if the box has no value."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    missing: NDArray[np.int64] | None  # rows of the box without a value; None if the release does not count them

    @classmethod
    def of(cls, released: Table, name: str) -> Intervals:
        """Read the ends of ``name``; both ends are the same number if the column is released under its own name."""
        if not is_interval(name, released.kinds):
            numbers = released.numbers(name)
            return cls(numbers, numbers, None)
        ends = released.numbers(low_name(name)), released.numbers(high_name(name))
        if missing_name(name) not in released.kinds:
            return cls(*ends, None)
        return cls(*ends, np.nan_to_num(released.numbers(missing_name(name))).astype(np.int64))

    @property
    def midpoints(self) -> NDArray[np.float64]:
        """Centres of the intervals; NaN if an end is missing or infinite."""
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        half = np.where(bounded, self.high - self.low, 0.0) / 2.0
        return np.where(bounded, self.low + half, np.nan)


def box_labels(released: Table) -> NDArray[np.int64]:
    """Return a number for the box of each released row; without a column ``box``, equal rows share a number."""
    return group_labels(released, [BOX] if BOX in released.kinds else released.names)


def shorten_set(values: Sequence[str | None], names_at_most: int | None) -> Sequence[Member]:
    """Return the set, with ``ANY`` in place of its names if there are more of them than this; None: no limit.

    >>> shortened(["a", "b", None], 1)
    (<AnyValue.ANY: '(any)'>, None)
    """
    has_missing = None in values
    if names_at_most is None or len(values) - has_missing <= names_at_most:
        return values
    return (ANY, None) if has_missing else (ANY,)


def is_member(value: str | None, members: Collection[Member]) -> bool:
    """Return whether a value belongs to a set."""
    return value in members or (value is not None and ANY in members)


def format_member(value: Member) -> str:
    """Format one value as a member of a set."""
    if value is None:
        return MISSING
    if value is ANY:
        return ANY.value
    escaped = value.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR)
    return "\\" + escaped if escaped in (MISSING, ANY.value) else escaped


def format_set(values: Iterable[Member]) -> str | None:
    """Format the set as text, its values in the given order; None for a set that contains only the missing value."""
    members = list(values)
    return None if members == [None] else SEPARATOR.join(format_member(value) for value in members)


def parse_set(text: str | None) -> tuple[Member, ...]:
    """Return the values of a set, with None for the missing one."""
    if text is None:
        return (None,)
    if "\\" not in text:
        return tuple(_SPECIAL.get(piece, piece) for piece in text.split(SEPARATOR))
    pieces, place = [], 0
    while True:
        piece = _PIECE.match(text, place)
        assert piece is not None
        pieces.append(piece.group())
        place = piece.end() + 1
        if place > len(text):
            break
    return tuple(
        _SPECIAL[piece] if piece in _SPECIAL else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL) for piece in pieces
    )


def parse_set_of_text(text: str | None) -> tuple[Member, ...]:
    """Return all values that a cell of a text file may stand for, if no manifest tells how it was written.

    NA and the other usual marks may be a category or a missing cell, and an apostrophe before = + - @ may be part of
    the value or what the writer of text files puts there against formulas.
    """
    members = parse_set(text)
    if text in MARKS:
        return (*members, None)
    if text is not None and text[:1] == "'" and FORMULA.match(text[1:]):
        return (*members, *parse_set(text[1:]))
    return members
