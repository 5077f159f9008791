"""What an analyst gets for one statistic: a value, and intervals that say how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One statistic of a table that is known as boxes only.

    ``low``–``high`` is guaranteed to hold the statistic of the hidden data; ``inner_low``–``inner_high`` is attained by
    some choice of values in the boxes, so the gap between the two is what the enclosure may have given away;
    ``linear_low``–``linear_high`` is the first-order interval C̃ ± Δ of XK §II, a good guide and no guarantee.
    """

    name: str  # e.g. "corr(age, income)"
    value: float  # at the midpoints of the boxes
    low: float
    high: float
    inner_low: float
    inner_high: float
    linear_low: float
    linear_high: float
    records: int  # rows used: those where no column of the statistic is missing

    @property
    def gap(self) -> float:
        """Share of the guaranteed interval that is not attained, from 0 (exact) to 1."""
        width, inner = self.high - self.low, self.inner_high - self.inner_low
        if math.isnan(inner) or math.isinf(width):
            return 1.0
        return 0.0 if width <= 0.0 else max(0.0, 1.0 - inner / width)
