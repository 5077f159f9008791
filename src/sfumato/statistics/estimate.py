"""What an analyst gets for one statistic: a value, and intervals that say how far it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

ROUNDING = 1e-9  # width of an interval, as a share of its ends, below which it counts as a single number


@dataclass(frozen=True, kw_only=True)
class Reweighting:
    """What dismissing records in wide boxes, or giving them less weight, did to a statistic (XK §III, XF §II–III).

    This has nothing to do with sampling weights. The papers minimise ``error``. What they do not mention is ``shift``:
    records in wide boxes are not like the rest, so the statistic moves, and no interval of the reweighted statistic
    covers that.
    """

    derived: ClassVar[tuple[str, ...]] = ("shift", "error", "whole_error")  # reported with the fields

    wide_boxes: str  # "keep", "dismiss" or "fuzzy"
    threshold: float  # contribution from which on a record has no weight: c₀, or λ; infinite for "keep"
    records: float  # that keep some weight
    value: float  # statistic at the midpoints under the weights
    uncertainty: float  # Σ w n·c: linear half-width, as the boxes leave it
    sampling: float  # A·√(Σ w²)
    whole_value: float  # the same three for all records alike
    whole_uncertainty: float
    whole_sampling: float

    @property
    def shift(self) -> float:
        """How far the weights move the statistic, estimated at the midpoints: a bias that no interval here covers."""
        return self.value - self.whole_value

    @property
    def error(self) -> float:
        """Uncertainty of the boxes plus sampling error: what the papers minimise."""
        return self.uncertainty + self.sampling

    @property
    def whole_error(self) -> float:
        """The same for all records, equally weighted."""
        return self.whole_uncertainty + self.whole_sampling


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One statistic of a table that is known as boxes only.

    ``low``–``high`` is guaranteed to hold the statistic of the hidden data; ``inner_low``–``inner_high`` is attained by
    some choice of values in the boxes, so the gap between the two is what the enclosure may have given away;
    ``linear_low``–``linear_high`` is the first-order interval C̃ ± Δ of XK §II, a good guide and no guarantee.

    With ``reweighting``, value and linear interval are those of the reweighted records, which are not the whole table:
    they may lie outside the guaranteed interval, which stays that of all records.
    """

    derived: ClassVar[tuple[str, ...]] = ("gap", "shift")  # reported with the fields

    name: str  # e.g. "corr(age, income)"
    value: float  # at the midpoints of the boxes
    low: float
    high: float
    inner_low: float
    inner_high: float
    linear_low: float
    linear_high: float
    records: int  # rows used: those where no column of the statistic is missing
    reweighting: Reweighting | None = None  # None: records in wide boxes count like all others

    @property
    def gap(self) -> float:
        """Share of the guaranteed interval that is not attained, from 0 (exact) to 1."""
        width, inner = self.high - self.low, self.inner_high - self.inner_low
        if math.isnan(inner) or math.isinf(width):
            return 1.0
        if width <= ROUNDING * max(abs(self.low), abs(self.high)):
            return 0.0  # nothing but rounding is open
        return max(0.0, 1.0 - inner / width)

    @property
    def shift(self) -> float:
        """How far the value moved because records were reweighted; 0 where they were not."""
        return self.reweighting.shift if self.reweighting else 0.0
