"""Limits for the computation of an estimate: time, and width of the interval."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from sfumato.params import require_number

DEFAULT_SECONDS = 20.0
DEFAULT_GAP = 1e-4


@dataclass(frozen=True, kw_only=True)
class EstimateBudget:
    """When to stop narrowing the interval of an estimate.

    A smaller budget gives a wider interval, which is still guaranteed.

    Parameters
    ----------
    seconds : float, optional
        Time for one statistic with all its parts, in seconds, at least 0. The default is 20 seconds, which only
        regressions on three or more columns and very large tables use up. Compiling kernels is not included.
        ``Estimate.ended_early`` says whether the time was used up.
    gap : float, optional
        Share of the guaranteed interval that need not be attained by some choice of values, at least 0. The computation
        stops early when the gap is reached. The default is 1e-4.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release(
    ...     {"age_low": [20, 30, 50], "age_high": [21, 31, 51], "income_low": [1, 2, 4], "income_high": [2, 3, 5]}
    ... )
    >>> estimate = boxes.estimate("corr(age, income)", budget=sf.EstimateBudget(seconds=5, gap=0.01))
    >>> estimate.low <= estimate.value <= estimate.high
    True
    """

    seconds: float | None = None
    gap: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            require_number(self.seconds, name="seconds", at_least=0.0)
        if self.gap is not None:
            require_number(self.gap, name="gap", at_least=0.0)

    def deadlines(self, parts: int) -> Iterator[Deadline]:
        """Yield one deadline per part of a statistic; time that earlier parts do not use is given to later ones.

        Parameters
        ----------
        parts : int
            Number of parts.
        """
        started = time.monotonic()
        total = DEFAULT_SECONDS if self.seconds is None else self.seconds
        for part in range(parts):
            left = max(total - (time.monotonic() - started), 0.0)
            yield Deadline(left / (parts - part), DEFAULT_GAP if self.gap is None else self.gap)


@dataclass
class Deadline:
    """The time at which a computation must stop, and the gap at which it may stop earlier.

    ``ended_early`` becomes true when a computation, or a part of it that has a share of the time, finds the time used
    up before the gap was reached.
    """

    seconds: float
    gap: float
    started: float = field(default_factory=time.monotonic)
    ended_early: bool = False
    whole: Deadline | None = None  # the deadline of which this one is a share

    def share(self, parts: int) -> Deadline:
        """Return the deadline of the next of ``parts`` parts: an equal share of the remaining time."""
        left = max(self.seconds - (time.monotonic() - self.started), 0.0)
        return Deadline(left / parts, self.gap, whole=self)

    @property
    def is_over(self) -> bool:
        """Whether the time is used up; this is asked only where more time would help."""
        is_over = time.monotonic() - self.started > self.seconds
        deadline: Deadline | None = self if is_over else None
        while deadline is not None:
            deadline.ended_early, deadline = True, deadline.whole
        return is_over
