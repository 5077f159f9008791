"""Conditions on records, ``sex = F and not age < 65``: what they say, and the sets of values that meet them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from sfumato.errors import StatisticError

OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MISSING = "(missing)"
RESERVED = set("(),~+|=<>!&`\"'")  # symbols of the language
CONNECTIVES = ("and", "or")  # words that end a name or a value
FOLLOWING = re.compile(r"\s+((?:not\s+)?in(?=\s*\()|between\b|is\s+(?:not\s+)?missing\b)", re.IGNORECASE)  # end a name
MOST_CLAUSES = 2000  # of a condition that is written as alternatives


class Derived(str):
    """The text of a column that is computed from others, such as ``log(income)`` or ``a * b``; it is never quoted."""

    function: str
    operands: tuple[str, ...]

    @classmethod
    def of(cls, function: str, *operands: str) -> Derived:
        """Return the column as the language writes it."""
        shown = [quote(operand) for operand in operands]
        derived = cls(f"{function}({shown[0]})" if len(shown) == 1 else f"{shown[0]} {function} {shown[1]}")
        derived.function, derived.operands = function, operands
        return derived


def quote(name: str) -> str:
    """Return a name or value as the language of statistics writes it: unquoted if possible, else in backticks."""
    if isinstance(name, Derived):
        return str(name)
    words = any(f" {word} " in name.lower() for word in CONNECTIVES) or name.lower().startswith("not ")
    plain = name and name == name.strip() and not RESERVED & set(name) and not words and not FOLLOWING.search(name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def base_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the columns of the release that columns are computed from, each once."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys(base_columns(name.operands) if isinstance(name, Derived) else (name,))
    return tuple(found)


@dataclass(frozen=True)
class Predicate:
    """A column, an operator, and the value to compare with; None means the missing value.

    A missing cell meets only the predicate ``= (missing)``: it is neither equal to a value nor different from it.
    """

    column: str
    operator: str
    value: str | None

    def __post_init__(self) -> None:
        if self.operator == "==":
            object.__setattr__(self, "operator", "=")
        if self.operator not in OPERATORS:
            raise StatisticError(
                f"The operator of a predicate must be one of {' '.join(OPERATORS)}.", found=repr(self.operator)
            )
        if self.value is None and self.operator not in ("=", "!="):
            raise StatisticError(
                f"A missing value has no order, so column {self.column!r} can only be = or != {MISSING}."
            )

    @property
    def negated(self) -> Predicate:
        """The predicate that holds for all other values; a missing cell meets neither, unless it is asked for."""
        return replace(self, operator=NEGATED[self.operator])

    def leaves(self) -> Iterator[Predicate]:
        """Yield the predicate itself."""
        yield self

    def __str__(self) -> str:
        value = MISSING if self.value is None else quote(self.value)
        return f"{quote(self.column)} {self.operator} {value}"


@dataclass(frozen=True)
class Condition:
    """Predicates and conditions that must all hold or, if ``either``, of which at least one must hold."""

    predicates: tuple[Predicate | Condition, ...]
    either: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared, each once."""
        return tuple(dict.fromkeys(predicate.column for predicate in self.leaves()))

    @property
    def negated(self) -> Condition:
        """The condition that it is not met (De Morgan)."""
        return Condition(tuple(one.negated for one in self.predicates), not self.either)

    def leaves(self) -> Iterator[Predicate]:
        """Yield all predicates."""
        for one in self.predicates:
            yield from one.leaves()

    def joined(self, *others: Condition) -> Condition:
        """Return the condition that this one and all others are met."""
        every = [one for one in (self, *others) if one.predicates]
        if len(every) == 1:
            return every[0]
        parts = [part for one in every for part in ((one,) if one.either else one.predicates)]
        return Condition(tuple(parts))

    def __str__(self) -> str:
        word = " or " if self.either else " and "
        return word.join(
            f"({one})" if isinstance(one, Condition) and len(one.predicates) > 1 else str(one)
            for one in self.predicates
        )


ALWAYS = Condition(())


# The values that meet a condition, column by column.
#
# A condition is written as alternatives ("clauses"); each is a set of values per column, all of which must hold. The
# records that do not meet it are the clauses of its complement. A box possibly meets a condition if one of the clauses
# touches it in all columns, and certainly if no clause of the complement does: both are exact, because columns of a
# box vary independently.


