"""Who may see what: a role for each column."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from sfumato.errors import SchemaError
from sfumato.schema.fuzzy_sets import Corners, checked_words
from sfumato.table.kinds import Kind
from sfumato.table.table import Table


class Role(StrEnum):
    """What a column is to an intruder, and so what happens to it."""

    IDENTIFIER = "identifier"  # names a person: removed
    QUASI = "quasi"  # may be known from elsewhere: protected
    SENSITIVE = "sensitive"  # what an intruder is after: kept, its diversity protected
    OTHER = "other"  # neither: kept
    WEIGHT = "weight"  # sampling weight: used by statistics, kept


Word = TypeVar("Word", Role, Kind)


@dataclass(frozen=True, kw_only=True)
class Column:
    """What is known of one column."""

    name: str
    role: Role
    kind: Kind | None = None  # None: as the table says
    reason: str = ""  # why this role was suggested; empty when the user gave it
    order: tuple[str, ...] = field(default=(), repr=False)  # the categories of an ordered column, lowest first
    domain: tuple[float, float] | None = None  # declared range of a numeric column, in the unit of Table.numbers
    tree: str | None = None  # path of a generalization tree (CSV: value;level 1;…;*)
    words: Mapping[str, Corners] = field(default_factory=dict, repr=False, hash=False)  # fuzzy sets of its numbers

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # words become roles and kinds, so that both may be given
        set_field(self, "role", _word(Role, self.role, what="role", column=self.name))
        if self.kind is not None:
            set_field(self, "kind", _word(Kind, self.kind, what="kind", column=self.name))
        set_field(self, "order", _checked_order(self.order, self.name))
        if self.order:
            if self.kind not in (None, Kind.ORDERED):
                raise SchemaError(
                    f"Column {self.name!r} has an order and so must be ordered.", found=f"kind {self.kind}"
                )
            set_field(self, "kind", Kind.ORDERED)
        if self.domain is not None:
            set_field(self, "domain", _checked_domain(self.domain, self.name))
        set_field(self, "words", checked_words(self.words, self.name))


@dataclass(frozen=True)
class Schema:
    """The columns of a table with their roles."""

    columns: tuple[Column, ...]
    _by_name: Mapping[str, Column] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        repeated = [name for name, times in Counter(column.name for column in self.columns).items() if times > 1]
        if repeated:
            raise SchemaError("A schema names each column once.", found=f"{', '.join(map(repr, repeated))} again")
        object.__setattr__(self, "_by_name", {column.name: column for column in self.columns})

    def __getitem__(self, name: str) -> Column:
        if name not in self._by_name:
            raise SchemaError(f"There is no column {name!r} in the schema.", found=nearest(name, self._by_name))
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def names(self, *roles: Role) -> tuple[str, ...]:
        """Names of the columns that have one of these roles, in order."""
        return tuple(column.name for column in self.columns if column.role in roles)

    @classmethod
    def for_table(cls, table: Table, given: Schema | Mapping[str, Any] | str | Path | None = None) -> Schema:
        """A role for every column of the table, in its order.

        ``given`` is a schema, a mapping of column to role (or to what a schema file says of it), or the path of such a
        file. Columns that it does not name get a suggestion; see :func:`sfumato.schema.suggest.suggest`.
        """
        from sfumato.schema.conversion import require_fit
        from sfumato.schema.files import read_schema, schema_of
        from sfumato.schema.suggest import suggest

        if isinstance(given, str | Path):
            given = read_schema(given)
        elif not isinstance(given, Schema):
            given = schema_of(given or {})
        for column in given.columns:
            if column.name not in table.kinds:
                raise SchemaError(
                    f"Column {column.name!r} is in the schema and not in the table.",
                    found=nearest(column.name, table.names),
                    fix="correct the name in the schema",
                )
        unnamed = [name for name in table.names if name not in given]
        suggested = suggest(table.select(unnamed))
        schema = cls(tuple(given[name] if name in given else suggested[name] for name in table.names))
        require_fit(schema, table)
        return schema

    def apply(self, table: Table) -> Table:
        """The table with the kinds and orders that the schema declares; roles change nothing here."""
        from sfumato.schema.conversion import converted

        return converted(self, table)

    def with_role(self, role: Role, *names: str) -> Schema:
        """The same schema with another role for these columns."""
        changed = {name: replace(self[name], role=role, reason="") for name in names}
        return Schema(tuple(changed.get(column.name, column) for column in self.columns))


def nearest(word: str, words: Collection[str]) -> str:
    """What there is, for an error: the nearest of the words, or how many there are."""
    close = get_close_matches(word, list(words), n=1)
    return f"{len(words)} names, the nearest {close[0]!r}" if close else f"{len(words)} names, none like it"


def _word(words: type[Word], word: Any, *, what: str, column: str) -> Word:
    if word not in list(words):
        raise SchemaError(
            f"The {what} of column {column!r} must be one of {', '.join(words)}.",
            found=repr(word) if isinstance(word, str) else type(word).__name__,
        )
    return words(word)


def _checked_order(order: Any, name: str) -> tuple[str, ...]:
    if not isinstance(order, list | tuple) or not all(isinstance(value, str) for value in order):
        raise SchemaError(f"The order of column {name!r} must be a list of texts, lowest first.")
    if len(set(order)) < len(order):
        raise SchemaError(f"The order of column {name!r} must name each value once.")
    return tuple(order)


def _checked_domain(domain: Any, name: str) -> tuple[float, float]:
    ends = tuple(domain) if isinstance(domain, list | tuple) else ()
    numbers = len(ends) == 2 and all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends)
    if not numbers or not all(math.isfinite(end) for end in ends) or ends[0] > ends[1]:
        raise SchemaError(f"The domain of column {name!r} must be two finite numbers, the lower first.")
    return float(ends[0]), float(ends[1])
