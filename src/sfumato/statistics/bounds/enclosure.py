"""Enclosures of a statistic, the choices that attain their ends, and the limits of their computation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.jit import working_time
from sfumato.params import require_number
from sfumato.statistics.moments import Moments

EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False, repr=False)
class Witness:
    """A choice of values in the boxes: ``weight[i]`` of box ``box[i]`` is located at ``points[i]``."""

    box: NDArray[np.int64]  # (M,)
    points: NDArray[np.float64]  # (M, n)
    weight: NDArray[np.float64]  # (M,)

    @property
    def moments(self) -> Moments:
        """Moments of the chosen values."""
        return Moments.of(self.points, self.weight)


@dataclass(frozen=True, eq=False, repr=False)
class Enclosure:
    """An interval ``low``–``high`` that contains the statistic of every choice, and choices that attain the inner ends.

    ``lowest`` and ``highest`` are None if no choice is kept; the inner ends are NaN if no choice is known for which the
    statistic is defined. ``value`` is the best guess, and the linear ends belong to it.
    """

    low: float
    high: float
    inner_low: float
    inner_high: float
    lowest: Witness | None = None
    highest: Witness | None = None
    value: float = math.nan
    linear_low: float = math.nan
    linear_high: float = math.nan

    def __post_init__(self) -> None:
        """Order the attained ends, because rounding may swap them or move them outside the guaranteed interval.

        If the search for one end found only choices that leave the statistic undefined, the other end replaces it.
        """
        attained = [
            (min(max(value, self.low), self.high), witness)
            for value, witness in ((self.inner_low, self.lowest), (self.inner_high, self.highest))
            if not math.isnan(value)
        ]
        if attained:
            lowest, highest = (pick(attained, key=lambda end: end[0]) for pick in (min, max))
            object.__setattr__(self, "inner_low", lowest[0])
            object.__setattr__(self, "lowest", lowest[1])
            object.__setattr__(self, "inner_high", highest[0])
            object.__setattr__(self, "highest", highest[1])

    @classmethod
    def unknown(cls) -> Enclosure:
        """Return the enclosure of a statistic that may be any number, or may not be defined."""
        return cls(-math.inf, math.inf, math.nan, math.nan)


@dataclass(frozen=True, eq=False, repr=False)
class End:
    """The upper end of an enclosure in scaled units.

    No choice exceeds ``outer``, and ``points`` (one per box) with these weights attain ``inner``.
    """

    outer: float
    inner: float
    points: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Factor:
    """A factor of which only limits are known; ∞ if the statistic may not be defined."""

    least: float = 1.0
    most: float = 1.0
    likely: float = 1.0

    def multiply(self, enclosure: Enclosure) -> Enclosure:
        """Multiply the ends; the limits are widened so that rounding cannot make the interval wrong."""
        if self.least == self.most == 1.0:
            return enclosure
        if math.isinf(self.least):
            return Enclosure.unknown()
        low = min(_multiply(limit, enclosure.low) for limit in (self.least, self.most))
        high = max(_multiply(limit, enclosure.high) for limit in (self.least, self.most))
        inner = self.likely if self.least == self.most else math.nan
        return Enclosure(
            low - 8.0 * EPS * abs(low) if math.isfinite(low) else low,
            high + 8.0 * EPS * abs(high) if math.isfinite(high) else high,
            inner * enclosure.inner_low,
            inner * enclosure.inner_high,
            enclosure.lowest,
            enclosure.highest,
        )


def _multiply(factor: float, end: float) -> float:
    """Return the product, in which an infinite factor makes 0 infinite."""
    return 0.0 if end == 0.0 and math.isfinite(factor) else math.inf if end == 0.0 else factor * end


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
        started = working_time()
        total = DEFAULT_SECONDS if self.seconds is None else self.seconds
        for part in range(parts):
            left = max(total - (working_time() - started), 0.0)
            yield Deadline(left / (parts - part), DEFAULT_GAP if self.gap is None else self.gap)


@dataclass
class Deadline:
    """The time at which a computation must stop, and the gap at which it may stop earlier.

    ``ended_early`` becomes true when a computation, or a part of it that has a share of the time, finds the time used
    up before the gap was reached.
    """

    seconds: float
    gap: float
    started: float = field(default_factory=working_time)
    ended_early: bool = False
    whole: Deadline | None = None  # the deadline of which this one is a share

    def share(self, parts: int) -> Deadline:
        """Return the deadline of the next of ``parts`` parts: an equal share of the remaining time."""
        left = max(self.seconds - (working_time() - self.started), 0.0)
        return Deadline(left / parts, self.gap, whole=self)

    @property
    def is_over(self) -> bool:
        """Whether the time is used up; this is asked only where more time would help."""
        is_over = working_time() - self.started > self.seconds
        deadline: Deadline | None = self if is_over else None
        while deadline is not None:
            deadline.ended_early, deadline = True, deadline.whole
        return is_over


def largest_mean(
    value: NDArray[np.float64], weight: NDArray[np.float64], extra: NDArray[np.float64]
) -> tuple[float, NDArray[np.bool_]]:
    """Compute the largest weighted mean, and which extra weights count for it: those with a value above the mean."""
    if not extra.any():
        return float((weight * value).sum() / weight.sum()), np.zeros(len(value), dtype=bool)
    order = np.argsort(-value)
    row_weight = weight.sum() + np.cumsum(extra[order])
    mass = (weight * value).sum() + np.cumsum((extra * value)[order])
    means = np.where(row_weight > 0.0, mass / np.maximum(row_weight, 1e-300), -np.inf)
    count = int(np.argmax(means)) + 1
    if weight.any() and (weight * value).sum() / weight.sum() >= means[count - 1]:
        count = 0
    joins = np.zeros(len(value), dtype=bool)
    joins[order[:count]] = True
    joined = weight + np.where(joins, extra, 0.0)
    return float((joined * value).sum() / joined.sum()), joins
