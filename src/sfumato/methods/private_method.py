"""The base class of methods that release nothing but noisy measurements: their options, and what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from sfumato.errors import OptionError
from sfumato.methods.base import Method
from sfumato.methods.options import reported_option
from sfumato.methods.private_columns import domains_of
from sfumato.params import Number, Probability, Whole
from sfumato.plan.claims.concentrated_privacy import MeasuredPrivacy
from sfumato.schema.columns import Role

if TYPE_CHECKING:
    from sfumato.schema.schema import Schema
    from sfumato.table.table import Table

FOUND = 0.1  # share of the budget, and of δ, with which ends and categories that are not declared are found


def require_list(value: object, name: str) -> None:
    """Raise if an option is not a list; a text alone would be taken for a list of its letters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise OptionError(f"{name} must be a list.", found=type(value).__name__, fix="put it in square brackets")


@dataclass(frozen=True, kw_only=True)
class PrivateMethod(Method):
    """Options of a differentially private method."""

    is_private: ClassVar[bool] = True

    epsilon: float = reported_option(
        Number(above=0.0),
        "Privacy loss ε: one person changes the probability of any release by a factor of at most e^ε, except with "
        "probability δ.",
        default=1.0,
        strengths=(4.0, 2.0, 1.0, 0.5, 0.25),
    )
    delta: float = reported_option(
        Probability(),
        "Probability δ with which the factor may be larger. Choose it well below 1 ÷ the number of people.",
        default=1e-6,
    )
    rows_per_person: int = reported_option(
        Whole(at_least=1),
        "Largest number of rows of one person, if a column has the role person; others are left out at random. Noise "
        "grows with it.",
        default=1,
        unit="rows",
    )

    @property
    def needs_whole_table(self) -> bool:
        return True

    def promise(self, table: Table, schema: Schema) -> MeasuredPrivacy:
        """Return what is promised and what it costs, by what is declared: no cell is looked at."""
        declared = domains_of(table, schema.without(Role.IDENTIFIER).without(Role.PERSON))
        return MeasuredPrivacy.of(
            epsilon=self.epsilon,
            delta=self.delta,
            columns=(),
            rows_per_person=None if schema.person is None else self.rows_per_person,
            chance=0.0 if all(declared.values()) else FOUND * self.delta,
        )
