"""The schema of one column: its role, its kind, and what the user declares about its values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from sfumato.errors import SchemaError
from sfumato.params import is_finite
from sfumato.table.kinds import Kind

# Fuzzy sets over the numbers of a column: words, each with the corners of a trapezoid.


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


class Role(StrEnum):
    """The role of a column, which determines how it is protected."""

    IDENTIFIER = "identifier"  # identifies a person; removed
    QUASI = "quasi"  # quasi-identifier, which may be known from other sources; protected
    SENSITIVE = "sensitive"  # what an intruder wants to learn; kept, and its diversity is protected
    OTHER = "other"  # none of these; kept
    WEIGHT = "weight"  # sampling weight; used by statistics, and released by the rule of the method


Member = TypeVar("Member", Role, Kind)
DAYS, MOST_DAYS = 180, 36_500  # default and largest shift of dates


@dataclass(frozen=True, kw_only=True)
class DateShift:
    """How dates are shifted: all dates of one person by the same random number of days."""

    by: str  # column that tells people apart
    days: int = DAYS  # largest shift, to either side

    @classmethod
    def of(cls, given: Any, column: str) -> DateShift:
        """Return a checked shift from a shift, or from a mapping with ``by`` and ``days``."""
        fields: Any = {"by": given.by, "days": given.days} if isinstance(given, DateShift) else given
        if (
            not isinstance(fields, Mapping)
            or not set(fields) <= {"by", "days"}
            or not isinstance(fields.get("by"), str)
        ):
            raise SchemaError(
                f"The shift of column {column!r} must name the column that tells people apart.",
                fix='shift = {by = "patient_id", days = 180}',
            )
        days = fields.get("days", DAYS)
        if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
            raise SchemaError(f"The dates of column {column!r} can be shifted by 1 to {MOST_DAYS:,} days.")
        return cls(by=fields["by"], days=days)


@dataclass(frozen=True, kw_only=True)
class Column:
    """The schema of one column."""

    name: str
    role: Role
    kind: Kind | None = None  # None means the kind in the table
    reason: str = ""  # why this role was suggested; empty if the user declared it
    order: tuple[str, ...] = field(default=(), repr=False)  # categories of an ordered column, lowest first
    domain: tuple[float, float] | None = None  # declared range of a numeric column, in the unit of Table.numbers
    tree: str | None = None  # "calendar", "prefix", "steps:…", or path of a generalization tree
    words: Mapping[str, Corners] = field(default_factory=dict, repr=False, hash=False)  # fuzzy sets over the numbers
    label: str = ""  # what the column means, in words, for the codebook
    pseudonym: bool = False  # whether an identifier is released as a keyed pseudonym instead of being removed
    shift: DateShift | None = None  # by whom and how far dates are shifted before the release

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # text is converted to Role and Kind, so that both can be passed
        set_field(self, "role", _member(Role, self.role, what="role", column=self.name))
        if self.kind is not None:
            set_field(self, "kind", _member(Kind, self.kind, what="kind", column=self.name))
        set_field(self, "order", _checked_order(self.order, self.name))
        if self.order:
            if self.kind not in (None, Kind.ORDERED):
                raise SchemaError(
                    f"Column {self.name!r} has an order, so its kind must be ordered.", found=f"kind {self.kind}"
                )
            set_field(self, "kind", Kind.ORDERED)
        if self.domain is not None:
            set_field(self, "domain", _checked_domain(self.domain, self.name))
        set_field(self, "words", checked_words(self.words, self.name))
        if not isinstance(self.label, str):
            raise SchemaError(f"The label of column {self.name!r} must be a text.", found=type(self.label).__name__)
        if not isinstance(self.pseudonym, bool) or (self.pseudonym and self.role is not Role.IDENTIFIER):
            raise SchemaError(
                f"Only an identifier can be released as a pseudonym, and {self.name!r} must say so by true or false.",
                found=f"role {self.role}",
                fix='role = "identifier" and pseudonym = true',
            )
        if self.shift is not None:
            set_field(self, "shift", DateShift.of(self.shift, self.name))


def nearest(name: str, names: Collection[str]) -> str:
    """Describe the known names for an error message: how many there are, and the one closest to ``name``."""
    close = get_close_matches(name, list(names), n=1)
    return f"{len(names)} names, the nearest {close[0]!r}" if close else f"{len(names)} names, none similar"


def _member(members: type[Member], value: Any, *, what: str, column: str) -> Member:
    if value not in list(members):
        raise SchemaError(
            f"The {what} of column {column!r} must be one of {', '.join(members)}.",
            found=repr(value) if isinstance(value, str) else type(value).__name__,
        )
    return members(value)


def _checked_order(order: Any, name: str) -> tuple[str, ...]:
    if not isinstance(order, list | tuple) or not all(isinstance(value, str) for value in order):
        raise SchemaError(f"The order of column {name!r} must be a list of strings, lowest first.")
    if len(set(order)) < len(order):
        raise SchemaError(f"The order of column {name!r} must contain each value once.")
    return tuple(order)


def _checked_domain(domain: Any, name: str) -> tuple[float, float]:
    ends = tuple(domain) if isinstance(domain, list | tuple) else ()
    numbers = len(ends) == 2 and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or not all(is_finite(end) for end in ends) or ends[0] > ends[1]:
        raise SchemaError(f"The domain of column {name!r} must be two finite numbers, the lower first.")
    return float(ends[0]), float(ends[1])


# Names of columns with wildcards: ``lab_*`` stands for all columns that begin with ``lab_``, ``x?`` for x1, x2, ….
#
# A column that is named exactly has the role that its name is given. A pattern stands for the other columns that
# match it; the first of several patterns counts. A pattern does not release a column that looks like an identifier.


def is_pattern(name: str) -> bool:
    """Return whether a name contains a wildcard."""
    return "*" in name or "?" in name


def matches(pattern: str, name: str) -> bool:
    """Return whether a name matches a pattern: ``*`` stands for any characters, ``?`` for one.

    >>> matches("lab_*", "lab_alt"), matches("lab_?", "lab_alt")
    (True, False)
    """
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(expression, name, re.DOTALL) is not None


def expand_patterns(columns: Sequence[Column], names: Sequence[str]) -> dict[str, Column]:
    """Return the columns of a table that patterns stand for, by name; patterns that match nothing are left out."""
    exact = {column.name for column in columns if column.name in names}
    patterns = [column for column in columns if column.name not in names and is_pattern(column.name)]
    return {
        name: replace(column, name=name)
        for name in names
        if name not in exact and (column := _first(patterns, name)) is not None
    }


def role_by_name_or_pattern(name: str, roles: Mapping[str, Role]) -> Role | None:
    """Return the role of a column in a mapping that may contain patterns; None if nothing fits."""
    fitting = (role for pattern, role in roles.items() if is_pattern(pattern) and matches(pattern, name))
    return roles[name] if name in roles else next(fitting, None)


def keep_identifier(column: Column, suggested: Column) -> Column:
    """Return the column of a pattern, but as an identifier if it looks like one."""
    if suggested.role is not Role.IDENTIFIER or column.role is Role.IDENTIFIER:
        return column
    return replace(suggested, reason=f"{suggested.reason}; a pattern does not release it, only its full name does")


def _first(patterns: Iterable[Column], name: str) -> Column | None:
    return next((column for column in patterns if matches(column.name, name)), None)