@dataclass(frozen=True)
class NumberSet:
    """Numbers in closed intervals, in order and apart from each other, and perhaps the missing value."""

    ends: tuple[tuple[float, float], ...] = ((-math.inf, math.inf),)
    missing: bool = False

    @classmethod
    def meeting(cls, operator: str, number: float) -> NumberSet:
        """Return the numbers that meet a comparison; between two neighbouring floats there is no number."""
        below, above = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
        return cls(
            {
                "<": ((-math.inf, below),),
                "<=": ((-math.inf, number),),
                ">": ((above, math.inf),),
                ">=": ((number, math.inf),),
                "=": ((number, number),),
                "!=": ((-math.inf, below), (above, math.inf)),
            }[operator]
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the set."""
        return not self.ends and not self.missing

    @property
    def complement(self) -> NumberSet:
        """All other numbers, and the missing value unless it is in this set."""
        gaps, start = [], -math.inf
        for low, high in self.ends:
            if low > start:
                gaps.append((start, math.nextafter(low, -math.inf)))
            start = math.inf if high == math.inf else math.nextafter(high, math.inf)
        if not self.ends or self.ends[-1][1] < math.inf:
            gaps.append((start, math.inf))
        return NumberSet(tuple(gaps), not self.missing)

    def intersect(self, other: NumberSet) -> NumberSet:
        """Return what is in both sets."""
        common = ((max(a, c), min(b, d)) for (a, b), (c, d) in product(self.ends, other.ends))
        return NumberSet(tuple(sorted(one for one in common if one[0] <= one[1])), self.missing and other.missing)

    def unite(self, other: NumberSet) -> NumberSet:
        """Return what is in one of the sets."""
        return self.complement.intersect(other.complement).complement


@dataclass(frozen=True)
class NameSet:
    """Some names or, if ``others``, all names except these; and perhaps the missing value."""

    names: frozenset[str] = frozenset()
    others: bool = True
    missing: bool = False

    @classmethod
    def meeting(cls, operator: str, name: str) -> NameSet:
        """Return the names that meet a comparison."""
        return cls(frozenset([name]), operator == "!=")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in the set."""
        return not self.names and not self.others and not self.missing

    @property
    def complement(self) -> NameSet:
        """All other names, and the missing value unless it is in this set."""
        return NameSet(self.names, not self.others, not self.missing)

    def contains(self, name: str | None) -> bool:
        """Return whether a name, or None for the missing value, is in the set."""
        return self.missing if name is None else (name in self.names) != self.others

    def intersect(self, other: NameSet) -> NameSet:
        """Return what is in both sets."""
        if self.others and other.others:
            names = self.names | other.names
        elif self.others or other.others:
            shown, hidden = (other, self) if self.others else (self, other)
            names = shown.names - hidden.names
        else:
            names = self.names & other.names
        return NameSet(names, self.others and other.others, self.missing and other.missing)

    def unite(self, other: NameSet) -> NameSet:
        """Return what is in one of the sets."""
        return self.complement.intersect(other.complement).complement


ValueSet: TypeAlias = NumberSet | NameSet
Clause: TypeAlias = Mapping[str, ValueSet]


def read_clauses(condition: Condition | Predicate, read: Callable[[Predicate], ValueSet]) -> list[Clause]:
    """Return a condition as alternatives; ``read`` returns the values of a column that meet a predicate."""
    if isinstance(condition, Predicate):
        values = read(condition)
        return [] if values.is_empty else [{condition.column: values}]
    parts = [read_clauses(one, read) for one in condition.predicates]
    return _unite([clause for part in parts for clause in part]) if condition.either else join_clauses(parts)


def join_clauses(parts: Sequence[Sequence[Clause]]) -> list[Clause]:
    """Return the alternatives that all of several conditions are met."""
    joined: list[Clause] = [{}]
    for part in parts:
        both = [_intersect(one, other) for one, other in product(joined, part)]
        joined = _unite([clause for clause in both if clause is not None])
    return joined


def complement_clauses(clauses: Sequence[Clause]) -> list[Clause]:
    """Return the alternatives that a condition is not met."""
    return join_clauses(
        [
            [{name: values.complement} for name, values in one.items() if not values.complement.is_empty]
            for one in clauses
        ]
    )


def _intersect(one: Clause, other: Clause) -> Clause | None:
    both = dict(one)
    for name, values in other.items():
        both[name] = both[name].intersect(values) if name in both else values  # type: ignore[arg-type]
    return None if any(values.is_empty for values in both.values()) else both


def _unite(clauses: Sequence[Clause]) -> list[Clause]:
    """Return the alternatives with those on the same single column as one."""
    single: dict[str, ValueSet] = {}
    several: list[Clause] = []
    for clause in clauses:
        if len(clause) == 1:
            ((name, values),) = clause.items()
            single[name] = single[name].unite(values) if name in single else values  # type: ignore[arg-type]
        elif clause not in several:
            several.append(clause)
    if len(several) > MOST_CLAUSES:
        raise StatisticError("The condition has too many alternatives.", fix="ask for parts of it one by one")
    return [*({name: values} for name, values in single.items()), *several]
