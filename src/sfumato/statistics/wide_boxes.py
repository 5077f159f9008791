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
- For several statistics at once (XF §IV), n·c and A are sums over the statistics with the factors p_C / Δ0_C:
  importance over wanted accuracy.

The choice is made once, with the sensitivities and A at the moments of all records; repeating it at the moments of the
reweighted records does not converge, because each round dismisses more. What is *reported* is computed at the moments
of the reweighted records, where the derivatives of the reweighted statistic are w · b(x); for means the uncertainty is
the same at both. For a correlation, the reported error can exceed that of all records: the records that are left out
are those that keep it stable.

Neither paper mentions that the kept records are not the whole table: a statistic of the dense part of a population
differs from that of the population. Therefore the shift is estimated too, and the guaranteed interval is always that of
the whole table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import OptionError, StatisticError
from sfumato.params import require_choice, require_number
from sfumato.statistics.bounds.enclosure import Deadline, Enclosure
from sfumato.statistics.bounds.records import Records
from sfumato.statistics.conditions import Condition
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate, Reweighting
from sfumato.statistics.moments import Moments, sampling_constant, sensitivities
from sfumato.statistics.statistic import Statistic, start_deadlines
from sfumato.statistics.weighted_boxes import WeightedBoxes

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


def apply_effect(estimate: Estimate, effect: Reweighting, statistic: Statistic) -> Estimate:
    """Return the estimate with value and linear interval under the weights; the guaranteed interval does not change.

    Both are numbers in the units of the table.
    """
    low, high = statistic.clip(effect.value - effect.uncertainty, effect.value + effect.uncertainty)
    return replace(estimate, value=effect.value, linear_low=low, linear_high=high, reweighting=effect)


def reweight(
    statistic: Statistic,
    intervals: CountedBoxes,
    wide_boxes: str = "fuzzy",
    *,
    objective: str = "normalised",
    deadline: Deadline | None = None,
) -> RecordWeights:
    """Compute the weights of the records for one statistic from the release alone.

    ``objective`` selects what dismissal minimises: the normalised objective of XF or the first one of XK. A sampling
    weight counts as that number of copies of a record. A regression has weights for each of its ``parts()``.
    """
    inner = statistic.unconditional
    if not inner.is_characteristic:
        raise StatisticError(
            f"{statistic} cannot be reweighted: leaving out wide boxes, or giving them less weight, is defined for "
            "functions of means and covariances only.",
            fix='wide_boxes="keep", or a mean, variance, sd, covariance, correlation or regression',
        )
    boxes = statistic.records_in(intervals)
    chosen = choose_weights([WeightedPart(inner, 1.0)], boxes, inner.columns, wide_boxes, objective)
    return RecordWeights(boxes.box, chosen.share, compute_effect(inner, boxes, chosen, deadline))


@dataclass(frozen=True, eq=False, repr=False)
class WeightedPart:
    """A statistic for which weights are chosen, and its factor p_C / Δ0_C."""

    statistic: Statistic
    factor: float


@dataclass(frozen=True, eq=False, repr=False)
class ChosenWeights:
    """Weights that minimise the error of one or several statistics."""

    wide_boxes: str
    factor: NDArray[np.float64]  # (G,), how much each record of a box counts
    copies: NDArray[np.float64]  # (G,), number of records of each box
    threshold: float
    minimised: float

    @property
    def share(self) -> NDArray[np.float64]:
        """The share of each box, with sum 1."""
        shares: NDArray[np.float64] = self.copies * self.factor / float((self.copies * self.factor).sum())
        return shares


def choose_weights(
    parts: Sequence[WeightedPart], boxes: WeightedBoxes, columns: Sequence[str], wide_boxes: str, objective: str
) -> ChosenWeights:
    """Choose the weights of the records for all parts together, at the moments of all records."""
    require_choice(wide_boxes, name="wide_boxes", choices=WIDE_BOXES)
    require_choice(objective, name="objective", choices=OBJECTIVES)
    contribution, constant = np.zeros(len(boxes.box)), 0.0
    for part in parts:
        own, own_constant = _errors(part.statistic, boxes, [columns.index(name) for name in part.statistic.columns])
        contribution, constant = contribution + part.factor * own, constant + part.factor * own_constant
    row_weight = boxes.likely_weight
    copies = row_weight * (max(boxes.records, 1) / float(row_weight.sum()))  # scaled to sum to the number of records
    if wide_boxes == "keep":
        factor, threshold = np.ones(len(copies)), math.inf
    elif wide_boxes == "dismiss":
        threshold = dismissal_threshold(contribution, copies, constant, objective)
        factor = (contribution <= threshold).astype(np.float64)
    else:
        threshold = fuzzy_threshold(contribution, copies, constant)
        factor = fuzzy_factors(contribution, threshold)
    shares = copies * factor / float((copies * factor).sum())
    minimised = float(shares @ contribution) + constant * _root_of_squares(shares, copies)
    return ChosenWeights(wide_boxes, factor, copies, threshold, minimised)


