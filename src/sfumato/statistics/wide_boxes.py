"""Dismiss records in wide boxes, or give them less weight: less uncertainty, at the price of a shifted statistic.

These weights say how much a record counts in one statistic. They have nothing to do with sampling weights, which are
a column of the table and say how many people of a population a record stands for.

What a record adds to the linear uncertainty is n·c(x) = Σᵢ aᵢΔᵢ, which the release itself shows: sensitivities at the
midpoint, half-widths of the box. Against it stands the sampling error A/√M of the M records that stay.

- *dismiss* keeps the records with n·c(x) ≤ c₀. The normalised objective is Σ_S n·c/M + A/√M (XF §II), the first one
  is Σ_S n·c/N + A/√M (XK §III, where the derivatives carry 1/N). Prefix sums of the sorted contributions give c₀.
- *fuzzy* weights minimise Σ w n·c + A·√(Σ w²) over all weights that sum to 1 (XF §III): w ∝ (λ − n·c)₊, where λ is the
  root of Σ (λ − n·c)₊² = A². That sum grows with λ and is a parabola between two contributions, so prefix sums give λ
  exactly.

Neither paper says that the rest is not the whole: a statistic of the dense part of a population differs from that of
the population. So the shift is estimated as well, and the guaranteed interval is that of the whole table.
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

WIDE_BOXES = ("keep", "dismiss", "fuzzy")  # what can be done with records in wide boxes
OBJECTIVES = ("normalised", "first")


@dataclass(frozen=True, eq=False, repr=False)
class RecordWeights:
    """The share of each group of records in a statistic, and what this does to the statistic."""

    box: NDArray[np.int64]  # (G,), group of the counted boxes
    share: NDArray[np.float64]  # (G,), sum 1
    effect: Reweighting

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which groups have any weight."""
        return self.share > 0.0


def reweighted(estimate: Estimate, reweighting: Reweighting) -> Estimate:
    """The estimate with value and linear interval under the weights; the guaranteed interval stays that of all."""
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
    """Weights of the records for one statistic, from what the release shows.

    ``objective`` says what dismissal minimises: the normalised one of XF or the first one of XK. A sampling weight
    counts as so many copies of a record. A regression has weights for each part (``for part in statistic.parts()``).
    """
    require_choice(wide_boxes, name="wide_boxes", choices=WIDE_BOXES)
    require_choice(objective, name="objective", choices=OBJECTIVES)
    inner, boxes = boxes_for(statistic, intervals)
    points, row_weight = boxes.midpoints, boxes.likely_weight
    moments = Moments.of(points, row_weight)
    contribution = (sensitivities(inner, moments, points) * boxes.half_widths).sum(axis=1)
    constant = sampling_constant(inner, points, row_weight)
    copies = row_weight * (
        max(boxes.records, 1) / float(row_weight.sum())
    )  # so that all of them are as many as the records
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
    """√(Σ w²) over records, each group's weight being shared equally by its copies."""
    present = copies > 0.0
    return math.sqrt(float((weights[present] ** 2 / copies[present]).sum()))


def dismissal_threshold(
    contribution: NDArray[np.float64], copies: NDArray[np.float64], constant: float, objective: str = "normalised"
) -> float:
    """c₀ such that keeping the records with contribution ≤ c₀ gives the least error (XK §III, XF §II)."""
    order = np.argsort(contribution, kind="stable")
    order = order[copies[order] > 0.0]
    ordered = contribution[order]
    kept = np.cumsum(copies[order])
    summed = np.cumsum(copies[order] * ordered)
    among = kept if objective == "normalised" else kept[-1]
    error = summed / among + constant / np.sqrt(kept)
    error[:-1][ordered[1:] == ordered[:-1]] = math.inf  # equal contributions stay or go together
    return float(ordered[int(np.argmin(error))])


def fuzzy_threshold(contribution: NDArray[np.float64], copies: NDArray[np.float64], constant: float) -> float:
    """λ with Σ (λ − n·c)₊² = A², exact by prefix sums (XF §III; there by iteration)."""
    order = np.argsort(contribution, kind="stable")
    order = order[copies[order] > 0.0]
    least = float(contribution[order[0]])
    rise = contribution[order] - least  # counted from the least one, so that nothing cancels
    row_weight = copies[order]
    count, first, second = np.cumsum(row_weight), np.cumsum(row_weight * rise), np.cumsum(row_weight * rise**2)
    # the sum of squares when λ has just reached each contribution; it grows from one to the next
    reached = count * rise**2 - 2.0 * rise * first + second
    active = int(np.searchsorted(reached, constant**2, side="left")) - 1  # the last one that λ exceeds
    if active < 0:
        return least  # A = 0: only the narrowest boxes count
    n, s, q = count[active], first[active], second[active]
    # the larger root of n λ² − 2 s λ + q = A², with q n − s² ≥ 0
    root = math.sqrt(max(n * constant**2 - (q * n - s * s), 0.0))
    return least + float((s + root) / n)


def fuzzy_factors(contribution: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """(λ − n·c)₊ for each record; where λ is the least contribution itself, 1 for those that have it."""
    factors: NDArray[np.float64] = np.maximum(threshold - contribution, 0.0)
    return factors if factors.any() else (contribution <= threshold).astype(np.float64)
