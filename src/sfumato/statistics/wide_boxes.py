"""Dismiss records in wide boxes, or give them less weight: less uncertainty, but a shifted statistic.

These weights determine how much a record counts in one statistic. They are not related to sampling weights, which are a
column of the table and state how many people of a population a record represents.

The contribution of a record to the linear uncertainty is n·c(x) = Σᵢ aᵢΔᵢ. It can be computed from the release:
sensitivities at the midpoint, half-widths of the box. It is balanced against the sampling error A/√M of the M records
that are kept.

- *dismiss* keeps the records with n·c(x) ≤ c₀. The normalised objective is Σ_S n·c/M + A/√M (XF §II), the first one
  is Σ_S n·c/N + A/√M (XK §III, where the derivatives include 1/N). Prefix sums of the sorted contributions give c₀.
- *fuzzy* weights minimise Σ w n·c + A·√(Σ w²) over all weights that sum to 1 (XF §III): w ∝ (λ − n·c)₊, where λ is the
  root of Σ (λ − n·c)₊² = A². That sum increases with λ and is a parabola between two contributions, so prefix sums give
  λ exactly.

Neither paper mentions that the kept records are not the whole table: a statistic of the dense part of a population
differs from that of the population. Therefore the shift is estimated too, and the guaranteed interval is always that of
the whole table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sfumato.params import require_choice
from sfumato.statistics.bounds.estimates import boxes_for
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate, Reweighting
from sfumato.statistics.influence import sampling_constant, sensitivities
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDE_BOXES = ("keep", "dismiss", "fuzzy")  # treatments of records in wide boxes
OBJECTIVES = ("normalised", "first")


@dataclass(frozen=True, eq=False, repr=False)
class RecordWeights:
    """The share of each group of records in a statistic, and the effect on the statistic."""

    box: NDArray[np.int64]  # (G,), group in the counted boxes
    share: NDArray[np.float64]  # (G,), sum 1
    effect: Reweighting

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which groups have any weight."""
        return self.share > 0.0


def reweighted(estimate: Estimate, reweighting: Reweighting) -> Estimate:
    """Return the estimate with value and linear interval under the weights; the guaranteed interval does not change."""
    return replace(
        estimate,
        value=reweighting.value,
        linear_low=reweighting.value - reweighting.uncertainty,
        linear_high=reweighting.value + reweighting.uncertainty,
        reweighting=reweighting,
    )


def reweight(
    statistic: Statistic, intervals: CountedBoxes, wide_boxes: str = "fuzzy", *, objective: str = "normalised"
) -> RecordWeights:
    """Compute the weights of the records for one statistic from the release alone.

    ``objective`` selects what dismissal minimises: the normalised objective of XF or the first one of XK. A sampling
    weight counts as that number of copies of a record. A regression has weights for each of its ``parts()``.
    """
    require_choice(wide_boxes, name="wide_boxes", choices=WIDE_BOXES)
    require_choice(objective, name="objective", choices=OBJECTIVES)
    inner, boxes = boxes_for(statistic, intervals)
    points, row_weight = boxes.midpoints, boxes.likely_weight
    moments = Moments.of(points, row_weight)
    contribution = (sensitivities(inner, moments, points) * boxes.half_widths).sum(axis=1)
    constant = sampling_constant(inner, points, row_weight)
    copies = row_weight * (max(boxes.records, 1) / float(row_weight.sum()))  # scaled to sum to the number of records
    if wide_boxes == "keep":
        factor, threshold = np.ones(len(copies)), math.inf
    elif wide_boxes == "dismiss":
        threshold = dismissal_threshold(contribution, copies, constant, objective)
        factor = (contribution <= threshold).astype(np.float64)
    else:
        threshold = fuzzy_threshold(contribution, copies, constant)
        factor = fuzzy_factors(contribution, threshold)
    weights = copies * factor / float((copies * factor).sum())
    whole = copies / float(copies.sum())
    effect = Reweighting(
        wide_boxes=wide_boxes,
        threshold=threshold,
        records=float(copies[factor > 0.0].sum()),
        value=inner.value(Moments.of(points, weights)),
        uncertainty=float((weights * contribution).sum()),
        sampling=constant * _root_of_squares(weights, copies),
        whole_value=inner.value(moments),
        whole_uncertainty=float((whole * contribution).sum()),
        whole_sampling=constant * _root_of_squares(whole, copies),
    )
    return RecordWeights(boxes.box, weights, effect)


def _root_of_squares(weights: NDArray[np.float64], copies: NDArray[np.float64]) -> float:
    """Compute √(Σ w²) over records, where the copies of each group share its weight equally."""
    present = copies > 0.0
    return math.sqrt(float((weights[present] ** 2 / copies[present]).sum()))


def dismissal_threshold(
    contribution: NDArray[np.float64], copies: NDArray[np.float64], constant: float, objective: str = "normalised"
) -> float:
    """Compute c₀ such that keeping the records with contribution ≤ c₀ gives the least error (XK §III, XF §II)."""
    order = np.argsort(contribution, kind="stable")
    order = order[copies[order] > 0.0]
    ordered = contribution[order]
    kept = np.cumsum(copies[order])
    summed = np.cumsum(copies[order] * ordered)
    among = kept if objective == "normalised" else kept[-1]
    error = summed / among + constant / np.sqrt(kept)
    error[:-1][ordered[1:] == ordered[:-1]] = math.inf  # equal contributions are treated equally
    return float(ordered[int(np.argmin(error))])


def fuzzy_threshold(contribution: NDArray[np.float64], copies: NDArray[np.float64], constant: float) -> float:
    """Compute λ with Σ (λ − n·c)₊² = A², exactly by prefix sums (XF §III uses iteration)."""
    order = np.argsort(contribution, kind="stable")
    order = order[copies[order] > 0.0]
    least = float(contribution[order[0]])
    rise = contribution[order] - least  # relative to the least one, to avoid cancellation
    row_weight = copies[order]
    count, first, second = np.cumsum(row_weight), np.cumsum(row_weight * rise), np.cumsum(row_weight * rise**2)
    # the sum of squares with λ equal to each contribution; it is ascending
    reached = count * rise**2 - 2.0 * rise * first + second
    active = int(np.searchsorted(reached, constant**2, side="left")) - 1  # the last contribution that λ exceeds
    if active < 0:
        return least  # A = 0: only the narrowest boxes count
    n, s, q = count[active], first[active], second[active]
    # the larger root of n λ² − 2 s λ + q = A², with q n − s² ≥ 0
    root = math.sqrt(max(n * constant**2 - (q * n - s * s), 0.0))
    return least + float((s + root) / n)


def fuzzy_factors(contribution: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Compute (λ − n·c)₊ for each record; if λ is the least contribution, 1 for the records that have it."""
    factors: NDArray[np.float64] = np.maximum(threshold - contribution, 0.0)
    return factors if factors.any() else (contribution <= threshold).astype(np.float64)
