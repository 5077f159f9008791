"""Options of methods that have a flag of their own on the command line; all others are given as --option NAME=VALUE.

The flags are listed here, apart from the methods, so that the help is shown without importing them. A test compares
them with what the methods declare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CommandFlag:
    """The flag of an option: an option of this name means about the same in every method that has it."""

    option: str  # as the methods declare it
    value: Literal["whole", "number", "text", "texts", "answers"]  # answers: repeated COLUMN=ANSWER
    help: str
    metavar: str | None = None
    named: tuple[str, ...] = ()  # the flags, if they are not the name of the option

    @property
    def flags(self) -> tuple[str, ...]:
        """What is written on the command line."""
        return self.named or (f"--{self.option}",)

    @property
    def is_repeated(self) -> bool:
        """Whether the flag is given once for each value."""
        return self.value in ("texts", "answers")


RULE = 'Expert rule, e.g. "income matters most when age is young"; repeatable.'
KEEP = 'Statistic to keep accurate, e.g. "corr(age, income)"; repeatable.'
EPSILON = "Smallest difference that counts as a different value, for --l; for quantiles: error of ranks."
ANSWER = "For safe-harbor: what to do with a column: keep, remove, year, three-digits or age-90; repeatable."

COMMAND_FLAGS = (
    CommandFlag("k", "whole", "Smallest number of records in a group.", named=("-k", "--k")),
    CommandFlag("l", "whole", "Smallest number of different sensitive values in a group."),
    CommandFlag("keep", "texts", KEEP, "STATISTIC"),
    CommandFlag("suppress", "number", "Largest share of rows that may be left out, from 0 to 1."),
    CommandFlag("edges", "text", "Where the faces of boxes are placed: hull or cells."),
    CommandFlag("epsilon", "number", EPSILON),
    CommandFlag("search", "number", "Time to search for better boxes or groups; Ctrl-C keeps the best.", "SECONDS"),
    CommandFlag("overlap", "text", "Whether boxes may overlap after a search: none or allowed."),
    CommandFlag("rules", "texts", RULE, "RULE", named=("--rule",)),
    CommandFlag("population", "number", "Size of the population, for generalize."),
    CommandFlag("beta", "number", "Largest share of rows that may match fewer than k people, for generalize."),
    CommandFlag("answers", "answers", ANSWER, "COLUMN=ANSWER", named=("--answer",)),
)
