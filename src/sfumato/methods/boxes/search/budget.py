"""How long a search may take, and what it reports while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sfumato.errors import OptionError
from sfumato.params import require_int, require_number


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a search has come."""

    share: float  # of the budget, from 0 to 1
    rounds: int
    gain: float  # share of the start's cost that is saved so far, from 0 to 1


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """Limit a search by time or by rounds: exactly one of the two must be given.

    ``seconds``
        Time limit, above 0. Compiling kernels is not counted. What the search finds depends on the machine.
    ``rounds``
        Number of rounds, at least 1. With a seed, the result is the same on every machine.
    ``progress``
        Function that is called with a :class:`Progress` after each round; by default progress is logged.

    Example: ``sf.Boxes(k=5, search=sf.SearchBudget(rounds=100))``.
    """

    seconds: float | None = None
    rounds: int | None = None
    progress: Callable[[Progress], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.rounds is None):
            raise OptionError(
                "A search budget needs exactly one of seconds and rounds.",
                found="neither" if self.seconds is None else "both",
                fix="SearchBudget(seconds=60) or SearchBudget(rounds=100)",
            )
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", above=0.0)
        if self.rounds is not None:
            require_int(self.rounds, name="rounds", at_least=1)

    def __str__(self) -> str:
        return f"{self.seconds:g} s" if self.seconds is not None else f"{self.rounds} rounds"

    def split(self, searches: int) -> SearchBudget:
        """The budget of each of several searches in a row: they share the seconds, but each has all rounds."""
        return self if self.seconds is None else replace(self, seconds=self.seconds / searches)


@dataclass
class SpentBudget:
    """A search budget and how much of it is spent."""

    budget: SearchBudget
    rounds: int = 0
    reserved: float = 0.0  # seconds that must stay for what comes after the rounds
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    @property
    def share(self) -> float:
        """The share of the budget that is spent, from 0 to 1."""
        if self.budget.seconds is not None:
            return min((self.seconds + self.reserved) / self.budget.seconds, 1.0)
        assert self.budget.rounds is not None
        return min(self.rounds / self.budget.rounds, 1.0)