def _errors(
    statistic: Statistic, boxes: WeightedBoxes, positions: Sequence[int], weight: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], float]:
    """Return the contribution of each box and the constant A, at the moments that these weights give."""
    weight = boxes.likely_weight if weight is None else weight
    points, population = boxes.midpoints[:, list(positions)], statistic.population
    slopes = sensitivities(population, Moments.of(points, weight), points)
    scale = statistic.factor(boxes).likely
    contribution: NDArray[np.float64] = scale * (slopes * boxes.half_widths[:, list(positions)]).sum(axis=1)
    return contribution, scale * sampling_constant(population, points, weight)


def compute_effect(
    statistic: Statistic,
    boxes: WeightedBoxes,
    chosen: ChosenWeights,
    deadline: Deadline | None = None,
    statistics: tuple[str, ...] = (),
) -> Reweighting:
    """Compute the statistic and both errors under the weights, at the moments of the reweighted records.

    The boxes have exactly the columns of the statistic.
    """
    positions, weights, copies = range(len(statistic.columns)), chosen.share, chosen.copies
    whole = copies / float(copies.sum())
    contribution, constant = _errors(statistic, boxes, positions, weights)
    whole_contribution, whole_constant = _errors(statistic, boxes, positions)
    enclosure = _enclose_reweighted(statistic, boxes, chosen, float(weights @ contribution), deadline)
    scale = statistic.factor(boxes).likely
    values = [scale * statistic.population.value(Moments.of(boxes.midpoints, w)) for w in (weights, whole)]
    return Reweighting(
        wide_boxes=chosen.wide_boxes,
        threshold=chosen.threshold,
        records=float(copies[chosen.factor > 0.0].sum()),
        value=values[0],
        low=enclosure.low,
        high=enclosure.high,
        uncertainty=float(weights @ contribution),
        sampling=constant * _root_of_squares(weights, copies),
        minimised=chosen.minimised,
        whole_value=values[1],
        whole_uncertainty=float(whole @ whole_contribution),
        whole_sampling=whole_constant * _root_of_squares(whole, copies),
        statistics=statistics,
    )


def _enclose_reweighted(
    statistic: Statistic, boxes: WeightedBoxes, chosen: ChosenWeights, half: float, deadline: Deadline | None
) -> Enclosure:
    """Enclose the statistic in which each record counts with the factor of its box, over all values in the boxes.

    The number of kept records is not known exactly if their weights differ. It matters only if there is a single one.
    """
    kept = chosen.factor > 0.0
    records = boxes.records if kept.all() else max(int(boxes.parts[kept].sum()), 2)
    reweighted = replace(boxes.take(np.flatnonzero(kept), chosen.factor[kept]), records=records)
    if deadline is None:
        deadline = next(start_deadlines([statistic], reweighted, None, 1))
    enclosure = statistic.population.enclose_population(Records(reweighted), half, deadline)
    return statistic.factor(boxes).multiply(enclosure)


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


# One set of weights for several statistics at once (XF §IV).
#
# Each statistic C has an importance p_C and a wanted accuracy Δ0_C. The weights minimise the sum over all C of (p_C /
# Δ0_C) · (uncertainty + sampling error): the same problem as for one statistic, with sums in place of the
# contribution n·c(x) and of A.


ACCURACY = 0.1  # default of the wanted accuracy: share of the natural scale of the statistic

Given = Sequence[float] | Mapping[str, float] | None


@dataclass(frozen=True)
class WantedStatistic:
    """A statistic with its importance p_C and its wanted accuracy Δ0_C; None for 10 % of its natural scale."""

    statistic: Statistic
    importance: float
    accuracy: float | None


