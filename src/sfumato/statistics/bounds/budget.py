"""How long an estimate may take, and how tight its interval must be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sfumato.params import require_number

DEFAULT_SECONDS = 20.0
DEFAULT_GAP = 1e-4


@dataclass(frozen=True, kw_only=True)
class EstimateBudget:
    """When to stop narrowing the interval of an estimate. With a smaller budget it is wider, but still guaranteed.

    ``seconds``
        Time for one statistic with all its parts, at least 0; 20 by default, which only regressions on three or more
        columns and very large tables use up.
    ``gap``
        Share of the interval that need not be attained, at least 0; 1e-4 by default.

    Example: ``release.estimate("mean(age)", budget=sf.EstimateBudget(seconds=1))``.
    """

    seconds: float | None = None
    gap: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", at_least=0.0)
        if self.gap is not None:
            require_number(self.gap, name="gap", at_least=0.0)

    def deadlines(self, parts: int) -> Iterator[Deadline]:
        """One deadline per part of a statistic; time that earlier parts do not use goes to the later ones."""
        started = time.monotonic()
        whole = DEFAULT_SECONDS if self.seconds is None else self.seconds
        for part in range(parts):
            left = max(whole - (time.monotonic() - started), 0.0)
            yield Deadline(left / (parts - part), DEFAULT_GAP if self.gap is None else self.gap)


@dataclass
class Deadline:
    """When an estimate must stop, and the gap at which it may stop earlier."""

    seconds: float
    gap: float
    started: float = field(default_factory=time.monotonic)

    def share(self, parts: int) -> Deadline:
        """The deadline of the next of ``parts`` parts: an equal share of the time that is left."""
        left = max(self.seconds - (time.monotonic() - self.started), 0.0)
        return Deadline(left / parts, self.gap)

    @property
    def is_over(self) -> bool:
        """Whether the time is spent."""
        return time.monotonic() - self.started > self.seconds
