"""Progress of long work: its share and the time to go, in the log."""

from __future__ import annotations

import logging
import time

log = logging.getLogger("sfumato")

FIRST, NEXT = 3.0, 5.0  # seconds before the first message, and between messages


class LoggedProgress:
    """Work that is counted in steps; short work says nothing."""

    def __init__(self, what: str, steps: int) -> None:
        self.what, self.steps, self.done = what, max(steps, 1), 0.0
        self._start = time.monotonic()
        self._next = self._start + FIRST

    def add(self, steps: float = 1) -> None:
        """Note that these steps are done, and tell now and then how far the work is."""
        self.reach(self.done + steps)

    def reach(self, done: float) -> None:
        """Note how many steps are done in all; the number never falls."""
        self.done = max(self.done, done)
        now = time.monotonic()
        if now >= self._next and 0.0 < self.done < self.steps:
            self._next = now + NEXT
            left = (now - self._start) * (self.steps - self.done) / self.done
            log.info("%s: %.0f %%, about %s to go", self.what, 100.0 * self.done / self.steps, _duration(left))


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"
