"""Names of columns with wildcards: ``lab_*`` stands for all columns that begin with ``lab_``, ``x?`` for x1, x2, …

A column that is named exactly has the role that its name is given. A pattern stands for the other columns that match
it; the first of several patterns counts. A pattern does not release a column that looks like an identifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.schema.columns import Column


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
