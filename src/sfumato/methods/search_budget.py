"""The limit of a search, and the progress that it reports."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sfumato.errors import OptionError
from sfumato.params import require_int, require_number

LOG_EVERY = 5.0  # seconds between two log lines

log = logging.getLogger("sfumato")


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """The progress of a search.

    Attributes
    ----------
    share : float
        Share of the budget that is spent, from 0 to 1.
    rounds : int
        Rounds completed.
    gain : float
        Share of the initial cost that is saved so far, from 0 to 1.
    """

    share: float
    rounds: int
    gain: float


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """The limit of a search for better boxes or groups, by time or by rounds. Exactly one of the two must be given.

    Parameters
    ----------
    seconds : float, optional
        Time limit in seconds, above 0. Compilation of kernels is not counted. The result depends on the speed of the
        machine. Default: no time limit.
    rounds : int, optional
        Number of rounds, at least 1. With a seed, the result is the same on every machine. Default: no limit on rounds.
    progress : callable, optional
        Function that is called with a :class:`Progress` after each round. Default: progress is logged.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [20, 21, 22, 40, 41, 42, 60, 61, 62], "income": [10, 12, 11, 30, 31, 35, 20, 21, 25]}
    >>> method = sf.Boxes(k=3, search=sf.SearchBudget(rounds=5))
    >>> method.release(people, schema={"age": "quasi", "income": "quasi"}, seed=1).table.rows
    9
    """

    seconds: float | None = None
    rounds: int | None = None
    progress: Callable[[SearchProgress], None] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.seconds is None) == (self.rounds is None):
            raise OptionError(
                "A search budget must have exactly one of seconds and rounds.",
                found="neither" if self.seconds is None else "both",
                fix="SearchBudget(seconds=60) or SearchBudget(rounds=100)",
            )
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", above=0.0)
        if self.rounds is not None:
            require_int(self.rounds, name="rounds", at_least=1)

    @classmethod
    def of(cls, given: SearchBudget | float) -> SearchBudget:
        """Return the budget itself, or that of a number of seconds."""
        return given if isinstance(given, SearchBudget) else cls(seconds=float(given))

    def __str__(self) -> str:
        return f"{self.seconds:g} s" if self.seconds is not None else f"{self.rounds} rounds"

    def split(self, searches: int) -> SearchBudget:
        """Return the budget of each of several consecutive searches: seconds are shared, rounds are not."""
        return self if self.seconds is None else replace(self, seconds=self.seconds / searches)


@dataclass
class SpentBudget:
    """A search budget and how much of it is spent."""

    budget: SearchBudget
    rounds: int = 0
    reserved: float = 0.0  # seconds that are kept for the work after the last round
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Time since the start, in seconds."""
        return time.monotonic() - self.started

    @property
    def share(self) -> float:
        """Share of the budget that is spent, from 0 to 1."""
        if self.budget.seconds is not None:
            return min((self.seconds + self.reserved) / self.budget.seconds, 1.0)
        assert self.budget.rounds is not None
        return min(self.rounds / self.budget.rounds, 1.0)


@dataclass
class SearchReporter:
    """Reports the progress of a search: to a callable after each round, or to the log every few seconds."""

    spent: SpentBudget
    logged: float = 0.0  # time of the last log line

    def report(self, gain: float) -> None:
        """Count a round and report the share of the initial cost that is saved so far."""
        self.spent.rounds += 1
        progress = SearchProgress(share=self.spent.share, rounds=self.spent.rounds, gain=gain)
        if self.spent.budget.progress is not None:
            self.spent.budget.progress(progress)
        elif time.monotonic() - self.logged >= LOG_EVERY:
            self.logged = time.monotonic()
            log.info("search: %3.0f %% of %s, %.1f %% gained", 100.0 * progress.share, self.spent.budget, 100.0 * gain)


def require_search(value: object, name: str) -> None:
    """Raise unless the value is a search budget or a number of seconds above 0."""
    if not isinstance(value, SearchBudget):
        require_number(value, name=name, above=0.0)
