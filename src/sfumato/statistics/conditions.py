"""Conditions on records, and statistics under a condition: ``mean(income | sex = F and age >= 65)``."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import StatisticError
from sfumato.statistics.moment_statistics import Coefficient
from sfumato.statistics.statistic import Statistic, quoted

OPERATORS = ("<=", ">=", "!=", "==", "=", "<", ">")
MISSING = "(missing)"


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


@dataclass(frozen=True)
class Count(Statistic):
    """Number of records that meet a condition, or their total weight if records have sampling weights."""

    condition: Condition = ALWAYS

    @property
    def columns(self) -> tuple[str, ...]:
        return self.condition.columns

    def __str__(self) -> str:
        return f"count({self.condition})"


@dataclass(frozen=True)
class Sum(Statistic):
    """Sum of a column over the records without a missing value in it."""

    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def __str__(self) -> str:
        return f"sum({quoted(self.column)})"


@dataclass(frozen=True)
class Quantile(Statistic):
    """The value below which a share of the records lies; the mean of two values if the share falls between them."""

    column: str
    share: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise StatisticError("The share of a quantile must be from 0 to 1.", found=f"{self.share:g}")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def __str__(self) -> str:
        if self.share == 0.5:
            return f"median({quoted(self.column)})"
        return f"quantile({quoted(self.column)}, {self.share:.15g})"


@dataclass(frozen=True)
class Conditional(Statistic):
    """A statistic of the records that meet a condition."""

    statistic: Statistic
    condition: Condition

    def __post_init__(self) -> None:
        if isinstance(self.statistic, Count | Conditional):
            raise StatisticError(f"{self.statistic} has a condition already.", fix="join the conditions with 'and'")

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the statistic and of the condition, each once."""
        return tuple(dict.fromkeys((*self.statistic.columns, *self.condition.columns)))

    def parts(self) -> tuple[Statistic, ...]:
        return tuple(Conditional(part, self.condition) for part in self.statistic.parts())

    def __str__(self) -> str:
        if isinstance(self.statistic, Coefficient):
            return f"{Conditional(self.statistic.regression, self.condition)}: {self.statistic.term_name}"
        return f"{str(self.statistic)[:-1]} | {self.condition})"
