"""Results of an estimate: a value, and intervals that state how precisely it is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

ROUNDING = 1e-9  # relative width below which an interval counts as a single number


@dataclass(frozen=True, kw_only=True)
class Reweighting:
    """The effect of dismissing records in wide boxes, or of giving them less weight (XK §III, XF §II–III).

    This is not related to sampling weights. The papers minimise ``error``. They do not mention ``shift``: records in
    wide boxes differ from the others, so the statistic changes, and no interval of the reweighted statistic covers this
    change.
    """

    derived: ClassVar[tuple[str, ...]] = ("shift", "error", "whole_error")  # properties reported with the fields

    wide_boxes: str  # "keep", "dismiss" or "fuzzy"
    threshold: float  # contribution from which a record has no weight: c₀ or λ; infinite for "keep"
    records: float  # number of records that keep some weight
    value: float  # statistic at the midpoints with these weights
    uncertainty: float  # Σ w n·c: half-width of the linear interval
    sampling: float  # sampling error A·√(Σ w²)
    whole_value: float  # the same three for all records with equal weights
    whole_uncertainty: float
    whole_sampling: float

    @property
    def shift(self) -> float:
        """Change of the statistic due to the weights, computed at the midpoints; no interval here covers this bias."""
        return self.value - self.whole_value

    @property
    def error(self) -> float:
        """Uncertainty of the boxes plus sampling error; the papers minimise this sum."""
        return self.uncertainty + self.sampling

    @property
    def whole_error(self) -> float:
        """The same sum for all records with equal weights."""
        return self.whole_uncertainty + self.whole_sampling


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One statistic of a table of which only the boxes are known.

    Estimates are returned by :meth:`sfumato.Release.estimate`.

    Attributes
    ----------
    name : str
        The statistic, such as ``"corr(age, income)"``.
    value : float
        Value at the midpoints of the boxes, in the unit of the statistic (as are all intervals).
    low, high : float
        Guaranteed interval: it contains the statistic of the original data.
    inner_low, inner_high : float
        Attained interval: some choice of values in the boxes gives each of its ends. The guaranteed interval cannot be
        narrower than this.
    linear_low, linear_high : float
        First-order interval C̃ ± Δ of XK §II. It is a good approximation, but not guaranteed.
    records : int
        Number of records used: those without a missing value in any column of the statistic.
    reweighting : Reweighting or None
        Effect of reweighting records in wide boxes; None (the default) if all records count equally. With reweighting,
        ``value`` and the first-order interval describe the reweighted records. They may lie outside the guaranteed
        interval, which always describes all records.
    gap : float
        Share of the guaranteed interval that is not attained, from 0 (exact) to 1.
    shift : float
        Change of ``value`` due to reweighting; 0 without it.

    Examples
    --------
    >>> import sfumato as sf
    >>> boxes = sf.read_release({"age_low": [20, 30, 50], "age_high": [30, 40, 60]})
    >>> estimate = boxes.estimate("mean(age)")
    >>> round(estimate.value, 1)
    38.3
    >>> round(estimate.low, 1), round(estimate.high, 1)
    (33.3, 43.3)
    >>> estimate.records
    3
    """

    derived: ClassVar[tuple[str, ...]] = ("gap", "shift")  # properties reported with the fields

    name: str
    value: float
    low: float
    high: float
    inner_low: float
    inner_high: float
    linear_low: float
    linear_high: float
    records: int
    reweighting: Reweighting | None = None

    @property
    def gap(self) -> float:
        """Share of the guaranteed interval that is not attained, from 0 (exact) to 1."""
        width, inner = self.high - self.low, self.inner_high - self.inner_low
        if math.isnan(inner) or math.isinf(width):
            return 1.0
        if width <= ROUNDING * max(abs(self.low), abs(self.high)):
            return 0.0  # the width is due to rounding only
        return max(0.0, 1.0 - inner / width)

    @property
    def shift(self) -> float:
        """Change of the value due to reweighting; 0 without it."""
        return self.reweighting.shift if self.reweighting else 0.0
