"""How long a search may take, and what it tells on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sfumato.params import require_int, require_number


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a search has come."""

    share: float  # of the budget, from 0 to 1
    rounds: int
    gain: float  # share of the start's cost that is saved so far, from 0 to 1


@dataclass(frozen=True)
class Seconds:
    """A search of so many seconds, kernels already compiled. How much it finds depends on the machine."""

    seconds: float
    progress: Callable[[Progress], None] | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_number(self.seconds, name="seconds", above=0.0)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"

    def spent(self, seconds: float, rounds: int) -> float:
        """The share of the budget that is spent."""
        return seconds / self.seconds

    def part(self, parts: int) -> Seconds:
        """The budget of one of several searches that follow one another."""
        return replace(self, seconds=self.seconds / parts)


@dataclass(frozen=True)
class Rounds:
    """A search of so many rounds: for a seed the same on every machine, however long it takes."""

    rounds: int
    progress: Callable[[Progress], None] | None = field(default=None, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_int(self.rounds, name="rounds", at_least=1)

    def __str__(self) -> str:
        return f"{self.rounds} rounds"

    def spent(self, seconds: float, rounds: int) -> float:
        """The share of the budget that is spent."""
        return rounds / self.rounds

    def part(self, parts: int) -> Rounds:
        """The budget of one of several searches: each has all its rounds."""
        return self


Budget = Seconds | Rounds


@dataclass
class Clock:
    """A budget that is being spent."""

    budget: Budget
    rounds: int = 0
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self.started

    @property
    def share(self) -> float:
        """The share of the budget that is spent, 1 at most."""
        return min(self.budget.spent(self.seconds, self.rounds), 1.0)
