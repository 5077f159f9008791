"""Options of methods that have a flag of their own on the command line; all others are given as --option NAME=VALUE.

The flags are listed here, apart from the methods, so that the help is shown without importing them. A test compares
them with what the methods declare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class CommandFlag:
    """The flag of an option: an option of this name means about the same in every method that has it."""

    option: str  # as the methods declare it
    flags: tuple[str, ...]
    value: Literal["whole", "number", "text", "texts", "answers"]  # answers: repeated COLUMN=ANSWER
    help: str
    metavar: str | None = None

    @property
    def is_repeated(self) -> bool:
        """Whether the flag is given once for each value."""
        return self.value in ("texts", "answers")


COMMAND_FLAGS = (
    CommandFlag(option="k", flags=("-k", "--k"), value="whole", help="Smallest number of records in a group."),
    CommandFlag(
        option="l", flags=("--l",), value="whole", help="Smallest number of different sensitive values in a group."
    ),
    CommandFlag(
        option="keep",
        flags=("--keep",),
        value="texts",
        metavar="STATISTIC",
        help='Statistic to keep accurate, e.g. "corr(age, income)"; repeatable.',
    ),
    CommandFlag(
        option="suppress",
        flags=("--suppress",),
        value="number",
        help="Largest share of rows that may be left out, from 0 to 1.",
    ),
    CommandFlag(
        option="edges", flags=("--edges",), value="text", help="Where the faces of boxes are placed: hull or cells."
    ),
    CommandFlag(
        option="epsilon",
        flags=("--epsilon",),
        value="number",
        help="Smallest difference that counts as a different value, for --l; for quantiles: error of ranks.",
    ),
    CommandFlag(
        option="search",
        flags=("--search",),
        value="number",
        metavar="SECONDS",
        help="Time to search for better boxes or groups; Ctrl-C keeps the best.",
    ),
    CommandFlag(
        option="overlap",
        flags=("--overlap",),
        value="text",
        help="Whether boxes may overlap after a search: none or allowed.",
    ),
    CommandFlag(
        option="rules",
        flags=("--rule",),
        value="texts",
        metavar="RULE",
        help='Expert rule, e.g. "income matters most when age is young"; repeatable.',
    ),
    CommandFlag(
        option="population",
        flags=("--population",),
        value="number",
        help="Size of the population, for generalize.",
    ),
    CommandFlag(
        option="beta",
        flags=("--beta",),
        value="number",
        help="Largest share of rows that may match fewer than k people, for generalize.",
    ),
    CommandFlag(
        option="answers",
        flags=("--answer",),
        value="answers",
        metavar="COLUMN=ANSWER",
        help="For safe-harbor: what to do with a column: keep, remove, year, three-digits or age-90; repeatable.",
    ),
)
