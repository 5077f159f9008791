"""Conditions on records: ``sex = F and age >= 65``."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import StatisticError

OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
MISSING = "(missing)"
RESERVED = set("(),~+|=<>!&`\"'")  # symbols of the language


def quoted(name: str) -> str:
    """Return a name or value as the language of statistics writes it: unquoted if possible, else in backticks."""
    plain = name and name == name.strip() and not RESERVED & set(name) and " and " not in name.lower()
    return name if plain else "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True)
class Predicate:
    """A column, an operator, and the value to compare with; None means the missing value.

    A missing cell meets only the predicate ``= (missing)``.
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
    def is_missing(self) -> bool:
        """Whether the predicate requires a missing value."""
        return self.value is None and self.operator == "="

    def __str__(self) -> str:
        value = MISSING if self.value is None else quoted(self.value)
        return f"{quoted(self.column)} {self.operator} {value}"


@dataclass(frozen=True)
class Condition:
    """Predicates that must all hold."""

    predicates: tuple[Predicate, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are compared, each once."""
        return tuple(dict.fromkeys(predicate.column for predicate in self.predicates))

    def on(self, column: str) -> tuple[Predicate, ...]:
        """Return the predicates on one column."""
        return tuple(predicate for predicate in self.predicates if predicate.column == column)

    def __str__(self) -> str:
        return " and ".join(map(str, self.predicates))


ALWAYS = Condition(())
