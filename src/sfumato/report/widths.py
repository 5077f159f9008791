"""Statistics of a release with the width of their intervals measured against the spread of the columns."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.errors import SfumatoError
from sfumato.statistics.language import parse
from sfumato.statistics.moments import Moments
from sfumato.table.intervals import Intervals, interval_names, is_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.release.release import Release
    from sfumato.statistics.estimate import Estimate
    from sfumato.statistics.statistic import Statistic

NARROW, USABLE, WIDE = 0.1, 0.25, 0.5  # half-width of an interval ÷ spread, up to which it is called so
TAIL = 0.05  # share of people trimmed at each end before measuring spread, because a few wide boxes are no spread
MOST_ROWS = 1_000_000  # released rows from which the spread is computed; of more, every n-th


@dataclass(frozen=True, kw_only=True)
class Band:
    """Where an interval lies on an axis that shows the spread of the columns, from 0 (left end) to 1 (right end)."""

    low: float
    high: float
    value: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ShownStatistic:
    """An estimate, and its width against the spread of its columns: a width of 1 says no more than the spread does."""

    estimate: Estimate
    spread: float | None  # natural scale of the statistic, e.g. the standard deviation of the column for its mean
    width: float | None  # half-width of the guaranteed interval ÷ spread
    band: Band | None

    @property
    def words(self) -> str:
        """How useful the interval is, in a few words."""
        if self.width is None:
            return "exact" if self.estimate.numbers.high == self.estimate.numbers.low else "nothing is guaranteed"
        return width_word(self.width)

    derived = ("words",)


def width_word(width: float) -> str:
    """Return how useful an interval is, from its half-width ÷ spread.

    >>> width_word(0.07), width_word(0.9)
    ('narrow', 'useless')
    """
    steps = ((NARROW, "narrow"), (USABLE, "usable"), (WIDE, "wide"))
    return next((word for limit, word in steps if width <= limit), "useless")


def shown_statistics(release: Release, estimates: Sequence[Estimate]) -> tuple[ShownStatistic, ...]:
    """Return the estimates with their widths; the spread is that of the released rows."""
    scales = _scales(release, {estimate.name for estimate in estimates})
    return tuple(_place(estimate, scales.get(estimate.name)) for estimate in estimates)


def _place(estimate: Estimate, spread: float | None) -> ShownStatistic:
    numbers = estimate.numbers
    half = (numbers.high - numbers.low) / 2.0
    if spread is None or not (math.isfinite(half) and math.isfinite(spread) and spread > 0.0):
        return ShownStatistic(estimate=estimate, spread=spread, width=None, band=None)
    # places relative to the centre, because spreads below the precision of large numbers vanish in ends
    centre, reach = (0.0, 1.0) if estimate.name.startswith("corr(") else (numbers.low + half, spread)
    low, high, value = (
        min(max(0.5 + (end - centre) / (2.0 * reach), 0.0), 1.0) for end in (numbers.low, numbers.high, numbers.value)
    )
    return ShownStatistic(
        estimate=estimate, spread=spread, width=half / spread, band=Band(low=low, high=high, value=value)
    )


def _scales(release: Release, names: set[str]) -> dict[str, float]:
    """Return the natural scale of each statistic by name, from the midpoints of the released rows."""
    scales: dict[str, float] = {}
    for text in _texts(names):
        with contextlib.suppress(SfumatoError):
            statistic = parse(text, names=release.names)
            for part in statistic.parts() or (statistic,):
                scales[str(part)] = _scale(release, part)
    return scales


def _texts(names: set[str]) -> list[str]:
    """Return the statistics that these estimates belong to: the coefficients of a regression belong to one."""
    return list(dict.fromkeys(name.partition("): ")[0] + ")" if "): " in name else name for name in sorted(names)))


def _scale(release: Release, statistic: Statistic) -> float:
    columns, kinds = statistic.columns, release.table.kinds
    spelled = [part for name in columns for part in (interval_names(name) if is_interval(name, kinds) else (name,))]
    rows = release.table.thinned(spelled, MOST_ROWS)
    matrix = np.column_stack([Intervals.of(rows, name).midpoints for name in columns])
    complete = matrix[~np.isnan(matrix).any(axis=1)]
    if len(complete) < 2:
        return math.nan
    low, high = np.quantile(complete, [TAIL, 1.0 - TAIL], axis=0)
    return statistic.scale(Moments.of(np.clip(complete, low, high), names=columns))
