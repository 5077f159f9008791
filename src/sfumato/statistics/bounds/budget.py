"""How much an enclosure may cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sfumato.params import require_number

DEFAULT_SECONDS = 20.0
DEFAULT_GAP = 1e-4


@dataclass(frozen=True, kw_only=True)
class Budget:
    """When to stop narrowing an enclosure. Whatever the budget, the interval is valid; it is only wider.

    ``seconds`` is for one statistic with all its parts (None: 20, which only regressions on three or more columns and
    very large tables can use up); ``gap`` is the share of the interval that need not be attained (None: 1e-4).
    """

    seconds: float | None = None
    gap: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", at_least=0.0)
        if self.gap is not None:
            require_number(self.gap, name="gap", at_least=0.0)

    def clocks(self, parts: int) -> Iterator[Deadline]:
        """One clock for each part of a statistic: what the earlier parts leave is shared by the later ones."""
        started = time.monotonic()
        whole = DEFAULT_SECONDS if self.seconds is None else self.seconds
        for part in range(parts):
            left = max(whole - (time.monotonic() - started), 0.0)
            yield Deadline(left / (parts - part), DEFAULT_GAP if self.gap is None else self.gap)


@dataclass
class Deadline:
    """A budget that is being spent."""

    seconds: float
    gap: float
    started: float = field(default_factory=time.monotonic)

    def share(self, parts: int) -> Deadline:
        """A clock for one of several parts that are still to come: its share of the time that is left."""
        left = max(self.seconds - (time.monotonic() - self.started), 0.0)
        return Deadline(left / parts, self.gap)

    @property
    def is_over(self) -> bool:
        """Whether the time is spent."""
        return time.monotonic() - self.started > self.seconds
