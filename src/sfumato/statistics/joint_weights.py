"""One set of weights for several statistics at once (XF §IV).

Each statistic C has an importance p_C and a wanted accuracy Δ0_C. The weights minimise the sum over all C of
(p_C / Δ0_C) · (uncertainty + sampling error): the same problem as for one statistic, with sums in place of the
contribution n·c(x) and of A.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sfumato.errors import OptionError, StatisticError
from sfumato.params import require_number
from sfumato.statistics.bounds.budget import Deadline
from sfumato.statistics.conditions import Condition
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Reweighting
from sfumato.statistics.moments import Moments
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import WeightedBoxes
from sfumato.statistics.wide_boxes import WeightedPart, choose_weights, compute_effect

ACCURACY = 0.1  # default of the wanted accuracy: share of the natural scale of the statistic

Given = Sequence[float] | Mapping[str, float] | None


@dataclass(frozen=True)
class WantedStatistic:
    """A statistic with its importance p_C and its wanted accuracy Δ0_C; None for 10 % of its natural scale."""

    statistic: Statistic
    importance: float
    accuracy: float | None


def wanted_statistics(
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
            f"{option} must be one number per statistic, in order.",
            found=f"{len(chosen)} for {len(names)} statistics",
        )
    return [None if one is None else require_number(one, name=option, at_least=least, above=above) for one in chosen]