def parse_statistics(
    statistics: Sequence[Statistic], importance: Given, accuracy: Given
) -> tuple[WantedStatistic, ...]:
    """Return the statistics with importances that sum to 1 and their accuracies, given in order or by statistic."""
    if not statistics:
        raise StatisticError("At least one statistic is needed.", found="none")
    importances = [1.0 if one is None else one for one in _one_each(importance, statistics, "importance", 0.0, None)]
    accuracies = _one_each(accuracy, statistics, "accuracy", None, 0.0)
    total = sum(importances)
    if total <= 0.0:
        raise OptionError("At least one importance must be positive.", found="0 for every statistic")
    return tuple(
        WantedStatistic(statistic, share / total, limit)
        for statistic, share, limit in zip(statistics, importances, accuracies, strict=True)
    )


def reweight_jointly(
    wanted: Sequence[WantedStatistic],
    intervals: CountedBoxes,
    wide_boxes: str,
    objective: str,
    deadlines: Iterator[Deadline],
) -> tuple[tuple[Reweighting, ...], ...]:
    """Return, for each statistic, the effect of the common weights on each of its parts.

    The records are those that are complete in all columns of all statistics. The importance of a regression is divided
    among its coefficients.
    """
    inner = [_require_characteristic(one.statistic) for one in wanted]
    columns = tuple(dict.fromkeys(name for statistic in inner for name in statistic.columns))
    boxes = intervals.meeting(columns, _common_condition([one.statistic for one in wanted]))
    if not len(boxes.weight):
        raise StatisticError(
            "Common weights need at least one record that is complete in all columns of all statistics.", found="none"
        )
    parts = [
        WeightedPart(part, one.importance / len(statistic.parts()) / _compute_accuracy(one, part, boxes, columns))
        for one, statistic in zip(wanted, inner, strict=True)
        for part in statistic.parts()
    ]
    chosen = choose_weights(parts, boxes, columns, wide_boxes, objective)
    names = tuple(str(one.statistic) for one in wanted)
    effects = iter(
        [
            compute_effect(part.statistic, _select(boxes, part.statistic, columns), chosen, deadline, names)
            for part, deadline in zip(parts, deadlines, strict=True)
        ]
    )
    return tuple(tuple(next(effects) for _ in statistic.parts()) for statistic in inner)


def _require_characteristic(statistic: Statistic) -> Statistic:
    if not statistic.unconditional.is_characteristic:
        raise StatisticError(
            f"{statistic} cannot be reweighted.",
            fix="name means, variances, sds, covariances, correlations or regressions",
        )
    return statistic.unconditional


def _common_condition(statistics: Sequence[Statistic]) -> Condition:
    conditions = {one.where for one in statistics}
    if len(conditions) > 1:
        raise StatisticError(
            "Statistics with common weights must have the same condition.", found=f"{len(conditions)} conditions"
        )
    return conditions.pop()


def _select(boxes: WeightedBoxes, statistic: Statistic, columns: Sequence[str]) -> WeightedBoxes:
    """Return the boxes with the columns of the statistic only."""
    positions = [columns.index(name) for name in statistic.columns]
    return replace(boxes, low=boxes.low[:, positions], high=boxes.high[:, positions])


def _compute_accuracy(wanted: WantedStatistic, part: Statistic, boxes: WeightedBoxes, columns: Sequence[str]) -> float:
    """Return Δ0_C; infinite, so that the statistic does not count, if its natural scale is not positive."""
    if wanted.accuracy is not None:
        return wanted.accuracy
    own = _select(boxes, part, columns)
    scale = ACCURACY * part.population.scale(Moments.of(own.midpoints, own.likely_weight))
    return scale if scale > 0.0 else math.inf


def _one_each(
    given: Given, statistics: Sequence[Statistic], option: str, least: float | None, above: float | None
) -> list[float | None]:
    """Return one number per statistic, from a list in order or from a mapping by statistic."""
    if given is None:
        return [None] * len(statistics)
    names = [str(statistic) for statistic in statistics]
    if isinstance(given, Mapping):
        unknown = sorted(set(map(str, given)) - set(names))
        if unknown:
            raise StatisticError(f"{option} must name statistics that are estimated.", found=", ".join(unknown))
        chosen: list[float | None] = [given.get(name) for name in names]
    else:
        chosen = list(given)
    if len(chosen) != len(names):
        raise OptionError(
            f"{option} must be one number per statistic, in order.", found=f"{len(chosen)} for {len(names)} statistics"
        )
    return [None if one is None else require_number(one, name=option, at_least=least, above=above) for one in chosen]
