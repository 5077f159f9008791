"""Compute estimates and enclosures of a statistic from counted boxes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sfumato.statistics.bounds.enclosure import Deadline, Enclosure, EstimateBudget
from sfumato.statistics.bounds.records import PooledRows, Records
from sfumato.statistics.counted_boxes import CountedBoxes
from sfumato.statistics.estimate import Estimate
from sfumato.statistics.statistic import Statistic
from sfumato.statistics.weighted_boxes import WeightedBoxes


def estimate(
    statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None
) -> tuple[Estimate, ...]:
    """Return one Estimate per part of the statistic."""
    parts = statistic.parts()
    boxes = _add_unseen(parts[0], intervals, parts[0].records_in(intervals))  # all parts use the same records
    records = Records(boxes, _find_rows(parts[0], intervals))
    deadlines = start_deadlines([parts[0]], boxes, budget, len(parts))
    return tuple(
        part.unconditional.unit(intervals.calendars).express(
            replace(_estimate_part(part, records, deadline), weighted_by=intervals.weighted_by)
        )
        for part, deadline in zip(parts, deadlines, strict=True)
    )


def enclose(statistic: Statistic, intervals: CountedBoxes, budget: EstimateBudget | None = None) -> Enclosure:
    """Return the enclosure of a single number, with the choices of values that attain its ends."""
    boxes = statistic.records_in(intervals)
    deadline = next(start_deadlines([statistic], boxes, budget, 1))
    return statistic.unconditional.enclose(Records(boxes), deadline)


def start_deadlines(
    statistics: Sequence[Statistic], boxes: WeightedBoxes | None, budget: EstimateBudget | None, parts: int
) -> Iterator[Deadline]:
    """Compile the kernels that the statistics need if the time is limited, and start the clock after that."""
    for statistic in statistics if budget else ():
        statistic.unconditional.prepare(boxes)
    return (budget or EstimateBudget()).deadlines(parts)


def _estimate_part(part: Statistic, records: Records, deadline: Deadline) -> Estimate:
    statistic, boxes = part.unconditional, records.boxes
    enclosure = statistic.enclose(records, deadline)
    return Estimate(
        name=str(part),
        value=enclosure.value,
        low=enclosure.low,
        high=enclosure.high,
        inner_low=enclosure.inner_low,
        inner_high=enclosure.inner_high,
        linear_low=enclosure.linear_low,
        linear_high=enclosure.linear_high,
        records=boxes.records,
        uncertain_records=boxes.most_records - boxes.records,
        ended_early=deadline.ended_early,
        notes=_describe_constants(statistic, boxes),
    )


def _describe_constants(statistic: Statistic, boxes: WeightedBoxes) -> tuple[str, ...]:
    """Say that the statistic is not defined, if a column that it divides by is certainly constant."""
    constant = [
        name
        for position, name in enumerate(statistic.columns)
        if name in statistic.divisors and boxes.low[:, position].min() == boxes.high[:, position].max()
    ]
    return (f"not defined: {', '.join(constant)} has the same value in all records",) if constant else ()


def _find_rows(statistic: Statistic, intervals: CountedBoxes) -> PooledRows | None:
    """Return the rows that may count, if only the total weight of a box is known and its rows differ."""
    pools = intervals.pools
    if pools is None or not pools.merge_groups:
        return None
    rows = statistic.records_in(intervals.as_released)
    return PooledRows(rows, pools.box[rows.box])


def _add_unseen(statistic: Statistic, intervals: CountedBoxes, boxes: WeightedBoxes) -> WeightedBoxes:
    """Add the rows of the original that were not released, if the statistic can take them into account."""
    unseen = intervals.unseen
    if unseen is None or not statistic.covers(unseen):
        return boxes
    names = statistic.unconditional.box_columns
    ends = [unseen.domains.get(name, (-math.inf, math.inf)) for name in names]
    certain = not names and not statistic.where.predicates  # rows of which nothing is required
    return boxes.with_unseen([low for low, _ in ends], [high for _, high in ends], unseen.rows, certain=certain)
