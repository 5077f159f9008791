"""What is known of one column: its role, its kind, and what a user declares of its values."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from sfumato.errors import SchemaError
from sfumato.schema.fuzzy_sets import Corners, checked_words
from sfumato.table.kinds import Kind


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
